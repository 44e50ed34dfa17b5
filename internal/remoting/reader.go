package remoting

import (
	"errors"
	"io"
)

// Sizes of a Reader's memory, in bytes.
const (
	minReadBuffer = 4 << 10  // what an idle connection holds
	maxReadBuffer = 64 << 10 // what a busy one grows to
	fewReads      = 32       // after so many small reads it shrinks again
	// maxAhead bounds the memory taken for a frame before its bytes arrive.
	maxAhead = 16 << 10
)

// Reader takes frames from a connection. It is used by one goroutine at a
// time. An idle Reader holds 4 KiB.
type Reader struct {
	src   io.Reader
	limit int
	buf   []byte
	r, w  int // buf[r:w] was read and not taken yet
	few   int // reads in a row that needed no large buffer
	err   error
}

// NewReader returns a Reader of frames of up to limit bytes, length word
// included; 0 or more than MaxFrame means [MaxFrame].
func NewReader(src io.Reader, limit int) *Reader {
	if limit <= 0 || limit > MaxFrame {
		limit = MaxFrame
	}
	return &Reader{src: src, limit: limit}
}

// ReadCommand waits for the next frame and decodes it. The command owns its
// memory: Body one piece, all strings of the header another; clone a string
// that is to outlive the request by long. The error is io.EOF at the end of
// the connection between two frames, a [*FrameError] for a bad frame
// ([ErrTruncated] at an end within one), or the connection's own. After an
// error every further call returns the same.
func (r *Reader) ReadCommand() (*Command, error) { return r.ReadInto(new(Scratch)) }

// Scratch is memory for one command that [Reader.ReadInto] uses again.
type Scratch struct {
	frame        frame
	header, body []byte
}

// ReadInto is ReadCommand into the memory of s. The command and everything in
// it is valid until the next ReadInto with s.
func (r *Reader) ReadInto(s *Scratch) (*Command, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := r.read(s); err != nil {
		r.err = err
		return nil, err
	}
	return &s.frame.Command, nil
}

// Buffered is how many bytes were read ahead. 0 says that no further frame
// is at hand.
func (r *Reader) Buffered() int { return r.w - r.r }

func (r *Reader) read(s *Scratch) error {
	if err := r.need(4); err != nil {
		if errors.Is(err, io.EOF) && r.w > r.r {
			return frameErrorf(ErrTruncated, "connection ended after %d bytes of a frame", r.w-r.r)
		}
		return err
	}
	n, err := frameLength(r.buf[r.r:], r.limit)
	if err != nil {
		return err
	}
	if err := r.need(prefix); err != nil {
		return r.within(err, r.w-r.r, n)
	}
	header, typ, err := headerLength(r.buf[r.r+4:], n)
	if err != nil {
		return err
	}
	r.r += prefix
	if s.header, err = r.take(s.header, header); err != nil {
		return r.within(err, prefix+len(s.header), n)
	}
	if err := s.frame.decodeHeader(s.header, typ); err != nil {
		return err
	}
	body := n - prefix - header
	if s.body, err = r.take(s.body, body); err != nil {
		return r.within(err, prefix+header+len(s.body), n)
	}
	if body > 0 {
		s.frame.Body = s.body
	}
	return nil
}

// within turns an end of the connection within a frame into ErrTruncated.
func (r *Reader) within(err error, got, n int) error {
	if errors.Is(err, io.EOF) {
		return frameErrorf(ErrTruncated, "connection ended after %d bytes of %d", got, n)
	}
	return err
}

// need reads until n bytes, at most minReadBuffer, are buffered.
func (r *Reader) need(n int) error {
	for r.w-r.r < n {
		if err := r.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once into the buffer, which grows while reads fill it.
func (r *Reader) fill() error {
	switch {
	case r.buf == nil:
		r.buf = make([]byte, minReadBuffer)
	case r.r == r.w:
		r.r, r.w = 0, 0
	case r.r > 0:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
	if r.few >= fewReads && r.w < minReadBuffer {
		r.buf = append(make([]byte, 0, minReadBuffer), r.buf[:r.w]...)[:minReadBuffer]
		r.few = 0
	}
	n, err := readSome(r.src, r.buf[r.w:])
	r.w += n
	if err != nil {
		return err
	}
	if len(r.buf) > minReadBuffer && n < minReadBuffer/2 {
		r.few++
	} else {
		r.few = 0
	}
	if r.w == len(r.buf) && len(r.buf) < maxReadBuffer {
		bigger := make([]byte, 4*len(r.buf))
		r.w = copy(bigger, r.buf[r.r:r.w])
		r.buf, r.r = bigger, 0
	}
	return nil
}

// readSome reads at least one byte or returns an error.
func readSome(src io.Reader, b []byte) (int, error) {
	for range 100 {
		n, err := src.Read(b)
		if n > 0 {
			return n, nil // an error will come again
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// take moves the next n bytes into dst's memory or more of it. Memory grows
// with what has arrived, so a length alone takes at most maxAhead.
func (r *Reader) take(dst []byte, n int) ([]byte, error) {
	if n == 0 {
		return dst[:0], nil
	}
	dst = dst[:0]
	if cap(dst) < n {
		dst = make([]byte, 0, min(n, max(maxAhead, 4*r.Buffered())))
	}
	for {
		k := copy(dst[len(dst):min(n, cap(dst))], r.buf[r.r:r.w])
		r.r += k
		dst = dst[:len(dst)+k]
		switch {
		case len(dst) == n:
			return dst, nil
		case len(dst) == cap(dst):
			bigger := make([]byte, len(dst), min(n, 4*cap(dst)))
			copy(bigger, dst)
			dst = bigger
		case r.r < r.w:
			// More was buffered than dst had room for.
		case min(n, cap(dst))-len(dst) >= minReadBuffer:
			// Large: straight from the connection, past the buffer.
			k, err := readSome(r.src, dst[len(dst):min(n, cap(dst))])
			dst = dst[:len(dst)+k]
			if err != nil {
				return dst, err
			}
		default:
			if err := r.fill(); err != nil {
				return dst, err
			}
		}
	}
}
