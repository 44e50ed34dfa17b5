package broker

import (
	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// queueFields reads the fields that name a group's queue.
func queueFields(f remoting.Fields) (group, topic string, queue int32, err error) {
	if group, err = f.Require("consumerGroup"); err != nil {
		return
	}
	topic, queue, err = topicQueue(f)
	return
}

// topicQueue reads the fields that name a queue.
func topicQueue(f remoting.Fields) (topic string, queue int32, err error) {
	if topic, err = f.Require("topic"); err != nil {
		return
	}
	queue, err = f.Int32("queueId")
	return
}

// namedQueue reads the topic and queue of a request; both must exist.
func (b *Broker) namedQueue(f remoting.Fields) (topic string, queue int32, err error) {
	if topic, queue, err = topicQueue(f); err == nil {
		_, err = b.existingQueue(topic, queue)
	}
	return topic, queue, err
}

// existingQueue checks that a queue may be asked for, and returns its topic.
func (b *Broker) existingQueue(topic string, queue int32) (*store.Topic, error) {
	t := b.tables.readable(topic)
	if t == nil {
		return nil, refuse(remoting.TopicNotExist, "topic[%s] does not exist", topic)
	}
	if n := max(t.ReadQueues, t.WriteQueues); queue < 0 || queue >= n {
		return nil, refuse(remoting.InvalidParameter, "queueId is %d: topic[%s] has the queues 0 to %d", queue, topic, n-1)
	}
	return t, nil
}

// commitOffset checks and notes a consumer offset. One within the queue is
// accepted, an older one than before too, as RocketMQ; one outside of it is
// refused, so that nobody is shown to be ahead of the queue. topic may borrow;
// the store is given names that last.
func (b *Broker) commitOffset(g *store.Group, topic string, queue int32, offset int64) error {
	t, err := b.existingQueue(topic, queue)
	if err != nil {
		return err
	}
	group, topic := g.Name, t.Name
	if _, end, _ := b.store.Offsets(topic, queue); offset < 0 || offset > end {
		return refuse(remoting.InvalidParameter, "commitOffset is %d: queue %d of topic[%s] ends at %d", offset, queue, topic, end)
	}
	if b.resets.ignores(group, topic, queue, offset) {
		return errOffsetReset
	}
	if old, ok := b.store.Offset(group, topic, queue); ok && offset < old {
		b.log.Debug("offset goes back", "group", group, "topic", topic, "queue", queue, "from", old, "to", offset)
	}
	b.store.CommitOffset(group, topic, queue, offset)
	return nil
}

// errOffsetReset: the commit counts what was consumed before a reset. RocketMQ
// answers it with success.
var errOffsetReset = refuse(remoting.Success, "Offset has been previously reset")

// updateOffset serves UPDATE_CONSUMER_OFFSET.
func updateOffset(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error {
	group, topic, queue, err := queueFields(req.Fields)
	if err != nil {
		return err
	}
	offset, err := req.Fields.Int64("commitOffset")
	if err != nil {
		return err
	}
	g, err := b.tables.useGroup(group, mayBlock)
	if err != nil {
		return err
	}
	if err := b.commitOffset(g, topic, queue, offset); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// queryOffset serves QUERY_CONSUMER_OFFSET. A group without an offset is told so
// (22) and begins where it wants to: at the first message, the last, or a time.
// It is told 0 when the queue appeared after it subscribed the topic, so that
// it misses nothing there. RocketMQ `ConsumerManageProcessor.queryConsumerOffset`
// says 0 as long as the queue's first message is in memory, whatever the group
// wants.
func queryOffset(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, topic, queue, err := queueFields(req.Fields)
	if err != nil {
		return err
	}
	zero, err := req.Fields.BoolOr("setZeroIfNotFound", true)
	if err != nil {
		return err
	}
	offset, ok := b.store.Offset(group, topic, queue)
	if !ok {
		if !zero || !b.appearedSince(group, topic, queue) {
			return refuse(remoting.QueryNotFound, "Not found, maybe this group consumer boot first")
		}
		offset = 0
	}
	c.replyInt(req, "offset", offset)
	return nil
}

// appearedSince reports whether all of a queue's messages came after the group
// subscribed its topic: after the members on-line did, or, as they may have
// been away, after something that the group has consumed of another queue.
func (b *Broker) appearedSince(group, topic string, queue int32) bool {
	lo, hi, ok := b.store.Offsets(topic, queue)
	if !ok || lo != 0 || hi == 0 {
		return false
	}
	first, ok := b.addressOf(topic, queue, 0)
	if !ok {
		return false
	}
	if since, ok := b.registry.subscribedSince(group, topic); ok && first >= since {
		return true
	}
	for other, offset := range b.store.GroupOffsets(group)[topic] {
		if offset == 0 {
			continue
		}
		if consumed, ok := b.addressOf(topic, other, offset-1); ok && consumed < first {
			return true
		}
	}
	return false
}

// addressOf returns the log address of one entry's message.
func (b *Broker) addressOf(topic string, queue int32, offset int64) (int64, bool) {
	res, err := b.store.Read(topic, queue, offset, 1, 1, nil)
	if err != nil {
		return 0, false
	}
	defer res.Release()
	if len(res.Records) == 0 {
		return 0, false
	}
	return message.View(res.Records[0]).PhysicalOffset(), true
}

// storeTimeOf returns when one entry's message was stored, in ms; 0 when that
// cannot be told.
func (b *Broker) storeTimeOf(topic string, queue int32, offset int64) int64 {
	res, err := b.store.Read(topic, queue, offset, 1, 1, nil)
	if err != nil {
		return 0
	}
	defer res.Release()
	if len(res.Records) == 0 {
		return 0
	}
	return message.View(res.Records[0]).StoreTime()
}

// searchOffset serves SEARCH_OFFSET_BY_TIMESTAMP.
func searchOffset(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, queue, err := topicQueue(req.Fields)
	if err != nil {
		return err
	}
	ms, err := req.Fields.Int64("timestamp")
	if err != nil {
		return err
	}
	upper := false
	switch v := req.Fields.Value("boundaryType"); v {
	case "", "LOWER", "lower":
	case "UPPER", "upper":
		upper = true
	default:
		return refuse(remoting.InvalidParameter, "boundaryType is %q: LOWER and UPPER are allowed", v)
	}
	if _, err := b.existingQueue(topic, queue); err != nil {
		return err
	}
	offset, err := b.store.OffsetByTime(topic, queue, ms, upper)
	if err != nil {
		return err
	}
	c.replyInt(req, "offset", offset)
	return nil
}

// maxOffset serves GET_MAX_OFFSET: one past the last entry.
func maxOffset(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, queue, err := b.namedQueue(req.Fields)
	if err != nil {
		return err
	}
	_, end, _ := b.store.Offsets(topic, queue)
	c.replyInt(req, "offset", end)
	return nil
}

// minOffset serves GET_MIN_OFFSET: the first entry.
func minOffset(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, queue, err := b.namedQueue(req.Fields)
	if err != nil {
		return err
	}
	begin, _, _ := b.store.Offsets(topic, queue)
	c.replyInt(req, "offset", begin)
	return nil
}

// earliestStoreTime serves GET_EARLIEST_MSG_STORETIME; -1 for an empty queue.
func earliestStoreTime(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, queue, err := b.namedQueue(req.Fields)
	if err != nil {
		return err
	}
	ms, err := b.store.EarliestStoreTime(topic, queue)
	if err != nil {
		return err
	}
	c.replyInt(req, "timestamp", ms)
	return nil
}

// replyInt answers with success and one number.
func (c *conn) replyInt(req *remoting.Command, key string, value int64) {
	resp := req.Reply(remoting.Success, "")
	resp.Fields.SetInt(key, value)
	c.reply(req, resp)
}
