// Scenario makes the Go client send at least one request of each code it has
// for TideMQ's work, for the recording proxy in ../../capture. The first frame
// of a kind is the one that is kept, so the first of each is a telling one.
// What a broker refuses is recorded too and does not end the scenario.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	rlog.SetLogLevel("fatal")
	if err := run(os.Getenv("TIDEMQ_INTEROP_ADDR")); err != nil {
		fmt.Fprintln(os.Stderr, "scenario:", err)
		os.Exit(1)
	}
}

func run(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	resolver := primitive.NewPassthroughResolver([]string{addr})
	topic := fmt.Sprintf("g_golden_%d", time.Now().UnixMilli())

	p, err := rocketmq.NewProducer(producer.WithNsResolver(resolver), producer.WithGroupName("g_golden_producer"),
		producer.WithDefaultTopicQueueNums(4))
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	if err := sends(ctx, p, topic); err != nil {
		return fmt.Errorf("sends: %w", err)
	}
	if err := push(ctx, resolver, topic); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if err := orderly(ctx, resolver, topic); err != nil {
		return fmt.Errorf("orderly: %w", err)
	}
	attempt("polling", func() error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return pull(ctx, resolver, topic)
	})
	timer := newMessage(topic, "timer", 0)
	timer.WithProperty("TIMER_DELAY_MS", "2000")
	attempt("a timer", func() error { _, err := p.SendSync(ctx, timer); return err })
	if err := transaction(ctx, resolver, topic); err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	return manage(ctx, resolver, topic)
}

func newMessage(topic, key string, level int) *primitive.Message {
	m := primitive.NewMessage(topic, []byte("body of "+key))
	m.WithTag("TagA")
	m.WithKeys([]string{key})
	m.WithProperty("color", "grün")
	m.Flag = 7
	if level > 0 {
		m.WithDelayTimeLevel(level)
	}
	return m
}

func sends(ctx context.Context, p rocketmq.Producer, topic string) error {
	// The first send makes the topic, from TBW102.
	if _, err := p.SendSync(ctx, newMessage(topic, "first", 1)); err != nil {
		return err
	}
	done := make(chan error, 1)
	err := p.SendAsync(ctx, func(_ context.Context, _ *primitive.SendResult, err error) { done <- err }, newMessage(topic, "async", 0))
	if err != nil {
		return err
	}
	if err := <-done; err != nil {
		return err
	}
	if err := p.SendOneWay(ctx, newMessage(topic, "oneway", 0)); err != nil {
		return err
	}
	_, err = p.SendSync(ctx, newMessage(topic, "batch-0", 0), newMessage(topic, "batch-1", 0), newMessage(topic, "batch-2", 0))
	return err
}

func newPush(resolver primitive.NsResolver, topic, group, instance string, orderly bool,
	f func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)) (rocketmq.PushConsumer, error) {
	c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(resolver), consumer.WithGroupName(group), consumer.WithInstance(instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(orderly))
	if err != nil {
		return nil, err
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagB"}, f); err != nil {
		return nil, err
	}
	return c, c.Start()
}

func push(ctx context.Context, resolver primitive.NsResolver, topic string) error {
	group := "g_golden_push_" + topic
	again := make(chan struct{})
	var once sync.Once
	handle := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			if m.GetKeys() != "first" {
				continue
			}
			if m.ReconsumeTimes == 0 {
				if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
					c.DelayLevelWhenNextConsume = 1
				}
				return consumer.ConsumeRetryLater, nil
			}
			once.Do(func() { close(again) })
		}
		return consumer.ConsumeSuccess, nil
	}
	one, err := newPush(resolver, topic, group, "golden-one", false, handle)
	if err != nil {
		return err
	}
	defer one.Shutdown()
	select {
	case <-again:
	case <-ctx.Done():
		return fmt.Errorf("no redelivery: %w", ctx.Err())
	}
	// A second member: the broker tells the first one (40).
	two, err := newPush(resolver, topic, group, "golden-two", false, handle)
	if err != nil {
		return err
	}
	return two.Shutdown()
}

func orderly(ctx context.Context, resolver primitive.NsResolver, topic string) error {
	got := make(chan struct{})
	var once sync.Once
	c, err := newPush(resolver, topic, "g_golden_orderly_"+topic, "golden-orderly", true,
		func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			once.Do(func() { close(got) })
			return consumer.ConsumeSuccess, nil
		})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	select {
	case <-got:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nothing in order: %w", ctx.Err())
	}
}

func pull(ctx context.Context, resolver primitive.NsResolver, topic string) error {
	c, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(resolver), consumer.WithGroupName("g_golden_pull_"+topic),
		consumer.WithInstance("golden-pull"), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return err
	}
	if err := c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer c.Shutdown()
	for {
		r, err := c.Poll(ctx, 5*time.Second)
		if err == nil {
			c.ACK(ctx, r, consumer.ConsumeSuccess)
			return c.PersistOffset(ctx, topic)
		}
		if !consumer.IsNoNewMsgError(err) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

type commitAll struct{}

func (commitAll) ExecuteLocalTransaction(*primitive.Message) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func (commitAll) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func transaction(ctx context.Context, resolver primitive.NsResolver, topic string) error {
	t, err := rocketmq.NewTransactionProducer(commitAll{}, producer.WithNsResolver(resolver), producer.WithInstanceName("golden-transaction"),
		producer.WithGroupName("g_golden_transaction"))
	if err != nil {
		return err
	}
	if err := t.Start(); err != nil {
		return err
	}
	defer t.Shutdown()
	attempt("a transaction", func() error {
		_, err := t.SendMessageInTransaction(ctx, newMessage(topic, "transaction", 0))
		return err
	})
	return nil
}

func manage(ctx context.Context, resolver primitive.NsResolver, topic string) error {
	a, err := admin.NewAdmin(admin.WithResolver(resolver))
	if err != nil {
		return err
	}
	defer a.Close()
	// The broker's own address: CreateTopic of this client asks for it.
	broker := os.Getenv("TIDEMQ_INTEROP_BROKER")
	if broker == "" {
		broker = os.Getenv("TIDEMQ_INTEROP_ADDR")
	}
	made := topic + "_made"
	attempt("create topic", func() error {
		return a.CreateTopic(ctx, admin.WithTopicCreate(made), admin.WithBrokerAddrCreate(broker), admin.WithReadQueueNums(8), admin.WithWriteQueueNums(8))
	})
	attempt("topic list", func() error { _, err := a.FetchAllTopicList(ctx); return err })
	attempt("delete topic", func() error { return a.DeleteTopic(ctx, admin.WithTopicDelete(topic)) })
	return nil
}

func attempt(what string, f func() error) {
	if err := f(); err != nil {
		fmt.Printf("answered with a refusal: %s: %v\n", what, err)
	}
}
