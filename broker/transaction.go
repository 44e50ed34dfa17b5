package broker

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
	"github.com/tidemq/tidemq/store"
)

// A transaction begins with a half message: one that is prepared (TRAN_MSG),
// stored in RMQ_SYS_TRANS_HALF_TOPIC and seen by no consumer. It ends once, by
// END_TRANSACTION or because its producer does not know (checkback.go). What a
// commit stores is a message like any other: one with a delay level waits from
// then on.

// half makes the half message in the place of m, whose topic and queue are the
// real target.
func (b *Broker) half(dst []byte, m *message.Message, p *sendProperties) (store.Message, error) {
	if p.group == "" {
		return store.Message{}, refuse(remoting.MessageIllegal, "property %s is missing: a transaction belongs to a producer group", message.PropertyProducerGroup)
	}
	props := []byte(message.RemoveProperties(m.Properties, message.PropertyTransactionID))
	if id, ok := m.Property(message.PropertyUniqueKey); ok {
		props = message.AppendProperty(props, message.PropertyTransactionID, id)
	}
	props = message.AppendProperty(props, message.PropertyRealTopic, m.Topic)
	props = message.AppendProperty(props, message.PropertyRealQueueID, strconv.Itoa(int(m.QueueID)))
	if len(props) > message.MaxProperties {
		return store.Message{}, fmt.Errorf("%w: %d bytes with those of a transaction, at most %d", schedule.ErrPropertiesTooLong, len(props), message.MaxProperties)
	}
	h := *m
	h.Topic, h.QueueID, h.Properties = message.TransHalfTopic, 0, string(props)
	h.SysFlag = message.WithTransactionType(m.SysFlag, message.TransactionNone)
	record, err := message.AppendRecord(dst[:0], &h)
	if err != nil {
		return store.Message{}, err
	}
	return store.Message{Topic: m.Topic, QueueID: m.QueueID, Record: record, TagsCode: message.TagsCode(p.tags), Half: true}, nil
}

// halfTopic sees to the topic of half messages. Without mayBlock, errApart says
// that it has to be created.
func (b *Broker) halfTopic(mayBlock bool) error {
	if b.tables.topic(message.TransHalfTopic) != nil {
		return nil
	}
	if !mayBlock {
		return errApart
	}
	_, err := b.tables.createTopic(internalTopic(message.TransHalfTopic))
	return err
}

// internalTopic is a topic of one queue that the broker writes itself.
func internalTopic(name string) store.Topic {
	return store.Topic{Name: name, ReadQueues: 1, WriteQueues: 1, Perm: permRead | permWrite, FilterType: singleTag}
}

// endRequest is the header of END_TRANSACTION, as RocketMQ
// `EndTransactionRequestHeader`.
type endRequest struct {
	group string
	// queueOffset and address are where the half message was stored.
	queueOffset, address int64
	decision             int32 // one of message's Transaction constants
	fromCheck            bool
}

func parseEnd(f remoting.Fields) (r endRequest, err error) {
	if r.group, err = f.Require("producerGroup"); err != nil {
		return r, err
	}
	if r.queueOffset, err = f.Int64("tranStateTableOffset"); err != nil {
		return r, err
	}
	if r.address, err = f.Int64("commitLogOffset"); err != nil {
		return r, err
	}
	if r.decision, err = f.Int32("commitOrRollback"); err != nil {
		return r, err
	}
	r.fromCheck, err = f.BoolOr("fromTransactionCheck", false)
	return r, err
}

// endTransaction serves END_TRANSACTION, as RocketMQ `EndTransactionProcessor`,
// whose answers it gives. A transaction that has ended is not ended again.
func endTransaction(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	r, err := parseEnd(req.Fields)
	if err != nil {
		return err
	}
	switch r.decision {
	case message.TransactionCommit, message.TransactionRollback:
	case message.TransactionNone:
		// The producer does not know yet: it is asked again.
		c.reply(req, req.Reply(remoting.Success, ""))
		return nil
	default:
		return refuse(remoting.InvalidParameter, "commitOrRollback is %d: %d, %d and %d are allowed", r.decision,
			message.TransactionNone, message.TransactionCommit, message.TransactionRollback)
	}
	m, err := b.openHalf(&r)
	if err != nil {
		return err
	}
	s := getSend(c, req)
	s.back = true // the answer says no more than success
	if r.decision == message.TransactionRollback {
		s.msgs[0] = store.Message{Reason: "rolled back by the producer"}
	} else if s.msgs[0], err = b.committed(s.arena, m, r.address); err != nil {
		s.put()
		return err
	}
	s.msgs[0].Ends, s.msgs[0].Origin.Identity = true, r.address
	s.Messages = s.msgs[:1]
	s.arena = s.msgs[0].Record[:0]
	b.store.Append(&s.Batch)
	return errPending
}

// openHalf returns the half message that a request is about, checked as
// RocketMQ does.
func (b *Broker) openHalf(r *endRequest) (*message.Message, error) {
	h, open := b.store.Half(r.address)
	if !open {
		return nil, refuse(remoting.SystemError, "Find prepared transaction message failed: the transaction at %d has ended, or never began", r.address)
	}
	m, err := b.readHalf(h.Address)
	if err != nil {
		return nil, err
	}
	if group, _ := m.Property(message.PropertyProducerGroup); group != r.group {
		return nil, refuse(remoting.SystemError, "The producer group wrong: %q, the transaction is of %q", r.group, group)
	}
	if h.QueueOffset != r.queueOffset {
		return nil, refuse(remoting.SystemError, "The transaction state table offset wrong: %d, the half message has %d", r.queueOffset, h.QueueOffset)
	}
	if text, ok := m.Property(message.PropertyCheckImmunityTime); ok && !r.fromCheck {
		if age := b.store.Now().Sub(time.UnixMilli(m.StoreTime)); age > b.immunity(text) {
			return nil, refuse(remoting.IllegalOperation, "%s is %s and over since %v: the producer will be asked", message.PropertyCheckImmunityTime, text, age-b.immunity(text))
		}
	}
	return m, nil
}

func (b *Broker) readHalf(address int64) (*message.Message, error) {
	record, err := b.store.ReadAt(address)
	if err != nil {
		return nil, fmt.Errorf("half message at %d: %w", address, err)
	}
	m, _, err := message.DecodeRecord(record)
	if err != nil {
		return nil, fmt.Errorf("half message at %d: %w", address, err)
	}
	return &m, nil
}

// committed makes what a commit stores: the message as it was sent. TRAN_MSG
// stays, as in RocketMQ: by it Java's consumers show a transaction id.
func (b *Broker) committed(dst []byte, half *message.Message, address int64) (store.Message, error) {
	m := *half
	var err error
	if m.Topic, m.QueueID, err = realTarget(half); err != nil {
		return store.Message{}, err
	}
	m.Properties = message.RemoveProperties(m.Properties, message.PropertyRealTopic, message.PropertyRealQueueID)
	m.SysFlag = message.WithTransactionType(m.SysFlag, message.TransactionCommit)
	m.PreparedTransactionOffset = address
	return b.prepare(dst, &m)
}

// realTarget reads where a half message goes when it is committed.
func realTarget(half *message.Message) (topic string, queueID int32, err error) {
	topic, ok := half.Property(message.PropertyRealTopic)
	text, _ := half.Property(message.PropertyRealQueueID)
	n, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil {
		return "", 0, fmt.Errorf("half message at %d: no real topic and queue", half.PhysicalOffset)
	}
	return topic, int32(n), nil
}
