package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"time"
)

// A checkpoint says up to where log, queue files and tables are durable
// together: a start replays the log from there. It is made beside the writer,
// which only lends its goroutine for the snapshot. Anything wrong with it, or
// with the files it speaks of, and everything is derived from the log again.
//
// The file is one line "TMQCKPT1 <crc32c of the rest, hex>" and JSON.
type checkpoint struct {
	// Index and Address are where replay begins; CRC is the checksum of the
	// record before (Index-1), by which the log is recognised.
	Index   uint64 `json:"index"`
	Address int64  `json:"address"`
	CRC     uint32 `json:"crc"`
	// StoreMs is the greatest store time so far.
	StoreMs int64         `json:"storeMs"`
	Topics  []Topic       `json:"topics"`
	Groups  []Group       `json:"groups"`
	KVs     []KVConfig    `json:"kvConfigs,omitempty"`
	Offsets []savedOffset `json:"offsets"`
	Queues  []savedQueue  `json:"queues"`
	Levels  []savedLevel  `json:"levels"`
	// Halves are the transactions that have not ended.
	Halves []Half `json:"halves,omitempty"`
	// Pops are what groups have popped.
	Pops []savedPops `json:"pops,omitempty"`
}

type savedOffset struct {
	Group   string `json:"g"`
	Topic   string `json:"t"`
	QueueID int32  `json:"q"`
	Offset  int64  `json:"o"`
}

type savedQueue struct {
	Topic string `json:"t"`
	ID    int32  `json:"q"`
	Min   int64  `json:"min"`
	Next  int64  `json:"next"`
}

type savedLevel struct {
	DelayMs int64 `json:"delayMs"`
	Head    int64 `json:"head"`
	Min     int64 `json:"min"`
	Next    int64 `json:"next"`
}

const checkpointMagic = "TMQCKPT1"

func (c *checkpoint) encode() ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, "%s %08x\n", checkpointMagic, crc32.Checksum(body, castagnoli))
	return append(head, body...), nil
}

func decodeCheckpoint(b []byte) (*checkpoint, error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	want := fmt.Sprintf("%s %08x", checkpointMagic, crc32.Checksum(body, castagnoli))
	if !ok || string(head) != want {
		return nil, errBadChecksum
	}
	c := new(checkpoint)
	if err := json.Unmarshal(body, c); err != nil {
		return nil, err
	}
	if c.Index < 2 || c.Address <= 0 {
		return nil, errBadLength
	}
	return c, nil
}

func (s *Store) checkpointPath() string { return filepath.Join(s.opts.Dir, "checkpoint") }

// loadCheckpoint restores tables and queues from the checkpoint. It returns
// nil when there is none to go by, with nothing restored.
func (s *Store) loadCheckpoint() *checkpoint {
	b, err := readFile(s.fs, s.checkpointPath(), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c *checkpoint
	if err == nil {
		c, err = decodeCheckpoint(b)
	}
	if err == nil {
		err = s.restore(c)
	}
	if err != nil {
		s.logger.Warn("checkpoint not usable: deriving everything from the log", "file", s.checkpointPath(), "error", err)
		return nil
	}
	return c
}

func (s *Store) restore(c *checkpoint) error {
	s.tables.restore(c.Topics, c.Groups, c.KVs)
	s.offsets.restore(c.Offsets)
	for _, q := range c.Queues {
		if err := s.queues.get(q.Topic, q.ID).restore(q.Min, q.Next); err != nil {
			return err
		}
	}
	for _, l := range c.Levels {
		lv := s.queues.level(l.DelayMs)
		lv.head = l.Head
		if err := lv.q.restore(l.Min, l.Next); err != nil {
			return err
		}
	}
	for _, h := range c.Halves {
		s.halves.put(h)
	}
	s.pops.restore(c.Pops)
	s.clock.seen(c.StoreMs)
	return nil
}

// snapshot takes the state as of the end of the last group. On the writer's
// goroutine.
func (s *Store) snapshot() (*checkpoint, []*queue) {
	c := &checkpoint{
		Index: s.log.end.index, Address: s.log.end.address, CRC: s.log.lastCRC,
		StoreMs: s.clock.last.Load() / int64(time.Millisecond),
		Topics:  s.tables.allTopics(), Groups: s.tables.allGroups(), KVs: s.tables.allKVs(),
		Halves: s.halves.all(), Pops: s.pops.save(),
	}
	s.offsets.mu.RLock()
	for group, topics := range s.offsets.all {
		for topic, queues := range topics {
			for q, v := range queues {
				c.Offsets = append(c.Offsets, savedOffset{group, topic, q, v})
			}
		}
	}
	s.offsets.mu.RUnlock()
	all := s.queues.all()
	for _, q := range all {
		if q.topic == "" {
			continue
		}
		minimum, next := q.bounds()
		c.Queues = append(c.Queues, savedQueue{q.topic, q.id, minimum, next})
	}
	for _, l := range s.queues.allLevels() {
		minimum, next := l.q.bounds()
		c.Levels = append(c.Levels, savedLevel{l.delayMs, l.headNow(), minimum, next})
	}
	return c, all
}

// checkpoint makes one: what was dispatched when it began is made durable,
// log first, then the queue files, then the checkpoint that speaks of them.
func (s *Store) checkpoint() error {
	s.checkpointMu.Lock()
	defer s.checkpointMu.Unlock()
	var c *checkpoint
	var queues []*queue
	if err := s.writer.call(func() { c, queues = s.snapshot() }); err != nil {
		return err
	}
	return s.saveCheckpoint(c, queues)
}

// syncOneByOne is how many queues a checkpoint syncs file by file; more of
// them by one sync of the whole file system (9 000 dirty files took 0.15 s
// that way and 2.3 s one by one).
const syncOneByOne = 64

func (s *Store) saveCheckpoint(c *checkpoint, queues []*queue) error {
	if c.Index < 2 || c.Index == s.saved.Load() {
		return nil
	}
	if err := s.log.sync(); err != nil {
		return err
	}
	var dirty []*queue
	for _, q := range queues {
		if q.isDirty() {
			if err := q.flush(); err != nil {
				return fmt.Errorf("consume queue %s: %w", q.dir, err)
			}
			dirty = append(dirty, q)
		}
		q.release()
	}
	able := false
	if len(dirty) > syncOneByOne {
		var err error
		if able, err = s.syncFileSystem(); err != nil {
			return err
		}
	}
	if able {
		for _, q := range dirty {
			q.synced()
		}
	} else {
		for _, q := range dirty {
			if err := q.syncChunks(); err != nil {
				return fmt.Errorf("consume queue %s: %w", q.dir, err)
			}
		}
	}
	b, err := c.encode()
	if err != nil {
		return err
	}
	if err := writeFileSync(s.fs, s.opts.Dir, s.checkpointPath(), b); err != nil {
		return err
	}
	s.saved.Store(c.Index)
	s.savedAddress.Store(c.Address)
	return s.dropChunks(c)
}

// dropChunks deletes queue files that no checkpoint speaks of any more.
func (s *Store) dropChunks(c *checkpoint) error {
	var errs []error
	for _, saved := range c.Queues {
		if q := s.queues.lookup(saved.Topic, saved.ID); q != nil && saved.Min >= chunkEntries {
			errs = append(errs, q.dropChunks(saved.Min))
		}
	}
	for _, saved := range c.Levels {
		if saved.Min >= chunkEntries {
			errs = append(errs, s.queues.level(saved.DelayMs).q.dropChunks(saved.Min))
		}
	}
	return errors.Join(errs...)
}

// checkpointLoop makes a checkpoint each CheckpointInterval in which something
// was written, or CheckpointBytes of log, until the store closes.
func (s *Store) checkpointLoop() {
	const look = time.Second
	tick := time.NewTicker(look)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		grown := s.visible.Load() - s.savedAddress.Load()
		due := grown > 0 && time.Since(last) >= s.opts.CheckpointInterval
		if !due && grown < s.opts.CheckpointBytes && s.queueFiles.waiting.Load() < maxWaiting {
			continue
		}
		if err := s.checkpoint(); err != nil && !errors.Is(err, ErrClosed) {
			s.logger.Warn("checkpoint failed; it will be tried again", "error", err)
		}
		last = time.Now()
	}
}

// maxWaiting bounds the queue entries that wait in memory.
const maxWaiting = 16 << 20
