package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// A failed pull waits 100 ms, then twice as long each time, up to 3 s.
	pullPauseMin = 100 * time.Millisecond
	pullPauseMax = 3 * time.Second
	// lockTrusted is how long a queue lock is relied on after it was asked
	// for. Brokers give it away after 60 s.
	lockTrusted = 30 * time.Second
)

// processQueue is one queue as a push consumer holds it: what was pulled and is
// not consumed yet. Goroutines: one that pulls, one that hands messages to
// handlers (in an orderly consumer it runs them itself).
//
// It ends in one of three ways: *retired*, when another member gets the queue;
// *replaced*, when the group's offset was reset; or with the consumer.
type processQueue struct {
	c     *PushConsumer
	queue Queue
	sub   subscription

	// ctx ends when no more shall be pulled and handed out.
	ctx    context.Context
	cancel context.CancelFunc
	// after, if not nil, is closed when the one replaced by this has no
	// handler running any more; orderly consumers wait for it.
	after <-chan struct{}
	fed   chan struct{} // closed when the goroutine that hands out ended

	// turn is the right to commit or to end committing. It is held over a
	// request, so that a commit computed before a reset cannot arrive after it.
	turn chan struct{}

	room chan struct{} // poked when something was consumed
	more chan struct{} // poked when something was pulled
	held chan struct{} // poked when the queue lock was renewed

	mu      sync.Mutex
	entries []*entry // in queue order; the first one is not done
	handed  int      // entries[handed] is handed out next
	next    int64    // where the next pull begins
	waiting int      // entries not done
	bytes   int      // of their bodies
	// dropped: results do not count any more, somebody else decides about the
	// offset.
	dropped     bool
	committed   int64 // last offset committed, -1 for none
	lockedAt    time.Time
	lastPull    time.Time
	lastConsume time.Time
}

// entry is one message pulled.
type entry struct {
	offset int64
	size   int
	msg    *Message // nil when done
	done   bool
}

func newProcessQueue(c *PushConsumer, q Queue, offset int64) *processQueue {
	pq := &processQueue{
		c:           c,
		queue:       q,
		sub:         c.subscriptions[q.Topic],
		fed:         make(chan struct{}),
		turn:        make(chan struct{}, 1),
		room:        make(chan struct{}, 1),
		more:        make(chan struct{}, 1),
		held:        make(chan struct{}, 1),
		next:        offset,
		committed:   -1,
		lastPull:    time.Now(),
		lastConsume: time.Now(),
	}
	pq.ctx, pq.cancel = context.WithCancel(c.life)
	return pq
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pullLoop pulls until ctx ends.
func (pq *processQueue) pullLoop() {
	c := pq.c
	pause := pullPauseMin
	for pq.waitRoom() {
		pq.mu.Lock()
		offset := pq.next
		pq.lastPull = time.Now()
		began := pq.lastPull
		pq.mu.Unlock()
		r, err := c.client.pull(pq.ctx, c.group, pq.queue, pq.sub, c.version, offset, c.cfg.batch, c.cfg.poll)
		if pq.ctx.Err() != nil {
			return
		}
		if err != nil {
			level := slog.LevelDebug
			if pause == pullPauseMin { // the first of a row
				level = slog.LevelWarn
			}
			c.log.Log(pq.ctx, level, "pull failed", "queue", pq.queue.String(), "offset", offset, "err", err, "again in", pause)
			if v, reroute := judge(err); v != final && reroute {
				// The broker may have moved; the next pull looks again.
				_, _ = c.client.fetchRoute(pq.ctx, pq.queue.Topic)
			}
			if !sleep(pq.ctx, pause) {
				return
			}
			pause = min(2*pause, pullPauseMax)
			continue
		}
		if r.Status == OffsetMoved && (r.NextOffset != offset || pq.holds()) {
			c.log.Warn("offset moved by the broker", "queue", pq.queue.String(), "from", offset, "to", r.NextOffset,
				"min", r.MinOffset, "max", r.MaxOffset)
			c.replace(pq, r.NextOffset)
			return
		}
		pq.add(r)
		// A broker that does not hold pulls, or tells us to try again at the
		// same place, must not be asked without a pause.
		if r.NextOffset <= offset && time.Since(began) < pullPauseMin {
			if !sleep(pq.ctx, pause) {
				return
			}
			pause = min(2*pause, pullPauseMax)
			continue
		}
		pause = pullPauseMin
	}
}

// waitRoom waits until the limits allow another pull. It reports false when ctx
// ended.
func (pq *processQueue) waitRoom() bool {
	for {
		if pq.ctx.Err() != nil {
			return false
		}
		if !pq.full() {
			return true
		}
		select {
		case <-pq.room:
		case <-pq.ctx.Done():
			return false
		}
	}
}

func (pq *processQueue) full() bool {
	cfg := &pq.c.cfg
	pq.mu.Lock()
	defer pq.mu.Unlock()
	// The span keeps one slow message from holding back the committed offset
	// by more than that many.
	return pq.waiting >= cfg.maxCached || pq.bytes >= cfg.maxCachedSize ||
		len(pq.entries) > 0 && pq.next-pq.entries[0].offset >= cfg.maxSpan && !cfg.orderly
}

// add takes what a pull found.
func (pq *processQueue) add(r PullResult) {
	pq.mu.Lock()
	for _, m := range r.Messages {
		if m.QueueOffset < pq.next {
			continue // held already
		}
		e := &entry{offset: m.QueueOffset, size: len(m.Body), msg: m}
		pq.entries = append(pq.entries, e)
		pq.waiting++
		pq.bytes += e.size
	}
	pq.next = max(pq.next, r.NextOffset)
	pq.mu.Unlock()
	poke(pq.more)
}

// holds reports whether something was pulled and is not consumed.
func (pq *processQueue) holds() bool {
	pq.mu.Lock()
	defer pq.mu.Unlock()
	return len(pq.entries) > 0
}

// take waits for the next entry to hand out; nil when ctx ended.
func (pq *processQueue) take() *entry {
	for {
		if pq.ctx.Err() != nil {
			return nil
		}
		pq.mu.Lock()
		if pq.handed < len(pq.entries) {
			e := pq.entries[pq.handed]
			pq.handed++
			pq.mu.Unlock()
			return e
		}
		pq.mu.Unlock()
		select {
		case <-pq.more:
		case <-pq.ctx.Done():
			return nil
		}
	}
}

// finish marks an entry as consumed.
func (pq *processQueue) finish(e *entry) {
	pq.mu.Lock()
	e.done, e.msg = true, nil
	pq.waiting--
	pq.bytes -= e.size
	pq.lastConsume = time.Now()
	n := 0
	for n < len(pq.entries) && pq.entries[n].done {
		n++
	}
	clear(pq.entries[:n])
	pq.entries = pq.entries[n:]
	pq.handed -= n
	pq.mu.Unlock()
	poke(pq.room)
}

// isDropped reports whether results still count.
func (pq *processQueue) isDropped() bool {
	pq.mu.Lock()
	defer pq.mu.Unlock()
	return pq.dropped
}

// offset is where the group would go on: everything before is consumed.
func (pq *processQueue) offset() int64 {
	pq.mu.Lock()
	defer pq.mu.Unlock()
	return pq.offsetLocked()
}

func (pq *processQueue) offsetLocked() int64 {
	if len(pq.entries) > 0 {
		return pq.entries[0].offset
	}
	return pq.next
}

// commit saves the offset if it moved. With last set it is the last commit:
// results do not count afterwards.
func (pq *processQueue) commit(ctx context.Context, last bool) error {
	if err := pq.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-pq.turn }()
	pq.mu.Lock()
	offset, dropped, committed := pq.offsetLocked(), pq.dropped, pq.committed
	if last {
		pq.dropped = true
	}
	pq.mu.Unlock()
	if dropped || offset == committed {
		return nil
	}
	if err := pq.c.store.save(ctx, pq.queue, offset); err != nil {
		return err
	}
	pq.mu.Lock()
	pq.committed = offset
	pq.mu.Unlock()
	return nil
}

// drop ends committing and lets results not count any more.
func (pq *processQueue) drop(ctx context.Context) {
	if pq.takeTurn(ctx) == nil {
		defer func() { <-pq.turn }()
	}
	pq.mu.Lock()
	pq.dropped = true
	pq.mu.Unlock()
}

func (pq *processQueue) takeTurn(ctx context.Context) error {
	select {
	case pq.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return contextError(ctx, "an earlier commit of "+pq.queue.String())
	}
}

// locked notes a queue lock asked for at that time.
func (pq *processQueue) locked(at time.Time) {
	pq.mu.Lock()
	pq.lockedAt = at
	pq.mu.Unlock()
	poke(pq.held)
}

// holdsLock reports whether the queue lock can be relied on.
func (pq *processQueue) holdsLock() bool {
	pq.mu.Lock()
	defer pq.mu.Unlock()
	return time.Since(pq.lockedAt) < lockTrusted
}
