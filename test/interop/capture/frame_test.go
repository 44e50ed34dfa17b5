package main

import (
	"encoding/binary"
	"strings"
	"testing"
)

// frameOf builds a frame around header and body.
func frameOf(headerType byte, header, body string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(headerType)<<24|uint32(len(header)))
	return append(append(frame, header...), body...)
}

const binaryHeader = "\x00\x0b" + "\x09" + "\x02\x01" + "\x00\x00\x00\x07" + "\x00\x00\x00\x02" +
	"\x00\x00\x00\x02hi" +
	"\x00\x00\x00\x0b" + "\x00\x01k" + "\x00\x00\x00\x04v\u00fcx"

func TestDescribe(t *testing.T) {
	const jsonHeader = `{"code":11,"language":"GO","version":513,"opaque":7,"flag":2,"remark":"hi","extFields":{"k":"v\u00fcx"}}`
	for name, frame := range map[string][]byte{"JSON": frameOf(0, jsonHeader, "body"), "binary": frameOf(1, binaryHeader, "body")} {
		d, body, err := describe(frame)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.Code != 11 || d.Language != "GO" || d.Version != 513 || d.Opaque != 7 || d.Flag != 2 || d.Remark != "hi" {
			t.Errorf("%s: got %+v", name, d)
		}
		if len(d.Fields) != 1 || d.Fields["k"] != "v\u00fcx" {
			t.Errorf("%s: fields %q, want k = v\u00fcx alone", name, d.Fields)
		}
		if string(body) != "body" || d.BodySize != 4 || d.BodySHA256 != "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5" {
			t.Errorf("%s: body %q, size %d, sum %s", name, body, d.BodySize, d.BodySHA256)
		}
	}
}

func TestDescribeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"no header length":     {[]byte{0, 0, 0, 0}, "no header length"},
		"header beyond frame":  {[]byte{0, 0, 0, 4, 0, 0, 0, 1}, "header length 1"},
		"unknown header type":  {frameOf(2, "", ""), "header type 2"},
		"broken JSON":          {frameOf(0, "{", ""), "JSON header"},
		"JSON without code":    {frameOf(0, "{}", ""), "no code"},
		"binary cut":           {frameOf(1, binaryHeader[:len(binaryHeader)-1], ""), "binary header"},
		"binary remark length": {frameOf(1, binaryHeader[:13]+"\xff\xff\xff\xff"+binaryHeader[17:], ""), "a piece of -1 bytes"},
		"bytes behind fields":  {frameOf(1, binaryHeader+"x", ""), "behind its fields"},
	} {
		if _, _, err := describe(c.frame); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestReadFrameLimits(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"\x00\x00\x00\x03abc", "frame length 3"},
		{"\x01\x00\x00\x01", "frame length 16777217"},
		{"\x00\x00\x00\x08abc", "cut off"},
	} {
		if _, err := readFrame(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.in, err, c.want)
		}
	}
}
