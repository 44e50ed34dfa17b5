package broker

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
	"github.com/tidemq/tidemq/store"
)

const (
	// maxBatch bounds the messages of one batch send.
	maxBatch = 10_000
	// keepArena is the largest record memory that is used again.
	keepArena = 64 << 10
	// maxSendBytes bounds what the sends of all connections have in the store's
	// hands: beyond, connections that send are not read on. It is less than the
	// store's own bound, which would have sends refused. sendOverhead is what a
	// message takes there besides its body.
	maxSendBytes = 40 << 20
	sendOverhead = 512
	// region is what answers name as the broker's region, as RocketMQ's
	// default: clients that trace leave out answers without one.
	region = "DefaultRegion"
)

// sendMessage serves SEND_MESSAGE and SEND_MESSAGE_V2.
func sendMessage(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error {
	h, err := remoting.ParseSend(req.Fields)
	if err != nil {
		return err
	}
	if h.Batch {
		return b.sendBatch(c, req, &h, mayBlock)
	}
	t, err := b.sendTopic(&h, mayBlock)
	if err != nil {
		return err
	}
	if group, ok := retryGroup(t.Name); ok {
		dead, err := b.gaveUp(&h, group)
		if err != nil {
			return err
		}
		if dead {
			if t, err = b.deadLetterTopic(group, mayBlock); err != nil {
				return err
			}
			h.QueueID = rand.Int32N(max(t.WriteQueues, 1))
			h.Properties = message.RemoveProperties(h.Properties, message.PropertyDelay)
		}
	}
	if err := b.bodyFits(len(req.Body)); err != nil {
		return err
	}
	s := getSend(c, req)
	m := b.newMessage(c, &h, t)
	m.Body = req.Body
	s.msgs[0], err = b.prepare(s.arena, &m)
	if err != nil {
		s.put()
		return err
	}
	if s.msgs[0].Half {
		if err := b.halfTopic(mayBlock); err != nil {
			s.put()
			return err
		}
	}
	s.queueID = m.QueueID
	s.Messages = s.msgs[:1]
	s.arena = s.msgs[0].Record[:0]
	b.store.Append(&s.Batch)
	return errPending
}

// sendBatch serves SEND_BATCH_MESSAGE: every message is checked, and delayed,
// on its own; all are stored or none.
func (b *Broker) sendBatch(c *conn, req *remoting.Command, h *remoting.SendHeader, mayBlock bool) error {
	t, err := b.sendTopic(h, mayBlock)
	if err != nil {
		return err
	}
	if message.IsRetryTopic(t.Name) {
		return refuse(remoting.MessageIllegal, "batch request does not support retry group %s", t.Name)
	}
	if err := b.bodyFits(len(req.Body)); err != nil {
		return err
	}
	entries, err := message.DecodeBatch(req.Body)
	if err != nil {
		return err
	}
	if len(entries) == 0 || len(entries) > maxBatch {
		return refuse(remoting.MessageIllegal, "batch of %d messages: 1 to %d are allowed", len(entries), maxBatch)
	}
	s := getSend(c, req)
	m := b.newMessage(c, h, t)
	s.Messages = make([]store.Message, len(entries))
	free := s.arena
	for i := range entries {
		m.Flag, m.Body, m.Properties = entries[i].Flag, entries[i].Body, entries[i].Properties
		if s.Messages[i], err = b.prepare(free, &m); err != nil {
			s.put()
			code, remark := answerTo(err)
			return refuse(code, "message %d of %d: %s", i+1, len(entries), remark)
		}
		if s.Messages[i].Half {
			s.put()
			return refuse(remoting.MessageIllegal, "message %d of %d: a batch cannot be part of a transaction (%s)", i+1, len(entries), message.PropertyTransactionPrepared)
		}
		r := s.Messages[i].Record
		free = r[len(r):]
	}
	s.queueID = m.QueueID
	s.arena = nil
	if key, ok := message.Property(h.Properties, message.PropertyUniqueKey); ok {
		s.batchKey = strings.Clone(key) // of the batch as a whole
	}
	b.store.Append(&s.Batch)
	return errPending
}

// sendBatchMessage serves SEND_BATCH_MESSAGE.
func sendBatchMessage(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error {
	h, err := remoting.ParseSend(req.Fields)
	if err != nil {
		return err
	}
	return b.sendBatch(c, req, &h, mayBlock)
}

// sendTopic returns the topic of a send, created when it does not exist and
// that is allowed, and settles the queue.
func (b *Broker) sendTopic(h *remoting.SendHeader, mayBlock bool) (*store.Topic, error) {
	t := b.tables.topic(h.Topic)
	if t == nil {
		if err := validTopic(h.Topic); err != nil {
			return nil, err
		}
	}
	if message.IsSendForbidden(h.Topic) {
		return nil, refuse(remoting.NoPermission, "Sending message to topic[%s] is forbidden.", h.Topic)
	}
	if t == nil {
		if !mayBlock {
			return nil, errApart
		}
		var err error
		if t, err = b.createSendTopic(h); err != nil {
			return nil, err
		}
	}
	if t.Perm&permWrite == 0 {
		return nil, refuse(remoting.NoPermission, "the topic[%s] sending message is forbidden", t.Name)
	}
	queues := max(t.WriteQueues, t.ReadQueues)
	if h.QueueID >= queues {
		return nil, refuse(remoting.InvalidParameter, "queueId is %d: topic[%s] has the queues 0 to %d", h.QueueID, t.Name, queues-1)
	}
	if h.QueueID < 0 {
		h.QueueID = rand.Int32N(max(t.WriteQueues, 1))
	}
	return t, nil
}

// createSendTopic creates the topic of a send. It may block.
func (b *Broker) createSendTopic(h *remoting.SendHeader) (*store.Topic, error) {
	group, ok := retryGroup(h.Topic)
	if !ok {
		return b.tables.createForSend(h.Topic, h.DefaultTopic, h.DefaultTopicQueueNums)
	}
	g, err := b.tables.useGroup(group, true)
	if err != nil {
		return nil, err
	}
	return b.tables.recordRetry(g)
}

// gaveUp reports whether a consumer's send to its retry topic is a dead
// letter, as RocketMQ `SendMessageProcessor.handleRetryAndDLQ`: its count is
// over the limit, or the group consumes in order, where only a message that
// was given up comes this way.
func (b *Broker) gaveUp(h *remoting.SendHeader, name string) (bool, error) {
	g := b.tables.group(name)
	if g == nil {
		if !b.tables.autoGroup() {
			return false, refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist", name)
		}
		g = defaultGroup(name)
	}
	limit := g.RetryMaxTimes
	if h.MaxReconsumeTimes >= 0 {
		limit = h.MaxReconsumeTimes
	}
	return h.ReconsumeTimes > limit || b.locks.ordered(name, time.Now()), nil
}

// deadLetterTopic returns a group's dead-letter topic.
func (b *Broker) deadLetterTopic(group string, mayBlock bool) (*store.Topic, error) {
	t := b.tables.topic(message.DLQTopic(group))
	if t == nil && !mayBlock {
		return nil, errApart
	}
	if t != nil {
		return t, nil
	}
	return b.tables.recordDLQ(group)
}

// newMessage is a message as a send's header describes it.
func (b *Broker) newMessage(c *conn, h *remoting.SendHeader, t *store.Topic) message.Message {
	m := message.Message{
		Topic: t.Name, QueueID: h.QueueID, Flag: h.Flag, SysFlag: h.SysFlag,
		BornTime: h.BornTimestamp, BornHost: c.remote, StoreHost: c.host,
		ReconsumeTimes: h.ReconsumeTimes, Properties: h.Properties,
	}
	if t.FilterType == multiTag {
		m.SysFlag |= message.FlagMultiTags
	}
	return m
}

// prepare checks a message's properties and makes its record, in dst's memory
// if that is enough. A message with a delay level becomes a pending one, a
// prepared one the half message of a transaction.
func (b *Broker) prepare(dst []byte, m *message.Message) (store.Message, error) {
	if n := len(m.Properties); n > message.MaxProperties {
		return store.Message{}, refuse(remoting.MessageIllegal, "properties are %d bytes long, at most %d are allowed", n, message.MaxProperties)
	}
	var p sendProperties
	p.scan(m.Properties)
	if p.timer != "" {
		return store.Message{}, refuse(remoting.MessageIllegal, "property %s: timer messages are not supported, use a delay level (%s)", p.timer, message.PropertyDelay)
	}
	if p.asks && !p.hasCluster {
		// Who replies goes by it.
		m.Properties = string(message.AppendProperty([]byte(m.Properties), message.PropertyCluster, b.opts.ClusterName))
	}
	if p.reserved {
		m.Properties = message.RemoveProperties(m.Properties, message.PropertyRealTopic, message.PropertyRealQueueID, message.PropertyPopCK)
	}
	level := 0
	if p.hasDelay {
		n, err := schedule.ParseDelay(p.delay)
		if err != nil {
			return store.Message{}, err
		}
		level = b.levels.Clamp(n)
	}
	// What is committed, or sent back by a consumer, still says that it was
	// prepared.
	if (p.prepared || message.TransactionType(m.SysFlag) == message.TransactionPrepared) && m.PreparedTransactionOffset == 0 && m.ReconsumeTimes == 0 {
		return b.half(dst, m, &p)
	}
	if level > 0 {
		return b.levels.Pending(dst[:0], m, level)
	}
	record, err := message.AppendRecord(dst[:0], m)
	if err != nil {
		return store.Message{}, err
	}
	return store.Message{Topic: m.Topic, QueueID: m.QueueID, Record: record, TagsCode: message.TagsCode(p.tags)}, nil
}

// bodyFits refuses a message by its body's length.
func (b *Broker) bodyFits(n int) error {
	if limit := b.settings.Load().maxMessage; n > limit {
		return refuse(remoting.MessageIllegal, "body is %d bytes long, maxMessageSize allows %d", n, limit)
	}
	return nil
}

// sendProperties are those that a send acts upon.
type sendProperties struct {
	delay    string
	hasDelay bool
	tags     string
	// timer is the name of a TIMER_ property.
	timer    string
	prepared bool
	group    string // PGROUP
	// asks: the sender waits for a reply.
	asks, hasCluster bool
	// reserved: there are properties that only the broker sets.
	reserved bool
}

const timerPrefix = "TIMER_"

// scan goes over a property string once. Of entries with one key the last
// counts. A DELAY without a value is there and no number.
func (p *sendProperties) scan(props string) {
	for len(props) > 0 {
		entry := props
		if i := strings.IndexByte(props, '\x02'); i >= 0 {
			entry, props = props[:i], props[i+1:]
		} else {
			props = ""
		}
		key, value, ok := strings.Cut(entry, "\x01")
		if !ok {
			continue
		}
		switch key {
		case message.PropertyDelay:
			p.delay, p.hasDelay = value, true
		case message.PropertyTags:
			p.tags = value
		case message.PropertyTransactionPrepared:
			p.prepared = strings.EqualFold(value, "true")
		case message.PropertyReplyToClient:
			p.asks = true
		case message.PropertyCluster:
			p.hasCluster = true
		case message.PropertyProducerGroup:
			p.group = value
		case message.PropertyRealTopic, message.PropertyRealQueueID, message.PropertyPopCK:
			p.reserved = true
		default:
			if strings.HasPrefix(key, timerPrefix) {
				p.timer = key
			}
		}
	}
}

// send is a request whose messages are on their way through the store, and the
// memory for it, used again.
type send struct {
	store.Batch
	msgs  [1]store.Message
	arena []byte

	c       *conn
	size    int // what the request counts in the connection's gate
	began   time.Time
	oneway  bool
	queueID int32
	// batchKey is the unique key that the header of a batch has.
	batchKey string
	// back: the answer to a send-back says no more than success.
	back bool

	resp   remoting.Command
	fields [6]remoting.Field
}

var sends sync.Pool

func getSend(c *conn, req *remoting.Command) *send {
	s, _ := sends.Get().(*send)
	if s == nil {
		s = new(send)
		s.Done = s.answer
	}
	s.c, s.size, s.oneway, s.began = c, len(req.Body), req.IsOneway(), time.Now()
	c.b.sends.enter(int64(s.size) + sendOverhead)
	s.resp = remoting.Command{
		Language: remoting.LanguageGo, Version: remoting.Version, Opaque: req.Opaque,
		Flag: remoting.FlagResponse, HeaderType: req.HeaderType,
	}
	s.resp.Fields = s.fields[:0]
	if req.Language != remoting.LanguageJava {
		// Java takes both for granted; others trace only what says so.
		s.resp.Fields = append(s.resp.Fields,
			remoting.Field{Key: message.PropertyMsgRegion, Value: region},
			remoting.Field{Key: message.PropertyTraceSwitch, Value: "true"})
	}
	return s
}

// put gives the memory back.
func (s *send) put() {
	s.c.b.sends.leave(int64(s.size) + sendOverhead)
	s.Messages = nil
	s.msgs[0] = store.Message{}
	s.c = nil
	s.back, s.batchKey = false, ""
	s.resp = remoting.Command{}
	clear(s.fields[:])
	if cap(s.arena) > keepArena {
		s.arena = nil
	}
	sends.Put(s)
}

// answer is the batch's Done: it runs on the store's writer and must not wait.
func (s *send) answer(_ *store.Batch, err error) {
	for i := range s.Messages {
		if err == nil {
			err = s.Messages[i].Err
		}
	}
	c, size := s.c, s.size
	if err == nil && s.Messages[0].Half {
		c.b.began(&s.Messages[0])
	}
	c.b.stats.sent(s.Messages, err, s.began)
	if !s.oneway {
		s.fill(err)
		c.write(&s.resp)
	}
	s.put()
	c.gate.leave(size)
}

// fill makes the answer, as RocketMQ `SendMessageResponseHeader`.
func (s *send) fill(err error) {
	if err != nil {
		s.resp.Fields = s.resp.Fields[:0]
		s.resp.Code, s.resp.Remark = answerTo(err)
		if errors.Is(err, store.ErrUnknown) {
			s.c.b.log.Warn("send with unknown outcome", "remote", s.c.remote, "error", err)
		}
		return
	}
	if s.back {
		s.resp.Fields = s.resp.Fields[:0]
		return
	}
	first := &s.Messages[0]
	id := message.OffsetID(s.c.host, first.Appended.Address)
	if len(s.Messages) > 1 {
		ids := make([]string, len(s.Messages))
		for i := range s.Messages {
			ids[i] = message.OffsetID(s.c.host, s.Messages[i].Appended.Address)
		}
		id = strings.Join(ids, ",")
	}
	f := append(s.resp.Fields, remoting.Field{Key: "msgId", Value: id})
	f = append(f,
		remoting.Field{Key: "queueId", Value: strconv.Itoa(int(s.queueID))},
		remoting.Field{Key: "queueOffset", Value: strconv.FormatInt(first.Appended.QueueOffset, 10)})
	key := s.batchKey
	if key == "" && len(s.Messages) == 1 {
		key, _ = message.View(first.Record).Property(message.PropertyUniqueKey)
	}
	if key != "" {
		f = append(f, remoting.Field{Key: "transactionId", Value: key})
	}
	s.resp.Fields = f
}
