package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/vfs"
)

// Store is an open data directory: one commit log and everything derived from
// it. All methods may be called concurrently.
//
// Its goroutines: the writer (writer.run); flushLoop, which syncs the log in
// the background in AsyncFlush; offsetLoop, which logs changed consumer
// offsets; checkpointLoop; retentionLoop, when anything may be deleted;
// spaceLoop, which watches the free space.
type Store struct {
	opts       Options
	fs         vfs.FS
	logger     *slog.Logger
	lock       *DirLock
	log        *commitLog
	segs       *segments
	queueFiles *queueFiles
	queues     *queueSet
	tables     *tables
	offsets    *offsetTable
	halves     *halfTable
	pops       *popTable
	clock      *clock
	writer     *writer
	damage     onceSet

	replaying bool         // until Open returns
	rounds    stateRounds  // of state parts, as replay came by them
	damages   []Damage     // found by Open
	visible   atomic.Int64 // address up to which records may be read

	checkpointMu sync.Mutex
	saved        atomic.Uint64 // index of the last checkpoint
	savedAddress atomic.Int64

	flush  chan struct{} // capacity 1: the writer asks for a background sync
	stop   chan struct{} // closed by Close
	loops  sync.WaitGroup
	writes sync.WaitGroup
	once   sync.Once
	closed error
}

// Open opens the store in opts.Dir, creating it when missing: it locks the
// directory, repairs what a crash left in the log, restores the last
// checkpoint and replays the log from there, or from its beginning when the
// checkpoint or a queue file is missing or damaged. When it returns everything
// in the log is dispatched and synced.
//
// Errors: ErrLocked, ErrNewerFormat, or what the file system answered. Damage
// is repaired and reported (Damages), never an error.
func Open(opts Options) (*Store, error) {
	opts = opts.withDefaults()
	lock := opts.Lock
	if lock == nil {
		if opts.Dir == "" {
			return nil, errors.New("store: no data directory given")
		}
		var err error
		if lock, err = LockDir(opts.Dir); err != nil {
			return nil, err
		}
	}
	s := newStore(opts, lock)
	if err := s.load(); err != nil {
		s.segs.files.close()
		s.queueFiles.files.close()
		lock.Close()
		return nil, fmt.Errorf("open store %s: %w", opts.Dir, err)
	}
	// Before the first send: one taken now would use up the reserve that keeps
	// deliveries going.
	s.lookAtSpace()
	s.writes.Go(s.writer.run)
	s.loops.Go(s.offsetLoop)
	s.loops.Go(s.checkpointLoop)
	s.loops.Go(s.spaceLoop)
	if opts.Retention.deletes() {
		s.loops.Go(s.retentionLoop)
	}
	if opts.Flush == AsyncFlush {
		s.loops.Go(s.flushLoop)
	}
	return s, nil
}

func newStore(opts Options, lock *DirLock) *Store {
	logDir := filepath.Join(opts.Dir, "commitlog")
	s := &Store{
		opts: opts, fs: opts.FS, logger: opts.Logger, lock: lock,
		segs:       newSegments(opts.FS, logDir),
		queueFiles: newQueueFiles(opts.FS),
		flush:      make(chan struct{}, 1),
		stop:       make(chan struct{}),
	}
	open := opts.openWAL
	if open == nil {
		open = openWAL
	}
	s.log = &commitLog{
		fs: opts.FS, dir: logDir, segmentBytes: opts.SegmentBytes, logger: opts.Logger, openWAL: open, segs: s.segs,
		epochs: &epochFile{fs: opts.FS, dir: opts.Dir, path: filepath.Join(opts.Dir, "epoch")},
	}
	s.writer = &writer{s: s, log: s.log, wake: make(chan struct{}, 1)}
	s.forget()
	return s
}

// forget empties everything derived.
func (s *Store) forget() {
	s.queues = newQueueSet(s.queueFiles, filepath.Join(s.opts.Dir, "consumequeue"))
	s.tables = newTables()
	s.offsets = newOffsetTable()
	s.halves = newHalfTable()
	s.pops = newPopTable()
	s.rounds = stateRounds{}
	s.clock = &clock{wall: s.opts.Now}
}

// load brings log and derived state into agreement.
func (s *Store) load() error {
	began := time.Now()
	s.replaying = true
	c := s.loadCheckpoint()
	err := errCheckpointMismatch
	if c != nil {
		err = s.replay(position{c.Index, c.Address}, c.CRC)
		if errors.Is(err, errCheckpointMismatch) {
			s.logger.Warn("checkpoint not usable: deriving everything from the log", "file", s.checkpointPath(), "error", err)
		}
	}
	if errors.Is(err, errCheckpointMismatch) {
		c = nil
		s.queueFiles.files.close()
		if err := s.fs.RemoveAll(filepath.Join(s.opts.Dir, "consumequeue")); err != nil {
			return err
		}
		s.forget()
		err = s.replay(position{}, 0)
	}
	if err != nil {
		return err
	}
	s.replaying = false
	if err := s.settleFront(c == nil); err != nil {
		return err
	}
	for _, q := range s.queues.all() {
		_, q.assigned = q.bounds()
	}
	for _, l := range s.queues.allLevels() {
		l.assigned = l.headNow()
	}
	s.clampOffsets()
	s.clock.start(s.logger)
	s.visible.Store(s.log.end.address)
	from := int64(0)
	if c != nil {
		from = c.Address
		s.saved.Store(c.Index)
		s.savedAddress.Store(c.Address)
	}
	s.logger.Info("store open", "dir", s.opts.Dir, "flush", s.opts.Flush.String(), "records", s.log.end.index-1, "log_bytes", s.log.end.address,
		"replayed_bytes", s.log.end.address-from, "damaged_ranges", len(s.damages), "took", time.Since(began).Round(time.Millisecond))
	return nil
}

func (s *Store) replay(from position, crc uint32) error {
	r := &recovery{log: s.log, start: from, crc: crc, apply: func(h *header, payload []byte) error {
		err := s.dispatch(h, payload, nil)
		var io *fs.PathError
		if err != nil && !errors.Is(err, ErrNewerFormat) && !errors.As(err, &io) {
			// The checksum vouches for it, so it was written like this: report
			// it and go on with the next one.
			s.logger.Error("a record of the log cannot be applied and is passed over", "index", h.index, "error", err)
			return nil
		}
		return err
	}}
	err := r.run()
	if err == nil {
		s.damages = r.damages
	}
	return err
}

// clampOffsets brings consumer offsets back into their queues, which are
// shorter than they were when the log lost its tail.
func (s *Store) clampOffsets() {
	for group, topics := range s.offsets.all {
		for topic, queues := range topics {
			for id, v := range queues {
				_, next, _ := s.Offsets(topic, id)
				if v > next && len(s.damages) > 0 {
					s.logger.Warn("consumer offset beyond the queue's end, set back to it", "group", group, "topic", topic, "queue", id, "offset", v, "end", next)
					queues[id] = next
				}
			}
		}
	}
}

// Damages returns what Open found damaged in the log, in order.
func (s *Store) Damages() []Damage { return s.damages }

// Healthy returns nil, or why sends are refused now: ErrDiskFull,
// ErrUnavailable, ErrClosed.
func (s *Store) Healthy() error {
	select {
	case <-s.stop:
		return ErrClosed
	default:
		return s.writer.refusing()
	}
}

// flushLoop syncs the log in the background (AsyncFlush).
func (s *Store) flushLoop() {
	tick := time.NewTicker(s.opts.FlushInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.flush:
		case <-tick.C:
		case <-s.stop:
			return
		}
		if err := s.log.sync(); err != nil {
			s.writer.poke() // which finds the failure and repairs
		}
	}
}

// spaceEvery is how often the free space is looked at: also how long sends
// stay refused after the disk was full, before one may try again.
const spaceEvery = 200 * time.Millisecond

// spaceLoop refuses sends while the file system has less than MinFreeBytes.
func (s *Store) spaceLoop() {
	tick := time.NewTicker(spaceEvery)
	defer tick.Stop()
	for ; ; s.lookAtSpace() {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
	}
}

func (s *Store) lookAtSpace() {
	w := s.writer
	if s.opts.MinFreeBytes < 0 {
		w.full.Store(nil)
		return
	}
	free, err := s.fs.Free(s.opts.Dir)
	if err != nil {
		return
	}
	was := w.full.Load()
	if free >= s.opts.MinFreeBytes {
		if was != nil {
			w.full.Store(nil)
			s.logger.Info("disk has room again: sends are taken", "free", free)
		}
		return
	}
	w.full.Store(&refusal{fmt.Errorf("%w: %d bytes free, sends need %d (deliveries go on)", ErrDiskFull, free, s.opts.MinFreeBytes)})
	if was == nil {
		s.logger.Error("disk is nearly full: sends are refused, deliveries go on", "free", free, "needed", s.opts.MinFreeBytes)
	}
}

// Close stops taking appends, writes and answers those that wait, makes a last
// checkpoint, syncs the log and releases the directory. Appends from then on
// get ErrClosed. Idempotent: later calls wait for the first and return what it
// did.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.stop)
		s.loops.Wait() // the last consumer offsets are logged here
		s.writer.close()
		s.writes.Wait()
		var errs []error
		if s.log.wal != nil {
			c, queues := s.snapshot()
			errs = append(errs, s.saveCheckpoint(c, queues))
		}
		errs = append(errs, s.log.close())
		s.queueFiles.files.close()
		errs = append(errs, s.lock.Close())
		s.closed = errors.Join(errs...)
	})
	return s.closed
}

// onceSet remembers a bounded number of texts that were reported.
type onceSet struct {
	mu   sync.Mutex
	seen map[string]bool
}

const maxRemembered = 4096

func (o *onceSet) first(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[text] {
		return false
	}
	if o.seen == nil || len(o.seen) >= maxRemembered {
		o.seen = map[string]bool{}
	}
	o.seen[text] = true
	return true
}
