package broker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/internal/vfs"
	"github.com/tidemq/tidemq/store"
)

// benchConn is a connection that asks one request after the other and makes no
// garbage of its own.
type benchConn struct {
	b       *testing.B
	nc      net.Conn
	reader  *remoting.Reader
	scratch remoting.Scratch
}

func benchBroker(b *testing.B) *benchConn {
	b.Helper()
	br, err := New(Options{
		Dir: b.TempDir(), Listen: []string{"127.0.0.1:0"}, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		tuneStore: func(o *store.Options) { o.FS, o.MinFreeBytes = vfs.NoSync{FS: vfs.OS}, -1 },
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := br.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	nc, err := net.Dial("tcp", br.Addr())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		nc.Close()
		if err := br.Close(); err != nil {
			b.Error(err)
		}
	})
	return &benchConn{b: b, nc: nc, reader: remoting.NewReader(nc, 0)}
}

func encode(b *testing.B, headerType byte, code int, f remoting.Fields, body []byte) []byte {
	b.Helper()
	buf, err := remoting.AppendCommand(nil, &remoting.Command{Code: code, Version: 477, Opaque: 1, Fields: f, Body: body, HeaderType: headerType})
	if err != nil {
		b.Fatal(err)
	}
	return buf
}

// ask writes a frame and reads its answer, which is valid until the next.
func (c *benchConn) ask(frame []byte) *remoting.Command {
	if _, err := c.nc.Write(frame); err != nil {
		c.b.Fatal(err)
	}
	resp, err := c.reader.ReadInto(&c.scratch)
	if err != nil {
		c.b.Fatal(err)
	}
	if resp.Code != remoting.Success {
		c.b.Fatalf("answer %d: %s", resp.Code, resp.Remark)
	}
	return resp
}

func eachHeader(b *testing.B, f func(b *testing.B, headerType byte)) {
	b.Run("json", func(b *testing.B) { f(b, remoting.HeaderJSON) })
	b.Run("rocketmq", func(b *testing.B) { f(b, remoting.HeaderRocketMQ) })
}

// BenchmarkPull is a pull and its answer over a connection of this machine, of
// so many messages of 1 KiB.
func BenchmarkPull(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			eachHeader(b, func(b *testing.B, headerType byte) {
				c := benchBroker(b)
				send := encode(b, headerType, remoting.ReqSendMessageV2, sendFields("t", 0, "TAGS\x01a\x02"), make([]byte, 1024))
				for range n {
					c.ask(send)
				}
				pull := encode(b, headerType, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, "maxMsgNums", n), nil)
				size := len(c.ask(pull).Body)
				if size < n*1024 {
					b.Fatalf("the answer has %d bytes", size)
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if got := len(c.ask(pull).Body); got != size {
						b.Fatalf("the answer has %d bytes, before %d", got, size)
					}
				}
			})
		})
	}
}

// BenchmarkSend is a send of 1 KiB and its answer over a connection of this
// machine, one at a time, on a store that never syncs.
func BenchmarkSend(b *testing.B) {
	for name, props := range map[string]string{"plain": "TAGS\x01a\x02", "delayed": "TAGS\x01a\x02DELAY\x0118\x02"} {
		b.Run(name, func(b *testing.B) {
			eachHeader(b, func(b *testing.B, headerType byte) {
				c := benchBroker(b)
				send := encode(b, headerType, remoting.ReqSendMessageV2, sendFields("t", 0, props), bytes.Repeat([]byte("x"), 1024))
				c.ask(send) // makes the topic
				b.ReportAllocs()
				for b.Loop() {
					c.ask(send)
				}
			})
		})
	}
}
