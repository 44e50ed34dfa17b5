package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// GroupOffset is a group's position in one queue.
type GroupOffset struct {
	Queue Queue
	// Min and Max bound the queue: its first offset and one past its last.
	Min, Max int64
	// Committed is the next offset the group reads, -1 if it never committed
	// one.
	Committed int64
}

// Lag is how many messages the group has not read: from its committed offset,
// or all there are when it has none. Never negative.
func (o GroupOffset) Lag() int64 {
	return max(0, o.Max-max(o.Committed, o.Min))
}

// GroupOffsets returns the group's position in every queue of a topic, sorted
// by queue.
func (a *Admin) GroupOffsets(ctx context.Context, group, topic string) ([]GroupOffset, error) {
	queues, err := a.Queues(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make([]GroupOffset, 0, len(queues))
	for _, q := range queues {
		o := GroupOffset{Queue: q}
		if o.Min, err = a.client.minOffset(ctx, q); err != nil {
			return nil, err
		}
		if o.Max, err = a.client.maxOffset(ctx, q); err != nil {
			return nil, err
		}
		o.Committed, err = a.client.committedOffset(ctx, group, q, true)
		if errors.Is(err, ErrOffsetNotFound) {
			o.Committed, err = -1, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// ResetTarget says where a reset goes.
type ResetTarget struct {
	to     string // a value of remoting.ResetTo…
	time   time.Time
	offset int64
}

// ResetToEarliest goes to each queue's first message.
func ResetToEarliest() ResetTarget { return ResetTarget{to: remoting.ResetToEarliest} }

// ResetToLatest goes behind each queue's last message.
func ResetToLatest() ResetTarget { return ResetTarget{to: remoting.ResetToLatest} }

// ResetToTime goes to the first message stored at t or later, in ms; behind the
// last if there is none.
func ResetToTime(t time.Time) ResetTarget { return ResetTarget{to: remoting.ResetToTime, time: t} }

// ResetToOffset goes to the same offset in each queue, or as near as the queue
// reaches.
func ResetToOffset(offset int64) ResetTarget {
	return ResetTarget{to: remoting.ResetToOffset, offset: offset}
}

// ResetStep is what a reset does to one queue.
type ResetStep struct {
	Queue    Queue
	Min, Max int64
	// From is the committed offset before, -1 if there was none; To is the new
	// one, within Min and Max.
	From, To int64
}

// PlanReset computes what a reset would do and changes nothing. The group need
// not exist.
func (a *Admin) PlanReset(ctx context.Context, group, topic string, target ResetTarget) ([]ResetStep, error) {
	if target.to == remoting.ResetToOffset && target.offset < 0 {
		return nil, fmt.Errorf("%w: reset to offset %d, must not be negative", ErrInvalidOption, target.offset)
	}
	offsets, err := a.GroupOffsets(ctx, group, topic)
	if err != nil {
		return nil, err
	}
	steps := make([]ResetStep, 0, len(offsets))
	for _, o := range offsets {
		s := ResetStep{Queue: o.Queue, Min: o.Min, Max: o.Max, From: o.Committed}
		switch target.to {
		case remoting.ResetToEarliest:
			s.To = o.Min
		case remoting.ResetToLatest:
			s.To = o.Max
		case remoting.ResetToOffset:
			s.To = target.offset
		case remoting.ResetToTime:
			if s.To, err = a.client.searchOffset(ctx, o.Queue, target.time); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%w: reset without a target", ErrInvalidOption)
		}
		s.To = max(o.Min, min(s.To, o.Max))
		steps = append(steps, s)
	}
	return steps, nil
}

// ApplyReset carries a plan out, queue by queue. Members on-line go on at the
// new offsets: TideMQ tells them at once; RocketMQ 5 answers their next pull
// with it, after at most one long poll, as long as its
// useServerSideResetOffset is on, the default. Commits of the time before do
// not undo it. Steps already done stay done when one fails; the error names
// the queue.
func (a *Admin) ApplyReset(ctx context.Context, group string, steps []ResetStep) error {
	for _, s := range steps {
		if s.To < 0 {
			return fmt.Errorf("%w: reset of %s to %d, must not be negative", ErrInvalidOption, s.Queue, s.To)
		}
	}
	for _, s := range steps {
		if err := a.applyStep(ctx, group, s); err != nil {
			return fmt.Errorf("reset of group %q in %s to %d: %w", group, s.Queue, s.To, err)
		}
	}
	return nil
}

// applyStep uses TideMQ's own request, which is durable when it is answered,
// and RocketMQ's for a server that does not know it.
func (a *Admin) applyStep(ctx context.Context, group string, s ResetStep) error {
	addr, err := a.client.brokerAddr(ctx, s.Queue, true)
	if err != nil {
		return err
	}
	answer, err := a.client.request(ctx, addr, remoting.NewRequest(remoting.ReqTideResetOffsets,
		remoting.Field{Key: "group", Value: group},
		remoting.Field{Key: "topic", Value: s.Queue.Topic},
		remoting.Field{Key: "queueId", Value: itoa(s.Queue.ID)},
		remoting.Field{Key: "to", Value: remoting.ResetToOffset},
		remoting.Field{Key: "value", Value: itoa(s.To)},
	))
	if err == nil {
		var body remoting.ResetBody
		if err := json.Unmarshal(answer.Body, &body); err != nil {
			return fmt.Errorf("%w: %w", ErrBadAnswer, err)
		}
		return nil
	}
	if !errors.Is(err, ErrNotSupported) {
		return err
	}
	// As RocketMQ's resetOffsetByQueueId. A broker that looks at the time
	// instead of the offset goes to the beginning, which repeats and loses
	// nothing.
	answer, err = a.client.request(ctx, addr, remoting.NewRequest(remoting.ReqInvokeBrokerToResetOffset,
		remoting.Field{Key: "topic", Value: s.Queue.Topic},
		remoting.Field{Key: "group", Value: group},
		remoting.Field{Key: "queueId", Value: itoa(s.Queue.ID)},
		remoting.Field{Key: "offset", Value: itoa(s.To)},
		remoting.Field{Key: "timestamp", Value: "0"},
		remoting.Field{Key: "isForce", Value: "true"},
	))
	if err != nil {
		return err
	}
	var body struct {
		Offsets queueTable `json:"offsetTable"`
	}
	if err := unmarshalLenient(answer.Body, &body); err != nil {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	if to, ok := body.Offsets[s.Queue]; !ok || to != s.To || len(body.Offsets) != 1 {
		return fmt.Errorf("%w: the broker reset %d queues, this one to %d: it does not reset on the server side (useServerSideResetOffset)",
			ErrBadAnswer, len(body.Offsets), to)
	}
	return nil
}
