package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// Result is what a handler makes of a message.
type Result int32

const (
	// Success: the message is consumed.
	Success Result = 0
	// DeadLetter: the message goes to %DLQ%group at once.
	DeadLetter Result = 1
	// Retry: the message comes again, later each time, as the broker decides:
	// after delay level 3 at first, one level longer with each further time.
	Retry Result = 2
)

// RetryLater lets the message come again after the given delay level, 1-based.
// 0 is [Retry], a negative level [DeadLetter]. A level above the broker's table
// means its last one. In an orderly consumer the message comes again after
// WithSuspend, whatever the level.
func RetryLater(level int) Result {
	if level < 0 {
		return DeadLetter
	}
	return Retry + Result(min(level, math.MaxInt16))
}

// level is the delay level of a result other than Success, as code 36 takes it.
func (r Result) level() int { return int(r - Retry) }

// String implements fmt.Stringer.
func (r Result) String() string {
	switch {
	case r == Success:
		return "success"
	case r == DeadLetter:
		return "dead letter"
	case r == Retry:
		return "retry"
	case r > Retry:
		return fmt.Sprintf("retry later at level %d", r.level())
	}
	return fmt.Sprintf("Result(%d)", int32(r))
}

// Handler consumes one message. It is called concurrently, in an orderly
// consumer for different queues only. A panic counts as [Retry]. ctx ends when
// Close gives up waiting; a message whose handler has not returned by then is
// not committed and comes again.
//
// A message is handed over at least once: again after a crash, when the queue
// moves to another member while the handler runs, and when a commit is lost.
type Handler func(ctx context.Context, m *Message) Result

// PushConsumer hands the messages of a group's subscriptions to a handler. The
// members of a group divide the queues among themselves.
//
// Goroutines: one that divides queues, one that commits, in an orderly consumer
// one that renews queue locks, two for each queue, one for each running
// handler.
type PushConsumer struct {
	client        *Client
	group         string
	handler       Handler
	cfg           consumerConfig
	subscriptions map[string]subscription // with the retry topic; not changed
	version       int64                   // of the subscriptions, as brokers compare them
	started       time.Time
	store         offsetStore
	sender        sender // for messages sent to the retry topic
	log           *slog.Logger

	// life ends when nothing is left to do; handling is what handlers get.
	life     context.Context
	end      context.CancelFunc
	handling context.Context
	giveUp   context.CancelFunc

	slots chan struct{} // one per handler running
	wake  chan struct{} // divide the queues now

	loops sync.WaitGroup // goroutines that run as long as the consumer
	work  sync.WaitGroup // queues and handlers

	mu      sync.Mutex
	closed  bool
	queues  map[Queue]*processQueue
	leaving map[Queue]bool // orderly: retired, but a handler still runs
	// initial holds, per topic, the queues it had when the consumer first saw
	// it. Others are new: no message in them was sent before we subscribed.
	initial map[string]map[Queue]bool
	missing map[string]bool // topics whose absence was logged
}

// NewPushConsumer starts a consumer of group (1 to 120 bytes of a topic's
// characters). At least one [WithSubscription] is needed. It returns after the
// first attempt to reach the brokers and to take queues over, or when ctx ends;
// that attempt need not succeed, the consumer goes on trying in the background
// until Close. In a cluster group it also subscribes to %RETRY%group, where
// failed messages come back.
//
// Errors wrap [ErrInvalidOption], [ErrGroupInUse], [ErrClosed], or the reason
// why the offset file of a broadcast consumer cannot be used.
func (c *Client) NewPushConsumer(ctx context.Context, group string, handler Handler, opts ...ConsumerOption) (*PushConsumer, error) {
	if err := message.ValidateGroup(group); err != nil {
		return nil, fmt.Errorf("%w: NewPushConsumer: %w", ErrInvalidOption, err)
	}
	if handler == nil {
		return nil, optionError("NewPushConsumer", "nil", "a handler")
	}
	cfg := defaultConsumerConfig()
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	if len(cfg.subscriptions) == 0 {
		return nil, optionError("NewPushConsumer", "no subscription", "WithSubscription at least once")
	}
	p := &PushConsumer{
		client:        c,
		group:         group,
		handler:       handler,
		cfg:           cfg,
		subscriptions: cfg.subscriptions,
		started:       time.Now(),
		version:       time.Now().UnixMilli(),
		log:           c.cfg.log.With("group", group),
		slots:         make(chan struct{}, cfg.concurrency),
		wake:          make(chan struct{}, 1),
		queues:        map[Queue]*processQueue{},
		leaving:       map[Queue]bool{},
		initial:       map[string]map[Queue]bool{},
		missing:       map[string]bool{},
		sender:        sender{client: c, group: innerProducerGroup, retries: 2, robin: RoundRobin()},
	}
	if cfg.broadcast {
		store, err := openFileOffsets(cfg.offsetFile, group)
		if err != nil {
			return nil, err
		}
		p.store = store
	} else {
		p.store = &brokerOffsets{client: c, group: group}
		p.subscriptions[message.RetryTopic(group)] = subscription{kind: tagFilter, expr: "*"}
	}
	p.life, p.end = context.WithCancel(context.Background())
	p.handling, p.giveUp = context.WithCancel(context.Background())
	first, err := p.start()
	if err != nil {
		return nil, err
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
	return p, nil
}

// start makes the consumer known and starts its loops. The channel is closed
// after the first attempt to take queues over. A Close of the client that comes
// at the same time waits for the lock, and so for loops that are there.
func (p *PushConsumer) start() (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.client.addConsumer(p.group, p); err != nil {
		p.end()
		p.giveUp()
		return nil, err
	}
	first := make(chan struct{})
	p.loops.Go(func() { p.rebalanceLoop(first) })
	p.loops.Go(p.commitLoop)
	if p.cfg.orderly && !p.cfg.broadcast {
		p.loops.Go(p.lockLoop)
	}
	return first, nil
}

// innerProducerGroup is what RocketMQ's consumers send under.
const innerProducerGroup = "CLIENT_INNER_PRODUCER"

// Queues returns the queues this member consumes now, sorted.
func (p *PushConsumer) Queues() []Queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return sortedQueues(p.queues)
}

// Close stops pulling, waits until handlers in hand have returned or ctx ends,
// commits what is consumed, gives queue locks back and leaves the group, so
// that other members take over at once. When ctx ends first it commits only
// what is before the messages still in hand and cancels the handlers' context.
// It returns the errors of all steps joined. A further call returns nil at once.
func (p *PushConsumer) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true // no new queues from here on
	queues := p.snapshotLocked()
	p.mu.Unlock()

	// Stop pulling and handing out. Offsets go on being committed, and locks
	// renewed, while handlers finish.
	for _, pq := range queues {
		pq.cancel()
	}
	var errs []error
	done := make(chan struct{})
	go func() { // ends with the handlers; nothing else can end it
		p.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		errs = append(errs, contextError(ctx, "handlers of group "+p.group))
	}

	// The last commit, after which a late handler's result does not count;
	// only then are late handlers told, so that what they return in a hurry is
	// not taken for consumed. Then the locks, since whoever gets one starts from the committed offset,
	// and leaving last, since it makes others take the queues.
	lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.client.cfg.requestTimeout)
	defer cancel()
	errs = append(errs, p.commitAll(lctx, true))
	p.giveUp()
	if p.cfg.orderly && !p.cfg.broadcast {
		errs = append(errs, p.unlock(lctx, queues))
	}
	if err := p.client.leave(lctx, "", p.group); err != nil {
		// Brokers forget us with the connection anyway.
		p.log.Debug("group not left", "err", err)
	}
	p.end()
	p.loops.Wait()
	return errors.Join(errs...)
}

func (p *PushConsumer) snapshotLocked() []*processQueue {
	out := make([]*processQueue, 0, len(p.queues))
	for _, q := range sortedQueues(p.queues) {
		out = append(out, p.queues[q])
	}
	return out
}

func (p *PushConsumer) snapshot() []*processQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshotLocked()
}

// commitLoop commits every WithCommitInterval.
func (p *PushConsumer) commitLoop() {
	for sleep(p.life, p.cfg.commitEvery) {
		if err := p.commitAll(p.life, false); err != nil && p.life.Err() == nil {
			p.log.Warn("commit failed", "err", err)
		}
	}
}

// commitAll commits all queues at the same time.
func (p *PushConsumer) commitAll(ctx context.Context, last bool) error {
	queues := p.snapshot()
	errs := make([]error, len(queues), len(queues)+1)
	var wg sync.WaitGroup
	for i, pq := range queues {
		wg.Go(func() { errs[i] = pq.commit(ctx, last) })
	}
	wg.Wait()
	return errors.Join(append(errs, p.store.flush())...)
}

// startLocked begins to consume q from offset. It reports false when the
// consumer is closing.
func (p *PushConsumer) startLocked(q Queue, offset int64, lockedAt time.Time, after <-chan struct{}) *processQueue {
	if p.closed {
		return nil
	}
	pq := newProcessQueue(p, q, offset)
	pq.lockedAt, pq.after = lockedAt, after
	p.queues[q] = pq
	p.work.Go(pq.pullLoop)
	if p.cfg.orderly {
		p.work.Go(pq.handOutInOrder)
	} else {
		p.work.Go(pq.handOut)
	}
	return pq
}

// replace goes on with pq's queue at another offset. What was pulled and not
// handed out is forgotten, and results of handlers in hand do not count, so
// that nothing moves the offset back.
func (p *PushConsumer) replace(pq *processQueue, offset int64) {
	pq.cancel()
	ctx, cancel := context.WithTimeout(p.life, p.client.cfg.requestTimeout)
	defer cancel()
	pq.drop(ctx)
	p.mu.Lock()
	if p.queues[pq.queue] != pq {
		p.mu.Unlock()
		return // retired, or replaced by somebody else
	}
	delete(p.queues, pq.queue)
	pq.mu.Lock()
	lockedAt := pq.lockedAt
	pq.mu.Unlock()
	var after <-chan struct{}
	if p.cfg.orderly {
		after = pq.fed
	}
	next := p.startLocked(pq.queue, offset, lockedAt, after)
	if next != nil {
		p.work.Go(func() { p.saveReset(next, offset) })
	}
	p.mu.Unlock()
	if next == nil { // closing
		p.saveReset(newProcessQueue(p, pq.queue, offset), offset)
	}
}

// saveReset commits at once: the offset before a reset must not come back
// after a crash.
func (p *PushConsumer) saveReset(pq *processQueue, offset int64) {
	ctx, cancel := context.WithTimeout(p.life, p.client.cfg.requestTimeout)
	defer cancel()
	if err := errors.Join(pq.commit(ctx, false), p.store.flush()); err != nil && p.life.Err() == nil {
		p.log.Warn("commit of a reset failed", "queue", pq.queue.String(), "offset", offset, "err", err)
	}
}

// resetOffsets goes on at other offsets in those queues of table that this
// member holds.
func (p *PushConsumer) resetOffsets(topic string, table map[Queue]int64) {
	for _, pq := range p.snapshot() {
		offset, ok := table[pq.queue]
		if !ok || offset < 0 || pq.queue.Topic != topic {
			continue
		}
		p.log.Info("offset reset", "queue", pq.queue.String(), "from", pq.offset(), "to", offset)
		p.replace(pq, offset)
	}
}

// heartbeat implements groupMember.
func (p *PushConsumer) heartbeat() consumerData {
	d := consumerData{
		Group:         p.group,
		ConsumeType:   "CONSUME_PASSIVELY",
		MessageModel:  "CLUSTERING",
		FromWhere:     p.cfg.from.wireName(),
		Subscriptions: make([]subscriptionData, 0, len(p.subscriptions)),
	}
	if p.cfg.broadcast {
		d.MessageModel = "BROADCASTING"
	}
	for topic, sub := range p.subscriptions {
		d.Subscriptions = append(d.Subscriptions, sub.data(topic, p.version))
	}
	return d
}

// membersChanged implements groupMember.
func (p *PushConsumer) membersChanged() { poke(p.wake) }
