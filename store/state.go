package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Tables are made of all table and offsets records since the log's beginning,
// and numbers of queues of all messages. So that the front of the log may go,
// they are written into the log again, as state parts: a round of them names
// everything there was when the round began, part by part, a part a group.
//
// A part says what was true just before it, so replay sets it over whatever it
// has: no order between parts and other records has to be remembered. What
// came into being after the round began has records of its own behind that
// point, and what was deleted has its record there too. A log that is left
// from the index where a complete round began, or from before, therefore
// yields the whole state.

// statePart is the payload of a state part, as JSON; lists as in a checkpoint.
type statePart struct {
	StoreMs int64         `json:"storeMs"`
	Topics  []Topic       `json:"topics,omitempty"`
	Groups  []Group       `json:"groups,omitempty"`
	KVs     []KVConfig    `json:"kvConfigs,omitempty"`
	Offsets []savedOffset `json:"offsets,omitempty"`
	Queues  []savedQueue  `json:"queues,omitempty"`
	Levels  []savedLevel  `json:"levels,omitempty"`
	Halves  []Half        `json:"halves,omitempty"`
	Pops    []savedPops   `json:"pops,omitempty"`
}

// partBytes is about how large a part gets: it is made on the writer's
// goroutine. One large value may make it larger.
const partBytes = 32 << 10

// flagLastPart marks the part that completes its round.
const flagLastPart = 1

// stateKeys names what is left to write of a round.
type stateKeys struct {
	topics  []string
	groups  []string
	kvs     []kvKey
	offsets []offsetKey
	queues  []*queue
	levels  []*level
	halves  []int64
	pops    []*PopQueue
}

func (s *Store) stateKeys() *stateKeys {
	k := &stateKeys{levels: s.queues.allLevels(), pops: s.pops.all()}
	for _, t := range s.tables.allTopics() {
		k.topics = append(k.topics, t.Name)
	}
	for _, g := range s.tables.allGroups() {
		k.groups = append(k.groups, g.Name)
	}
	for _, v := range s.tables.allKVs() {
		k.kvs = append(k.kvs, kvKey{v.Namespace, v.Key})
	}
	s.offsets.mu.RLock()
	for group, topics := range s.offsets.all {
		for topic, queues := range topics {
			for q := range queues {
				k.offsets = append(k.offsets, offsetKey{group, topic, q})
			}
		}
	}
	s.offsets.mu.RUnlock()
	for _, q := range s.queues.all() {
		if q.topic != "" {
			k.queues = append(k.queues, q)
		}
	}
	for _, h := range s.halves.all() {
		k.halves = append(k.halves, h.Address)
	}
	return k
}

// statePart takes the next part: what the keys stand for now. last tells that
// none are left. On the writer's goroutine, between groups.
func (s *Store) statePart(k *stateKeys) (p statePart, last bool) {
	p.StoreMs = s.clock.last.Load() / int64(time.Millisecond)
	room := partBytes
	for room > 0 {
		switch {
		case len(k.topics) > 0:
			if t, ok := s.tables.topic(k.topics[0]); ok {
				p.Topics = append(p.Topics, t)
				room -= 200 + len(t.Name)
				for name, value := range t.Attributes {
					room -= len(name) + len(value)
				}
			}
			k.topics = k.topics[1:]
		case len(k.groups) > 0:
			if g, ok := s.Group(k.groups[0]); ok {
				p.Groups = append(p.Groups, g)
				room -= 300 + len(g.Name)
				for name, value := range g.Attributes {
					room -= len(name) + len(value)
				}
			}
			k.groups = k.groups[1:]
		case len(k.kvs) > 0:
			if v, ok := s.tables.kv(k.kvs[0]); ok {
				p.KVs = append(p.KVs, v)
				room -= 80 + len(v.Namespace) + len(v.Key) + len(v.Value)
			}
			k.kvs = k.kvs[1:]
		case len(k.offsets) > 0:
			o := k.offsets[0]
			if v, ok := s.offsets.get(o); ok {
				p.Offsets = append(p.Offsets, savedOffset{o.group, o.topic, o.queueID, v})
				room -= 60 + len(o.group) + len(o.topic)
			}
			k.offsets = k.offsets[1:]
		case len(k.queues) > 0:
			q := k.queues[0]
			if s.queues.lookup(q.topic, q.id) == q { // not deleted meanwhile
				minimum, next := q.bounds()
				p.Queues = append(p.Queues, savedQueue{q.topic, q.id, minimum, next})
				room -= 60 + len(q.topic)
			}
			k.queues = k.queues[1:]
		case len(k.levels) > 0:
			l := k.levels[0]
			minimum, next := l.q.bounds()
			p.Levels = append(p.Levels, savedLevel{l.delayMs, l.headNow(), minimum, next})
			room -= 80
			k.levels = k.levels[1:]
		case len(k.halves) > 0:
			if h, ok := s.halves.get(k.halves[0]); ok {
				p.Halves = append(p.Halves, h)
				room -= 90
			}
			k.halves = k.halves[1:]
		case len(k.pops) > 0:
			q := k.pops[0]
			if saved, ok := q.save(); ok && s.pops.lookup(q.key) == q {
				p.Pops = append(p.Pops, saved)
				room -= 80 + len(q.key.group) + len(q.key.topic) + 40*len(saved.Flights)
			}
			k.pops = k.pops[1:]
		default:
			return p, true
		}
	}
	return p, false
}

// writeState writes one round of state parts and syncs them. It returns the
// index where the round began, from which on the log yields the whole state,
// and the bytes written.
func (s *Store) writeState() (round uint64, size int64, err error) {
	// Before the keys are listed: what comes up later has records behind it.
	if err := s.writer.call(func() { round = s.log.end.index }); err != nil {
		return 0, 0, err
	}
	keys := s.stateKeys()
	for n, last := int64(0), false; !last; n++ {
		var bytes int64
		if bytes, last, err = s.writePart(keys, round, n); err != nil {
			return 0, 0, fmt.Errorf("state part %d: %w", n, err)
		}
		size += bytes
	}
	return round, size, s.log.sync()
}

// writePart takes a part and writes it as the first record of a group, so that
// nothing comes between.
func (s *Store) writePart(keys *stateKeys, round uint64, n int64) (size int64, last bool, err error) {
	done := make(chan error, 1)
	w := s.writer
	var failed error
	err = w.call(func() {
		var p statePart
		p, last = s.statePart(keys)
		payload, err := json.Marshal(&p)
		if err != nil {
			failed = err
			done <- nil
			return
		}
		size = int64(len(payload))
		m := Message{Record: payload, kind: kindStatePart, Origin: Origin{Entry: n, Identity: int64(round)}}
		if last {
			m.flags = flagLastPart
		}
		w.group = slices.Insert(w.group, 0, &Batch{Messages: []Message{m}, Done: func(b *Batch, err error) {
			if err == nil {
				err = b.Messages[0].Err
			}
			done <- err
		}})
	})
	if err == nil {
		err = <-done
	}
	if err == nil {
		err = failed
	}
	return size, last, err
}

// applyState sets what a state part says: in replay alone, since live it says
// what is so already.
func (s *Store) applyState(h *header, payload []byte) error {
	if !s.replaying {
		return nil
	}
	var p statePart
	if err := json.Unmarshal(payload, &p); err != nil {
		return fmt.Errorf("state part at log address %d: %w", h.address, err)
	}
	s.clock.seen(p.StoreMs)
	s.tables.restore(p.Topics, p.Groups, p.KVs)
	s.offsets.restore(p.Offsets)
	for _, q := range p.Queues {
		if err := s.queues.get(q.Topic, q.ID).skipTo(q.Next); err != nil {
			return err
		}
	}
	for _, l := range p.Levels {
		lv := s.queues.level(l.DelayMs)
		if err := lv.q.skipTo(l.Next); err != nil {
			return err
		}
		lv.advance(l.Head)
	}
	for _, half := range p.Halves {
		s.halves.put(half)
	}
	s.pops.restore(p.Pops)
	s.rounds.seen(h)
	return nil
}

// stateRounds follows the rounds of state parts that replay comes by.
type stateRounds struct {
	begun uint64 // the round in hand
	next  int64  // its next part
	whole uint64 // the newest complete round, 0: none
}

func (r *stateRounds) seen(h *header) {
	if h.entry == 0 {
		r.begun, r.next = uint64(h.head), 0
	}
	if uint64(h.head) != r.begun || h.entry != r.next {
		r.next = -1 // a part is missing
		return
	}
	r.next++
	if h.flags&flagLastPart != 0 {
		r.whole = r.begun
	}
}
