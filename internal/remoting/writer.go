package remoting

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
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
	// Timeout is how long the peer may take over 256 KiB, or over what waits
	// if that is less (default 15 s). Then the connection is closed. It is kept
	// to within an eighth.
	Timeout time.Duration
}

const (
	defaultMaxQueued = 32 << 20
	defaultThrottle  = 1 << 20
	defaultTimeout   = 15 * time.Second

	// copyBelow: shorter pieces of a body are copied behind their header,
	// longer ones are written from where they are.
	copyBelow = 4 << 10
	// writeChunk is how much is written under one deadline.
	writeChunk = 256 << 10
	// keepBuffer: an empty buffer is let go when it is larger than this and
	// four times what batches needed of late, so that a connection that was
	// busy once does not hold it for ever.
	keepBuffer = 16 << 10
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
	room   sync.Cond // Throttle waits: queue shorter, closed or failed
	queue  batch
	spare  batch // memory of the last batch written
	flying int   // bytes the flusher has taken and not written yet
	closed bool
	err    error

	// Of the flusher alone.
	deadline time.Time
	pieces   [][]byte
	recent   int // length of a batch's buffer, halved with each that was shorter
}

// batch is encoded frames: the bytes of buf, with each part's put in at its
// place.
type batch struct {
	buf   []byte
	parts []part
	bytes int      // of buf and parts together
	done  []func() // Command.Done of those whose parts are here
}

type part struct {
	at int // in buf
	b  []byte
}

// NewWriter starts a Writer on conn. When writing fails, or the peer is too
// slow, it closes conn, so that the goroutine that reads there ends too. It
// does not when the peer is gone ([PeerGone]): that goroutine then reads what
// the peer had sent before, and the end behind it.
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

// Write queues a frame; it does not wait for the peer. When it returns, the
// fields, the remark and short bodies have been copied; a Body or one of
// Bodies of 4 KiB and more is written later from where it is, and must not be
// changed until c.Done is called. Errors: one wrapping [ErrEncode], and nothing
// else happened; [ErrWriterClosed]; one wrapping [ErrSlowPeer] or the
// connection's own, after which the connection is closed or at its end.
func (w *Writer) Write(c *Command) error {
	queued, err := w.enqueue(c)
	if !queued && c.Done != nil {
		c.Done()
	}
	return err
}

// enqueue reports whether c's Done was queued too.
func (w *Writer) enqueue(c *Command) (done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false, w.err
	}
	if w.closed {
		return false, ErrWriterClosed
	}
	q := &w.queue
	header, parts := len(q.buf), len(q.parts)
	buf, err := AppendHeader(q.buf, c)
	if err != nil {
		return false, err
	}
	waiting := q.bytes + w.flying
	size := len(buf) - header + c.BodyLen()
	if waiting > 0 && waiting+size > w.opts.MaxQueued {
		w.failLocked(fmt.Errorf("%w: %d bytes wait, at most %d", ErrSlowPeer, waiting+size, w.opts.MaxQueued))
		return false, w.err
	}
	q.buf = buf
	q.bytes += size
	q.add(c.Body)
	for _, b := range c.Bodies {
		q.add(b)
	}
	if c.Done != nil && len(q.parts) > parts {
		q.done = append(q.done, c.Done)
		done = true
	}
	w.wake.Signal()
	return done, nil
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
// that does not read its answers is not read either. The error is
// [ErrWriterClosed] or what ended the Writer.
func (w *Writer) Throttle() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.err != nil:
			return w.err
		case w.closed:
			return ErrWriterClosed
		case w.queue.bytes+w.flying <= w.opts.Throttle:
			return nil
		}
		w.room.Wait()
	}
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

// PeerGone reports whether err says that the peer has closed or lost the
// connection. What it sent before can still be read.
func PeerGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// failLocked ends the Writer with err and closes the connection. What is
// queued is left to the flusher, which calls its Done.
func (w *Writer) failLocked(err error) {
	if w.err != nil {
		return
	}
	w.err = err
	if !PeerGone(err) {
		w.conn.Close()
	}
	w.wake.Signal()
	w.room.Broadcast()
}

// flush is the Writer's goroutine.
func (w *Writer) flush() {
	defer close(w.done)
	for {
		b, ok := w.takeQueued()
		var err error
		if ok {
			err = w.write(&b)
		}
		for _, done := range b.done {
			done()
		}
		if !ok {
			return
		}
		w.recent = max(len(b.buf), w.recent/2)
		b.reset()
		if cap(b.buf) > max(keepBuffer, 4*w.recent) {
			b.buf = nil
		}
		w.written(b, err)
	}
}

// takeQueued waits for frames and takes them. ok is false when the Writer is
// done: closed with nothing left, or failed.
func (w *Writer) takeQueued() (b batch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && w.queue.bytes == 0 && !w.closed {
		w.wake.Wait()
	}
	b, w.queue, w.spare = w.queue, w.spare, batch{}
	w.flying = b.bytes
	return b, w.err == nil && b.bytes > 0
}

// written takes a batch's memory back and notes how writing went.
func (w *Writer) written(b batch, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying = 0
	w.spare = b
	w.room.Broadcast()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %v were not enough", ErrSlowPeer, w.opts.Timeout)
	}
	if err != nil {
		w.failLocked(err)
	}
}

// reset empties a batch and keeps its memory.
func (b *batch) reset() {
	clear(b.parts)
	clear(b.done)
	b.bytes, b.buf, b.parts, b.done = 0, b.buf[:0], b.parts[:0], b.done[:0]
}

// write writes b in chunks, each under a deadline of its own.
func (w *Writer) write(b *batch) error {
	if len(b.parts) == 0 && len(b.buf) <= writeChunk {
		if err := w.extend(); err != nil {
			return err
		}
		_, err := w.conn.Write(b.buf)
		return err
	}
	size := 0
	put := func(p []byte) error {
		for len(p) > 0 {
			n := min(len(p), writeChunk-size)
			w.pieces = append(w.pieces, p[:n])
			p = p[n:]
			if size += n; size == writeChunk {
				size = 0
				if err := w.writePieces(); err != nil {
					return err
				}
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
	return w.writePieces()
}

// writePieces writes pieces, in one system call where it can.
func (w *Writer) writePieces() error {
	if len(w.pieces) == 0 {
		return nil
	}
	if err := w.extend(); err != nil {
		return err
	}
	buffers := net.Buffers(w.pieces) // WriteTo empties it and clears the pieces
	w.pieces = w.pieces[:0]
	_, err := buffers.WriteTo(w.conn)
	return err
}

// extend moves the write deadline, which costs a timer, when less than seven
// eighths are left.
func (w *Writer) extend() error {
	now := time.Now()
	if w.deadline.Sub(now) >= w.opts.Timeout-w.opts.Timeout/8 {
		return nil
	}
	w.deadline = now.Add(w.opts.Timeout)
	return w.conn.SetWriteDeadline(w.deadline)
}
