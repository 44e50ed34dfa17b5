package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxFrame bounds what is read from either side; RocketMQ's own limit is 16 MiB.
const maxFrame = 16 << 20

// description is what the .json beside a captured frame says.
type description struct {
	Client     string            `json:"client"`
	Broker     string            `json:"broker"`
	Sender     string            `json:"sender"` // "client" or "broker"
	HeaderType int               `json:"headerType"`
	Code       int               `json:"code"`
	Request    int               `json:"requestCode"` // the code this answers; Code itself in a request
	Flag       int               `json:"flag"`
	Version    int               `json:"version"`
	Language   string            `json:"language"`
	Opaque     int               `json:"opaque"`
	Remark     string            `json:"remark"`
	Fields     map[string]string `json:"fields"`
	BodySize   int               `json:"bodySize"`
	BodySHA256 string            `json:"bodySHA256"`
}

const (
	flagResponse = 1
	flagOneway   = 2
)

// languages are RocketMQ's LanguageCode names by their byte.
var languages = []string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"}

// readFrame reads one whole frame, its 4-byte length included.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 4 || n > maxFrame {
		return nil, fmt.Errorf("frame length %d, allowed are 4 to %d", n, maxFrame)
	}
	frame := make([]byte, 4+n)
	copy(frame, head[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, fmt.Errorf("frame of %d bytes is cut off: %w", n, err)
	}
	return frame, nil
}

// describe reads frame:
//
//	length u32 | header type u8, header length u24 | header | body
func describe(frame []byte) (description, []byte, error) {
	var d description
	if len(frame) < 8 {
		return d, nil, fmt.Errorf("frame of %d bytes has no header length", len(frame))
	}
	mark := binary.BigEndian.Uint32(frame[4:])
	d.HeaderType = int(mark >> 24)
	n := int(mark & 0xffffff)
	if n > len(frame)-8 {
		return d, nil, fmt.Errorf("header length %d, the frame has %d bytes left", n, len(frame)-8)
	}
	header, body := frame[8:8+n], frame[8+n:]
	var err error
	switch d.HeaderType {
	case 0:
		err = d.readJSON(header)
	case 1:
		err = d.readBinary(header)
	default:
		err = fmt.Errorf("header type %d", d.HeaderType)
	}
	if err != nil {
		return d, nil, err
	}
	sum := sha256.Sum256(body)
	d.BodySize, d.BodySHA256 = len(body), hex.EncodeToString(sum[:])
	return d, body, nil
}

func (d *description) readJSON(header []byte) error {
	var h struct {
		Code      *int
		Flag      int
		Language  string
		Opaque    int
		Remark    *string
		Version   int
		ExtFields map[string]*string
	}
	if err := json.Unmarshal(header, &h); err != nil {
		return fmt.Errorf("JSON header %q: %w", header, err)
	}
	if h.Code == nil {
		return fmt.Errorf("JSON header %q has no code", header)
	}
	d.Code, d.Flag, d.Language, d.Opaque, d.Version = *h.Code, h.Flag, h.Language, h.Opaque, h.Version
	if h.Remark != nil {
		d.Remark = *h.Remark
	}
	d.Fields = map[string]string{}
	for k, v := range h.ExtFields {
		if v != nil {
			d.Fields[k] = *v
		}
	}
	return nil
}

// readBinary reads the header RocketMQ calls ROCKETMQ:
//
//	code i16 | language u8 | version i16 | opaque i32 | flag i32 | remark length i32, remark |
//	fields length i32, then per field: key length i16, key, value length i32, value
func (d *description) readBinary(header []byte) error {
	c := cutter{rest: header}
	d.Code = int(int16(c.uint(2)))
	language := int(c.uint(1))
	d.Version = int(int16(c.uint(2)))
	d.Opaque = int(int32(c.uint(4)))
	d.Flag = int(int32(c.uint(4)))
	d.Remark = string(c.take(int(int32(c.uint(4)))))
	d.Fields = map[string]string{}
	fields := cutter{rest: c.take(int(int32(c.uint(4))))}
	for c.err == nil && fields.err == nil && len(fields.rest) > 0 {
		key := fields.take(int(int16(fields.uint(2))))
		value := fields.take(int(int32(fields.uint(4))))
		d.Fields[string(key)] = string(value)
	}
	if err := errors.Join(c.err, fields.err); err != nil {
		return fmt.Errorf("binary header: %w", err)
	}
	if len(c.rest) > 0 {
		return fmt.Errorf("binary header: %d bytes behind its fields", len(c.rest))
	}
	d.Language = strconv.Itoa(language)
	if language < len(languages) {
		d.Language = languages[language]
	}
	return nil
}

// cutter takes pieces off rest; after the first error everything is empty.
type cutter struct {
	rest []byte
	err  error
}

func (c *cutter) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.rest) {
		c.err = fmt.Errorf("a piece of %d bytes, %d are left", n, len(c.rest))
		return nil
	}
	piece := c.rest[:n]
	c.rest = c.rest[n:]
	return piece
}

func (c *cutter) uint(size int) (v uint32) {
	for _, b := range c.take(size) {
		v = v<<8 | uint32(b)
	}
	return v
}
