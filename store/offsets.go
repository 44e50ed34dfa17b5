package store

import (
	"encoding/binary"
	"errors"
	"maps"
	"sync"
	"time"
)

// offsetsEvery is how often changed consumer offsets go to the log: what a
// kill can make a consumer read again.
const offsetsEvery = 100 * time.Millisecond

// offsetKey names one consumer offset.
type offsetKey struct {
	group, topic string
	queueID      int32
}

// offsetTable holds the committed consumer offsets: live values, and which of
// them the log does not hold yet.
type offsetTable struct {
	mu    sync.RWMutex
	all   map[string]map[string]map[int32]int64 // group, topic, queue
	dirty map[offsetKey]int64
}

func newOffsetTable() *offsetTable {
	return &offsetTable{all: map[string]map[string]map[int32]int64{}, dirty: map[offsetKey]int64{}}
}

func (t *offsetTable) setLocked(k offsetKey, offset int64) {
	topics := t.all[k.group]
	if topics == nil {
		topics = map[string]map[int32]int64{}
		t.all[k.group] = topics
	}
	queues := topics[k.topic]
	if queues == nil {
		queues = map[int32]int64{}
		topics[k.topic] = queues
	}
	queues[k.queueID] = offset
}

// commit notes a live value; false when it is the one already held.
func (t *offsetTable) commit(k offsetKey, offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.all[k.group][k.topic][k.queueID]; ok && old == offset {
		return
	}
	t.setLocked(k, offset)
	t.dirty[k] = offset
}

func (t *offsetTable) get(k offsetKey) (int64, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.all[k.group][k.topic][k.queueID]
	return v, ok
}

// takeDirty returns the values that changed since the last call, encoded; nil
// when there are none. putBack undoes it when they could not be stored.
func (t *offsetTable) takeDirty() (map[offsetKey]int64, []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.dirty) == 0 {
		return nil, nil
	}
	d := t.dirty
	t.dirty = map[offsetKey]int64{}
	return d, encodeOffsets(d)
}

func (t *offsetTable) putBack(d map[offsetKey]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, v := range d {
		// A newer value, or a deletion, meanwhile is the truth.
		if cur, ok := t.all[k.group][k.topic][k.queueID]; ok && cur == v {
			t.dirty[k] = v
		}
	}
}

// applyRecord sets what an offsets record says. Live commits are set already
// when their record is dispatched and may be newer, so that only replay and
// resets apply it.
func (t *offsetTable) applyRecord(payload []byte) error {
	d, err := decodeOffsets(payload)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, v := range d {
		t.setLocked(k, v)
		delete(t.dirty, k)
	}
	return nil
}

// restore sets what was true at some point of the log.
func (t *offsetTable) restore(list []savedOffset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range list {
		t.setLocked(offsetKey{o.Group, o.Topic, o.QueueID}, o.Offset)
	}
}

// dropTopic and dropGroup forget what belongs to a deleted topic or group.
func (t *offsetTable) dropTopic(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topics := range t.all {
		delete(topics, topic)
	}
	maps.DeleteFunc(t.dirty, func(k offsetKey, _ int64) bool { return k.topic == topic })
}

func (t *offsetTable) dropGroup(group string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, group)
	maps.DeleteFunc(t.dirty, func(k offsetKey, _ int64) bool { return k.group == group })
}

// The payload of an offsets record: uvarint count, then for each offset group
// and topic (uvarint length and bytes), queue id and offset as uvarints. Bit 0
// of the record's flags (flagReset) marks a reset.
func encodeOffsets(d map[offsetKey]int64) []byte {
	b := binary.AppendUvarint(nil, uint64(len(d)))
	for k, v := range d {
		b = binary.AppendUvarint(b, uint64(len(k.group)))
		b = append(b, k.group...)
		b = binary.AppendUvarint(b, uint64(len(k.topic)))
		b = append(b, k.topic...)
		b = binary.AppendUvarint(b, uint64(uint32(k.queueID)))
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

var errBadOffsets = errors.New("offsets record cannot be read")

func decodeOffsets(b []byte) (map[offsetKey]int64, error) {
	num := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	str := func() (string, bool) {
		n, ok := num()
		if !ok || n > uint64(len(b)) {
			return "", false
		}
		s := string(b[:n])
		b = b[n:]
		return s, true
	}
	n, ok := num()
	if !ok || n > uint64(len(b)) {
		return nil, errBadOffsets
	}
	d := make(map[offsetKey]int64, n)
	for ; n > 0; n-- {
		group, ok1 := str()
		topic, ok2 := str()
		q, ok3 := num()
		v, ok4 := num()
		if !ok1 || !ok2 || !ok3 || !ok4 {
			return nil, errBadOffsets
		}
		d[offsetKey{group, topic, int32(uint32(q))}] = int64(v)
	}
	return d, nil
}

// flagReset marks an offsets record whose values go over live commits.
const flagReset = 1

// CommitOffset notes a consumer offset: visible to Offset at once, in the log
// within 100 ms (a crash may forget that much, and the consumer reads it
// again). Negative offsets are refused by the caller.
func (s *Store) CommitOffset(group, topic string, queueID int32, offset int64) {
	s.offsets.commit(offsetKey{group, topic, queueID}, offset)
}

// Offset returns a committed consumer offset.
func (s *Store) Offset(group, topic string, queueID int32) (int64, bool) {
	return s.offsets.get(offsetKey{group, topic, queueID})
}

// GroupOffsets returns a group's offsets, topic → queue id → offset, a copy.
func (s *Store) GroupOffsets(group string) map[string]map[int32]int64 {
	s.offsets.mu.RLock()
	defer s.offsets.mu.RUnlock()
	out := map[string]map[int32]int64{}
	for topic, queues := range s.offsets.all[group] {
		out[topic] = maps.Clone(queues)
	}
	return out
}

// OffsetGroups returns the names of the groups that have committed offsets.
func (s *Store) OffsetGroups() []string {
	s.offsets.mu.RLock()
	defer s.offsets.mu.RUnlock()
	out := make([]string, 0, len(s.offsets.all))
	for g := range s.offsets.all {
		out = append(out, g)
	}
	return out
}

// ResetOffsets sets a group's offsets on a topic (queue id → offset) over
// whatever was committed before; durable in either flush mode when it returns.
func (s *Store) ResetOffsets(group, topic string, offsets map[int32]int64) error {
	d := make(map[offsetKey]int64, len(offsets))
	for q, v := range offsets {
		d[offsetKey{group, topic, q}] = v
	}
	return s.appendState(kindOffsets, encodeOffsets(d))
}

// offsetLoop writes changed offsets, and what was popped, to the log every
// offsetsEvery until the store closes, and what is left then.
func (s *Store) offsetLoop() {
	tick := time.NewTicker(offsetsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.savePops()
			s.saveOffsets()
		case <-s.stop:
			s.savePops()
			s.saveOffsets()
			return
		}
	}
}

func (s *Store) saveOffsets() {
	dirty, payload := s.offsets.takeDirty()
	if dirty == nil {
		return
	}
	if err := s.appendCommits(payload); err != nil {
		s.offsets.putBack(dirty)
	}
}
