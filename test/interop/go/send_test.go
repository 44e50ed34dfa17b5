package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// TestSendCreatesTheTopic: the first send makes the topic, with as many queues
// as the producer asked for.
func TestSendCreatesTheTopic(t *testing.T) {
	t.Parallel()
	topic := unique("auto")
	p := newProducer(t, sharedAddr, producer.WithDefaultTopicQueueNums(6))
	r := send(t, p, newMessage(topic, "Tag", "first"))
	if r.MessageQueue.QueueId < 0 || r.MessageQueue.QueueId >= 6 {
		t.Errorf("sent to queue %d of 6", r.MessageQueue.QueueId)
	}
	var in inbox
	newPush(t, sharedAddr, unique("auto"), topic, "*", &in)
	in.awaitCount(t, "the first message", 1)
	if d := in.all()[0]; d.MsgId != r.MsgID || d.key != "first" {
		t.Errorf("got %s %s, want first %s", d.key, d.MsgId, r.MsgID)
	}
}

func TestSendSyncAsyncOnewayBatch(t *testing.T) {
	t.Parallel()
	const n = 20
	queues := newTopic(t, sharedAddr, "send", 4)
	topic := queues[0].Topic
	p := newProducer(t, sharedAddr)
	var in inbox
	newPush(t, sharedAddr, unique("send"), topic, "*", &in)

	type answer struct {
		key string
		r   *primitive.SendResult
		err error
	}
	answers := make(chan answer, n)
	results := map[string]*primitive.SendResult{}
	var batch []*primitive.Message
	for i := range n {
		key := fmt.Sprint("sync-", i)
		results[key] = send(t, p, newMessage(topic, "Tag", key))

		key = fmt.Sprint("async-", i)
		m := newMessage(topic, "Tag", key)
		m.WithDelayTimeLevel(i % 2)
		err := p.SendAsync(t.Context(), func(_ context.Context, r *primitive.SendResult, err error) {
			answers <- answer{key, r, err}
		}, m)
		if err != nil {
			t.Fatal(err)
		}

		m = newMessage(topic, "Tag", fmt.Sprint("oneway-", i))
		m.WithDelayTimeLevel(i % 2)
		if err := p.SendOneWay(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		batch = append(batch, newMessage(topic, "Tag", fmt.Sprint("batch-", i)))
	}
	for range n {
		a := <-answers
		if a.err != nil {
			t.Fatalf("%s: %v", a.key, a.err)
		}
		results[a.key] = a.r
	}
	b := send(t, p, batch...)
	in.awaitCount(t, "all sends", 4*n)

	got := in.once(t)
	for key, r := range results {
		if d := got[key]; d.MessageExt == nil || d.MsgId != r.MsgID || d.Queue.QueueId != r.MessageQueue.QueueId {
			t.Errorf("%s: got %v, the answer was %v", key, d, r)
		}
	}
	for i := range n {
		if d, ok := got[fmt.Sprint("oneway-", i)]; !ok || string(d.Body) != "body of "+d.key {
			t.Errorf("oneway-%d: %v", i, d)
		}
	}
	// A batch is laid down as one: neighbours, in order, in one queue.
	ids := strings.Split(b.MsgID, ",")
	for i := range n {
		d := got[fmt.Sprint("batch-", i)]
		if d.MessageExt == nil || d.Queue.QueueId != b.MessageQueue.QueueId || d.QueueOffset != b.QueueOffset+int64(i) ||
			string(d.Body) != "body of "+d.key {
			t.Errorf("batch-%d: got %v, the answer was %v", i, d, b)
		}
	}
	t.Logf("a batch's ids at send: %d, at consume e.g. %s", len(ids), got["batch-0"].MsgId)
}
