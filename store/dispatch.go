package store

import (
	"encoding/json"
	"fmt"

	"github.com/tidemq/tidemq/internal/message"
)

// dispatch applies one record of the log to everything derived from it: the
// same function live and in replay. It is idempotent, and computes nothing
// that a changed configuration could change: numbers, due times and lengths
// stand in the record.
//
// q is the consume queue that a message goes to, when the caller knows it; nil
// looks it up by what the message says.
func (s *Store) dispatch(h *header, payload []byte, q *queue) error {
	switch h.kind {
	case kindMessage, kindStep, kindHalf, kindEnd:
		return s.dispatchMessage(h, payload, q)
	case kindOffsets:
		if s.replaying || h.flags&flagReset != 0 {
			return s.offsets.applyRecord(payload)
		}
		return nil
	case kindPops: // live changes are made already
		if s.replaying {
			return s.pops.applyRecord(payload)
		}
		return nil
	case kindTable:
		return s.dispatchTable(h, payload)
	case kindCarry:
		return s.dispatchCarry(h, payload)
	case kindStatePart:
		return s.applyState(h, payload)
	case kindHole:
		return nil
	}
	return fmt.Errorf("%w: index %d is a %v", ErrNewerFormat, h.index, h.kind)
}

func (s *Store) dispatchMessage(h *header, payload []byte, q *queue) error {
	if h.kind == kindStep {
		s.queues.level(h.delayMs).advance(h.entry + 1)
		if h.flags&flagNoMessage != 0 {
			return nil
		}
	}
	if h.kind == kindEnd {
		s.halves.end(h.identity)
		if h.flags&flagNoMessage != 0 {
			return nil
		}
	}
	v := message.View(payload)
	if s.replaying {
		if err := v.Valid(); err != nil {
			return fmt.Errorf("message at log address %d: %w", h.address, err)
		}
		s.clock.seen(v.StoreTime())
	}
	e := entry{address: h.address, size: int32(len(payload)), tags: h.tagsCode}
	if h.kind != kindStep && h.delayMs > 0 {
		e.tags = h.dueUs
		s.queues.level(h.delayMs).q.put(h.entry, e)
		return nil
	}
	if h.kind == kindHalf {
		s.halves.put(Half{Address: h.address, QueueOffset: v.QueueOffset(), StoreMs: v.StoreTime()})
	}
	if q == nil {
		q = s.queues.get(v.Topic(), v.QueueID())
	}
	q.put(v.QueueOffset(), e)
	return nil
}

func (s *Store) dispatchTable(h *header, payload []byte) error {
	var c tableChange
	if err := json.Unmarshal(payload, &c); err != nil {
		return fmt.Errorf("table record at log address %d: %w", h.address, err)
	}
	s.tables.apply(&c, h.index, h.address)
	switch {
	case c.DeleteTopic != "":
		s.offsets.dropTopic(c.DeleteTopic)
		s.pops.drop(func(k offsetKey) bool { return k.topic == c.DeleteTopic })
		if err := s.queues.dropTopic(c.DeleteTopic); err != nil {
			s.logger.Warn("deleted topic: its queue files could not be removed", "topic", c.DeleteTopic, "error", err)
		}
	case c.DeleteGroup != "":
		s.offsets.dropGroup(c.DeleteGroup)
		s.pops.drop(func(k offsetKey) bool { return k.group == c.DeleteGroup })
	}
	return nil
}
