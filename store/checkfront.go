package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tidemq/tidemq/internal/message"
)

// What the log says of itself where its front was deleted: state parts, which
// tell what was there, and carries, which bring forward what is pending.

// carried checks a copy of a pending message.
func (c *checker) carried(h *header, payload []byte) {
	m, n, err := message.DecodeRecord(payload)
	if err == nil && n != len(payload) {
		err = fmt.Errorf("%w: %d bytes behind the message", message.ErrMalformed, len(payload)-n)
	}
	if err == nil {
		err = m.VerifyBody()
	}
	switch {
	case err != nil:
		c.wrong("carried message: %v", err)
		return
	case h.timeBase != 0:
		c.wrong("carries a timer, which this version does not know")
		return
	case m.PhysicalOffset != h.identity || h.identity >= h.address:
		c.wrong("a copy of the message at %d, the message says %d", h.identity, m.PhysicalOffset)
	case m.QueueOffset != h.entry:
		c.wrong("a copy of entry %d, the message says %d", h.entry, m.QueueOffset)
	}
	if h.delayMs == 0 {
		half := Half{Address: h.identity, QueueOffset: h.entry, StoreMs: m.StoreTime, CarriedTo: h.address}
		if old, open := c.halves.get(h.identity); !c.lossy && !c.partial && (!open || old.QueueOffset != half.QueueOffset || old.StoreMs != half.StoreMs) {
			c.wrong("a copy of the half message at %d, whose transaction is not open", h.identity)
		}
		c.halves.put(half)
		return
	}
	l := c.level(h.delayMs)
	now := pendingEntry{identity: h.identity, address: h.address, dueUs: h.dueUs, n: h.entry}
	old := pendingEntry{identity: lost}
	if l.seen != nil {
		if p, ok := l.seen[h.entry]; ok {
			old = p
		}
		if h.entry < l.head {
			c.wrong("level %dms: a copy of entry %d, which was delivered: the head is %d", h.delayMs, h.entry, l.head)
		}
		l.seen[h.entry] = now
		l.next = max(l.next, h.entry+1)
	} else {
		i := h.entry - l.head
		if i < 0 || i >= int64(len(l.pending)) || l.pending[i].n != h.entry {
			if !c.lossy {
				c.wrong("level %dms: a copy of entry %d, pending are %d to %d", h.delayMs, h.entry, l.head, l.next)
			}
			return
		}
		old, l.pending[i] = l.pending[i], now
	}
	if old.identity >= 0 && (old.identity != now.identity || old.dueUs != now.dueUs) {
		c.wrong("level %dms: a copy of entry %d says address %d, due %d µs; it is at %d, due %d", h.delayMs, h.entry, now.identity, now.dueUs, old.identity, old.dueUs)
	}
}

// statePart compares a state part with what the log has said so far, or, behind
// a front that was deleted, learns from it.
func (c *checker) statePart(h *header, payload []byte) {
	var p statePart
	if err := json.Unmarshal(payload, &p); err != nil {
		c.wrong("state part: %v", err)
		return
	}
	if uint64(h.head) > h.index || h.head < 1 || h.entry < 0 {
		c.wrong("state part %d of a round that began at index %d", h.entry, h.head)
	}
	if !c.partial && !c.lossy {
		c.compareState(&p)
	}
	c.storeMs = max(c.storeMs, p.StoreMs)
	c.tables.restore(p.Topics, p.Groups, p.KVs)
	for _, half := range p.Halves {
		c.halves.put(half)
	}
	for _, q := range p.Queues {
		queues := c.topics[q.Topic]
		if queues == nil {
			queues = map[int32]int64{}
			c.topics[q.Topic] = queues
		}
		if next, ok := queues[q.ID]; ok && c.partial && !c.lossy && next != q.Next {
			c.wrong("queue %s/%d: the state says next %d, the log %d", q.Topic, q.ID, q.Next, next)
		}
		queues[q.ID] = max(queues[q.ID], q.Next)
	}
	for _, s := range p.Levels {
		if l := c.level(s.DelayMs); l.seen != nil {
			l.learn(s.Head, s.Next)
		}
	}
	c.rounds.seen(h)
	if c.partial && c.rounds.whole > 0 {
		c.partial = false
		for _, l := range c.levels { // those that began behind the front
			if l.seen != nil {
				l.learn(l.head, l.next)
			}
		}
	}
}

// learn takes over what a state part says of a level.
func (l *checkedLevel) learn(head, next int64) {
	l.head, l.next = max(l.head, head), max(l.next, next)
	for n := l.head; n < l.next; n++ {
		p, ok := l.seen[n]
		if !ok {
			p = pendingEntry{identity: unseen, n: n}
		}
		l.pending = append(l.pending, p)
	}
	l.seen = nil
}

// compareState holds a state part against the log before it.
func (c *checker) compareState(p *statePart) {
	for _, t := range p.Topics {
		known, _ := c.tables.topic(t.Name)
		c.same("topic", t, known)
	}
	for _, v := range p.KVs {
		known, _ := c.tables.kv(kvKey{v.Namespace, v.Key})
		c.same("configuration value", v, known)
	}
	for _, g := range p.Groups {
		known, _ := c.tables.group(g.Name)
		c.same("group", g, known)
	}
	for _, half := range p.Halves {
		known, _ := c.halves.get(half.Address)
		c.same("half message", half, known)
	}
	for _, q := range p.Queues {
		if next := c.topics[q.Topic][q.ID]; q.Next != next || q.Min > q.Next {
			c.wrong("queue %s/%d: the state says %d to %d, the log ends at %d", q.Topic, q.ID, q.Min, q.Next, next)
		}
	}
	for _, l := range p.Levels {
		if known := c.level(l.DelayMs); l.Head != known.head || l.Next != known.next {
			c.wrong("level %dms: the state says head %d, next %d; the log has %d, %d", l.DelayMs, l.Head, l.Next, known.head, known.next)
		}
	}
}

func (c *checker) same(what string, state, log any) {
	a, errA := json.Marshal(state)
	b, errB := json.Marshal(log)
	if errA != nil || errB != nil || string(a) != string(b) {
		c.wrong("%s: the state says %s, the log has %s", what, a, b)
	}
}

// completeAtEnd tells what the whole log does not say though it must: the
// tables behind a deleted front, and the records of what is pending.
func (c *checker) completeAtEnd() {
	if c.partial {
		gone := c.frontSegment.first - 1
		c.report.problem(c.frontSegment.path, 0, "records 1 to %d are missing before this segment, and no complete state of the tables follows", gone)
		c.report.Lost += gone
		c.lossy = true
		for _, l := range c.levels {
			if l.seen != nil {
				l.learn(l.head, l.next)
			}
		}
		return
	}
	if c.lossy {
		return
	}
	for _, d := range slices.Sorted(maps.Keys(c.levels)) {
		l := c.levels[d]
		first, n := int64(math.MaxInt64), 0
		for _, p := range l.pending {
			if p.identity == unseen {
				first, n = min(first, p.n), n+1
			}
		}
		if n > 0 {
			c.wrong("level %dms: %d pending messages from entry %d on have no record left in the log", d, n, first)
		}
	}
	for _, half := range c.halves.all() {
		if half.at() < c.front {
			c.wrong("the half message at %d has no record left in the log", half.Address)
		}
	}
}
