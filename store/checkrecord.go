package store

import (
	"encoding/json"
	"fmt"

	"github.com/tidemq/tidemq/internal/message"
)

// record checks one whole record and notes what it changes.
func (c *checker) record(h *header, payload []byte) {
	c.report.Records++
	c.compare(h.index, h.address)
	switch h.kind {
	case kindMessage, kindStep, kindHalf, kindEnd:
		c.message(h, payload)
	case kindOffsets:
		d, err := decodeOffsets(payload)
		if err != nil {
			c.wrong("%v", err)
		}
		for k, v := range d {
			if v < 0 || k.queueID < 0 || k.group == "" || k.topic == "" {
				c.wrong("offset %d of group %q, topic %q, queue %d cannot be", v, k.group, k.topic, k.queueID)
			}
		}
	case kindPops:
		list, err := decodePops(payload)
		if err != nil {
			c.wrong("%v", err)
		}
		for _, q := range list {
			if q.next < 0 || q.key.queueID < 0 || q.key.group == "" || q.key.topic == "" {
				c.wrong("pops of group %q, topic %q, queue %d, next entry %d cannot be", q.key.group, q.key.topic, q.key.queueID, q.next)
			}
		}
	case kindTable:
		c.table(h, payload)
	case kindCarry:
		c.carried(h, payload)
	case kindStatePart:
		c.statePart(h, payload)
	case kindHole:
	default:
		c.wrong("a %v, which this version does not know", h.kind)
	}
}

func (c *checker) table(h *header, payload []byte) {
	var t tableChange
	if err := json.Unmarshal(payload, &t); err != nil {
		c.wrong("table record: %v", err)
		return
	}
	set := 0
	for _, is := range []bool{t.PutTopic != nil, t.DeleteTopic != "", t.PutGroup != nil, t.DeleteGroup != "", t.PutKVConfig != nil, t.DeleteKVConfig != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		c.wrong("table record with %d changes, 1 expected", set)
	}
	c.tables.apply(&t, h.index, h.address)
	for q := range c.topics[t.DeleteTopic] {
		delete(c.firsts, savedQueue{Topic: t.DeleteTopic, ID: q})
	}
	delete(c.topics, t.DeleteTopic)
}

// message checks a message, step, half message or end of a transaction.
func (c *checker) message(h *header, payload []byte) {
	var pend *pendingEntry
	if h.kind == kindStep {
		pend = c.step(h)
		if h.flags&flagNoMessage != 0 {
			return
		}
	}
	if h.kind == kindEnd {
		c.end(h)
		if h.flags&flagNoMessage != 0 {
			return
		}
	}
	m, n, err := message.DecodeRecord(payload)
	if err == nil && n != len(payload) {
		err = fmt.Errorf("%w: %d bytes behind the message", message.ErrMalformed, len(payload)-n)
	}
	if err == nil {
		err = m.VerifyBody()
	}
	if err != nil {
		c.wrong("message: %v", err)
		return
	}
	if m.PhysicalOffset != h.address {
		c.wrong("message says physical offset %d, its record is at %d", m.PhysicalOffset, h.address)
	}
	c.time(h, m.StoreTime)
	if pend != nil && pend.identity >= 0 && !c.setBack && !c.mayBeEarly && m.StoreTime*1000+999 < pend.dueUs {
		c.wrong("delivered at %d ms, due at %d µs: early", m.StoreTime, pend.dueUs)
	}
	if h.kind == kindHalf {
		c.halves.put(Half{Address: h.address, QueueOffset: m.QueueOffset, StoreMs: m.StoreTime})
		if m.Topic != message.TransHalfTopic || h.delayMs != 0 {
			c.wrong("a half message in topic %q, delay %d ms", m.Topic, h.delayMs)
		}
	}
	if h.kind != kindStep && h.delayMs > 0 {
		c.pending(h, &m)
		return
	}
	tags, _ := m.Property(message.PropertyTags)
	if want := message.TagsCode(tags); h.tagsCode != want {
		c.wrong("tags code %d, tag %q has %d", h.tagsCode, tags, want)
	}
	t, ok := c.tables.topic(m.Topic)
	switch {
	case c.lossy || c.partial: // the topic's record may be among what is lost
	case !ok:
		c.wrong("message in topic %q, which does not exist", m.Topic)
	case (h.kind == kindStep && m.Topic != message.UndeliverableTopic || h.kind == kindEnd && m.Topic != message.TransCheckMaxTopic) && h.identity < t.Created:
		c.wrong("delivered into topic %q, created at %d, after its message was stored at %d", m.Topic, t.Created, h.identity)
	}
	queues := c.topics[m.Topic]
	if queues == nil {
		queues = map[int32]int64{}
		c.topics[m.Topic] = queues
	}
	q := savedQueue{Topic: m.Topic, ID: m.QueueID}
	if _, ok := c.firsts[q]; !ok {
		c.firsts[q] = m.QueueOffset
	}
	if _, ok := queues[m.QueueID]; !ok && c.partial {
		queues[m.QueueID] = m.QueueOffset
	}
	queues[m.QueueID] = c.number(fmt.Sprintf("%s/%d: queue offset", m.Topic, m.QueueID), m.QueueOffset, queues[m.QueueID])
}

// end checks that a transaction ends once.
func (c *checker) end(h *header) {
	if _, open := c.halves.get(h.identity); !open && !c.lossy && !c.partial {
		c.wrong("the end of a transaction at address %d, which is not open", h.identity)
	}
	c.halves.end(h.identity)
}

// number checks that n is the next number of its row, and returns the one that
// follows.
func (c *checker) number(what string, n, next int64) int64 {
	if n != next && !(c.lossy && n > next) {
		c.wrong("%s %d where %d was expected", what, n, next)
	}
	return max(n+1, next)
}

// time checks that store times do not fall. The clock starts at the greatest
// store time in the log, unless that is more than maxAhead ahead of it.
func (c *checker) time(h *header, storeMs int64) {
	if storeMs < c.storeMs {
		if h.epoch > c.timeEpoch && c.storeMs-storeMs > maxAhead.Milliseconds() {
			c.setBack = true
			for _, l := range c.levels {
				l.lastDue = 0
			}
		} else {
			c.wrong("store time %d after %d", storeMs, c.storeMs)
		}
	}
	c.storeMs, c.timeEpoch = storeMs, h.epoch
}

// pending checks a message that waits in a level.
func (c *checker) pending(h *header, m *message.Message) {
	l := c.level(h.delayMs)
	what := fmt.Sprintf("level %dms", h.delayMs)
	if m.Topic != message.ScheduleTopic {
		c.wrong("%s: a message of topic %q", what, m.Topic)
	}
	if m.QueueOffset != h.entry {
		c.wrong("%s: entry %d, the message says queue offset %d", what, h.entry, m.QueueOffset)
	}
	if from := m.StoreTime*1000 + h.delayMs*1000; h.dueUs < from || h.dueUs > from+1000 {
		c.wrong("%s: due at %d µs, stored at %d ms", what, h.dueUs, m.StoreTime)
	}
	if h.dueUs < l.lastDue {
		c.wrong("%s: entry %d is due at %d µs, the one before at %d", what, h.entry, h.dueUs, l.lastDue)
	}
	l.lastDue = h.dueUs
	now := pendingEntry{identity: h.address, address: h.address, dueUs: h.dueUs, n: h.entry}
	if l.seen != nil {
		if h.entry >= l.head {
			l.seen[h.entry] = now
		}
		l.next = max(l.next, h.entry+1)
		return
	}
	next := c.number(what+": entry", h.entry, l.next)
	if l.next == 0 && h.entry > 0 { // the level's beginning is lost
		l.head = max(l.head, h.entry)
		l.next = h.entry
	}
	for n := l.next; n < h.entry; n++ {
		l.pending = append(l.pending, pendingEntry{identity: lost, n: n})
	}
	if h.entry >= l.next && h.entry >= l.head {
		l.pending = append(l.pending, now)
	}
	l.next = next
}

// step checks that a step leaves the head of its level, and returns the entry.
func (c *checker) step(h *header) *pendingEntry {
	l := c.level(h.delayMs)
	what := fmt.Sprintf("level %dms", h.delayMs)
	if h.entry != h.head || h.entry != l.head && l.seen == nil && !(c.lossy && h.entry > l.head) {
		c.wrong("%s: a step from head %d leaves entry %d where the head was %d", what, h.head, h.entry, l.head)
	}
	if h.entry >= l.next && !c.lossy && l.seen == nil {
		c.wrong("%s: a step leaves entry %d of %d", what, h.entry, l.next)
	}
	var left *pendingEntry
	if l.seen != nil {
		if p, ok := l.seen[h.entry]; ok {
			left = &p
			delete(l.seen, h.entry)
		}
		l.next = max(l.next, h.entry+1)
	}
	for len(l.pending) > 0 && l.pending[0].n <= h.entry {
		if p := l.pending[0]; p.n == h.entry {
			left = &p
		}
		l.pending = l.pending[1:]
	}
	l.head = max(l.head, h.entry+1)
	if left != nil && left.identity >= 0 && (left.identity != h.identity || left.dueUs != h.dueUs) {
		c.wrong("%s: a step leaves entry %d at address %d, due %d µs, and says %d, %d", what, h.entry, left.identity, left.dueUs, h.identity, h.dueUs)
	}
	return left
}
