package broker

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/store"
)

// queueKey names a consume queue.
type queueKey struct {
	topic string
	id    int32
}

// wakeReason says why a held pull goes on.
type wakeReason int

const (
	// wokenByArrival: a message it may want became visible, or the queue was
	// deleted or its offsets reset; look again, and hold again if need be.
	wokenByArrival wakeReason = iota
	// wokenByTimeout: its hold time ended; look once more and answer.
	wokenByTimeout
	// wokenByClose: the broker closes; answer at once.
	wokenByClose
)

// heldPull is a pull kept open until a message arrives, as RocketMQ
// `PullRequest`. The holder owns it from hold until it hands it to run.
type heldPull struct {
	key queueKey
	// offset is the first entry it wants. Arrivals that its filter does not
	// want move it on, so that the next look does not read them again.
	offset   int64
	filter   *filter
	deadline time.Time
	conn     *conn
	pull     *pullRequest

	// Places in the holder's three views; guarded by its mutex.
	inQueue, inConn, inHeap int
	held                    bool
}

// holder keeps pulls and wakes them. Whoever holds a pull looks at the queue
// again afterwards (see Broker.holdPull): a message that became visible
// between the first look and the hold is either seen by that second look or
// its arrival finds the pull here.
//
// Goroutines: one for the hold times, and workers that run woken pulls, so
// that neither the store's writer nor a timer reads from disk. All end with
// close.
type holder struct {
	// run goes on with a woken pull. Called by workers.
	run func(p *heldPull, why wakeReason)

	// count is the number of held pulls; arrivals look at it before they lock.
	// A pull counts before it looks the second time, so an arrival that reads
	// zero is seen by that look.
	count atomic.Int64

	mu     sync.Mutex
	closed bool
	queues map[queueKey][]*heldPull
	byTime pullHeap
	// ready are woken pulls for the workers; work wakes one.
	ready []wokenPull
	work  *sync.Cond

	// alarm tells the timer goroutine that the earliest deadline changed.
	alarm chan struct{}
	done  chan struct{}
	wg    sync.WaitGroup
}

type wokenPull struct {
	p   *heldPull
	why wakeReason
}

// newHolder starts the timer and that many workers.
func newHolder(workers int, run func(*heldPull, wakeReason)) *holder {
	h := &holder{
		run:    run,
		queues: make(map[queueKey][]*heldPull),
		alarm:  make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	h.work = sync.NewCond(&h.mu)
	for range workers {
		h.wg.Go(h.workLoop)
	}
	h.wg.Go(h.timeLoop)
	return h
}

// hold keeps p. False when the holder is closed or p's connection is gone: the
// caller answers.
func (h *holder) hold(p *heldPull) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || p.conn.pullsDropped {
		return false
	}
	h.count.Add(1)
	list := h.queues[p.key]
	p.inQueue = len(list)
	h.queues[p.key] = append(list, p)
	p.inConn = len(p.conn.pulls)
	p.conn.pulls = append(p.conn.pulls, p)
	heap.Push(&h.byTime, p)
	p.held = true
	if p.inHeap == 0 {
		select {
		case h.alarm <- struct{}{}:
		default:
		}
	}
	return true
}

// take gives p back to the caller. False when it was woken already.
func (h *holder) take(p *heldPull) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !p.held {
		return false
	}
	h.removeLocked(p)
	return true
}

// heldBy counts the pulls held for a connection.
func (h *holder) heldBy(c *conn) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(c.pulls)
}

// removeLocked takes p out of the three views.
func (h *holder) removeLocked(p *heldPull) {
	p.held = false
	h.count.Add(-1)
	list := h.queues[p.key]
	last := len(list) - 1
	list[p.inQueue] = list[last]
	list[p.inQueue].inQueue = p.inQueue
	list[last] = nil
	if last == 0 {
		delete(h.queues, p.key)
	} else {
		h.queues[p.key] = list[:last]
	}
	mine := p.conn.pulls
	last = len(mine) - 1
	mine[p.inConn] = mine[last]
	mine[p.inConn].inConn = p.inConn
	mine[last] = nil
	p.conn.pulls = mine[:last]
	heap.Remove(&h.byTime, p.inHeap)
}

// wakeLocked hands p to a worker.
func (h *holder) wakeLocked(p *heldPull, why wakeReason) {
	h.removeLocked(p)
	h.ready = append(h.ready, wokenPull{p, why})
	h.work.Signal()
}

// arrive wakes the pulls that may want what arrived. Called from the store's
// writer: it does not block beyond the holder's short critical sections.
func (h *holder) arrive(arrivals []store.Arrival) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range arrivals {
		a := &arrivals[i]
		list := h.queues[queueKey{a.Topic, a.QueueID}]
		for j := len(list) - 1; j >= 0; j-- { // waking p moves the last into its place
			if p := list[j]; p.wants(a) {
				h.wakeLocked(p, wokenByArrival)
			}
		}
	}
}

// wants reports whether p should look again after an arrival.
func (p *heldPull) wants(a *store.Arrival) bool {
	if a.Next <= p.offset {
		return false
	}
	if p.filter == nil || p.filter.codes == nil || p.offset < a.First {
		// Entries before the arrival were not seen here: only a look tells.
		return true
	}
	for _, code := range a.TagsCodes[min(p.offset-a.First, int64(len(a.TagsCodes))):] {
		if p.filter.matchTags(code) {
			return true
		}
	}
	p.offset = a.Next
	return false
}

// wakeIf wakes the pulls of a queue that f chooses; a queue id of -1 stands
// for every queue of the topic.
func (h *holder) wakeIf(key queueKey, f func(*heldPull) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wake := func(list []*heldPull) {
		for j := len(list) - 1; j >= 0; j-- {
			if f(list[j]) {
				h.wakeLocked(list[j], wokenByArrival)
			}
		}
	}
	if key.id >= 0 {
		wake(h.queues[key])
		return
	}
	for k, list := range h.queues {
		if k.topic == key.topic {
			wake(list)
		}
	}
}

// drop forgets the pulls of a connection that ended, and holds no more of it.
func (h *holder) drop(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.pullsDropped = true
	for len(c.pulls) > 0 {
		h.removeLocked(c.pulls[len(c.pulls)-1])
	}
}

// close wakes every held pull with wokenByClose, holds no more, and returns
// when all that was woken has been run. Idempotent.
func (h *holder) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		for len(h.byTime) > 0 {
			h.wakeLocked(h.byTime[len(h.byTime)-1], wokenByClose)
		}
		close(h.done)
		h.work.Broadcast()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// workLoop runs woken pulls until the holder is closed and none is left.
func (h *holder) workLoop() {
	for {
		h.mu.Lock()
		for len(h.ready) == 0 && !h.closed {
			h.work.Wait()
		}
		if len(h.ready) == 0 {
			h.mu.Unlock()
			return
		}
		w := h.ready[0]
		h.ready[0] = wokenPull{}
		if h.ready = h.ready[1:]; len(h.ready) == 0 {
			h.ready = nil
		}
		h.mu.Unlock()
		h.run(w.p, w.why)
	}
}

// timeLoop sleeps until the earliest deadline and wakes what is due.
func (h *holder) timeLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-h.alarm:
		case <-timer.C:
		}
		timer.Reset(h.wakeDue(time.Now()))
	}
}

// wakeDue wakes the pulls whose time is over and returns how long to sleep.
func (h *holder) wakeDue(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.byTime) > 0 {
		p := h.byTime[0]
		if wait := p.deadline.Sub(now); wait > 0 {
			return wait
		}
		h.wakeLocked(p, wokenByTimeout)
	}
	return time.Hour
}

// pullHeap orders held pulls by deadline.
type pullHeap []*heldPull

func (q pullHeap) Len() int           { return len(q) }
func (q pullHeap) Less(i, j int) bool { return q[i].deadline.Before(q[j].deadline) }
func (q pullHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].inHeap = i
	q[j].inHeap = j
}

func (q *pullHeap) Push(x any) {
	p := x.(*heldPull)
	p.inHeap = len(*q)
	*q = append(*q, p)
}

func (q *pullHeap) Pop() any {
	old := *q
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return p
}
