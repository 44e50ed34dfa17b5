package client

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// Message is what producers send and consumers receive.
//
// A producer sets Topic and Body and whatever else it needs of the first
// block; sends ignore the second block, which the broker's records fill in.
type Message struct {
	// Topic is the topic's name, 1 to 127 bytes of letters, digits, '_', '-',
	// '%' and '|'. For a message that comes back for a retry it is the topic it
	// was first sent to; Queue.Topic names the retry topic.
	Topic string
	// Tags is the tag consumers select by: one word, or "" for none. It must not
	// contain "||".
	Tags string
	// Keys are business keys to find the message by. None may be empty or
	// contain white space.
	Keys []string
	// Body is the payload: at least one byte, at most what WithMaxMessageSize
	// and the broker allow (4 MiB). Sends do not change it, and it must not be
	// changed before the send is answered. A received body belongs to the
	// receiver; messages pulled together may share one array.
	Body []byte
	// DelayLevel is the delay level, 1-based in the broker's table (by default
	// 1s 5s 10s 30s 1m 2m … 10m 20m 30m 1h 2h). 0 delivers at once; a level
	// above the table means its last one.
	DelayLevel int
	// ShardingKey selects the queue: messages with the same key go to the same
	// queue as long as the topic's queues stay the same. "" leaves the choice
	// to the producer's Selector.
	ShardingKey string
	// Properties are further properties of sender's or broker's making. Keys and
	// values must not be empty nor contain \x01 or \x02; together with the
	// fields above they may take 32 767 bytes. What has a field of its own (TAGS,
	// KEYS, DELAY, UNIQ_KEY, WAIT, __SHARDINGKEY) is refused here.
	Properties map[string]string
	// Flag is the application's own number, passed through.
	Flag int32

	// ID is the unique id the sender's client gave the message (UNIQ_KEY). It
	// stays the same through delays and retries. Sends assign a new one.
	ID string
	// OffsetID is the id of this very record: broker address and physical
	// offset.
	OffsetID string
	// Queue is where the message was read from.
	Queue Queue
	// QueueOffset is the message's number in Queue.
	QueueOffset int64
	// PhysicalOffset is the record's place in the broker's commit log.
	PhysicalOffset int64
	// ReconsumeTimes counts how often the message came back for a retry.
	ReconsumeTimes int
	// BornTime is when the sender's client sent it, StoreTime when the broker
	// stored this record: for a delayed message, when it became due.
	BornTime, StoreTime time.Time
	// BornHost is the sender's address as the broker saw it, StoreHost the
	// broker's.
	BornHost, StoreHost netip.AddrPort
	// SysFlag is RocketMQ's system flag as stored. A compressed body has been
	// decompressed, unless BodyErr says why it could not be; Body then holds
	// the bytes as stored.
	SysFlag int32
	BodyErr error
}

// Queue names one queue of a topic on one broker.
type Queue struct {
	Topic  string
	Broker string
	ID     int
}

// String returns "topic@broker:id".
func (q Queue) String() string { return q.Topic + "@" + q.Broker + ":" + strconv.Itoa(q.ID) }

// compareQueues orders as RocketMQ's MessageQueue does, which rebalancing
// relies on: every member must see the same order.
func compareQueues(a, b Queue) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.ID, b.ID))
}

func sortedQueues[V any](m map[Queue]V) []Queue {
	return slices.SortedFunc(maps.Keys(m), compareQueues)
}

// ownFields are the properties that Message keeps in fields of their own.
var ownFields = []string{
	message.PropertyTags, message.PropertyKeys, message.PropertyDelay,
	message.PropertyUniqueKey, message.PropertyWaitStoreMsgOK, message.PropertyShardingKey,
}

// validate reports what makes m impossible to send. maxBody is in bytes.
func (m *Message) validate(maxBody int) error {
	if err := message.ValidateTopic(m.Topic); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	switch {
	case len(m.Body) == 0:
		return fmt.Errorf("%w: empty body", ErrInvalidMessage)
	case len(m.Body) > maxBody:
		return fmt.Errorf("%w: body of %d bytes, at most %d allowed", ErrMessageTooLarge, len(m.Body), maxBody)
	case m.DelayLevel < 0:
		return fmt.Errorf("%w: delay level %d, must not be negative", ErrInvalidMessage, m.DelayLevel)
	case strings.Contains(m.Tags, "||") || strings.TrimSpace(m.Tags) != m.Tags:
		return fmt.Errorf("%w: tag %q, must not contain \"||\" nor white space around it", ErrInvalidMessage, m.Tags)
	}
	for _, k := range m.Keys {
		if k == "" || strings.ContainsAny(k, " \t\r\n") {
			return fmt.Errorf("%w: key %q, must not be empty nor contain white space", ErrInvalidMessage, k)
		}
	}
	for _, v := range append([]string{m.Tags, m.ShardingKey}, m.Keys...) {
		if strings.ContainsAny(v, "\x01\x02") {
			return fmt.Errorf("%w: %q contains \\x01 or \\x02, which divide properties", ErrInvalidMessage, v)
		}
	}
	for k, v := range m.Properties {
		if slices.Contains(ownFields, k) {
			return fmt.Errorf("%w: property %s has a field of its own in Message", ErrInvalidMessage, k)
		}
		if err := message.ValidateProperty(k, v); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidMessage, err)
		}
	}
	return nil
}

// properties returns the property string to send: the sender's properties in
// key order, then ours.
func (m *Message) properties(id string) string {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(m.Properties)) {
		b = message.AppendProperty(b, k, m.Properties[k])
	}
	if m.Tags != "" {
		b = message.AppendProperty(b, message.PropertyTags, m.Tags)
	}
	if len(m.Keys) > 0 {
		b = message.AppendProperty(b, message.PropertyKeys, strings.Join(m.Keys, " "))
	}
	if m.DelayLevel > 0 {
		b = message.AppendProperty(b, message.PropertyDelay, strconv.Itoa(m.DelayLevel))
	}
	if m.ShardingKey != "" {
		b = message.AppendProperty(b, message.PropertyShardingKey, m.ShardingKey)
	}
	b = message.AppendProperty(b, message.PropertyUniqueKey, id)
	b = message.AppendProperty(b, message.PropertyWaitStoreMsgOK, "true")
	return string(b)
}

// fromRecord turns a stored record into a Message. q is the queue it was read
// from. The message keeps rec's body and strings.
func fromRecord(q Queue, rec *message.Message) *Message {
	m := &Message{
		Topic:          rec.Topic,
		Body:           rec.Body,
		Flag:           rec.Flag,
		OffsetID:       message.OffsetID(rec.StoreHost, rec.PhysicalOffset),
		Queue:          q,
		QueueOffset:    rec.QueueOffset,
		PhysicalOffset: rec.PhysicalOffset,
		ReconsumeTimes: int(rec.ReconsumeTimes),
		BornTime:       time.UnixMilli(rec.BornTime),
		StoreTime:      time.UnixMilli(rec.StoreTime),
		BornHost:       rec.BornHost,
		StoreHost:      rec.StoreHost,
		SysFlag:        rec.SysFlag,
	}
	props := message.ParseProperties(rec.Properties)
	m.Tags = props[message.PropertyTags]
	m.Keys = strings.Fields(props[message.PropertyKeys])
	m.ShardingKey = props[message.PropertyShardingKey]
	m.ID = props[message.PropertyUniqueKey]
	if m.ID == "" { // as RocketMQ: a record without one is known by its place
		m.ID = m.OffsetID
	}
	// A level that is not a number says nothing; the property is dropped like
	// the others below.
	m.DelayLevel, _ = strconv.Atoi(props[message.PropertyDelay])
	for _, k := range ownFields {
		delete(props, k)
	}
	m.Properties = props
	// A retried message answers to its first topic, as RocketMQ's
	// resetRetryAndNamespace does.
	if t := props[message.PropertyRetryTopic]; t != "" && message.IsRetryTopic(q.Topic) {
		m.Topic = t
	}
	if kind := message.CompressionOf(m.SysFlag); kind != message.CompressionNone {
		if body, err := decompress(kind, m.Body); err != nil {
			m.BodyErr = err
		} else {
			m.Body = body
		}
	}
	return m
}
