package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidemq/tidemq/internal/vfs"
)

// segment is one file of the commit log: entries from WAL index first on, the
// first of them at log address base. A file holds nothing but entries, so the
// entry at address a stands at byte a-base.
type segment struct {
	first uint64
	base  int64
	path  string
}

// segmentName is the WAL library's name of the segment that begins at index.
func segmentName(index uint64) string { return fmt.Sprintf("%020d", index) }

// parseSegmentName returns the first index that a file name stands for.
func parseSegmentName(name string) (uint64, bool) {
	if len(name) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && n > 0
}

// segments finds and reads records by log address. Reads are concurrent and
// never take the WAL's lock; the writer alone adds and replaces.
type segments struct {
	fs    vfs.FS
	dir   string
	files *fileCache

	// unstable is true while the log is being recovered: bytes above the last
	// synced address may be missing from their file for a moment, which is no
	// damage.
	unstable atomic.Bool

	mu   sync.RWMutex
	list []segment // by first index, and by base
}

const maxOpenSegments = 256

func newSegments(fs vfs.FS, dir string) *segments {
	return &segments{fs: fs, dir: dir, files: newFileCache(fs, os.O_RDONLY, maxOpenSegments)}
}

func (s *segments) add(first uint64, base int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, segment{first: first, base: base, path: filepath.Join(s.dir, segmentName(first))})
}

// set replaces the whole table, after a repair.
func (s *segments) set(list []segment) {
	s.mu.Lock()
	s.list = list
	s.mu.Unlock()
	s.files.close()
}

// last returns the tail segment; the table is never empty once the log is open.
func (s *segments) last() segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.list[len(s.list)-1]
}

// front is the log address where what is left of the log begins.
func (s *segments) front() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.list) == 0 {
		return 0
	}
	return s.list[0].base
}

func (s *segments) snapshot() []segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]segment(nil), s.list...)
}

// find returns the segment that holds an address.
func (s *segments) find(address int64) (segment, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].base > address }) - 1
	// Empty segments share their base with the next one: the last of equals
	// holds the bytes, and Search has found it.
	if i < 0 || address < 0 {
		return segment{}, false
	}
	return s.list[i], true
}

// readAt fills b from the log. A range never crosses a segment's end unless
// the log is damaged, which is an error.
func (s *segments) readAt(b []byte, address int64) error {
	seg, ok := s.find(address)
	if !ok {
		return ErrNotFound
	}
	f, err := s.files.get(seg.path)
	if err != nil {
		return err
	}
	defer s.files.put(f)
	n, err := f.ReadAt(b, address-seg.base)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return &CorruptionError{File: seg.path, Offset: address - seg.base, Reason: "record reaches past the end of its segment"}
	}
	return err
}

// place turns an address into file and offset for messages to people.
func (s *segments) place(address int64) (file string, offset int64) {
	seg, ok := s.find(address)
	if !ok {
		return s.dir, address
	}
	return seg.path, address - seg.base
}

// payloadLen returns the length of a message's whole entry in the log.
func messageEntryLen(size int32) int { return entryLen(headerSize + int(size)) }

// checkMessage verifies that b, read at address, is the entry of a record with
// a message of size bytes, and returns header and message. Damage is a
// *CorruptionError.
func (s *segments) checkMessage(b []byte, address int64, size int32) (header, []byte, error) {
	h, payload, _, err := decodeEntry(b)
	if err == nil && (h.address != address || len(payload) != int(size)) {
		err = errBadLength
	}
	if err != nil {
		file, off := s.place(address)
		return h, nil, &CorruptionError{File: file, Offset: off, Reason: err.Error()}
	}
	return h, payload, nil
}

// readEntry reads and verifies the entry at an address whose length is not
// known. ErrNotFound when no record starts there.
func (s *segments) readEntry(address, end int64) (header, []byte, error) {
	if address < 0 || address >= end {
		return header{}, nil, ErrNotFound
	}
	probe := make([]byte, min(int64(10+headerSize), end-address))
	if err := s.readAt(probe, address); err != nil {
		// Near the segment's end a probe may reach past it: then no record of
		// at least a header's size starts here either.
		var c *CorruptionError
		if errors.As(err, &c) {
			return s.readShort(address)
		}
		return header{}, nil, err
	}
	return s.readProbed(probe, address)
}

// readShort is readEntry for the last small record of a segment.
func (s *segments) readShort(address int64) (header, []byte, error) {
	probe := make([]byte, 1+headerSize)
	if err := s.readAt(probe, address); err != nil {
		return header{}, nil, ErrNotFound
	}
	return s.readProbed(probe, address)
}

func (s *segments) readProbed(probe []byte, address int64) (header, []byte, error) {
	n, p := binary.Uvarint(probe)
	if p <= 0 || n < headerSize || n > maxRecord || len(probe) < p+20 {
		return header{}, nil, ErrNotFound
	}
	b := make([]byte, p+int(n))
	if err := s.readAt(b, address); err != nil {
		return header{}, nil, ErrNotFound
	}
	h, payload, _, err := decodeEntry(b)
	if err != nil || h.address != address {
		return header{}, nil, ErrNotFound
	}
	return h, payload, nil
}
