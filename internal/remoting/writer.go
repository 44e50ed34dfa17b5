package remoting

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// WriterOptions bound what a peer that does not read can cost. Zero values
// mean the defaults.
type WriterOptions struct {
	// MaxQueued is how many bytes may wait, bodies included (default 32 MiB).
	// A Write over it closes the connection. One frame is always taken.
	MaxQueued int
	// Throttle is how many bytes may wait before [Writer.Throttle] holds its
	// caller back (default 1 MiB).
	Throttle int
	// Timeout is how long the peer may take no byte at all while some wait
	// (default 15 s). Then the connection is closed.
	Timeout time.Duration
}

const (
	defaultMaxQueued = 32 << 20
	defaultThrottle  = 1 << 20
	defaultTimeout   = 15 * time.Second

	// copyBelow: shorter bodies are copied behind their header, longer ones
	// are written from where they are.
	copyBelow = 4 << 10
	// writeChunk is how much is written under one deadline.
	writeChunk = 256 << 10
	// keepBuffer: larger buffers are let go after they were written.
	keepBuffer = 64 << 10
)

// Writer puts frames on a connection, from any number of goroutines. Write
// encodes and queues and never waits; one goroutine, started by NewWriter and
// ended by Close or the connection's failure, writes all that waits at once.
type Writer struct {
	conn net.Conn
	opts WriterOptions
	done chan struct{} // closed when the flusher ended

	mu     sync.Mutex
	wake   sync.Cond // the flusher waits: something queued, closed or failed
	room   sync.Cond // Throttle waits: queue shorter, or failed
	queue  batch
	spare  batch // what the flusher is done with
	flying int   // bytes taken by the flusher and not written yet
	closed bool
	err    error
}

// batch is encoded frames: buf, with each part's bytes put in before buf[at].
type batch struct {
	buf   []byte
	parts []part
	bytes int
}

type part struct {
	at int
	b  []byte
}

// NewWriter starts a Writer on conn. When writing fails, or the peer is too
// slow, it closes conn, so that the goroutine that reads there ends too.
func NewWriter(conn net.Conn, opts WriterOptions) *Writer {
	if opts.MaxQueued <= 0 {
		opts.MaxQueued = defaultMaxQueued
	}
	if opts.Throttle <= 0 {
		opts.Throttle = defaultThrottle
	}
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	w := &Writer{conn: conn, opts: opts, done: make(chan struct{})}
	w.wake.L, w.room.L = &w.mu, &w.mu
	go w.flush()
	return w
}

// Write queues a frame; it does not wait for the peer. Fields and Remark are
// encoded before it returns. A Body or one of Bodies of 4 KiB and more is
// written later from where it is and must not be changed. Errors: wrapping
// [ErrEncode], and nothing else happened; [ErrWriterClosed]; [ErrSlowPeer] or
// the connection's error, after which the connection is closed.
func (w *Writer) Write(c *Command) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return ErrWriterClosed
	}
	q := &w.queue
	before := len(q.buf)
	buf, err := AppendHeader(q.buf, c)
	if err != nil {
		return err
	}
	q.buf = buf
	q.add(c.Body)
	for _, b := range c.Bodies {
		q.add(b)
	}
	waiting := q.bytes + w.flying
	q.bytes += len(buf) - before + c.BodyLen()
	if waiting > 0 && q.bytes+w.flying > w.opts.MaxQueued {
		return w.failLocked(fmt.Errorf("%w: %d bytes wait, at most %d", ErrSlowPeer, q.bytes+w.flying, w.opts.MaxQueued))
	}
	w.wake.Signal()
	return nil
}

// add queues one piece of a body.
func (q *batch) add(b []byte) {
	switch {
	case len(b) == 0:
	case len(b) < copyBelow:
		q.buf = append(q.buf, b...)
	default:
		q.parts = append(q.parts, part{len(q.buf), b})
	}
}

// Throttle waits while more than the option's bytes are queued. The goroutine
// that reads the connection's requests calls it before each, so that a peer
// that does not read its answers is not read either. It returns the error that
// ended the Writer, if any.
func (w *Writer) Throttle() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closed && w.queue.bytes+w.flying > w.opts.Throttle {
		w.room.Wait()
	}
	return w.err
}

// Queued is how many bytes wait to be written.
func (w *Writer) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.bytes + w.flying
}

// Close writes what is queued, ends the Writer's goroutine and returns the
// first error of writing. It does not close the connection; closing that first
// makes Close give up what is queued. Further calls wait for the same.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.wake.Signal()
	w.room.Broadcast()
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// failLocked ends the Writer with err and closes the connection.
func (w *Writer) failLocked(err error) error {
	if w.err == nil {
		w.err = err
		w.queue, w.spare = batch{}, batch{}
		w.conn.Close()
		w.wake.Signal()
		w.room.Broadcast()
	}
	return w.err
}

// flush is the Writer's goroutine.
func (w *Writer) flush() {
	defer close(w.done)
	var deadline time.Time
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for w.err == nil && w.queue.bytes == 0 && !w.closed {
			w.wake.Wait()
		}
		if w.err != nil || w.queue.bytes == 0 {
			return
		}
		b := w.queue
		w.queue, w.spare = w.spare, batch{}
		w.flying = b.bytes
		w.mu.Unlock()
		err := w.write(&b, &deadline)
		b.reset()
		w.mu.Lock()
		w.flying = 0
		w.spare = b
		w.room.Broadcast()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = fmt.Errorf("%w: no byte taken within %v", ErrSlowPeer, w.opts.Timeout)
			}
			w.failLocked(err)
			return
		}
	}
}

// reset empties a batch and keeps memory of usual size.
func (b *batch) reset() {
	b.bytes = 0
	clear(b.parts)
	b.parts = b.parts[:0]
	if cap(b.buf) > keepBuffer {
		b.buf = nil
	}
	b.buf = b.buf[:0]
}

// write writes b in chunks, each under a deadline of its own.
func (w *Writer) write(b *batch, deadline *time.Time) error {
	var chunk net.Buffers
	size := 0
	put := func(p []byte) error {
		for len(p) > 0 {
			n := min(len(p), writeChunk-size)
			chunk = append(chunk, p[:n])
			size += n
			p = p[n:]
			if size == writeChunk {
				if err := w.writeChunk(chunk, deadline); err != nil {
					return err
				}
				chunk, size = nil, 0
			}
		}
		return nil
	}
	at := 0
	for _, p := range b.parts {
		if err := put(b.buf[at:p.at]); err != nil {
			return err
		}
		at = p.at
		if err := put(p.b); err != nil {
			return err
		}
	}
	if err := put(b.buf[at:]); err != nil {
		return err
	}
	return w.writeChunk(chunk, deadline)
}

func (w *Writer) writeChunk(chunk net.Buffers, deadline *time.Time) error {
	if len(chunk) == 0 {
		return nil
	}
	// Moving the deadline costs a timer; it may be off by an eighth.
	now := time.Now()
	if deadline.Sub(now) < w.opts.Timeout-w.opts.Timeout/8 {
		*deadline = now.Add(w.opts.Timeout)
		if err := w.conn.SetWriteDeadline(*deadline); err != nil {
			return err
		}
	}
	if len(chunk) == 1 {
		_, err := w.conn.Write(chunk[0])
		return err
	}
	_, err := chunk.WriteTo(w.conn)
	return err
}
