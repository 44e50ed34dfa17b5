package interop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var (
	number  atomic.Int64
	runName = fmt.Sprintf("%x", time.Now().UnixMilli()&0xffffffff)
)

// unique returns a name that no other case or run uses.
func unique(name string) string {
	return fmt.Sprintf("g_%s_%s_%d", name, runName, number.Add(1))
}

// instance makes clients of one process as separate as those of two.
func instance() string { return fmt.Sprintf("interop-%d-%d", os.Getpid(), number.Add(1)) }

func resolver(addr string) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{addr})
}

// limit is far above anything a working broker and these clients need. The
// longest is 83 s: the Go client does not give up the lock of an orderly queue
// that goes to another member, so that it has to expire (60 s), and looks again
// every 20 s.
const limit = 4 * time.Minute

// await returns once condition holds; how long that took never decides a case,
// only that it came at all.
func await(t *testing.T, what string, condition func() bool, state func() string) {
	t.Helper()
	end := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v; %s", what, limit, state())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// chosen sends a message to the queue it names, others in turn.
type chosen struct{ next atomic.Int64 }

func (c *chosen) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	if m.Queue != nil {
		return m.Queue
	}
	return queues[int(c.next.Add(1))%len(queues)]
}

func newProducer(t *testing.T, addr string, more ...producer.Option) rocketmq.Producer {
	t.Helper()
	options := append([]producer.Option{producer.WithNsResolver(resolver(addr)), producer.WithGroupName(unique("producer")),
		producer.WithInstanceName(instance()), producer.WithQueueSelector(new(chosen))}, more...)
	p, err := rocketmq.NewProducer(options...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown() })
	return p
}

// newTopic creates a topic with n queues and returns them in order once the
// route says so.
func newTopic(t *testing.T, addr, name string, n int) []*primitive.MessageQueue {
	t.Helper()
	a, err := admin.NewAdmin(admin.WithResolver(resolver(addr)))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	broker := os.Getenv("TIDEMQ_INTEROP_BROKER")
	if broker == "" {
		broker = addr
	}
	topic := unique(name)
	err = a.CreateTopic(t.Context(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(broker),
		admin.WithReadQueueNums(n), admin.WithWriteQueueNums(n))
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	var queues []*primitive.MessageQueue
	await(t, "route of "+topic, func() bool {
		queues, err = a.FetchPublishMessageQueues(t.Context(), topic)
		return err == nil && len(queues) == n
	}, func() string { return fmt.Sprint(queues, err) })
	slices.SortFunc(queues, func(a, b *primitive.MessageQueue) int { return a.QueueId - b.QueueId })
	return queues
}

func newMessage(topic, tag, key string) *primitive.Message {
	m := primitive.NewMessage(topic, []byte("body of "+key))
	if tag != "" {
		m.WithTag(tag)
	}
	m.WithKeys([]string{key})
	return m
}

func send(t *testing.T, p rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	t.Helper()
	r, err := p.SendSync(t.Context(), messages...)
	if err != nil {
		t.Fatalf("send %s: %v", messages[0].GetKeys(), err)
	}
	if r.Status != primitive.SendOK {
		t.Fatalf("send %s: status %d", messages[0].GetKeys(), r.Status)
	}
	return r
}

// delivery is one handing-over of a message, as it was then.
type delivery struct {
	*primitive.MessageExt
	key            string
	reconsumeTimes int
	at             time.Time
}

// place tells one record from another: the same place twice is re-reading, one
// key at two places is two records.
func (d delivery) place() string { return fmt.Sprintf("%d@%d", d.Queue.QueueId, d.QueueOffset) }

// inbox keeps what a consumer was given, in the order of arrival.
type inbox struct {
	// answer, if set, decides about one handing-over; tries counts from 1 for
	// each unique id.
	answer func(c *primitive.ConsumeConcurrentlyContext, tries int) consumer.ConsumeResult

	mu         sync.Mutex
	deliveries []delivery
	tries      map[string]int
}

func (in *inbox) handle(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.tries == nil {
		in.tries = map[string]int{}
	}
	result := consumer.ConsumeSuccess
	for _, m := range messages {
		in.deliveries = append(in.deliveries, delivery{m, m.GetKeys(), int(m.ReconsumeTimes), time.Now()})
		in.tries[m.MsgId]++
		if in.answer != nil {
			c, _ := primitive.GetConcurrentlyCtx(ctx)
			result = in.answer(c, in.tries[m.MsgId])
		}
	}
	return result, nil
}

func (in *inbox) all() []delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.deliveries)
}

// keys returns the keys that begin with prefix, sorted; a key twice if it came
// twice.
func (in *inbox) keys(prefix string) []string {
	var keys []string
	for _, d := range in.all() {
		if strings.HasPrefix(d.key, prefix) {
			keys = append(keys, d.key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (in *inbox) awaitCount(t *testing.T, what string, n int) {
	t.Helper()
	await(t, what, func() bool { return len(in.all()) >= n }, func() string {
		return fmt.Sprintf("got %d of %d: %v", len(in.all()), n, in.keys(""))
	})
}

// once returns the deliveries by key; a key that came twice fails.
func (in *inbox) once(t *testing.T) map[string]delivery {
	t.Helper()
	got := map[string]delivery{}
	for _, d := range in.all() {
		if before, ok := got[d.key]; ok {
			t.Errorf("%s came twice: at %s and %s", d.key, before.place(), d.place())
		}
		got[d.key] = d
	}
	return got
}

func newPush(t *testing.T, addr, group, topic, tags string, in *inbox, more ...consumer.Option) rocketmq.PushConsumer {
	t.Helper()
	return newPushFunc(t, addr, group, topic, tags, in.handle, more...)
}

func newPushFunc(t *testing.T, addr, group, topic, tags string,
	f func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error), more ...consumer.Option) rocketmq.PushConsumer {
	t.Helper()
	c, err := startPush(addr, group, topic, tags, f, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Shutdown() })
	return c
}

func startPush(addr, group, topic, tags string,
	f func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error), more ...consumer.Option) (rocketmq.PushConsumer, error) {
	return startSelecting(addr, group, topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, f, more...)
}

func startSelecting(addr, group, topic string, selector consumer.MessageSelector,
	f func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error), more ...consumer.Option) (rocketmq.PushConsumer, error) {
	options := append([]consumer.Option{consumer.WithNsResolver(resolver(addr)), consumer.WithGroupName(group),
		consumer.WithInstance(instance()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, more...)
	c, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(topic, selector, f); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// records reads every record of queues by plain pulls; each queue must hold at
// least one. A gap in the queue offsets fails.
func records(t *testing.T, addr string, queues []*primitive.MessageQueue) []*primitive.MessageExt {
	t.Helper()
	c, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(resolver(addr)), consumer.WithGroupName(unique("records")),
		consumer.WithInstance(instance()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Subscribe(queues[0].Topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Shutdown()
	var all []*primitive.MessageExt
	for _, q := range queues {
		for next, end := int64(0), int64(1); next < end; {
			r, err := c.PullFrom(t.Context(), q, next, 32)
			if err != nil {
				t.Fatalf("pull %v at %d: %v", q, next, err)
			}
			if r.Status != primitive.PullFound {
				t.Fatalf("pull %v at %d: status %d, the queue ends at %d", q, next, r.Status, r.MaxOffset)
			}
			for _, m := range r.GetMessageExts() {
				if m.QueueOffset != next {
					t.Fatalf("%v holds offset %d where %d belongs", q, m.QueueOffset, next)
				}
				next++
				all = append(all, m)
			}
			end = r.MaxOffset
		}
	}
	return all
}
