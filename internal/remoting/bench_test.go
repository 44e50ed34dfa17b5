package remoting

import (
	"bytes"
	"testing"
)

// sendFrame is a send as RocketMQ's Java client makes it, 16 B tags and keys.
func sendFrame(tb testing.TB, typ byte, body int) []byte {
	c := NewRequest(ReqSendMessageV2,
		Field{"a", "bench_producer"},
		Field{"b", "BenchTopic"},
		Field{"c", "TBW102"},
		Field{"d", "4"},
		Field{"e", "3"},
		Field{"f", "0"},
		Field{"g", "1764563000123"},
		Field{"h", "0"},
		Field{"i", "UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01TagA\x02"},
		Field{"j", "0"},
		Field{"k", "false"},
		Field{"m", "false"},
		Field{"n", "broker-a"})
	c.Language = LanguageJava
	c.HeaderType = typ
	c.Opaque = 123456
	c.Body = bytes.Repeat([]byte("x"), body)
	b, err := AppendCommand(nil, c)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// endless gives the same frame for ever.
type endless struct {
	frame []byte
	at    int
}

func (e *endless) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k := copy(b[n:], e.frame[e.at:])
		n += k
		e.at = (e.at + k) % len(e.frame)
	}
	return n, nil
}

func benchmarkHeaders(b *testing.B, f func(b *testing.B, typ byte)) {
	b.Run("json", func(b *testing.B) { f(b, HeaderJSON) })
	b.Run("rocketmq", func(b *testing.B) { f(b, HeaderRocketMQ) })
}

func BenchmarkReadCommand(b *testing.B) {
	benchmarkHeaders(b, func(b *testing.B, typ byte) {
		frame := sendFrame(b, typ, 1024)
		r := NewReader(&endless{frame: frame}, 0)
		b.SetBytes(int64(len(frame)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.ReadCommand(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReadInto(b *testing.B) {
	benchmarkHeaders(b, func(b *testing.B, typ byte) {
		frame := sendFrame(b, typ, 1024)
		r := NewReader(&endless{frame: frame}, 0)
		s := new(Scratch)
		b.SetBytes(int64(len(frame)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.ReadInto(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeHeader(b *testing.B) {
	benchmarkHeaders(b, func(b *testing.B, typ byte) {
		frame := sendFrame(b, typ, 0)
		header := frame[prefix:]
		buf := make([]byte, len(header))
		s := new(Scratch)
		b.SetBytes(int64(len(header)))
		b.ReportAllocs()
		for b.Loop() {
			copy(buf, header)
			if err := s.frame.decodeHeader(buf, typ); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkParseSend(b *testing.B) {
	c, _, err := DecodeCommand(sendFrame(b, HeaderJSON, 0))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSend(c.Fields); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendAnswer(b *testing.B) {
	benchmarkHeaders(b, func(b *testing.B, typ byte) {
		q := &Command{HeaderType: typ, Opaque: 4711}
		c := q.Reply(Success, "")
		c.Fields = Fields{{"msgId", "7F00000100002A9F0000000000001234"}, {"queueId", "3"}, {"queueOffset", "123456"}}
		var buf []byte
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if buf, err = AppendCommand(buf[:0], c); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(len(buf)))
	})
}
