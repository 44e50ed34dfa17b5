package demo

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemq/tidemq/client"
)

// arrival is a record seen in the real topic while the demo runs.
type arrival struct {
	seq    int
	stored time.Time
}

// watcher reads the real topic as it fills, for the lines that are shown and to
// know when to go on; the final count does not use it.
//
// Goroutines: one for each queue, until its context ends.
type watcher struct {
	readers sync.WaitGroup

	mu      sync.Mutex
	seen    map[int]bool
	fresh   []arrival // not shown yet
	perSeen []int     // distinct messages by level
}

func watch(ctx context.Context, consumer *client.PullConsumer, list []client.Queue) *watcher {
	w := &watcher{seen: map[int]bool{}, perSeen: make([]int, len(lengths)+1)}
	for _, q := range list {
		w.readers.Go(func() { w.read(ctx, consumer, q) })
	}
	return w
}

func (w *watcher) read(ctx context.Context, consumer *client.PullConsumer, q client.Queue) {
	const batch, hold, again = 32, 10 * time.Second, 20 * time.Millisecond
	offset := int64(0)
	for ctx.Err() == nil {
		r, err := consumer.Pull(ctx, q, offset, batch, hold, "*")
		if err != nil {
			// While the broker is down this is what happens.
			sleep(ctx, again)
			continue
		}
		offset = r.NextOffset
		w.mu.Lock()
		for _, m := range r.Messages {
			seq := seqOf(m)
			if seq >= 0 && !w.seen[seq] {
				w.seen[seq] = true
				w.perSeen[levelOf(seq)]++
			}
			w.fresh = append(w.fresh, arrival{seq: seq, stored: m.StoreTime})
		}
		w.mu.Unlock()
	}
}

// count returns how many distinct messages were seen, and how many of a level.
func (w *watcher) count(level int) (all, of int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen), w.perSeen[level]
}

// take returns what was not shown yet.
func (w *watcher) take() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.fresh
	w.fresh = nil
	return fresh
}

// batch is what came in of one level since the last line about it.
type batch struct {
	level       int
	n           int
	first, last time.Time // due
	late        []time.Duration
	heldUp      bool // by the outage
}

// batches groups arrivals by level, in the order of their due times. Messages
// that are not known are left to the final count.
func batches(fresh []arrival, sent map[int]*outgoing, down outage) []batch {
	type key struct {
		level  int
		heldUp bool
	}
	groups := map[key]*batch{}
	for _, a := range fresh {
		o := sent[a.seq]
		if o == nil {
			continue
		}
		k := key{o.level, down.heldUp(o.due, a.stored)}
		b := groups[k]
		if b == nil {
			b = &batch{level: k.level, heldUp: k.heldUp, first: o.due, last: o.due}
			groups[k] = b
		}
		b.n++
		if o.due.Before(b.first) {
			b.first = o.due
		}
		if o.due.After(b.last) {
			b.last = o.due
		}
		b.late = append(b.late, a.stored.Sub(o.due))
	}
	list := make([]batch, 0, len(groups))
	for _, b := range slices.SortedFunc(maps.Values(groups), func(a, b *batch) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.level, b.level))
	}) {
		list = append(list, *b)
	}
	return list
}
