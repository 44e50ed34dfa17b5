package remoting

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeConn takes writes as its functions say. Only what a Writer uses is there.
type fakeConn struct {
	net.Conn
	write    func(b []byte) (int, error)
	mu       sync.Mutex
	deadline time.Time
	closed   atomic.Bool
	onClose  func()
}

func (c *fakeConn) Write(b []byte) (int, error) { return c.write(b) }

func (c *fakeConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

func (c *fakeConn) Close() error {
	if !c.closed.Swap(true) && c.onClose != nil {
		c.onClose()
	}
	return nil
}

// record keeps what is written, each write apart.
type record struct {
	mu     sync.Mutex
	writes [][]byte
}

func (r *record) write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, bytes.Clone(b))
	return len(b), nil
}

// Frames from many goroutines reach the peer whole, each goroutine's in order.
func TestWriterManyGoroutines(t *testing.T) {
	client, server := tcpPair(t)
	w := NewWriter(server, WriterOptions{})
	const goroutines, each = 8, 500
	var done atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				c := &Command{Code: g, Opaque: int32(i), HeaderType: byte(i % 2), Body: bytes.Repeat([]byte{byte(g)}, i*7%300), Done: func() { done.Add(1) }}
				if i%50 == 0 {
					c.Bodies = [][]byte{bytes.Repeat([]byte{byte(g)}, 5000), {byte(g)}, bytes.Repeat([]byte{byte(g)}, 9000)}
				}
				if err := w.Write(c); err != nil {
					t.Errorf("Write: %v", err)
					return
				}
			}
		})
	}
	next := make([]int32, goroutines)
	r := NewReader(client, 0)
	for range goroutines * each {
		c, err := r.ReadCommand()
		if err != nil {
			t.Fatal(err)
		}
		i := c.Opaque
		if next[c.Code] != i {
			t.Fatalf("goroutine %d: frame %d, want %d", c.Code, i, next[c.Code])
		}
		next[c.Code]++
		size := int(i) * 7 % 300
		if i%50 == 0 {
			size += 14001
		}
		if want := bytes.Repeat([]byte{byte(c.Code)}, size); !bytes.Equal(c.Body, want) {
			t.Fatalf("goroutine %d, frame %d: body of %d bytes, want %d of its own", c.Code, i, len(c.Body), size)
		}
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := done.Load(); got != goroutines*each {
		t.Errorf("Done called %d times, want %d", got, goroutines*each)
	}
	if got := w.Queued(); got != 0 {
		t.Errorf("%d bytes queued at the end", got)
	}
}

func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// What waits while a write is under way goes out in one more write.
func TestWriterCoalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		gate := make(chan struct{})
		conn := &fakeConn{write: func(b []byte) (int, error) {
			<-gate
			return rec.write(b)
		}}
		w := NewWriter(conn, WriterOptions{})
		write := func(i int) {
			t.Helper()
			if err := w.Write(&Command{Code: i, Body: []byte("body")}); err != nil {
				t.Fatal(err)
			}
		}
		write(0)
		synctest.Wait() // the flusher is in its first write
		for i := 1; i < 100; i++ {
			write(i)
		}
		close(gate)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if len(rec.writes) != 2 {
			t.Errorf("%d writes, want 2", len(rec.writes))
		}
		r := NewReader(bytes.NewReader(bytes.Join(rec.writes, nil)), 0)
		for i := range 100 {
			if c, err := r.ReadCommand(); err != nil || c.Code != i {
				t.Fatalf("frame %d: %v, %v", i, c, err)
			}
		}
	})
}

// Large bodies are not copied: the very bytes go to the connection.
func TestWriterDoesNotCopyLargeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := bytes.Repeat([]byte("L"), copyBelow), bytes.Repeat([]byte("s"), copyBelow-1)
		var borrowed, others int
		conn := &fakeConn{write: func(b []byte) (int, error) {
			if &b[0] == &large[0] {
				borrowed++
			} else {
				others++
			}
			return len(b), nil
		}}
		w := NewWriter(conn, WriterOptions{})
		var done []string
		c := &Command{Bodies: [][]byte{small, large, small}, Done: func() { done = append(done, "large") }}
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if borrowed != 1 || others != 2 || len(done) != 1 {
			t.Errorf("%d writes of the body itself, %d others, Done %d times; want 1, 2 and once", borrowed, others, len(done))
		}
		if err := w.Write(&Command{Body: small, Done: func() { done = append(done, "small") }}); err != nil {
			t.Fatal(err)
		}
		if len(done) != 2 {
			t.Error("Done of a copied body was not called before Write returned")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if len(done) != 2 {
			t.Errorf("Done was called %d times for 2 commands", len(done))
		}
	})
}

func TestWriterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		conn := &fakeConn{write: rec.write}
		w := NewWriter(conn, WriterOptions{})
		for range 10 {
			if err := w.Write(NewRequest(ReqHeartBeat)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := w.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		r := NewReader(bytes.NewReader(bytes.Join(rec.writes, nil)), 0)
		for i := range 10 {
			if _, err := r.ReadCommand(); err != nil {
				t.Fatalf("frame %d of those queued before Close: %v", i, err)
			}
		}
		done := false
		if err := w.Write(&Command{Done: func() { done = true }}); !errors.Is(err, ErrWriterClosed) || !done {
			t.Errorf("Write after Close: %v, Done called: %v; want %v and true", err, done, ErrWriterClosed)
		}
		if err := w.Throttle(); !errors.Is(err, ErrWriterClosed) {
			t.Errorf("Throttle after Close: %v, want %v", err, ErrWriterClosed)
		}
		if conn.closed.Load() {
			t.Error("Close closed the connection")
		}
	})
}

// A write that fails closes the connection; every Done is called all the same.
func TestWriterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		gate := make(chan struct{})
		conn := &fakeConn{write: func(b []byte) (int, error) {
			<-gate
			return 0, broken
		}}
		w := NewWriter(conn, WriterOptions{})
		var done atomic.Int64
		large := make([]byte, copyBelow)
		for range 5 {
			if err := w.Write(&Command{Body: large, Done: func() { done.Add(1) }}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		close(gate)
		synctest.Wait()
		if !conn.closed.Load() {
			t.Error("the connection is open")
		}
		if err := w.Write(&Command{Body: large, Done: func() { done.Add(1) }}); !errors.Is(err, broken) {
			t.Errorf("Write: %v, want %v", err, broken)
		}
		if err := w.Throttle(); !errors.Is(err, broken) {
			t.Errorf("Throttle: %v, want %v", err, broken)
		}
		if err := w.Close(); !errors.Is(err, broken) {
			t.Errorf("Close: %v, want %v", err, broken)
		}
		if got := done.Load(); got != 6 {
			t.Errorf("Done called %d times, want 6", got)
		}
	})
}

// A command that cannot be encoded does no harm.
func TestWriterRefusesBadCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec record
		w := NewWriter(&fakeConn{write: rec.write}, WriterOptions{})
		done := false
		if err := w.Write(&Command{HeaderType: 9, Done: func() { done = true }}); !errors.Is(err, ErrEncode) || !done {
			t.Errorf("Write: %v, Done called: %v; want %v and true", err, done, ErrEncode)
		}
		if err := w.Write(NewRequest(ReqHeartBeat)); err != nil {
			t.Errorf("Write of a good command: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if c := read(t, bytes.Join(rec.writes, nil)); c.Code != ReqHeartBeat {
			t.Errorf("got %v", c)
		}
	})
}

// A peer that reads nothing is cut off when the time is over, and not before.
func TestWriterSlowPeerByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		conn := &fakeConn{}
		var closedAfter time.Duration
		conn.onClose = func() { closedAfter = time.Since(start) }
		conn.write = func(b []byte) (int, error) { // a full socket
			conn.mu.Lock()
			d := conn.deadline
			conn.mu.Unlock()
			time.Sleep(time.Until(d))
			return 0, os.ErrDeadlineExceeded
		}
		const timeout = 8 * time.Second
		w := NewWriter(conn, WriterOptions{Timeout: timeout})
		if err := w.Write(NewRequest(ReqHeartBeat)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); !errors.Is(err, ErrSlowPeer) {
			t.Errorf("Close: %v, want %v", err, ErrSlowPeer)
		}
		if closedAfter != timeout {
			t.Errorf("closed after %v, want %v", closedAfter, timeout)
		}
	})
}

// A peer that reads slowly and steadily is not cut off: each 256 KiB have the
// time anew.
func TestWriterSteadyPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		conn := &fakeConn{}
		conn.write = func(b []byte) (int, error) {
			conn.mu.Lock()
			d := conn.deadline
			conn.mu.Unlock()
			time.Sleep(5 * time.Second)
			if !time.Now().Before(d) {
				return 0, os.ErrDeadlineExceeded
			}
			return got.Write(b)
		}
		w := NewWriter(conn, WriterOptions{Timeout: 16 * time.Second})
		c := &Command{Body: bytes.Repeat([]byte("0123456789"), 400<<10), Bodies: [][]byte{bytes.Repeat([]byte("x"), 1<<20)}}
		if err := w.Write(c); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if body := read(t, got.Bytes()).Body; !bytes.Equal(body, append(bytes.Clone(c.Body), c.Bodies[0]...)) {
			t.Errorf("body of %d bytes differs", len(body))
		}
	})
}

// A peer that reads nothing is cut off when too much waits for it; one frame
// is always taken.
func TestWriterSlowPeerByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		conn := &fakeConn{}
		conn.onClose = func() { close(gate) }
		conn.write = func(b []byte) (int, error) {
			<-gate
			return 0, net.ErrClosed
		}
		const limit = 64 << 10
		w := NewWriter(conn, WriterOptions{MaxQueued: limit})
		var done atomic.Int64
		count := func() { done.Add(1) }
		if err := w.Write(&Command{Body: make([]byte, 2*limit), Done: count}); err != nil {
			t.Errorf("one frame over the limit: %v", err)
		}
		if err := w.Write(&Command{Body: make([]byte, 5000), Done: count}); !errors.Is(err, ErrSlowPeer) {
			t.Errorf("one more: %v, want %v", err, ErrSlowPeer)
		}
		if !conn.closed.Load() {
			t.Error("the connection is open")
		}
		if err := w.Close(); !errors.Is(err, ErrSlowPeer) {
			t.Errorf("Close: %v, want %v", err, ErrSlowPeer)
		}
		if got := done.Load(); got != 2 {
			t.Errorf("Done called %d times, want 2", got)
		}
	})
}

// Throttle holds back while much waits, and lets go when it was written.
func TestWriterThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		conn := &fakeConn{write: func(b []byte) (int, error) {
			<-gate
			return len(b), nil
		}}
		w := NewWriter(conn, WriterOptions{Throttle: 10000})
		if err := w.Write(&Command{Body: make([]byte, 3000)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Throttle(); err != nil { // little waits
			t.Fatal(err)
		}
		if err := w.Write(&Command{Body: make([]byte, 9000)}); err != nil {
			t.Fatal(err)
		}
		released := make(chan error, 1)
		go func() { released <- w.Throttle() }()
		synctest.Wait()
		select {
		case err := <-released:
			t.Fatalf("Throttle returned %v with %d bytes queued", err, w.Queued())
		default:
		}
		close(gate)
		if err := <-released; err != nil {
			t.Errorf("Throttle: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Close and failure let a held Throttle go.
func TestWriterThrottleEnds(t *testing.T) {
	for _, how := range []string{"Close", "failure"} {
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			broken := errors.New("broken")
			conn := &fakeConn{write: func(b []byte) (int, error) {
				<-gate
				if how == "failure" {
					return 0, broken
				}
				return len(b), nil
			}}
			w := NewWriter(conn, WriterOptions{Throttle: 1})
			if err := w.Write(NewRequest(ReqHeartBeat)); err != nil {
				t.Fatal(err)
			}
			released := make(chan error, 1)
			go func() { released <- w.Throttle() }()
			synctest.Wait()
			want := broken
			if how == "Close" {
				want = ErrWriterClosed
				go w.Close()
				synctest.Wait()
			} else {
				close(gate)
			}
			if err := <-released; !errors.Is(err, want) {
				t.Errorf("%s: Throttle = %v, want %v", how, err, want)
			}
			if how == "Close" {
				close(gate)
			}
			w.Close()
		})
	}
}

// A real socket whose peer does not read: cut off, and the reader's side of
// the connection ends too.
func TestWriterRealSlowPeer(t *testing.T) {
	_, server := tcpPair(t)
	w := NewWriter(server, WriterOptions{MaxQueued: 8 << 20})
	body := make([]byte, 1<<20)
	var err error
	for range 100 {
		if err = w.Write(&Command{Body: body}); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrSlowPeer) {
		t.Errorf("100 MiB to a peer that does not read: %v, want %v", err, ErrSlowPeer)
	}
	if _, err := NewReader(server, 0).ReadCommand(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading there: %v, want %v", err, net.ErrClosed)
	}
	if err := w.Close(); !errors.Is(err, ErrSlowPeer) {
		t.Errorf("Close: %v, want %v", err, ErrSlowPeer)
	}
}

// A Writer keeps its buffers while it is busy and holds little some writes
// after a burst.
func TestWriterGivesMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A write takes until every other goroutine waits, so what is queued
		// meanwhile is one batch.
		w := NewWriter(&fakeConn{write: func(b []byte) (int, error) { time.Sleep(time.Nanosecond); return len(b), nil }}, WriterOptions{})
		batch := func(frames int) {
			t.Helper()
			for range frames {
				if err := w.Write(&Command{Body: make([]byte, copyBelow-1)}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		held := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return cap(w.queue.buf) + cap(w.spare.buf)
		}
		for range 4 {
			batch(100)
		}
		if n := held(); n < 90*copyBelow {
			t.Errorf("%d bytes held while busy, want about a batch's %d", n, 100*copyBelow)
		}
		for range 20 {
			batch(1)
		}
		if n := held(); n > 2*keepBuffer {
			t.Errorf("%d bytes held when little is written, want at most %d", n, 2*keepBuffer)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	for _, size := range []int{0, 1024, 32 << 10} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			client, server := net.Pipe()
			defer client.Close()
			go io.Copy(io.Discard, client)
			w := NewWriter(server, WriterOptions{MaxQueued: 1 << 30})
			q := &Command{Opaque: 4711}
			c := q.Reply(Success, "")
			c.Fields = Fields{{"msgId", "7F00000100002A9F0000000000001234"}, {"queueId", "3"}, {"queueOffset", "123456"}}
			c.Body = make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Throttle(); err != nil {
					b.Fatal(err)
				}
				if err := w.Write(c); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
