package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
)

// Pop is one message that a group has popped and not acknowledged.
type Pop struct {
	// PopMs is when it was popped last, which names that pop; UntilMs is when
	// it may be popped again. Both in ms since the epoch.
	PopMs, UntilMs int64
	// Times is how often it was popped before.
	Times int32
}

// PopQueue is what one group has popped of one queue: how far it came, and the
// messages that are not acknowledged. Its changes are in the log within 100 ms,
// as consumer offsets are. All methods but Lock need the lock.
type PopQueue struct {
	mu      sync.Mutex
	table   *popTable
	key     offsetKey
	dropped bool

	next    int64 // the first entry never popped; −1: not known yet
	flights map[int64]Pop
	// low: everything before is acknowledged, or was never wanted.
	low int64
	// earliest is not after any flight's UntilMs; 0: there is none.
	earliest int64
	changed  map[int64]struct{} // flights that the log does not know
	dirty    bool
}

// Lock keeps others from the queue.
func (q *PopQueue) Lock() { q.mu.Lock() }

// Unlock lets others to the queue.
func (q *PopQueue) Unlock() { q.mu.Unlock() }

// Next is the first entry that was never popped, −1 when the group has popped
// nothing yet.
func (q *PopQueue) Next() int64 { return q.next }

// Low is the entry before which all is acknowledged: the group's consumer
// offset. −1 when the group has popped nothing yet.
func (q *PopQueue) Low() int64 { return q.low }

// Flying counts the messages that are not acknowledged.
func (q *PopQueue) Flying() int { return len(q.flights) }

// Begin sets where the group begins, and forgets what it has popped.
func (q *PopQueue) Begin(next int64) {
	for offset := range q.flights {
		q.change(offset)
	}
	clear(q.flights)
	q.next, q.low, q.earliest = next, next, 0
	q.mark()
}

// Advance says that everything before next was looked at.
func (q *PopQueue) Advance(next int64) {
	q.next = max(q.next, next)
	q.raise()
	q.mark()
}

// Get returns a message that is not acknowledged.
func (q *PopQueue) Get(offset int64) (Pop, bool) {
	p, ok := q.flights[offset]
	return p, ok
}

// Set notes that a message was popped, or hidden for longer.
func (q *PopQueue) Set(offset int64, p Pop) {
	q.flights[offset] = p
	if q.earliest == 0 || p.UntilMs < q.earliest {
		q.earliest = p.UntilMs
	}
	q.change(offset)
	q.mark()
}

// Ack forgets a message.
func (q *PopQueue) Ack(offset int64) {
	delete(q.flights, offset)
	if len(q.flights) == 0 {
		q.earliest = 0
	}
	q.change(offset)
	q.raise()
	q.mark()
}

// raise moves low over what is acknowledged.
func (q *PopQueue) raise() {
	for q.low < q.next {
		if _, flying := q.flights[q.low]; flying {
			return
		}
		q.low++
	}
}

// Due returns up to limit messages that may be popped again at nowMs, in the
// order of their entries, and when the next one may be, 0 for never.
func (q *PopQueue) Due(nowMs int64, limit int) (due []int64, nextMs int64) {
	if q.earliest == 0 || q.earliest > nowMs {
		return nil, q.earliest
	}
	q.earliest = 0
	for offset, p := range q.flights {
		if p.UntilMs <= nowMs {
			due = append(due, offset)
		}
		if q.earliest == 0 || p.UntilMs < q.earliest {
			q.earliest = p.UntilMs
		}
		if p.UntilMs > nowMs && (nextMs == 0 || p.UntilMs < nextMs) {
			nextMs = p.UntilMs
		}
	}
	slices.Sort(due)
	if len(due) > limit {
		due, nextMs = due[:limit], nowMs
	}
	return due, nextMs
}

func (q *PopQueue) change(offset int64) {
	if q.changed == nil {
		q.changed = map[int64]struct{}{}
	}
	q.changed[offset] = struct{}{}
}

// mark has the queue written to the log.
func (q *PopQueue) mark() {
	if q.dirty || q.dropped {
		return
	}
	q.dirty = true
	q.table.mu.Lock()
	q.table.dirty = append(q.table.dirty, q)
	q.table.mu.Unlock()
}

// popTable holds the queues that groups pop from. Lock order: PopQueue.mu, mu.
type popTable struct {
	mu     sync.Mutex
	queues map[offsetKey]*PopQueue
	dirty  []*PopQueue
}

func newPopTable() *popTable { return &popTable{queues: map[offsetKey]*PopQueue{}} }

func (t *popTable) lookup(k offsetKey) *PopQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues[k]
}

// get returns a queue, made when missing; the names must last.
func (t *popTable) get(k offsetKey) *PopQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[k]
	if q == nil {
		q = &PopQueue{table: t, key: k, next: -1, low: -1, flights: map[int64]Pop{}}
		t.queues[k] = q
	}
	return q
}

func (t *popTable) all() []*PopQueue {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*PopQueue, 0, len(t.queues))
	for _, q := range t.queues {
		list = append(list, q)
	}
	return list
}

// drop forgets the queues of a topic or group that was deleted.
func (t *popTable) drop(gone func(k offsetKey) bool) {
	for _, q := range t.all() {
		if !gone(q.key) {
			continue
		}
		q.mu.Lock()
		q.dropped = true
		q.mu.Unlock()
		t.mu.Lock()
		delete(t.queues, q.key)
		t.mu.Unlock()
	}
}

// takeDirty returns what changed since the last call, encoded, and a function
// that undoes it when it could not be stored; nil when nothing did.
func (t *popTable) takeDirty() (payload []byte, putBack func()) {
	t.mu.Lock()
	list := t.dirty
	t.dirty = nil
	t.mu.Unlock()
	if len(list) == 0 {
		return nil, nil
	}
	taken := make([]map[int64]struct{}, len(list))
	var body []byte
	n := 0
	for i, q := range list {
		q.mu.Lock()
		taken[i], q.changed, q.dirty = q.changed, nil, false
		if !q.dropped {
			body = q.encode(body, taken[i])
			n++
		}
		q.mu.Unlock()
	}
	if n == 0 {
		return nil, nil
	}
	return append(binary.AppendUvarint(nil, uint64(n)), body...), func() {
		for i, q := range list {
			q.mu.Lock()
			for offset := range taken[i] {
				q.change(offset)
			}
			q.mark()
			q.mu.Unlock()
		}
	}
}

// The payload of a pops record: uvarint count, then for each queue group and
// topic (uvarint length and bytes), queue id, next entry and the number of
// changes as uvarints, and for each change the entry, when it was popped, until
// when it is hidden (0: acknowledged) and how often it was popped before, as
// uvarints.
func (q *PopQueue) encode(b []byte, changed map[int64]struct{}) []byte {
	b = binary.AppendUvarint(b, uint64(len(q.key.group)))
	b = append(b, q.key.group...)
	b = binary.AppendUvarint(b, uint64(len(q.key.topic)))
	b = append(b, q.key.topic...)
	b = binary.AppendUvarint(b, uint64(uint32(q.key.queueID)))
	b = binary.AppendUvarint(b, uint64(q.next))
	b = binary.AppendUvarint(b, uint64(len(changed)))
	for offset := range changed {
		p := q.flights[offset] // zero: acknowledged
		b = binary.AppendUvarint(b, uint64(offset))
		b = binary.AppendUvarint(b, uint64(p.PopMs))
		b = binary.AppendUvarint(b, uint64(p.UntilMs))
		b = binary.AppendUvarint(b, uint64(p.Times))
	}
	return b
}

var errBadPops = errors.New("pops record cannot be read")

// poppedQueue is one queue of a pops record.
type poppedQueue struct {
	key     offsetKey
	next    int64
	flights map[int64]Pop
}

func decodePops(b []byte) (list []poppedQueue, err error) {
	num := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, b = errBadPops, nil
			return 0
		}
		b = b[n:]
		return v
	}
	str := func() string {
		n := num()
		if n > uint64(len(b)) {
			err, b = errBadPops, nil
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	for n := num(); n > 0 && err == nil; n-- {
		q := poppedQueue{key: offsetKey{group: str(), topic: str(), queueID: int32(uint32(num()))}, flights: map[int64]Pop{}}
		q.next = int64(num())
		for m := num(); m > 0 && err == nil; m-- {
			offset := int64(num())
			q.flights[offset] = Pop{PopMs: int64(num()), UntilMs: int64(num()), Times: int32(uint32(num()))}
		}
		list = append(list, q)
	}
	if err == nil && len(b) > 0 {
		err = errBadPops
	}
	return list, err
}

// applyRecord sets what a pops record says, in replay.
func (t *popTable) applyRecord(payload []byte) error {
	list, err := decodePops(payload)
	if err != nil {
		return err
	}
	for _, c := range list {
		q := t.get(c.key)
		q.next = c.next
		for offset, p := range c.flights {
			if p.UntilMs == 0 {
				delete(q.flights, offset)
			} else {
				q.flights[offset] = p
			}
		}
		q.settle()
	}
	return nil
}

// settle reckons what follows from next and flights.
func (q *PopQueue) settle() {
	q.low, q.earliest = q.next, 0
	for offset, p := range q.flights {
		q.low = min(q.low, offset)
		if q.earliest == 0 || p.UntilMs < q.earliest {
			q.earliest = p.UntilMs
		}
	}
}

// savedPops is a PopQueue in the checkpoint.
type savedPops struct {
	Group   string `json:"g"`
	Topic   string `json:"t"`
	QueueID int32  `json:"q"`
	Next    int64  `json:"next"`
	// Flights are lists of entry, PopMs, UntilMs and Times.
	Flights [][4]int64 `json:"flights,omitempty"`
}

func (t *popTable) save() []savedPops {
	var out []savedPops
	for _, q := range t.all() {
		if s, ok := q.save(); ok {
			out = append(out, s)
		}
	}
	return out
}

func (q *PopQueue) save() (s savedPops, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s = savedPops{Group: q.key.group, Topic: q.key.topic, QueueID: q.key.queueID, Next: q.next}
	for offset, p := range q.flights {
		s.Flights = append(s.Flights, [4]int64{offset, p.PopMs, p.UntilMs, int64(p.Times)})
	}
	return s, q.next >= 0 && !q.dropped
}

func (t *popTable) restore(list []savedPops) {
	for _, s := range list {
		q := t.get(offsetKey{s.Group, s.Topic, s.QueueID})
		q.next = s.Next
		clear(q.flights)
		for _, f := range s.Flights {
			q.flights[f[0]] = Pop{PopMs: f[1], UntilMs: f[2], Times: int32(f[3])}
		}
		q.settle()
	}
}

// PopQueue returns what a group has popped of a queue, made when missing.
func (s *Store) PopQueue(group, topic string, queueID int32) *PopQueue {
	return s.pops.get(offsetKey{group, topic, queueID})
}

// LookupPopQueue returns what a group has popped of a queue, nil when it popped
// nothing yet.
func (s *Store) LookupPopQueue(group, topic string, queueID int32) *PopQueue {
	return s.pops.lookup(offsetKey{group, topic, queueID})
}

func (s *Store) savePops() {
	payload, putBack := s.pops.takeDirty()
	if payload == nil {
		return
	}
	if err := s.appendWait(Message{Record: payload, kind: kindPops}); err != nil {
		putBack()
	}
}
