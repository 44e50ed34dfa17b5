package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// firstRetryLevel is the delay level of a first retry when the consumer leaves
// it to the broker; each further one waits a level longer.
const firstRetryLevel = 3

// backRequest is the header of CONSUMER_SEND_MSG_BACK, as RocketMQ
// `ConsumerSendMsgBackRequestHeader`.
type backRequest struct {
	group  string
	offset int64
	level  int32
	// maxTimes is -1 when the header leaves it to the group.
	maxTimes int32
}

func parseBack(f remoting.Fields) (r backRequest, err error) {
	if r.group, err = f.Require("group"); err != nil {
		return r, err
	}
	if r.offset, err = f.Int64("offset"); err != nil {
		return r, err
	}
	if r.level, err = f.Int32("delayLevel"); err != nil {
		return r, err
	}
	r.maxTimes, err = f.Int32Or("maxReconsumeTimes", -1)
	return r, err
}

// sendBack serves CONSUMER_SEND_MSG_BACK, as RocketMQ
// `AbstractSendMessageProcessor.consumerSendMsgBack`: the message comes to the
// group again from its retry topic after a delay that grows with each time, or
// goes to its dead-letter topic. It is answered with success only when it is
// stored. A group without retry queues has no retries; RocketMQ would drop the
// message.
func sendBack(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error {
	r, err := parseBack(req.Fields)
	if err != nil {
		return err
	}
	g, err := b.tables.useGroup(r.group, mayBlock)
	if err != nil {
		return err
	}
	record, err := b.store.ReadAt(r.offset)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(remoting.SystemError, "look message by offset failed, %d", r.offset)
	}
	if err != nil {
		return err
	}
	m, _, err := message.DecodeRecord(record)
	if err != nil {
		return fmt.Errorf("look message by offset failed, %d: %w", r.offset, err)
	}
	if m.Topic == message.ScheduleTopic {
		return refuse(remoting.SystemError, "look message by offset failed, %d: the message there is not delivered yet", r.offset)
	}
	limit := g.RetryMaxTimes
	if r.maxTimes >= 0 {
		limit = r.maxTimes
	}
	dead := r.level < 0 || m.ReconsumeTimes >= limit || g.RetryQueues <= 0
	t, err := b.backTopic(g, dead, mayBlock)
	if err != nil {
		return err
	}
	if t.Perm&permWrite == 0 {
		return refuse(remoting.NoPermission, "the topic[%s] sending message is forbidden", t.Name)
	}

	b.stats.sentBack(g.Name, m.Topic)
	id := message.OffsetID(m.StoreHost, m.PhysicalOffset)
	m.Properties = backProperties(&m, id, r.level, dead)
	m.Topic, m.QueueID = t.Name, rand.Int32N(max(t.WriteQueues, 1))
	m.ReconsumeTimes++
	m.StoreHost = c.host
	s := getSend(c, req)
	s.back = true
	if s.msgs[0], err = b.prepare(s.arena, &m); err != nil {
		s.put()
		return err
	}
	s.Messages = s.msgs[:1]
	s.arena = s.msgs[0].Record[:0]
	b.store.Append(&s.Batch)
	return errPending
}

// backTopic returns the topic a sent-back message goes to, recorded.
func (b *Broker) backTopic(g *store.Group, dead, mayBlock bool) (*store.Topic, error) {
	if dead {
		return b.deadLetterTopic(g.Name, mayBlock)
	}
	if t := b.tables.topic(message.RetryTopic(g.Name)); t != nil {
		return t, nil
	}
	if !mayBlock {
		return nil, errApart
	}
	return b.tables.recordRetry(g)
}

// backProperties are the properties of a sent-back message: the sender's, the
// topic and id it first had, and the delay level. id is its offset id.
func backProperties(m *message.Message, id string, level int32, dead bool) string {
	props := []byte(message.RemoveProperties(m.Properties, message.PropertyDelay))
	if _, ok := m.Property(message.PropertyRetryTopic); !ok {
		props = message.AppendProperty(props, message.PropertyRetryTopic, m.Topic)
	}
	if _, ok := m.Property(message.PropertyOriginMessageID); !ok {
		props = message.AppendProperty(props, message.PropertyOriginMessageID, id)
	}
	if !dead {
		if level == 0 {
			level = firstRetryLevel + m.ReconsumeTimes
		}
		props = message.AppendProperty(props, message.PropertyDelay, strconv.Itoa(int(level)))
	}
	return string(props)
}
