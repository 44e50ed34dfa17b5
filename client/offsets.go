package client

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// Requests about one queue's offsets, shared by consumers and Admin.

func queueFields(q Queue) []remoting.Field {
	return []remoting.Field{
		{Key: "topic", Value: q.Topic},
		{Key: "queueId", Value: itoa(q.ID)},
		{Key: "bname", Value: q.Broker},
	}
}

// queueOffset asks q's broker with code and reads field of the answer.
func (c *Client) queueOffset(ctx context.Context, code int, q Queue, field string, more ...remoting.Field) (int64, error) {
	addr, err := c.brokerAddr(ctx, q, false)
	if err != nil {
		return 0, err
	}
	answer, err := c.request(ctx, addr, remoting.NewRequest(code, append(queueFields(q), more...)...))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", q, err)
	}
	v, err := requireInt64(answer, field)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", q, err)
	}
	return v, nil
}

func (c *Client) minOffset(ctx context.Context, q Queue) (int64, error) {
	return c.queueOffset(ctx, remoting.ReqGetMinOffset, q, "offset")
}

func (c *Client) maxOffset(ctx context.Context, q Queue) (int64, error) {
	return c.queueOffset(ctx, remoting.ReqGetMaxOffset, q, "offset")
}

func (c *Client) searchOffset(ctx context.Context, q Queue, t time.Time) (int64, error) {
	return c.queueOffset(ctx, remoting.ReqSearchOffsetByTimestamp, q, "offset",
		remoting.Field{Key: "timestamp", Value: itoa(t.UnixMilli())})
}

// committedOffset returns a group's offset in q. With exact an offset never
// committed is ErrOffsetNotFound; without, brokers answer 0 for a queue they
// still hold from its beginning, so that a group that comes to a young topic
// misses nothing.
func (c *Client) committedOffset(ctx context.Context, group string, q Queue, exact bool) (int64, error) {
	more := []remoting.Field{{Key: "consumerGroup", Value: group}}
	if exact {
		more = append(more, remoting.Field{Key: "setZeroIfNotFound", Value: "false"})
	}
	return c.queueOffset(ctx, remoting.ReqQueryConsumerOffset, q, "offset", more...)
}

// commitOffset sets a group's offset in q.
func (c *Client) commitOffset(ctx context.Context, group string, q Queue, offset int64) error {
	addr, err := c.brokerAddr(ctx, q, true)
	if err != nil {
		return err
	}
	req := remoting.NewRequest(remoting.ReqUpdateConsumerOffset, append(queueFields(q),
		remoting.Field{Key: "consumerGroup", Value: group},
		remoting.Field{Key: "commitOffset", Value: itoa(offset)})...)
	if _, err := c.memberRequest(ctx, addr, req); err != nil {
		return fmt.Errorf("commit %s offset %d: %w", q, offset, err)
	}
	return nil
}
