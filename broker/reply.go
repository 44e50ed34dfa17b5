package broker

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// replyTopicSuffix follows the cluster's name in the topic of replies, as
// RocketMQ `MixAll.getReplyTopic`.
const replyTopicSuffix = "_REPLY_TOPIC"

// sendReply serves SEND_REPLY_MESSAGE and _V2, as RocketMQ
// `ReplyMessageProcessor`: the reply is handed to the client that asked
// (PUSH_REPLY_MESSAGE_TO_CLIENT), and stored in the cluster's reply topic when
// it took it. A reply that nobody takes is refused and not stored; RocketMQ
// stores each attempt.
func sendReply(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	h, err := remoting.ParseSend(req.Fields)
	if err != nil {
		return err
	}
	t, err := b.sendTopic(&h, true)
	if err != nil {
		return err
	}
	if err := b.bodyFits(len(req.Body)); err != nil {
		return err
	}
	if err := b.pushReply(c, req, &h); err != nil {
		return err
	}
	s := getSend(c, req)
	m := b.newMessage(c, &h, t)
	m.Body = req.Body
	if s.msgs[0], err = b.prepare(s.arena, &m); err != nil {
		s.put()
		return err
	}
	s.queueID = m.QueueID
	s.Messages = s.msgs[:1]
	s.arena = s.msgs[0].Record[:0]
	b.store.Append(&s.Batch)
	return errPending
}

// pushReply hands a reply to the client that its REPLY_TO_CLIENT names.
func (b *Broker) pushReply(c *conn, req *remoting.Command, h *remoting.SendHeader) error {
	id, ok := message.Property(h.Properties, message.PropertyReplyToClient)
	if !ok {
		return refuse(remoting.MessageIllegal, "reply message properties[%s] is null", message.PropertyReplyToClient)
	}
	to := b.registry.producer(id)
	if to == nil {
		return refuse(remoting.SystemError, "push reply message fail, channel of <%s> not found.", id)
	}
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	props := message.AppendProperty([]byte(message.RemoveProperties(h.Properties, message.PropertyPushReplyTime)), message.PropertyPushReplyTime, now)
	push := remoting.NewRequest(remoting.ReqPushReplyMessageToClient,
		remoting.Field{Key: "bornHost", Value: c.remote.String()},
		remoting.Field{Key: "storeHost", Value: c.host.String()},
		remoting.Field{Key: "storeTimestamp", Value: now},
		remoting.Field{Key: "producerGroup", Value: h.ProducerGroup},
		remoting.Field{Key: "topic", Value: h.Topic},
		remoting.Field{Key: "defaultTopic", Value: h.DefaultTopic},
		remoting.Field{Key: "properties", Value: string(props)},
		remoting.Field{Key: "unitMode", Value: strconv.FormatBool(h.UnitMode)})
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"defaultTopicQueueNums", int64(h.DefaultTopicQueueNums)}, {"queueId", int64(h.QueueID)}, {"sysFlag", int64(h.SysFlag)},
		{"bornTimestamp", h.BornTimestamp}, {"flag", int64(h.Flag)}, {"reconsumeTimes", int64(h.ReconsumeTimes)},
	} {
		push.Fields.SetInt(n.key, n.value)
	}
	push.Body = req.Body
	answer, err := to.ask(push)
	if err != nil {
		return fmt.Errorf("push reply message to <%s>: %w", id, err)
	}
	if answer.Code != remoting.Success {
		return refuse(remoting.SystemError, "push reply message to <%s> fail: %d %s", id, answer.Code, answer.Remark)
	}
	return nil
}
