package remoting

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// The drawing of the ROCKETMQ header, by offset, on RocketMQ's own bytes.
func TestBinaryOffsets(t *testing.T) {
	b := unhex(t, javaBinary)[prefix:]
	u16, u32 := binary.BigEndian.Uint16, binary.BigEndian.Uint32
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"code", u16(b[0:]), uint16(310)},
		{"language", b[2], LanguageJava},
		{"version", u16(b[3:]), uint16(513)},
		{"opaque", u32(b[5:]), uint32(42)},
		{"flag", u32(b[9:]), uint32(0)},
		{"remark length", u32(b[13:]), uint32(4)},
		{"remark", string(b[17:21]), "ré\x01"},
		{"fields length", u32(b[21:]), uint32(len(b) - 25 - len("body"))},
		{"first key length", u16(b[25:]), uint16(1)},
		{"first key", b[27], byte('a')},
		{"first value length", u32(b[28:]), uint32(1)},
		{"first value", b[32], byte('g')},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

func TestBadBinary(t *testing.T) {
	c := &Command{Code: 1, Remark: "why", Fields: Fields{{"key", "value"}, {"k2", "v2"}}, HeaderType: HeaderRocketMQ}
	good := encode(t, c)[prefix:]
	// code 2, language 1, version 2, opaque 4, flag 4 | remark at 13, its bytes
	// at 17 | fields at 20, first key at 24, value at 29
	be := binary.BigEndian
	for _, tt := range []struct {
		name, text string
		change     func(b []byte) []byte
	}{
		{"remark length negative", "remark length -1", func(b []byte) []byte { be.PutUint32(b[13:], math.MaxUint32); return b }},
		{"remark length at its maximum", "remark length 2147483647", func(b []byte) []byte { be.PutUint32(b[13:], math.MaxInt32); return b }},
		{"remark up to the end", "remark length", func(b []byte) []byte { be.PutUint32(b[13:], uint32(len(b)-17)); return b }},
		{"fields length negative", "fields length -1", func(b []byte) []byte { be.PutUint32(b[20:], math.MaxUint32); return b }},
		{"fields length at its maximum", "fields length 2147483647", func(b []byte) []byte { be.PutUint32(b[20:], math.MaxInt32); return b }},
		{"fields length one less", "fields length", func(b []byte) []byte { be.PutUint32(b[20:], uint32(len(b)-25)); return b }},
		{"fields length 0 with fields", "fields length 0", func(b []byte) []byte { be.PutUint32(b[20:], 0); return b }},
		{"key length negative", "key length -32768", func(b []byte) []byte { be.PutUint16(b[24:], 1<<15); return b }},
		{"key length at its maximum", "key length 32767", func(b []byte) []byte { be.PutUint16(b[24:], math.MaxInt16); return b }},
		{"value length negative", `value length -1 of "key"`, func(b []byte) []byte { be.PutUint32(b[29:], math.MaxUint32); return b }},
		{"value length at its maximum", `value length 2147483647 of "key"`, func(b []byte) []byte { be.PutUint32(b[29:], math.MaxInt32); return b }},
		{"one byte behind", "fields length", func(b []byte) []byte { return append(b, 0) }},
		{"one byte as a key", "1 bytes left for a key", func(b []byte) []byte { be.PutUint32(b[20:], uint32(len(b)-23)); return append(b, 0) }},
		{"a key without a value", "key length 0", func(b []byte) []byte { be.PutUint32(b[20:], uint32(len(b)-22)); return append(b, 0, 0) }},
		{"too many fields", "more than 4096 fields", func(b []byte) []byte {
			b = append(b, bytes.Repeat([]byte{0, 0, 0, 0, 0, 0}, MaxFields-1)...)
			be.PutUint32(b[20:], uint32(len(b)-24))
			return b
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := tt.change(bytes.Clone(good))
			_, _, err := DecodeCommand(frameOf(HeaderRocketMQ, string(header), "body"))
			checkFrameError(t, "DecodeCommand", err, ErrMalformedHeader, tt.text)
		})
	}
}
