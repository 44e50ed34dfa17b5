package interop

import (
	"slices"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// failing answers "later" until a message was given so many times.
func failing(times, level int) *inbox {
	return &inbox{answer: func(c *primitive.ConsumeConcurrentlyContext, tries int) consumer.ConsumeResult {
		c.DelayLevelWhenNextConsume = level
		if tries <= times {
			return consumer.ConsumeRetryLater
		}
		return consumer.ConsumeSuccess
	}}
}

func reconsumeTimes(ds []delivery) []int {
	var times []int
	for _, d := range ds {
		times = append(times, d.reconsumeTimes)
	}
	return times
}

// TestRetryLevelGrows leaves the level to the broker: 3, 4, … so the waits grow,
// and the reconsume times count.
func TestRetryLevelGrows(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "retry", 2)
	topic := queues[0].Topic
	p := newProducer(t, sharedAddr)
	in := failing(3, 0)
	newPush(t, sharedAddr, unique("retry"), topic, "Tag", in)
	r := send(t, p, newMessage(topic, "Tag", "again"))
	in.awaitCount(t, "the message and three redeliveries", 4)

	tries := in.all()
	if got := reconsumeTimes(tries); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("reconsume times %v", got)
	}
	for i, d := range tries {
		if d.MsgId != r.MsgID || d.Topic != topic || d.GetTags() != "Tag" || string(d.Body) != "body of again" {
			t.Errorf("try %d: got %v, sent as %v", i, d, r)
		}
		if i == 0 {
			continue
		}
		if d.GetProperty("RETRY_TOPIC") != topic {
			t.Errorf("try %d: retry topic %q", i, d.GetProperty("RETRY_TOPIC"))
		}
		level := time.Duration(2 + i)
		if wait := time.UnixMilli(d.StoreTimestamp).Sub(tries[i-1].at.Truncate(time.Millisecond)); wait < level*time.Second {
			t.Errorf("a redelivery at level %d is early: stored %v after the failure", level, wait)
		}
	}
}

// TestRetryLevelOfTheHandler: a level of the handler's choice goes before the
// broker's.
func TestRetryLevelOfTheHandler(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "retry_level", 1)
	topic := queues[0].Topic
	in := failing(2, 1)
	newPush(t, sharedAddr, unique("retry_level"), topic, "*", in)
	send(t, newProducer(t, sharedAddr), newMessage(topic, "Tag", "again"))
	in.awaitCount(t, "the message and two redeliveries", 3)
	tries := in.all()
	if got := reconsumeTimes(tries); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("reconsume times %v", got)
	}
	for i := 1; i < len(tries); i++ {
		if wait := time.UnixMilli(tries[i].StoreTimestamp).Sub(tries[i-1].at.Truncate(time.Millisecond)); wait < time.Second {
			t.Errorf("a redelivery at level 1 is early: stored %v after the failure", wait)
		}
	}
}

// deadLetter returns the one record of the group's dead-letter topic.
func deadLetter(t *testing.T, group string) delivery {
	t.Helper()
	topic := "%DLQ%" + group
	var in inbox
	reader := unique("dead_reader")
	// This client refuses to start without a route, so until then it is asked
	// again.
	var err error
	await(t, "route of "+topic, func() bool {
		c, e := startPush(sharedAddr, reader, topic, "*", in.handle)
		if err = e; err != nil {
			return false
		}
		t.Cleanup(func() { c.Shutdown() })
		return true
	}, func() string { return err.Error() })
	in.awaitCount(t, "a dead letter of "+group, 1)
	q := &primitive.MessageQueue{Topic: topic, BrokerName: in.all()[0].Queue.BrokerName, QueueId: 0}
	if all := records(t, sharedAddr, []*primitive.MessageQueue{q}); len(all) != 1 {
		t.Errorf("%s holds %d records, want 1", topic, len(all))
	}
	return in.all()[0]
}

// TestDeadLetterAfterTheLastRetry: failing more often than the group allows
// leads to %DLQ%group, once, readable like any topic.
func TestDeadLetterAfterTheLastRetry(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "dead", 1)
	topic, group := queues[0].Topic, unique("dead")
	in := failing(1<<30, 1)
	newPush(t, sharedAddr, group, topic, "*", in, consumer.WithMaxReconsumeTimes(2))
	r := send(t, newProducer(t, sharedAddr), newMessage(topic, "Tag", "hopeless"))
	d := deadLetter(t, group)
	if d.key != "hopeless" || d.MsgId != r.MsgID || string(d.Body) != "body of hopeless" || d.GetProperty("RETRY_TOPIC") != topic {
		t.Errorf("the dead letter is %v, sent as %v", d, r)
	}
	if got := reconsumeTimes(in.all()); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("reconsume times %v", got)
	}
}

// TestDeadLetterAtOnce: level -1 means dead letter now.
func TestDeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "dead_now", 1)
	topic, group := queues[0].Topic, unique("dead_now")
	in := failing(1<<30, -1)
	newPush(t, sharedAddr, group, topic, "*", in)
	send(t, newProducer(t, sharedAddr), newMessage(topic, "Tag", "unwanted"))
	if d := deadLetter(t, group); d.key != "unwanted" {
		t.Errorf("the dead letter is %v", d)
	}
	if got := reconsumeTimes(in.all()); !slices.Equal(got, []int{0}) {
		t.Errorf("reconsume times %v", got)
	}
}
