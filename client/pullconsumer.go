package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// PullConsumer reads queues at the caller's pace and leaves it to the caller
// which ones, from where, and what to commit. Its methods may be called
// concurrently.
type PullConsumer struct {
	client  *Client
	group   string
	version int64 // of the subscriptions, as brokers compare them

	mu     sync.Mutex
	closed bool
	topics map[string]subscription // pulled so far; shown in heartbeats
}

// NewPullConsumer returns a pull consumer of a group, whose name is 1 to 120
// bytes of a topic's characters. Brokers count it among the group's members:
// push consumers of the same group would leave queues to it, so give it a
// group of its own. Errors wrap [ErrInvalidOption], [ErrGroupInUse] or
// [ErrClosed].
func (c *Client) NewPullConsumer(group string) (*PullConsumer, error) {
	if err := message.ValidateGroup(group); err != nil {
		return nil, fmt.Errorf("%w: NewPullConsumer: %w", ErrInvalidOption, err)
	}
	p := &PullConsumer{client: c, group: group, version: time.Now().UnixMilli(), topics: map[string]subscription{}}
	if err := c.addConsumer(group, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Queues returns the topic's queues that may be read, sorted. It asks the name
// server.
func (p *PullConsumer) Queues(ctx context.Context, topic string) ([]Queue, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	r, err := p.client.fetchRoute(ctx, topic)
	if err != nil {
		return nil, err
	}
	return r.readable(), nil
}

// Pull reads up to batch messages (1 to 1024; brokers give at most 32 by
// default) of q from offset on. When there is none, the broker waits for one as
// long as wait says, up to a minute; with 0 it answers at once. tags selects as
// in [WithSubscription]. See [PullStatus] for what may be found.
func (p *PullConsumer) Pull(ctx context.Context, q Queue, offset int64, batch int, wait time.Duration, tags string) (PullResult, error) {
	sub, err := parseTags(tags)
	switch {
	case err != nil:
		return PullResult{}, fmt.Errorf("%w: tags %q: %w", ErrInvalidOption, tags, err)
	case offset < 0:
		return PullResult{}, fmt.Errorf("%w: offset %d, must not be negative", ErrInvalidOption, offset)
	case batch < 1 || batch > 1024:
		return PullResult{}, fmt.Errorf("%w: batch %d, want 1 to 1024", ErrInvalidOption, batch)
	case wait < 0 || wait > time.Minute:
		return PullResult{}, fmt.Errorf("%w: wait %v, want 0 to 1m", ErrInvalidOption, wait)
	}
	if err := p.subscribe(q.Topic, sub); err != nil {
		return PullResult{}, err
	}
	return p.client.pull(ctx, p.group, q, sub, p.version, offset, batch, wait)
}

// MinOffset returns the offset of the queue's first message.
func (p *PullConsumer) MinOffset(ctx context.Context, q Queue) (int64, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	return p.client.minOffset(ctx, q)
}

// MaxOffset returns the offset one past the queue's last message.
func (p *PullConsumer) MaxOffset(ctx context.Context, q Queue) (int64, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	return p.client.maxOffset(ctx, q)
}

// SearchOffset returns the offset of the first message stored at t or later,
// in ms; the queue's maximum if there is none.
func (p *PullConsumer) SearchOffset(ctx context.Context, q Queue, t time.Time) (int64, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	return p.client.searchOffset(ctx, q, t)
}

// Committed returns the offset the group committed in q. [ErrOffsetNotFound]:
// it never did.
func (p *PullConsumer) Committed(ctx context.Context, q Queue) (int64, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	return p.client.committedOffset(ctx, p.group, q, true)
}

// Commit stores offset, the next one to read, as the group's in q.
func (p *PullConsumer) Commit(ctx context.Context, q Queue, offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%w: offset %d, must not be negative", ErrInvalidOption, offset)
	}
	if err := p.open(); err != nil {
		return err
	}
	return p.client.commitOffset(ctx, p.group, q, offset)
}

// Close leaves the group. It commits nothing. Calls that begin later return
// [ErrClosed].
func (p *PullConsumer) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.client.cfg.requestTimeout)
	defer cancel()
	if err := p.client.leave(ctx, "", p.group); err != nil {
		// The broker forgets us with the connection anyway.
		p.client.cfg.log.Debug("consumer group not left", "group", p.group, "err", err)
	}
	return nil
}

func (p *PullConsumer) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	return nil
}

// subscribe notes what is pulled. Brokers are told at the next heartbeat; the
// pull itself carries the subscription.
func (p *PullConsumer) subscribe(topic string, sub subscription) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.topics[topic] = sub
	return nil
}

// heartbeat implements groupMember.
func (p *PullConsumer) heartbeat() consumerData {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := consumerData{
		Group:         p.group,
		ConsumeType:   "CONSUME_ACTIVELY",
		MessageModel:  "CLUSTERING",
		FromWhere:     "CONSUME_FROM_LAST_OFFSET",
		Subscriptions: []subscriptionData{},
	}
	for topic, sub := range p.topics {
		d.Subscriptions = append(d.Subscriptions, sub.data(topic, p.version))
	}
	return d
}

// membersChanged implements groupMember: the caller divides queues, if anybody.
func (p *PullConsumer) membersChanged() {}
