package client

import (
	"context"
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
	// A division of queues that could not be carried out is tried again after
	// 200 ms, then twice as long each time, up to the usual interval.
	rebalanceAgain = 200 * time.Millisecond
	// rejoinGrace: a broker that started anew, or a network that came back,
	// meets its members one by one. Whoever is first must not take the queues
	// that others are still consuming; they are back within pullPauseMax.
	rejoinGrace = pullPauseMax + 2*time.Second
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
	if errors.Is(err, errNotYet) {
		p.log.Debug("queues not all taken over", "topic", topic, "err", err)
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
// out, or its owner may be coming back.
var errNotYet = errors.New("not free yet")

// rejoining reports whether other members may still be coming back to a broker
// that forgot them.
func (c *Client) rejoining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.rejoined.IsZero() && time.Since(c.rejoined) < rejoinGrace
}

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
	if len(fresh) > 0 && !p.cfg.broadcast && p.client.rejoining() {
		return errors.Join(append(errs, fmt.Errorf("%d queues: members may be coming back: %w", len(fresh), errNotYet))...)
	}
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

// allocate returns the part of queues that is this member's, as RocketMQ's
// AllocateMessageQueueAveragely divides them: neighbouring queues, the first
// members one more. Both lists are sorted. A member not on the list gets none.
func allocate(queues []Queue, members []string, self string) []Queue {
	i := slices.Index(members, self)
	if i < 0 {
		return nil
	}
	size, more := len(queues)/len(members), len(queues)%len(members)
	start := i*size + min(i, more)
	if i < more {
		size++
	}
	return queues[start : start+size]
}
