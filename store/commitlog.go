package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/tidwall/wal"

	"github.com/tidemq/tidemq/internal/vfs"
)

// walLog is what the commit log uses of github.com/tidwall/wal. It never calls
// Read (a race, and whole segments in memory), Truncate… or Sync (both hold
// the writer's lock); tests put faults between.
type walLog interface {
	WriteBatch(b *wal.Batch) error
	LastIndex() (uint64, error)
	Close() error
}

func openWAL(dir string, segmentBytes int) (walLog, error) {
	return wal.Open(dir, &wal.Options{
		NoSync:           true, // synced here, through a descriptor of our own
		SegmentSize:      segmentBytes,
		SegmentCacheSize: 1,
		NoCopy:           true,
		AllowEmpty:       true,
		DirPerms:         0o750,
		FilePerms:        0o640,
	})
}

// position is a place between two records: the next index, and the address
// where the next entry begins.
type position struct {
	index   uint64
	address int64
}

// commitLog appends groups of records and syncs them. Only the writer's
// goroutine stages, commits and recovers; sync may run beside it.
type commitLog struct {
	fs           vfs.FS
	dir          string
	segmentBytes int
	logger       *slog.Logger
	openWAL      func(dir string, segmentBytes int) (walLog, error)
	segs         *segments
	epochs       *epochFile

	// The writer's own.
	wal       walLog
	epoch     uint32
	end       position // where the next group begins
	segBytes  int64    // bytes in the tail segment
	lastCRC   uint32   // checksum of the record before end
	batch     wal.Batch
	group     []byte // the staged group as the WAL will write it
	staged    position
	stagedCRC uint32
	rolls     []position // segments that the staged group begins

	// syncMu is held through a whole sync and a whole recover, and taken before
	// mu: a sync that succeeds after another one failed proves nothing.
	syncMu sync.Mutex

	mu     sync.Mutex
	tail   *tailFile // the tail segment, opened by us for syncs
	rolled bool      // a segment's name in the directory is not synced yet
	synced position  // everything before it is durable
	recent []byte    // the bytes [synced, end): what a failed sync would lose
	ended  position  // end as the syncer may see it
	failed error     // a background sync failed: the writer must recover
}

// tailFile is a segment opened for syncs, closed by the last of its users.
type tailFile struct {
	vfs.File
	refs int // guarded by commitLog.mu
}

// begin starts a new group.
func (c *commitLog) begin() {
	c.batch.Clear()
	c.group = c.group[:0]
	c.rolls = c.rolls[:0]
	c.staged = c.end
}

// stage adds a record to the group and returns its address; epoch, index and
// address of h are set here. The WAL rolls to a new segment as it did in
// WriteBatch of v1.2.1: before a group when the tail is over its size, and
// after the entry that fills it.
func (c *commitLog) stage(h *header, payload []byte) int64 {
	if len(c.group) == 0 {
		if c.segBytes > int64(c.segmentBytes) {
			c.rolls = append(c.rolls, c.staged)
		}
	}
	h.epoch, h.index, h.address = c.epoch, c.staged.index, c.staged.address
	at := len(c.group)
	c.group = binary.AppendUvarint(c.group, uint64(headerSize+len(payload)))
	rec := len(c.group)
	c.group = appendRecord(c.group, h, payload)
	c.batch.Write(h.index, c.group[rec:])
	c.stagedCRC = h.crc
	c.staged.index++
	c.staged.address += int64(len(c.group) - at)
	base := c.tailBase()
	if c.staged.address-base >= int64(c.segmentBytes) {
		c.rolls = append(c.rolls, c.staged)
	}
	return h.address
}

// tailBase is the address of the segment that the staged group is in now.
func (c *commitLog) tailBase() int64 {
	if n := len(c.rolls); n > 0 {
		return c.rolls[n-1].address
	}
	return c.end.address - c.segBytes
}

// commit writes the group and, with sync, makes it durable. After an error
// recover is due; whether the group is in the log is then told by end, which
// moves past a group that was written whole.
func (c *commitLog) commit(sync bool) error {
	if len(c.group) == 0 {
		return nil
	}
	if err := c.wal.WriteBatch(&c.batch); err != nil {
		// Leaving a segment, the WAL syncs it: that failure is a sync's.
		var path *fs.PathError
		if errors.As(err, &path) && path.Op == "sync" {
			return &syncError{err}
		}
		return &writeError{err}
	}
	base := c.tailBase()
	for _, r := range c.rolls {
		c.segs.add(r.index, r.address)
	}
	rolled := len(c.rolls) > 0
	c.end = c.staged
	c.lastCRC = c.stagedCRC
	c.segBytes = c.end.address - base
	var err error
	if rolled {
		err = c.openTail()
	}
	c.mu.Lock()
	c.rolled = c.rolled || rolled
	c.ended = c.end
	c.recent = append(c.recent, c.group...)
	c.mu.Unlock()
	if err != nil {
		return &syncError{err}
	}
	if !sync {
		return nil
	}
	return c.sync()
}

// writeError and syncError say which half of a commit failed.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write to the commit log: " + e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

type syncError struct{ err error }

func (e *syncError) Error() string { return "sync of the commit log: " + e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

// syncFailure returns what a failed sync answered, nil when err is none.
func syncFailure(err error) error {
	var bad *syncError
	if errors.As(err, &bad) {
		return bad.err
	}
	return nil
}

// openTail opens the tail segment for syncs, in place of the one before.
func (c *commitLog) openTail() error {
	f, err := c.fs.OpenFile(c.segs.last().path, os.O_RDWR, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropTailLocked()
	if err == nil {
		c.tail = &tailFile{File: f, refs: 1}
	}
	return err
}

// dropTailLocked forgets the tail; a sync in hand keeps the file open.
func (c *commitLog) dropTailLocked() {
	if c.tail != nil {
		c.releaseTailLocked(c.tail)
		c.tail = nil
	}
}

func (c *commitLog) releaseTailLocked(t *tailFile) {
	if t.refs--; t.refs == 0 {
		t.Close()
	}
}

// sync makes everything committed so far durable: segments before the tail
// were synced when the WAL left them. May be called beside the writer. A
// failure is kept until the writer has recovered from it.
func (c *commitLog) sync() error {
	c.syncMu.Lock()
	defer c.syncMu.Unlock()
	c.mu.Lock()
	if c.failed != nil {
		err := c.failed
		c.mu.Unlock()
		return &syncError{err}
	}
	t, upTo, rolled := c.tail, c.ended, c.rolled
	if upTo == c.synced {
		c.mu.Unlock()
		return nil
	}
	if t == nil { // between a failure and the end of recover
		c.mu.Unlock()
		return &syncError{ErrUnavailable}
	}
	t.refs++
	c.rolled = false
	c.mu.Unlock()

	err := t.Sync()
	if err == nil && rolled {
		err = c.fs.SyncDir(c.dir)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseTailLocked(t)
	if err != nil {
		c.rolled = c.rolled || rolled
		if c.failed == nil {
			c.failed = err
		}
		return &syncError{err}
	}
	if upTo.address > c.synced.address {
		n := upTo.address - c.synced.address
		c.recent = append(c.recent[:0], c.recent[min(n, int64(len(c.recent))):]...)
		c.synced = upTo
	}
	return nil
}

// unsynced returns how many bytes a loss of power would cost now, and the
// failure of a background sync.
func (c *commitLog) unsynced() (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended.address - c.synced.address, c.failed
}

// syncedAddress is where the durable part of the log ends.
func (c *commitLog) syncedAddress() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced.address
}

// recover brings WAL, files and memory into agreement after a failed commit
// or a failed sync, and opens the WAL again. It is the one way to do so and
// may be called again until it succeeds.
//
// After a failed write the log is cut back to where the group began. A failed
// sync is never trusted again, nor the page cache behind it: what lies above
// the last synced address goes from memory into a fresh segment file, synced
// under another name before it takes its place; only then are the old bytes
// cut off. A crash in between leaves segments that overlap, and a segment ends
// where the next one begins.
func (c *commitLog) recover(cause error) error {
	c.syncMu.Lock()
	defer c.syncMu.Unlock()
	c.segs.unstable.Store(true)
	if c.wal != nil {
		// Its own sync fails again more often than not; it is done with.
		_ = c.wal.Close()
		c.wal = nil
	}
	c.mu.Lock()
	c.dropTailLocked()
	if c.failed == nil {
		c.failed = syncFailure(cause)
	}
	rewrite := c.failed != nil
	recent, synced := c.recent, c.synced
	c.mu.Unlock()

	var list []segment
	var err error
	if rewrite {
		list, err = c.rewriteRecent(synced, recent)
	} else {
		list, err = c.cutBack(c.end)
	}
	if err != nil {
		return err
	}
	c.segs.set(list)
	if err := c.reopenWAL(); err != nil {
		return err
	}
	c.mu.Lock()
	c.failed = nil
	c.rolled = false
	if rewrite {
		c.synced, c.recent = c.end, c.recent[:0]
	}
	c.ended = c.end
	c.mu.Unlock()
	c.segs.unstable.Store(false)
	return nil
}

// cutBack shortens the log to end and syncs that, so that what was refused
// cannot come back. A failing sync turns it into a case for rewriteRecent.
func (c *commitLog) cutBack(end position) ([]segment, error) {
	seg := c.segs.last()
	if err := c.removeSegmentsAfter(seg.first); err != nil {
		return nil, err
	}
	if err := c.truncate(seg.path, end.address-seg.base); err != nil {
		if failed := syncFailure(err); failed != nil {
			c.mu.Lock()
			c.failed = failed
			c.mu.Unlock()
		}
		return nil, err
	}
	return c.segs.snapshot(), nil
}

// truncate cuts a segment file to size bytes and syncs it and its name.
func (c *commitLog) truncate(path string, size int64) error {
	f, err := c.fs.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return &syncError{err}
	}
	if err := c.fs.SyncDir(c.dir); err != nil {
		return &syncError{err}
	}
	return nil
}

// dropFront deletes the log's first segment, which begins at index first. The
// WAL has only its tail open and looks at no other. Names go one by one, each
// synced, so that a loss of power cannot leave a gap in the middle.
func (c *commitLog) dropFront(first uint64) error {
	c.syncMu.Lock() // recover goes by the list it began with
	c.segs.mu.Lock()
	var path string
	if len(c.segs.list) > 1 && c.segs.list[0].first == first {
		path = c.segs.list[0].path
		c.segs.list = append([]segment(nil), c.segs.list[1:]...)
	}
	c.segs.mu.Unlock()
	c.syncMu.Unlock()
	if path == "" {
		return nil
	}
	c.segs.files.forget(path)
	if err := c.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.fs.SyncDir(c.dir)
}

// removeSegmentsAfter unlinks segments whose first index is above first: the
// WAL began them for a group that does not count.
func (c *commitLog) removeSegmentsAfter(first uint64) error {
	ents, err := c.fs.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, e := range ents {
		if n, ok := parseSegmentName(e.Name()); ok && n > first {
			if err := c.fs.Remove(filepath.Join(c.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// rewriteRecent puts the bytes above the synced position into a fresh segment
// and cuts them off the old ones.
func (c *commitLog) rewriteRecent(synced position, recent []byte) ([]segment, error) {
	var list []segment
	for _, s := range c.segs.snapshot() {
		if s.first < synced.index {
			list = append(list, s)
		}
	}
	fresh := segment{first: synced.index, base: synced.address, path: filepath.Join(c.dir, segmentName(synced.index))}
	if err := writeFileSync(c.fs, c.dir, fresh.path, recent); err != nil {
		return nil, err
	}
	if err := c.removeSegmentsAfter(fresh.first); err != nil {
		return nil, err
	}
	if n := len(list); n > 0 {
		// Its bytes below are durable already; whether the cut is does not
		// matter, since a segment ends where the next one begins.
		err := c.truncate(list[n-1].path, synced.address-list[n-1].base)
		if err != nil && syncFailure(err) == nil {
			return nil, err
		}
	}
	if err := c.fs.SyncDir(c.dir); err != nil {
		return nil, err
	}
	return append(list, fresh), nil
}

// reopenWAL opens the WAL on files that are in order and checks that it agrees
// with us on where the log ends. The epoch is raised first.
func (c *commitLog) reopenWAL() error {
	epoch, err := c.epochs.raise(c.epoch)
	if err != nil {
		return fmt.Errorf("raise the epoch: %w", err)
	}
	w, err := c.openWAL(c.dir, c.segmentBytes)
	if err != nil {
		return fmt.Errorf("open the WAL: %w", err)
	}
	last, err := w.LastIndex()
	if err == nil && last+1 != c.end.index {
		err = fmt.Errorf("the WAL ends at index %d, the commit log at %d", last, c.end.index-1)
	}
	if err == nil {
		err = c.openTail()
	}
	if err != nil {
		w.Close()
		return err
	}
	c.segBytes = c.end.address - c.segs.last().base
	c.epoch, c.wal = epoch, w
	return nil
}

// close syncs and closes the log.
func (c *commitLog) close() error {
	var errs []error
	if c.wal != nil {
		errs = append(errs, c.sync(), c.wal.Close())
		c.wal = nil
	}
	c.mu.Lock()
	c.dropTailLocked()
	c.mu.Unlock()
	c.segs.files.close()
	return errors.Join(errs...)
}
