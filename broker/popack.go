package broker

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// handle is what a client says of a message that it popped.
type handle struct {
	group, topic string
	queueID      int32
	offset       int64
	popMs        int64
	order        bool
}

// parseHandle reads the header of an acknowledgement: its extraInfo is what
// RocketMQ `ExtraInfoUtil` makes of a pop's answer, "first popTime
// invisibleTime reviveQid mark broker queue entry".
func parseHandle(f remoting.Fields) (h handle, err error) {
	if h.group, h.topic, h.queueID, err = queueFields(f); err != nil {
		return h, err
	}
	if h.offset, err = f.Int64("offset"); err != nil {
		return h, err
	}
	info, err := f.Require("extraInfo")
	if err != nil {
		return h, err
	}
	parts := strings.Split(info, " ")
	if len(parts) < 4 {
		return h, refuse(remoting.InvalidParameter, "extraInfo is %.100q: 4 words or more are expected", info)
	}
	if h.popMs, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return h, refuse(remoting.InvalidParameter, "extraInfo is %.100q: its second word is no time", info)
	}
	h.order = parts[3] == strconv.Itoa(orderRevive)
	return h, nil
}

// popQueueOf returns the queue that a handle is of; NO_MESSAGE when the group
// popped nothing there.
func (b *Broker) popQueueOf(group, topic string, id int32) (*store.PopQueue, error) {
	if _, err := b.existingQueue(topic, id); err != nil {
		return nil, err
	}
	q := b.store.LookupPopQueue(group, topic, id)
	if q == nil {
		return nil, refuse(remoting.NoMessage, "group [%s] has popped nothing of queue %d of topic[%s]", group, id, topic)
	}
	return q, nil
}

// errNotPopped: a handle of a message that is acknowledged, or was popped again
// since.
func errNotPopped(h *handle) error {
	return refuse(remoting.NoMessage, "message %d of queue %d of topic[%s], popped at %d by group [%s]: acknowledged before, or popped again since",
		h.offset, h.queueID, h.topic, h.popMs, h.group)
}

// ackPopped acknowledges a message, unless it was popped again since.
func (b *Broker) ackPopped(q *store.PopQueue, group, topic string, id int32, offset, popMs int64) bool {
	q.Lock()
	p, ok := q.Get(offset)
	if ok = ok && p.PopMs == popMs; ok {
		q.Ack(offset)
	}
	low := q.Low()
	q.Unlock()
	if ok {
		b.store.CommitOffset(group, topic, id, low)
	}
	return ok
}

// ackMessage serves ACK_MESSAGE. A handle that is too late is answered with
// NO_MESSAGE; RocketMQ answers success, and the message comes again all the
// same.
func ackMessage(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	h, err := parseHandle(req.Fields)
	if err != nil {
		return err
	}
	g, t := b.tables.group(h.group), b.tables.readable(h.topic)
	q, err := b.popQueueOf(h.group, h.topic, h.queueID)
	if err != nil {
		return err
	}
	if g == nil || !b.ackPopped(q, g.Name, t.Name, h.queueID, h.offset, h.popMs) {
		return errNotPopped(&h)
	}
	if h.order {
		b.pops.wake(t.Name) // what comes next may be popped now
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// batchAck is RocketMQ's BatchAck: bit n of the set (base64, lowest byte first)
// stands for entry so + n.
type batchAck struct {
	Group  string `json:"c"`
	Topic  string `json:"t"`
	Retry  string `json:"r"`
	Start  number `json:"so"`
	Queue  number `json:"q"`
	Revive number `json:"rq"`
	PopMs  number `json:"pt"`
	Bits   string `json:"b"`
}

// ackBatch serves BATCH_ACK_MESSAGE, as RocketMQ: handles that are too late are
// passed over.
func ackBatch(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body struct {
		Acks []batchAck `json:"acks"`
	}
	if err := decodeJSON(req.Body, &body); err != nil {
		return err
	}
	for i := range body.Acks {
		a := &body.Acks[i]
		bits, err := base64.StdEncoding.DecodeString(a.Bits)
		if err != nil {
			return refuse(remoting.InvalidParameter, "acks[%d].b is no base64: %v", i, err)
		}
		g, t := b.tables.group(a.Group), b.tables.readable(a.Topic)
		if g == nil {
			return refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist", a.Group)
		}
		q, err := b.popQueueOf(a.Group, a.Topic, int32(a.Queue))
		if err != nil {
			return err
		}
		for n, octet := range bits {
			for bit := range 8 {
				if octet&(1<<bit) != 0 {
					b.ackPopped(q, g.Name, t.Name, int32(a.Queue), int64(a.Start)+int64(8*n+bit), int64(a.PopMs))
				}
			}
		}
		if a.Revive == orderRevive {
			b.pops.wake(t.Name)
		}
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// changeInvisible serves CHANGE_MESSAGE_INVISIBLETIME: the message may be
// popped again after that time, counted from now. The answer names the new
// handle's pop time; the old handle is no longer good.
func changeInvisible(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	h, err := parseHandle(req.Fields)
	if err != nil {
		return err
	}
	invisible, err := invisibleTime(req.Fields)
	if err != nil {
		return err
	}
	q, err := b.popQueueOf(h.group, h.topic, h.queueID)
	if err != nil {
		return err
	}
	now := b.store.Now().UnixMilli()
	q.Lock()
	p, ok := q.Get(h.offset)
	if ok = ok && p.PopMs == h.popMs; ok {
		p.PopMs, p.UntilMs = now, now+invisible.Milliseconds()
		q.Set(h.offset, p)
	}
	q.Unlock()
	if !ok {
		return errNotPopped(&h)
	}
	b.pops.hidden(h.topic, now+invisible.Milliseconds())
	resp := req.Reply(remoting.Success, "")
	resp.Fields.SetInt("popTime", now)
	resp.Fields.SetInt("invisibleTime", invisible.Milliseconds())
	resp.Fields.SetInt("reviveQid", reviveFor(h.order))
	c.reply(req, resp)
	return nil
}
