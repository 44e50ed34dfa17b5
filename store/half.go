package store

import (
	"fmt"
	"sort"
	"sync"

	"github.com/tidemq/tidemq/internal/message"
)

// Half is a prepared message whose transaction has not ended: consumers do not
// see it. A record that ends it (Message.Ends) names its address, so that the
// log itself says what became of it; the first one wins, and there is no
// second.
type Half struct {
	// Address is the log address of its record, RocketMQ's commitLogOffset.
	Address int64 `json:"address"`
	// QueueOffset is its number in RMQ_SYS_TRANS_HALF_TOPIC, RocketMQ's
	// tranStateTableOffset.
	QueueOffset int64 `json:"queueOffset"`
	// StoreMs is when it was stored, in ms since the epoch.
	StoreMs int64 `json:"storeMs"`
	// CarriedTo is the log address of its newest copy, 0 while there is only
	// the first one.
	CarriedTo int64 `json:"carriedTo,omitempty"`
}

// at is where its record stands now.
func (h *Half) at() int64 { return max(h.Address, h.CarriedTo) }

// halfTable holds the transactions that have not ended. Dispatch changes it,
// anyone reads.
type halfTable struct {
	mu   sync.RWMutex
	open map[int64]Half // by address
}

func newHalfTable() *halfTable { return &halfTable{open: map[int64]Half{}} }

func (t *halfTable) put(h Half) {
	t.mu.Lock()
	t.open[h.Address] = h
	t.mu.Unlock()
}

func (t *halfTable) end(address int64) {
	t.mu.Lock()
	delete(t.open, address)
	t.mu.Unlock()
}

func (t *halfTable) get(address int64) (Half, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h, ok := t.open[address]
	return h, ok
}

func (t *halfTable) all() []Half {
	t.mu.RLock()
	list := make([]Half, 0, len(t.open))
	for _, h := range t.open {
		list = append(list, h)
	}
	t.mu.RUnlock()
	sort.Slice(list, func(i, j int) bool { return list[i].Address < list[j].Address })
	return list
}

// Half returns the half message at a log address while its transaction has not
// ended.
func (s *Store) Half(address int64) (Half, bool) { return s.halves.get(address) }

// Halves returns the half messages whose transactions have not ended, oldest
// first.
func (s *Store) Halves() []Half { return s.halves.all() }

// judgeEnd accepts the end of a transaction only while it is open, and a
// commit only into the topic that the half message was sent to.
func (w *writer) judgeEnd(m *Message, st *staged) error {
	at := m.Origin.Identity
	if _, open := w.s.halves.get(at); !open || w.ended[at] {
		return fmt.Errorf("%w: log address %d", ErrTransactionEnded, at)
	}
	if m.Record != nil {
		t, ok := w.s.tables.topic(m.Topic)
		if !ok || at < t.Created && m.Topic != message.TransCheckMaxTopic {
			return fmt.Errorf("%w: %q", ErrTopicNotFound, m.Topic)
		}
	} else {
		st.h.flags |= flagNoMessage
		st.payload = []byte(m.Reason)
	}
	st.h.identity = at
	if w.ended == nil {
		w.ended = map[int64]bool{}
	}
	w.ended[at] = true
	return nil
}
