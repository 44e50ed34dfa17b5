package remoting

import (
	"strconv"
	"strings"
)

// SendHeader is what the fields of a send say, under their long names (code
// 10) or their short ones (310 and 320), as RocketMQ `SendMessageRequestHeader`
// and `SendMessageRequestHeaderV2`.
//
//	a producerGroup          f sysFlag           k unitMode
//	b topic                  g bornTimestamp     l maxReconsumeTimes
//	c defaultTopic           h flag              m batch
//	d defaultTopicQueueNums  i properties        n bname
//	e queueId                j reconsumeTimes
type SendHeader struct {
	ProducerGroup string
	Topic         string
	// DefaultTopic is the topic whose settings a topic created by this send
	// gets; DefaultTopicQueueNums is how many queues its sender would like.
	DefaultTopic          string
	DefaultTopicQueueNums int32
	// QueueID is the queue, −1 to leave it to the broker.
	QueueID       int32
	SysFlag       int32
	BornTimestamp int64 // ms since the epoch
	Flag          int32
	Properties    string // "k\x01v\x02…"; in a batch each message has its own too
	// ReconsumeTimes and MaxReconsumeTimes are set when a consumer that could
	// not send a message back sends it to the retry topic itself.
	// MaxReconsumeTimes is −1 when the header does not have it.
	ReconsumeTimes    int32
	MaxReconsumeTimes int32
	UnitMode          bool
	Batch             bool
	BrokerName        string
}

// ParseSend reads the fields of a send; its strings borrow from them. Either
// name of a field is understood, whatever the code, and unknown fields are
// passed over. Topic and queue id must be there; the error is a [*FieldError].
func ParseSend(fields Fields) (h SendHeader, err error) {
	h.MaxReconsumeTimes = -1
	const seenTopic, seenQueue = 1, 2
	seen := 0
	for i := range fields {
		key, value := fields[i].Key, fields[i].Value
		switch key {
		case "a", "producerGroup":
			h.ProducerGroup = value
		case "b", "topic":
			h.Topic = value
			seen |= seenTopic
		case "c", "defaultTopic":
			h.DefaultTopic = value
		case "d", "defaultTopicQueueNums":
			err = set32(&h.DefaultTopicQueueNums, key, value)
		case "e", "queueId":
			err = set32(&h.QueueID, key, value)
			if value != "" {
				seen |= seenQueue
			}
		case "f", "sysFlag":
			err = set32(&h.SysFlag, key, value)
		case "g", "bornTimestamp":
			if value != "" {
				h.BornTimestamp, err = parseInt64(key, value)
			}
		case "h", "flag":
			err = set32(&h.Flag, key, value)
		case "i", "properties":
			h.Properties = value
		case "j", "reconsumeTimes":
			err = set32(&h.ReconsumeTimes, key, value)
		case "k", "unitMode":
			h.UnitMode = isTrue(value)
		case "l", "maxReconsumeTimes":
			err = set32(&h.MaxReconsumeTimes, key, value)
		case "m", "batch":
			h.Batch = isTrue(value)
		case "n", "bname":
			h.BrokerName = value
		}
		if err != nil {
			return SendHeader{}, err
		}
	}
	switch {
	case seen&seenTopic == 0:
		return SendHeader{}, &FieldError{Key: "topic", Want: "a topic", Reason: ErrFieldMissing}
	case seen&seenQueue == 0:
		return SendHeader{}, &FieldError{Key: "queueId", Want: want32, Reason: ErrFieldMissing}
	}
	return h, nil
}

// set32 parses a field that is left alone when it is empty: a ROCKETMQ header
// cannot tell an empty value from none.
func set32(to *int32, key, value string) (err error) {
	if value != "" {
		*to, err = parseInt32(key, value)
	}
	return err
}

// isTrue reads a boolean as Java's parseBoolean does.
func isTrue(value string) bool { return value == "true" || strings.EqualFold(value, "true") }

// AppendFields appends the header's fields under their short names, in their
// order, leaving out what is not set.
func (h *SendHeader) AppendFields(f Fields) Fields {
	f = append(f,
		Field{"a", h.ProducerGroup},
		Field{"b", h.Topic},
		Field{"c", h.DefaultTopic},
		Field{"d", strconv.Itoa(int(h.DefaultTopicQueueNums))},
		Field{"e", strconv.Itoa(int(h.QueueID))},
		Field{"f", strconv.Itoa(int(h.SysFlag))},
		Field{"g", strconv.FormatInt(h.BornTimestamp, 10)},
		Field{"h", strconv.Itoa(int(h.Flag))},
		Field{"i", h.Properties},
		Field{"j", strconv.Itoa(int(h.ReconsumeTimes))},
		Field{"k", strconv.FormatBool(h.UnitMode)})
	if h.MaxReconsumeTimes >= 0 {
		f = append(f, Field{"l", strconv.Itoa(int(h.MaxReconsumeTimes))})
	}
	f = append(f, Field{"m", strconv.FormatBool(h.Batch)})
	if h.BrokerName != "" {
		f = append(f, Field{"n", h.BrokerName})
	}
	return f
}
