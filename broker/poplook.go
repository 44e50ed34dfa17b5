package broker

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// popWaits are the pops, and questions whether there is something to pop, that
// are held until a message arrives or comes again. Each waits on the goroutine
// that serves it.
type popWaits struct {
	// count is the number of them; arrivals look at it before they lock. A
	// request counts before it looks, so an arrival that reads zero is seen by
	// that look.
	count atomic.Int64

	mu     sync.Mutex
	topics map[string]map[*popWait]struct{}
}

type popWait struct {
	group   string
	queueID int32
	wake    chan struct{} // capacity 1
	untilMs int64         // when it looks again by itself; 0: only at its end
}

// wait calls look until it finds something, the request's time is over, its
// connection ends or the broker closes. look says when what is hidden may be
// popped again.
func (w *popWaits) wait(b *Broker, c *conn, p *popRequest, look func() (found bool, nextMs int64, err error)) error {
	if p.until.IsZero() {
		_, _, err := look()
		return err
	}
	held := &popWait{group: p.group, queueID: p.queueID, wake: make(chan struct{}, 1)}
	w.add(p.topic.Name, held)
	defer w.remove(p.topic.Name, held)
	for {
		found, nextMs, err := look()
		left := time.Until(p.until)
		if found || err != nil || left <= 0 || b.tables.readable(p.topic.Name) == nil {
			return err
		}
		if !w.sleep(b, c, held, nextMs, left) {
			return nil
		}
	}
}

// sleep waits until there may be something; false when nobody waits for it any
// more.
func (w *popWaits) sleep(b *Broker, c *conn, held *popWait, nextMs int64, left time.Duration) bool {
	w.mu.Lock()
	held.untilMs = nextMs
	w.mu.Unlock()
	if nextMs > 0 {
		left = min(left, max(time.UnixMilli(nextMs).Sub(b.store.Now()), 0))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-held.wake:
	case <-timer.C:
	case <-c.ended:
		return false
	case <-b.stop:
		return false
	}
	return true
}

func (w *popWaits) add(topic string, held *popWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count.Add(1)
	if w.topics == nil {
		w.topics = make(map[string]map[*popWait]struct{})
	}
	m := w.topics[topic]
	if m == nil {
		m = make(map[*popWait]struct{})
		w.topics[topic] = m
	}
	m[held] = struct{}{}
}

func (w *popWaits) remove(topic string, held *popWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count.Add(-1)
	m := w.topics[topic]
	delete(m, held)
	if len(m) == 0 {
		delete(w.topics, topic)
	}
}

// arrive wakes who may want what arrived. Called from the store's writer.
func (w *popWaits) arrive(arrivals []store.Arrival) {
	if w.count.Load() == 0 {
		return
	}
	for i := range arrivals {
		w.wakeIf(arrivals[i].Topic, func(held *popWait) bool {
			return held.queueID < 0 || held.queueID == arrivals[i].QueueID
		})
	}
}

// hidden tells that a message of a topic may be popped again at a time: who
// would sleep for longer reckons anew.
func (w *popWaits) hidden(topic string, untilMs int64) {
	if w.count.Load() > 0 {
		w.wakeIf(topic, func(held *popWait) bool { return held.untilMs == 0 || held.untilMs > untilMs })
	}
}

// wake has everybody who waits for a topic look again.
func (w *popWaits) wake(topic string) {
	w.wakeIf(topic, func(*popWait) bool { return true })
}

func (w *popWaits) wakeIf(topic string, f func(*popWait) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for held := range w.topics[topic] {
		if f(held) {
			select {
			case held.wake <- struct{}{}:
			default:
			}
		}
	}
}

// held counts the requests that wait for a group's queue.
func (w *popWaits) held(group, topic string, queueID int32) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for held := range w.topics[topic] {
		if held.group == group && held.queueID == queueID {
			n++
		}
	}
	return n
}

// pollingInfo serves POLLING_INFO: how many pops wait for a queue.
func pollingInfo(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, topic, queue, err := queueFields(req.Fields)
	if err != nil {
		return err
	}
	if b.tables.readable(topic) == nil {
		return refuse(remoting.TopicNotExist, "topic[%s] does not exist", topic)
	}
	c.replyInt(req, "pollingNum", b.pops.held(group, topic, queue))
	return nil
}

// notification serves NOTIFICATION: whether there is something to pop, waiting
// for it if asked to.
func notification(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var p popRequest
	if err := b.popTarget(req.Fields, &p); err != nil {
		return err
	}
	var err error
	if p.until, err = pollUntil(req.Fields); err != nil {
		return err
	}
	if p.order, err = req.Fields.BoolOr("order", false); err != nil {
		return err
	}
	found := false
	err = b.pops.wait(b, c, &p, func() (bool, int64, error) {
		var nextMs int64
		found, nextMs = b.poppable(&p)
		return found, nextMs, nil
	})
	if err != nil {
		return err
	}
	resp := req.Reply(remoting.Success, "")
	resp.Fields.Set("hasMsg", strconv.FormatBool(found))
	resp.Fields.Set("pollingFull", "false")
	c.reply(req, resp)
	return nil
}

// poppable reports whether something could be popped now, or when.
func (b *Broker) poppable(p *popRequest) (found bool, nextMs int64) {
	now := b.store.Now().UnixMilli()
	p.queuesFrom(func(id int32) (bool, error) {
		lo, hi, _ := b.store.Offsets(p.topic.Name, id)
		q := b.store.LookupPopQueue(p.group, p.topic.Name, id)
		if q == nil {
			found = found || b.popBegin(p, id, lo, hi) < hi
			return found, nil
		}
		q.Lock()
		defer q.Unlock()
		due, next := q.Due(now, 1)
		found = found || len(due) > 0 || q.Next() < hi && !(p.order && q.Flying() > 0)
		if next > 0 && (nextMs == 0 || next < nextMs) {
			nextMs = next
		}
		return found, nil
	})
	return found, nextMs
}

// peekMessage serves PEEK_MESSAGE: what a pop would get that is new, without
// taking it.
func peekMessage(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var p popRequest
	if err := b.popTarget(req.Fields, &p); err != nil {
		return err
	}
	limit, err := req.Fields.Int32("maxMsgNums")
	if err != nil {
		return err
	}
	if limit < 1 || limit > maxPop {
		return refuse(remoting.InvalidParameter, "maxMsgNums is %d: 1 to %d is allowed", limit, maxPop)
	}
	var got popped
	err = p.queuesFrom(func(id int32) (bool, error) {
		lo, hi, _ := b.store.Offsets(p.topic.Name, id)
		at := int64(-1)
		if q := b.store.LookupPopQueue(p.group, p.topic.Name, id); q != nil {
			q.Lock()
			at = q.Next()
			q.Unlock()
		}
		if at < 0 {
			at = b.popBegin(&p, id, lo, hi)
		}
		got.rest += max(hi-max(at, lo), 0)
		if len(got.records) >= int(limit) {
			return false, nil
		}
		res, err := b.store.Read(p.topic.Name, id, max(at, lo), int(limit)-len(got.records), maxPullBytes, nil)
		if err != nil {
			return false, err
		}
		got.records = append(got.records, res.Records...)
		got.reads = append(got.reads, res)
		return false, nil
	})
	if err != nil {
		got.release()
		return err
	}
	code := remoting.Success
	if len(got.records) == 0 {
		code = remoting.PullNotFound
	}
	resp := req.Reply(code, "")
	resp.Fields.SetInt("popTime", b.store.Now().UnixMilli())
	resp.Fields.SetInt("invisibleTime", 0)
	resp.Fields.SetInt("reviveQid", reviveQueue)
	resp.Fields.SetInt("restNum", max(got.rest-int64(len(got.records)), 0))
	resp.Bodies, resp.Done = got.records, got.release
	c.reply(req, resp)
	return nil
}

// resetPops has a group that pops go on from where its offsets were reset to.
func (b *Broker) resetPops(group, topic string, offsets map[int32]int64) {
	for id, to := range offsets {
		if q := b.store.LookupPopQueue(group, topic, id); q != nil {
			q.Lock()
			q.Begin(to)
			q.Unlock()
		}
	}
	b.pops.wake(strings.Clone(topic))
}
