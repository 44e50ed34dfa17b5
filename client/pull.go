package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// PullStatus says what a pull found.
type PullStatus int

// What brokers answer to a pull.
const (
	// Found: there are messages.
	Found PullStatus = iota
	// NoNewMessage: none came in the time the broker waited.
	NoNewMessage
	// NoMatch: there are messages, but none of them has a wanted tag; go on from
	// NextOffset.
	NoMatch
	// OffsetMoved: the offset is outside the queue, or the group's offset was
	// reset; go on from NextOffset.
	OffsetMoved
)

// String implements fmt.Stringer.
func (s PullStatus) String() string {
	switch s {
	case Found:
		return "found"
	case NoNewMessage:
		return "no new message"
	case NoMatch:
		return "no match"
	case OffsetMoved:
		return "offset moved"
	}
	return fmt.Sprintf("PullStatus(%d)", int(s))
}

// PullResult is the answer to a pull.
type PullResult struct {
	Status PullStatus
	// Messages are in queue order. There may be none with Found: when tags
	// share a hash, the client drops what was not asked for.
	Messages []*Message
	// NextOffset is where the next pull begins.
	NextOffset int64
	// MinOffset is the queue's first offset, MaxOffset one past its last.
	MinOffset, MaxOffset int64
}

// Bits of a pull's system flag, as RocketMQ PullSysFlag. The one that commits
// an offset along is not used: a pull sent just before a reset would undo it.
const (
	pullSuspend      = 1 << 1
	pullSubscription = 1 << 2
)

// pullSlack is how much longer than the poll a pull may take.
const pullSlack = 15 * time.Second

// pull asks for messages of q from offset on. The broker holds the pull for
// wait, 0 for not at all, when there is nothing.
func (c *Client) pull(ctx context.Context, group string, q Queue, sub subscription, version, offset int64, batch int, wait time.Duration) (PullResult, error) {
	addr, err := c.brokerAddr(ctx, q, false)
	if err != nil {
		return PullResult{}, err
	}
	cn, err := c.announce(ctx, addr)
	if err != nil {
		return PullResult{}, err
	}
	// The subscription goes along, so that a broker that forgot the group
	// answers all the same.
	flags := pullSubscription
	if wait > 0 {
		flags |= pullSuspend
	}
	req := remoting.NewRequest(remoting.ReqPullMessage,
		remoting.Field{Key: "consumerGroup", Value: group},
		remoting.Field{Key: "topic", Value: q.Topic},
		remoting.Field{Key: "queueId", Value: itoa(q.ID)},
		remoting.Field{Key: "queueOffset", Value: itoa(offset)},
		remoting.Field{Key: "maxMsgNums", Value: itoa(batch)},
		remoting.Field{Key: "sysFlag", Value: itoa(flags)},
		remoting.Field{Key: "commitOffset", Value: "0"},
		remoting.Field{Key: "suspendTimeoutMillis", Value: itoa(wait.Milliseconds())},
		remoting.Field{Key: "subscription", Value: sub.expr},
		remoting.Field{Key: "subVersion", Value: itoa(version)},
		remoting.Field{Key: "expressionType", Value: sub.kind},
		remoting.Field{Key: "bname", Value: q.Broker},
	)
	req.HeaderType = remoting.HeaderRocketMQ
	ctx, cancel := context.WithTimeout(ctx, max(c.cfg.requestTimeout, wait+pullSlack))
	defer cancel()
	k, err := cn.start(ctx, req)
	if err != nil {
		return PullResult{}, err
	}
	answer, err := k.wait(ctx)
	if err != nil {
		return PullResult{}, err
	}
	return c.pullResult(cn.addr, q, sub, answer)
}

func (c *Client) pullResult(addr string, q Queue, sub subscription, answer *remoting.Command) (PullResult, error) {
	var r PullResult
	switch answer.Code {
	case remoting.Success:
		r.Status = Found
	case remoting.PullNotFound:
		r.Status = NoNewMessage
	case remoting.PullRetryImmediately:
		r.Status = NoMatch
	case remoting.PullOffsetMoved:
		r.Status = OffsetMoved
	default:
		return r, brokerError(addr, remoting.ReqPullMessage, answer)
	}
	for _, f := range []struct {
		key string
		to  *int64
	}{{"nextBeginOffset", &r.NextOffset}, {"minOffset", &r.MinOffset}, {"maxOffset", &r.MaxOffset}} {
		v, err := requireInt64(answer, f.key)
		if err != nil {
			return r, fmt.Errorf("pull of %s: %w", q, err)
		}
		*f.to = v
	}
	if r.NextOffset < 0 {
		return r, fmt.Errorf("pull of %s: %w: next offset %d", q, ErrBadAnswer, r.NextOffset)
	}
	if r.Status != Found {
		return r, nil
	}
	last := int64(-1)
	for b := answer.Body; len(b) > 0; {
		rec, n, err := message.DecodeRecord(b)
		if err != nil {
			return r, fmt.Errorf("pull of %s: %w: record at byte %d of %d: %w", q, ErrBadAnswer, len(answer.Body)-len(b), len(answer.Body), err)
		}
		b = b[n:]
		if rec.QueueOffset <= last || rec.QueueOffset >= r.NextOffset {
			return r, fmt.Errorf("pull of %s: %w: record with queue offset %d after %d, next is %d", q, ErrBadAnswer, rec.QueueOffset, last, r.NextOffset)
		}
		last = rec.QueueOffset
		m := fromRecord(q, &rec)
		if m.BodyErr != nil {
			c.cfg.log.Warn("body kept as stored", "queue", q.String(), "offset", m.QueueOffset, "err", m.BodyErr)
		}
		if sub.takes(m.Tags) {
			r.Messages = append(r.Messages, m)
		}
	}
	return r, nil
}
