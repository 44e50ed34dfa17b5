package remoting

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/iotest"
)

// read reads the one frame that b is, and the end behind it.
func read(tb testing.TB, b []byte) *Command {
	tb.Helper()
	r := NewReader(bytes.NewReader(b), 0)
	c, err := r.ReadCommand()
	if err != nil {
		tb.Fatalf("ReadCommand: %v", err)
	}
	if _, err := r.ReadCommand(); err != io.EOF {
		tb.Fatalf("ReadCommand behind the frame: %v, want io.EOF", err)
	}
	return c
}

// Frames of many sizes in one stream, whatever the pieces it comes in.
func TestReader(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var want []*Command
	var stream []byte
	for i, size := range []int{0, 1, 100, 3000, 4096, 5000, 16 << 10, 70000, 0, 0, 300000, 1 << 20, 2, 64 << 10, 3 << 20, 1} {
		c := NewRequest(ReqSendMessageV2, Field{"b", fmt.Sprint("Topic", i)}, Field{"i", "KEYS\x01k\x02"})
		c.Opaque = int32(i)
		c.HeaderType = byte(i % 2)
		for range size / 8 {
			c.Body = binary.BigEndian.AppendUint64(c.Body, random.Uint64())
		}
		want = append(want, c)
		stream = append(stream, encode(t, c)...)
	}
	for name, src := range map[string]func() io.Reader{
		"whole":         func() io.Reader { return bytes.NewReader(stream) },
		"halves":        func() io.Reader { return iotest.HalfReader(bytes.NewReader(stream)) },
		"data with EOF": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(stream)) },
		"random pieces": func() io.Reader { return &pieces{stream, random, 20000} },
		"small pieces":  func() io.Reader { return &pieces{stream, random, 100} },
		"byte by byte":  func() io.Reader { return iotest.OneByteReader(bytes.NewReader(stream)) },
		"with no bytes": func() io.Reader { return &hesitant{src: bytes.NewReader(stream)} },
	} {
		t.Run(name, func(t *testing.T) {
			fresh, reused := NewReader(src(), 0), NewReader(src(), 0)
			var all []*Command
			s := new(Scratch)
			for i := range want {
				c, err := fresh.ReadCommand()
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				all = append(all, c)
				if c, err = reused.ReadInto(s); err != nil {
					t.Fatalf("frame %d into used memory: %v", i, err)
				}
				same(t, fmt.Sprint("into used memory, frame ", i), want[i], c)
			}
			for i, c := range all { // all at the end: none shares memory with a later one
				same(t, fmt.Sprint("frame ", i), want[i], c)
			}
			for _, r := range []*Reader{fresh, reused} {
				if _, err := r.ReadCommand(); err != io.EOF {
					t.Errorf("at the end: %v, want io.EOF", err)
				}
				if r.Buffered() != 0 {
					t.Errorf("%d bytes left", r.Buffered())
				}
			}
		})
	}
}

// pieces gives a stream in pieces of up to max bytes.
type pieces struct {
	b      []byte
	random *rand.Rand
	max    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.b[:min(len(p.b), 1+p.random.IntN(p.max))])
	p.b = p.b[n:]
	return n, nil
}

// hesitant gives nothing every other time.
type hesitant struct {
	src   io.Reader
	turns int
}

func (h *hesitant) Read(b []byte) (int, error) {
	if h.turns++; h.turns%2 == 0 {
		return 0, nil
	}
	return h.src.Read(b)
}

func TestReaderEnds(t *testing.T) {
	whole := unhex(t, javaJSON)
	for n := 1; n < len(whole); n++ {
		r := NewReader(bytes.NewReader(whole[:n]), 0)
		_, err := r.ReadCommand()
		checkFrameError(t, fmt.Sprintf("ended after %d bytes", n), err, ErrTruncated, fmt.Sprintf("after %d bytes", n))
	}
	broken := errors.New("broken")
	for n := range len(whole) {
		r := NewReader(io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(broken)), 0)
		if _, err := r.ReadCommand(); !errors.Is(err, broken) {
			t.Errorf("broken after %d bytes: %v, want %v", n, err, broken)
		}
	}
	r := NewReader(iotest.ErrReader(io.EOF), 0)
	if _, err := r.ReadCommand(); err != io.EOF {
		t.Errorf("nothing: %v, want io.EOF", err)
	}
	if _, err := NewReader(silent{}, 0).ReadCommand(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source that gives nothing: %v, want %v", err, io.ErrNoProgress)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// What follows a bad frame is never taken for a frame.
func TestReaderStopsAtABadFrame(t *testing.T) {
	good := encode(t, javaSend(HeaderJSON))
	for name, bad := range map[string][]byte{
		"oversized":   binary.BigEndian.AppendUint32(nil, MaxFrame-3),
		"header type": frameOf(7, "{}", ""),
		"broken JSON": frameOf(HeaderJSON, "{", "body"),
	} {
		stream := append(append(bytes.Clone(good), bad...), good...)
		r := NewReader(bytes.NewReader(stream), 0)
		if _, err := r.ReadCommand(); err != nil {
			t.Fatalf("%s: the frame before: %v", name, err)
		}
		for range 3 {
			c, err := r.ReadCommand()
			var fe *FrameError
			if !errors.As(err, &fe) || c != nil {
				t.Errorf("%s: %v, %v; want a FrameError each time", name, c, err)
			}
		}
	}
}

func TestReaderLimit(t *testing.T) {
	c := javaSend(HeaderJSON)
	frame := encode(t, c)
	if _, err := NewReader(bytes.NewReader(frame), len(frame)).ReadCommand(); err != nil {
		t.Errorf("a frame of the limit: %v", err)
	}
	_, err := NewReader(bytes.NewReader(frame), len(frame)-1).ReadCommand()
	checkFrameError(t, "a frame over the limit", err, ErrFrameTooLarge, fmt.Sprintf("%d bytes, at most %d", len(frame), len(frame)-1))
	for _, limit := range []int{0, -1, MaxFrame + 1} {
		_, err := NewReader(bytes.NewReader([]byte{0x01, 0, 0, 0}), limit).ReadCommand()
		checkFrameError(t, fmt.Sprint("limit ", limit), err, ErrFrameTooLarge, "at most 16777216")
	}
}

// A length alone takes no memory: many connections that announce large frames
// and headers, and send little more.
func TestHostileLengths(t *testing.T) {
	word := func(values ...uint32) []byte {
		var b []byte
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return append(b, 'x')
	}
	for _, tt := range []struct {
		name  string
		bytes []byte
	}{
		{"frame of 2 GiB", word(0x7fffffff)},
		{"frame of 16 MiB, all of it header", word(MaxFrame-4, MaxFrame-8)},
		{"frame of 16 MiB, all of it body", word(MaxFrame-4, 0x02, 0x7b7d0000)},
		{"frame of 16 MiB, binary", word(MaxFrame-4, 1<<24|(MaxFrame-8))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const connections = 1000
			readers := make([]*Reader, connections)
			before := heap()
			for i := range readers {
				readers[i] = NewReader(bytes.NewReader(tt.bytes), 0)
				if _, err := readers[i].ReadCommand(); err == nil {
					t.Fatal("no error")
				}
			}
			if after := heap(); after > before+connections*24<<10 {
				t.Errorf("%d connections hold %d KiB, want at most 24 KiB each", connections, (after-before)>>10)
			}
			runtime.KeepAlive(readers)
		})
	}
	// And while it waits for more: what one command takes before it fails.
	frame := append(word(MaxFrame-4, 2)[:8], "{}body"...)
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if _, err := NewReader(bytes.NewReader(frame), 0).ReadCommand(); err == nil {
			t.Fatal("no error")
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > 32<<10 {
		t.Errorf("an announced body of 16 MiB takes %d bytes before it arrives", got)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A busy connection's buffer grows, and shrinks when little comes.
func TestReaderBuffer(t *testing.T) {
	small := encode(t, NewRequest(ReqHeartBeat))
	one := make(chan []byte, 1)
	r := NewReader(&turns{one}, 0)
	step := func(b []byte, frames int) {
		t.Helper()
		one <- b
		for range frames {
			if _, err := r.ReadCommand(); err != nil {
				t.Fatal(err)
			}
		}
	}
	step(small, 1)
	if len(r.buf) != minReadBuffer {
		t.Errorf("an idle connection's buffer has %d bytes, want %d", len(r.buf), minReadBuffer)
	}
	const burst = 2000
	step(bytes.Repeat(small, burst), burst)
	if len(r.buf) != maxReadBuffer {
		t.Errorf("after a burst the buffer has %d bytes, want %d", len(r.buf), maxReadBuffer)
	}
	for range 2 * fewReads {
		step(small, 1)
	}
	if len(r.buf) != minReadBuffer {
		t.Errorf("after %d small reads the buffer has %d bytes, want %d", 2*fewReads, len(r.buf), minReadBuffer)
	}
}

// turns gives one slice after the other, as much as fits at a time.
type turns struct{ next chan []byte }

func (s *turns) Read(b []byte) (int, error) {
	p := <-s.next
	n := copy(b, p)
	if n < len(p) {
		s.next <- p[n:]
	}
	return n, nil
}

// Whatever the pieces a stream comes in, the Reader sees what DecodeCommand
// sees in all of it.
func FuzzReader(f *testing.F) {
	good := append(unhex(f, javaJSON), unhex(f, javaBinary)...)
	f.Add(good, uint16(1))
	f.Add(good, uint16(7))
	f.Add(append(bytes.Clone(good), "GET / HTTP/1.1\r\n"...), uint16(100))
	f.Add(append(bytes.Clone(good), 0x7f, 0xff, 0xff, 0xff, 0), uint16(3))
	f.Add(frameOf(HeaderJSON, `{"code":1}`, string(make([]byte, 600))), uint16(100))
	for _, b := range goldenFrames(f) {
		f.Add(b, uint16(64))
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		src := &pieces{bytes.Clone(b), rand.New(rand.NewPCG(uint64(piece), 1)), int(piece) + 1}
		r := NewReader(src, 0)
		s := new(Scratch)
		other := NewReader(bytes.NewReader(b), 0)
		for rest := b; ; {
			want, n, wantErr := DecodeCommand(bytes.Clone(rest))
			got, err := r.ReadCommand()
			reused, reusedErr := other.ReadInto(s)
			if (err == nil) != (wantErr == nil) || (reusedErr == nil) != (wantErr == nil) {
				t.Fatalf("%d bytes before the end: ReadCommand %v, ReadInto %v, DecodeCommand %v", len(rest), err, reusedErr, wantErr)
			}
			if err != nil {
				if len(rest) == 0 {
					if err != io.EOF || reusedErr != io.EOF {
						t.Fatalf("at the end: %v, %v; want io.EOF", err, reusedErr)
					}
					return
				}
				var fe, wantFE *FrameError
				if !errors.As(err, &fe) || !errors.As(wantErr, &wantFE) {
					t.Fatalf("ReadCommand %v, DecodeCommand %v; want FrameErrors", err, wantErr)
				}
				// DecodeCommand sees first that the frame is cut.
				if fe.Reason != wantFE.Reason && wantFE.Reason != ErrTruncated {
					t.Fatalf("ReadCommand %v, DecodeCommand %v", err, wantErr)
				}
				return
			}
			same(t, "read", want, got)
			same(t, "read into used memory", want, reused)
			rest = rest[n:]
		}
	})
}
