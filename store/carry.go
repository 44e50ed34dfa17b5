package store

import (
	"fmt"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// What waits may outlive the segment it stands in. Before a segment goes, each
// message in it that is still pending is carried: appended again, byte for
// byte, in a record that names its first copy (identity) and its place (length
// and entry of a level; a half message: its number). Number, order and due time
// stay; dispatch lets the place point at the copy. The writer decides between a
// carry and a delivery like between two deliveries: what has left its place is
// not carried.

// judgeCarry accepts a carry only while the message waits at its place.
func (w *writer) judgeCarry(m *Message, st *staged) error {
	o := &m.Origin
	st.h.identity, st.h.entry, st.h.dueUs, st.h.tagsCode = o.Identity, o.Entry, o.DueUs, m.TagsCode
	if o.Delay == 0 {
		if _, open := w.s.halves.get(o.Identity); !open || w.ended[o.Identity] {
			return fmt.Errorf("%w: log address %d", ErrTransactionEnded, o.Identity)
		}
		return nil
	}
	l := w.s.queues.level(o.Delay.Milliseconds())
	if head := max(l.assigned, l.headNow()); o.Entry < head || o.Entry >= l.q.assigned {
		return fmt.Errorf("%w: level %v, entry %d, head %d", ErrStale, o.Delay, o.Entry, head)
	}
	st.h.delayMs = l.delayMs
	return nil
}

// dispatchCarry lets the place of a carried message point at its new copy.
func (s *Store) dispatchCarry(h *header, payload []byte) error {
	if h.timeBase != 0 {
		return fmt.Errorf("%w: index %d carries a timer", ErrNewerFormat, h.index)
	}
	v := message.View(payload)
	if s.replaying {
		if err := v.Valid(); err != nil {
			return fmt.Errorf("carried message at log address %d: %w", h.address, err)
		}
	}
	if h.delayMs == 0 {
		s.halves.put(Half{Address: h.identity, QueueOffset: h.entry, StoreMs: v.StoreTime(), CarriedTo: h.address})
		return nil
	}
	return s.queues.level(h.delayMs).q.replace(h.entry, entry{address: h.address, size: int32(len(payload)), tags: h.dueUs})
}

// waiting is a pending message that stands in the segment to go.
type waiting struct {
	place   Origin
	tags    int64
	address int64
	at, end int // its payload in the segment's bytes
}

// pendingIn returns the messages of a segment's bytes that wait at places which
// point at them.
func (s *Store) pendingIn(seg segment, b []byte) ([]waiting, error) {
	var list []waiting
	for at := 0; at < len(b); {
		h, payload, n, err := decodeEntry(b[at:])
		if err != nil || h.address != seg.base+int64(at) {
			// Damage: reported by whoever reads it. What follows counts.
			_, next, ok := findWhole(b, at+1, func(h *header, start int64) bool { return h.address == seg.base+start })
			if !ok {
				break
			}
			at = int(next)
			continue
		}
		at += n
		waits, err := s.waits(&h)
		if err != nil {
			return nil, err
		}
		if waits {
			list = append(list, waiting{
				place: Origin{Delay: time.Duration(h.delayMs) * time.Millisecond, Entry: h.entry, Identity: h.identityOf(), DueUs: h.dueUs},
				tags:  h.tagsCode, address: h.address, at: at - len(payload), end: at,
			})
			if h.kind == kindHalf {
				list[len(list)-1].place.Entry = message.View(payload).QueueOffset()
			}
		}
	}
	return list, nil
}

// waits tells whether a record's message is pending, and this its newest copy.
func (s *Store) waits(h *header) (bool, error) {
	switch {
	case h.kind == kindHalf, h.kind == kindCarry && h.delayMs == 0:
		half, open := s.halves.get(h.identityOf())
		return open && half.at() == h.address, nil
	case !h.kind.holdsMessage(), h.kind == kindStep, h.delayMs == 0:
		return false, nil
	}
	l := s.queues.lookupLevel(h.delayMs)
	if l == nil || h.entry < l.headNow() {
		return false, nil
	}
	var buf [1]entry
	es, err := l.q.read(buf[:0], h.entry, 1)
	if err != nil || len(es) == 0 {
		return false, err
	}
	// read begins at the queue's minimum, which may have passed the entry.
	return es[0].address == h.address, nil
}

const (
	carryBytes   = 64 << 10
	carryRecords = 128
)

// carry appends copies of what waits, in batches, at most rate bytes a second.
// What was delivered meanwhile is left out. It ends early when stop is closed.
func (s *Store) carry(list []waiting, b []byte, rate int64, stop <-chan struct{}) (records int, bytes int64, err error) {
	for len(list) > 0 {
		var ms []Message
		size := 0
		for len(list) > 0 && len(ms) < carryRecords && (len(ms) == 0 || size < carryBytes) {
			w := &list[0]
			// The log's buffers are the writer's until Done; so are these bytes.
			ms = append(ms, Message{kind: kindCarry, Record: b[w.at:w.end], Origin: w.place, TagsCode: w.tags})
			size += w.end - w.at
			list = list[1:]
		}
		done := make(chan error, 1)
		s.Append(&Batch{Messages: ms, Done: func(_ *Batch, err error) { done <- err }})
		if err := <-done; err != nil {
			return records, bytes, err
		}
		for i := range ms {
			if ms[i].Err == nil {
				records++
				bytes += int64(len(ms[i].Record))
			}
		}
		select {
		case <-stop:
			return records, bytes, ErrClosed
		case <-time.After(time.Duration(int64(size) * int64(time.Second) / rate)):
		}
	}
	return records, bytes, nil
}

// pendingBytes is about how many bytes of the log below an address are pending
// messages.
func (s *Store) pendingBytes(below int64) (int64, error) {
	total := int64(0)
	var es []entry
	for _, l := range s.queues.allLevels() {
		_, next := l.q.bounds()
		for n := l.headNow(); n < next; n += int64(len(es)) {
			var err error
			if es, err = l.q.read(es[:0], n, scanStep); err != nil {
				return 0, err
			}
			if len(es) == 0 {
				break
			}
			for _, e := range es {
				if e.address < below && !e.lost() {
					total += int64(messageEntryLen(e.size))
				}
			}
		}
	}
	return total, nil
}
