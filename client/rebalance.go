package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	// lockEvery is how often queue locks are renewed, as RocketMQ.
	lockEvery = 20 * time.Second
	// A division of queues that could not be carried out is tried again after
	// 200 ms, then twice as long each time, up to the usual interval.
	rebalanceAgain = 200 * time.Millisecond
)

// Where a group without a committed offset begins.
type startAt struct {
	where fromWhere
	time  time.Time
}

type fromWhere int

const (
	fromLast fromWhere = iota
	fromFirst
	fromTime
)

func (s startAt) wireName() string {
	switch s.where {
	case fromFirst:
		return "CONSUME_FROM_FIRST_OFFSET"
	case fromTime:
		return "CONSUME_FROM_TIMESTAMP"
	}
	return "CONSUME_FROM_LAST_OFFSET"
}

// rebalanceLoop divides the queues at the start, every WithRebalanceInterval,
// and when a broker says that members changed. first is closed after the first
// time.
func (p *PushConsumer) rebalanceLoop(first chan<- struct{}) {
	again := rebalanceAgain
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.life.Done():
			return
		}
		complete := p.rebalance(p.life)
		if first != nil {
			close(first)
			first = nil
		}
		if complete {
			again = rebalanceAgain
			timer.Reset(p.cfg.rebalance)
		} else {
			timer.Reset(min(again, p.cfg.rebalance))
			again = min(2*again, p.cfg.rebalance)
		}
	}
}

// rebalance takes over what is ours and gives away what is not. It reports
// whether all of it could be done.
func (p *PushConsumer) rebalance(ctx context.Context) bool {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return true
	}
	complete := true
	for _, topic := range slices.Sorted(maps.Keys(p.subscriptions)) {
		if err := p.rebalanceTopic(ctx, topic); err != nil {
			complete = false
			p.complain(topic, err)
		}
	}
	return complete
}

// complain logs a topic's trouble: that it does not exist only once, and not at
// all for the retry topic, which the first heartbeat creates.
func (p *PushConsumer) complain(topic string, err error) {
	if p.life.Err() != nil {
		return
	}
	if errors.Is(err, ErrTopicNotFound) {
		p.mu.Lock()
		known := p.missing[topic]
		p.missing[topic] = true
		p.mu.Unlock()
		if known || message.IsRetryTopic(topic) {
			return
		}
	}
	p.log.Warn("queues not divided", "topic", topic, "err", err)
}

func (p *PushConsumer) rebalanceTopic(ctx context.Context, topic string) error {
	r, err := p.client.fetchRoute(ctx, topic)
	if err != nil {
		if errors.Is(err, ErrTopicNotFound) {
			p.seen(topic, nil)
			p.retire(ctx, topic, nil) // deleted, or not created yet
		}
		// Nobody may be there to ask; what we have goes on.
		return err
	}
	all := r.readable()
	p.seen(topic, all)
	mine := all
	if !p.cfg.broadcast {
		members, err := p.members(ctx, r)
		if err != nil {
			return err
		}
		mine = allocate(all, members, p.client.cfg.clientID)
	} else if err := p.client.announceAll(ctx, r); err != nil {
		return err
	}
	p.retire(ctx, topic, mine)
	return p.takeOver(ctx, mine)
}

// seen notes the queues a topic has when the consumer first asks.
func (p *PushConsumer) seen(topic string, all []Queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all != nil {
		delete(p.missing, topic)
	}
	if p.initial[topic] == nil {
		set := make(map[Queue]bool, len(all))
		for _, q := range all {
			set[q] = true
		}
		p.initial[topic] = set
	}
}

// members returns the client ids of the group's members, sorted. Every broker
// of the topic hears of us first; any of them is asked.
func (p *PushConsumer) members(ctx context.Context, r *route) ([]string, error) {
	if err := p.client.announceAll(ctx, r); err != nil {
		return nil, err
	}
	ids, err := p.client.consumerIDs(ctx, r, p.group)
	if err != nil || slices.Contains(ids, p.client.cfg.clientID) {
		return ids, err
	}
	// The broker lost us, though we told it: tell it again before giving the
	// queues up.
	for _, addr := range r.masters() {
		cn, err := p.client.connect(ctx, addr)
		if err == nil {
			err = p.client.beat(ctx, cn, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return p.client.consumerIDs(ctx, r, p.group)
}

// announceAll tells every broker of a topic about this client.
func (c *Client) announceAll(ctx context.Context, r *route) error {
	masters := r.masters()
	errs := make([]error, len(masters))
	var wg sync.WaitGroup
	for i, addr := range masters {
		wg.Go(func() { _, errs[i] = c.announce(ctx, addr) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// consumerIDs asks the brokers of a topic in turn for the client ids of a
// group's members, sorted. ErrNoMembers if there is none.
func (c *Client) consumerIDs(ctx context.Context, r *route, group string) ([]string, error) {
	errs := []error{fmt.Errorf("%w: topic %q has no broker", ErrNoQueue, r.topic)}
	for i, addr := range r.masters() {
		if i == 0 {
			errs = nil
		}
		ids, err := c.consumerIDsAt(ctx, addr, group)
		if err == nil {
			return ids, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (c *Client) consumerIDsAt(ctx context.Context, addr, group string) ([]string, error) {
	answer, err := c.request(ctx, addr, remoting.NewRequest(remoting.ReqGetConsumerListByGroup,
		remoting.Field{Key: "consumerGroup", Value: group}))
	var be *BrokerError
	if errors.As(err, &be) && be.Code == remoting.SystemError {
		// What RocketMQ answers for a group nobody is in.
		return nil, fmt.Errorf("%w: group %q: %w", ErrNoMembers, group, err)
	}
	if err != nil {
		return nil, err
	}
	var body struct {
		IDs []string `json:"consumerIdList"`
	}
	if err := unmarshalLenient(answer.Body, &body); err != nil {
		return nil, fmt.Errorf("%w: members of group %q: %w", ErrBadAnswer, group, err)
	}
	if len(body.IDs) == 0 {
		return nil, fmt.Errorf("%w: group %q", ErrNoMembers, group)
	}
	slices.Sort(body.IDs)
	return slices.Compact(body.IDs), nil
}

// retire gives away the topic's queues that are not in mine.
func (p *PushConsumer) retire(ctx context.Context, topic string, mine []Queue) {
	var gone []*processQueue
	p.mu.Lock()
	for q, pq := range p.queues {
		if q.Topic != topic || slices.Contains(mine, q) || p.closed {
			continue
		}
		delete(p.queues, q)
		gone = append(gone, pq)
		pq.cancel()
		if p.cfg.orderly {
			p.leaving[q] = true
			p.work.Go(func() { p.retireInOrder(pq) })
		}
	}
	p.mu.Unlock()
	slices.SortFunc(gone, func(a, b *processQueue) int { return compareQueues(a.queue, b.queue) })
	for _, pq := range gone {
		p.log.Info("queue given away", "queue", pq.queue.String())
		if p.cfg.orderly {
			continue
		}
		// At once, so that the next owner starts behind what we consumed.
		if err := errors.Join(pq.commit(ctx, true), p.store.flush()); err != nil {
			p.log.Warn("last commit of a queue failed", "queue", pq.queue.String(), "err", err)
		}
	}
}

// retireInOrder gives an orderly queue away when its handler has returned. The
// lock keeps others out until then, for as long as the broker lets us have it.
func (p *PushConsumer) retireInOrder(pq *processQueue) {
	<-pq.fed
	ctx, cancel := context.WithTimeout(p.life, p.client.cfg.requestTimeout)
	defer cancel()
	var err error
	if p.cfg.broadcast || pq.holdsLock() {
		err = errors.Join(pq.commit(ctx, true), p.store.flush())
	} else {
		pq.drop(ctx) // somebody else may be further on already
	}
	if !p.cfg.broadcast {
		err = errors.Join(err, p.unlock(ctx, []*processQueue{pq}))
	}
	if err != nil && p.life.Err() == nil {
		p.log.Warn("queue not given away in order", "queue", pq.queue.String(), "err", err)
	}
	p.mu.Lock()
	delete(p.leaving, pq.queue)
	p.mu.Unlock()
	poke(p.wake) // it may be ours again by now
}

// errNotYet: a queue of ours is still locked by another member, or on its way
// out.
var errNotYet = errors.New("not free yet")

// takeOver begins to consume those of mine that are not consumed yet.
func (p *PushConsumer) takeOver(ctx context.Context, mine []Queue) error {
	var fresh []Queue
	var errs []error
	p.mu.Lock()
	for _, q := range mine {
		switch {
		case p.queues[q] != nil:
		case p.leaving[q]:
			errs = append(errs, fmt.Errorf("%s: %w", q, errNotYet))
		default:
			fresh = append(fresh, q)
		}
	}
	p.mu.Unlock()
	lockedAt := time.Now()
	if p.cfg.orderly && !p.cfg.broadcast && len(fresh) > 0 {
		// The lock comes before the offset: only then does nobody move it.
		held, err := p.lock(ctx, fresh)
		errs = append(errs, err)
		fresh = slices.DeleteFunc(fresh, func(q Queue) bool {
			if !held[q] && err == nil {
				errs = append(errs, fmt.Errorf("%s: %w", q, errNotYet))
			}
			return !held[q]
		})
	}
	for _, q := range fresh {
		offset, err := p.startOffset(ctx, q)
		if err != nil {
			errs = append(errs, fmt.Errorf("start offset of %s: %w", q, err))
			continue
		}
		p.mu.Lock()
		if p.queues[q] == nil && p.startLocked(q, offset, lockedAt, nil) != nil {
			p.log.Info("queue taken over", "queue", q.String(), "offset", offset)
		}
		p.mu.Unlock()
	}
	return errors.Join(errs...)
}

// startOffset is where to begin in a queue. The retry topic and queues that
// appeared after the consumer started begin at their first message: nothing in
// them is older than the subscription.
func (p *PushConsumer) startOffset(ctx context.Context, q Queue) (int64, error) {
	offset, err := p.store.load(ctx, q)
	if !errors.Is(err, ErrOffsetNotFound) {
		return offset, err
	}
	p.mu.Lock()
	isNew := !p.initial[q.Topic][q]
	p.mu.Unlock()
	switch {
	case message.IsRetryTopic(q.Topic), isNew, p.cfg.from.where == fromFirst:
		return p.client.minOffset(ctx, q)
	case p.cfg.from.where == fromTime:
		return p.client.searchOffset(ctx, q, p.cfg.from.time)
	}
	return p.client.maxOffset(ctx, q)
}

// lockLoop renews the queue locks. A queue whose lock went to another member
// is given up without a commit.
func (p *PushConsumer) lockLoop() {
	for sleep(p.life, lockEvery) {
		queues := p.snapshot()
		names := make([]Queue, len(queues))
		for i, pq := range queues {
			names[i] = pq.queue
		}
		if len(names) == 0 {
			continue
		}
		at := time.Now()
		held, err := p.lock(p.life, names)
		if err != nil && p.life.Err() == nil {
			// What could not be asked for stays trusted for its time.
			p.log.Warn("queue locks not renewed", "err", err)
		}
		for _, pq := range queues {
			ours, known := held[pq.queue]
			switch {
			case ours:
				pq.locked(at)
			case known:
				p.log.Warn("queue lock lost", "queue", pq.queue.String())
				p.lose(pq)
			}
		}
	}
}

// lose drops a queue that belongs to another member already.
func (p *PushConsumer) lose(pq *processQueue) {
	pq.cancel()
	ctx, cancel := context.WithTimeout(p.life, p.client.cfg.requestTimeout)
	defer cancel()
	pq.drop(ctx)
	p.mu.Lock()
	if p.queues[pq.queue] == pq && !p.closed {
		delete(p.queues, pq.queue)
		p.leaving[pq.queue] = true
		p.work.Go(func() {
			<-pq.fed
			p.mu.Lock()
			delete(p.leaving, pq.queue)
			p.mu.Unlock()
			poke(p.wake)
		})
	}
	p.mu.Unlock()
}

// lockBody is the body of lock and unlock requests, as RocketMQ
// LockBatchRequestBody.
type lockBody struct {
	Group    string     `json:"consumerGroup"`
	ClientID string     `json:"clientId"`
	Only     bool       `json:"onlyThisBroker"`
	Queues   []queueKey `json:"mqSet"`
}

// lock asks for queue locks, broker by broker. The map says for each queue
// whether we hold it; queues whose broker did not answer are not in it.
func (p *PushConsumer) lock(ctx context.Context, queues []Queue) (map[Queue]bool, error) {
	held := map[Queue]bool{}
	err := p.byBroker(ctx, remoting.ReqLockBatchMQ, queues, func(asked []Queue, answer *remoting.Command) error {
		var body struct {
			Held []queueKey `json:"lockOKMQSet"`
		}
		if err := unmarshalLenient(answer.Body, &body); err != nil {
			return fmt.Errorf("%w: queue locks: %w", ErrBadAnswer, err)
		}
		for _, q := range asked {
			held[q] = slices.Contains(body.Held, queueKey{BrokerName: q.Broker, QueueID: q.ID, Topic: q.Topic})
		}
		return nil
	})
	return held, err
}

func (p *PushConsumer) unlock(ctx context.Context, queues []*processQueue) error {
	names := make([]Queue, len(queues))
	for i, pq := range queues {
		names[i] = pq.queue
	}
	return p.byBroker(ctx, remoting.ReqUnlockBatchMQ, names, func([]Queue, *remoting.Command) error { return nil })
}

// byBroker sends a lock or unlock request to each broker that has some of
// queues.
func (p *PushConsumer) byBroker(ctx context.Context, code int, queues []Queue, answered func([]Queue, *remoting.Command) error) error {
	queues = slices.SortedFunc(slices.Values(queues), func(a, b Queue) int {
		return cmp.Or(cmp.Compare(a.Broker, b.Broker), compareQueues(a, b))
	})
	var errs []error
	for len(queues) > 0 {
		n := slices.IndexFunc(queues, func(q Queue) bool { return q.Broker != queues[0].Broker })
		if n < 0 {
			n = len(queues)
		}
		part := queues[:n]
		queues = queues[n:]
		body := lockBody{Group: p.group, ClientID: p.client.cfg.clientID}
		for _, q := range part {
			body.Queues = append(body.Queues, queueKey{BrokerName: q.Broker, QueueID: q.ID, Topic: q.Topic})
		}
		errs = append(errs, func() error {
			addr, err := p.client.brokerAddr(ctx, part[0], true)
			if err != nil {
				return err
			}
			req := remoting.NewRequest(code)
			if req.Body, err = json.Marshal(body); err != nil {
				return err
			}
			answer, err := p.client.memberRequest(ctx, addr, req)
			if err != nil {
				return err
			}
			return answered(part, answer)
		}())
	}
	return errors.Join(errs...)
}
