package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
)

// Properties of a message in TIDEMQ_UNDELIVERABLE, besides its own and its
// REAL_TOPIC and REAL_QID.
const (
	// PropertyReason says why the message was not delivered.
	PropertyReason = "UNDELIVERABLE_REASON"
)

// maxReason bounds what a reason may take up.
const maxReason = 512

var errNoTarget = errors.New("the pending message names no real topic and queue")

// rewrite makes the step that delivers a due entry: the record of the real
// topic, appended to dst, with the sender's properties without those of the
// schedule and the same body, flags, keys, tags, unique id, reconsume times,
// born time and host. It returns the grown dst.
//
// refused tells that the writer has refused the real topic already; then, or
// when the topic does not exist any more, the step goes to the undeliverable
// topic instead. An entry whose record cannot be read becomes a step without a
// record, which only moves the head. An error is one that passes: the entry is
// to be tried again.
func (s *Scheduler) rewrite(dst []byte, delay time.Duration, d *store.Due, refused error) (store.Message, []byte, error) {
	step := store.Message{Step: true, Origin: store.Origin{Delay: delay, Entry: d.Entry, Identity: d.Address, DueUs: d.DueUs}}
	if d.Err != nil {
		return s.skip(step, d.Err), dst, nil
	}
	m, _, err := message.DecodeRecord(d.Record)
	if err != nil {
		return s.skip(step, err), dst, nil
	}
	topic, queueID, err := target(m.Properties)
	if err == nil {
		err = refused
	}
	if err == nil {
		if t, ok := s.store.Topic(topic); !ok {
			err = fmt.Errorf("%w: %s was deleted", store.ErrTopicNotFound, topic)
		} else if d.Address < t.Created {
			err = fmt.Errorf("%w: %s was deleted and created again after the message was sent", store.ErrTopicNotFound, topic)
		}
	}
	if err != nil {
		if m.Properties, err = s.undeliverable(m.Properties, err); err != nil {
			return step, dst, err
		}
		topic, queueID = message.UndeliverableTopic, 0
	} else {
		m.Properties = message.RemoveProperties(m.Properties, message.PropertyDelay, message.PropertyRealTopic, message.PropertyRealQueueID)
	}
	m.Topic, m.QueueID = topic, queueID
	tags, _ := message.Property(m.Properties, message.PropertyTags)
	step.Topic, step.QueueID, step.TagsCode = topic, queueID, message.TagsCode(tags)
	at := len(dst)
	out, err := message.AppendRecord(dst, &m)
	if err != nil {
		return s.skip(step, err), dst, nil
	}
	step.Record = out[at:len(out):len(out)]
	return step, out, nil
}

// target reads where a pending message goes.
func target(properties string) (topic string, queueID int32, err error) {
	topic, ok := message.Property(properties, message.PropertyRealTopic)
	q, okq := message.Property(properties, message.PropertyRealQueueID)
	n, err := strconv.ParseInt(q, 10, 32)
	if !ok || !okq || err != nil || n < 0 || message.ValidateTopic(topic) != nil {
		return "", 0, errNoTarget
	}
	return topic, int32(n), nil
}

func (s *Scheduler) skip(step store.Message, err error) store.Message {
	s.logger.Error("a pending message cannot be read and is passed over", "level", step.Origin.Delay, "entry", step.Origin.Entry, "log_address", step.Origin.Identity, "error", err)
	s.skipped.Add(1)
	reason := err.Error()
	step.Reason = reason[:min(len(reason), maxReason)]
	return step
}

// undeliverable adds the reason to a message's properties, which keep
// REAL_TOPIC and REAL_QID, and sees to the topic it goes to.
func (s *Scheduler) undeliverable(properties string, why error) (string, error) {
	if _, ok := s.store.Topic(message.UndeliverableTopic); !ok {
		if err := s.store.PutTopic(store.Topic{Name: message.UndeliverableTopic, ReadQueues: 1, WriteQueues: 1, Perm: 6}); err != nil {
			return "", fmt.Errorf("create %s: %w", message.UndeliverableTopic, err)
		}
	}
	s.logger.Warn("message not delivered to its topic, kept in "+message.UndeliverableTopic, "reason", why)
	s.undelivered.Add(1)
	reason := why.Error()
	// The schedule's own DELAY entry gives way; it is no longer needed.
	p := message.AppendProperty([]byte(message.RemoveProperties(properties, message.PropertyDelay)), PropertyReason, reason[:min(len(reason), maxReason)])
	if len(p) > message.MaxProperties {
		return properties, nil // no room: the topic alone tells
	}
	return string(p), nil
}
