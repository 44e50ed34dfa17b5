package store

import "sync"

// readBuf is a reusable buffer for records read from the log.
type readBuf struct{ b []byte }

// maxPooled bounds the buffers kept for reuse; larger ones go to the collector.
const maxPooled = 1 << 20

var readBufs = sync.Pool{New: func() any { return new(readBuf) }}

func getBuf(n int) *readBuf {
	r := readBufs.Get().(*readBuf)
	if cap(r.b) < n {
		r.b = make([]byte, n, max(n, 16<<10))
	}
	r.b = r.b[:n]
	return r
}

func putBuf(r *readBuf) {
	if r != nil && cap(r.b) <= maxPooled {
		readBufs.Put(r)
	}
}

// entryBuf holds the queue entries of one Read.
type entryBuf struct{ read, taken []entry }

var entryPool = sync.Pool{New: func() any { return new(entryBuf) }}
