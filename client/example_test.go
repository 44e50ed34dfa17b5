package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/tidemq/tidemq/client"
)

// addr is where TideMQ, or a name server of RocketMQ, listens.
var addr = func() string {
	if a := os.Getenv("TIDEMQ_ADDR"); a != "" {
		return a
	}
	return "127.0.0.1:10911"
}

// Sends a message that consumers see ten seconds later.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New([]string{addr()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())

	p, err := c.NewProducer()
	if err != nil {
		log.Fatal(err)
	}
	r, err := p.Send(ctx, &client.Message{
		Topic:      "orders",
		Tags:       "unpaid",
		Keys:       []string{"order-4711"},
		Body:       []byte("remind the customer"),
		DelayLevel: 3, // 10 s in the default table
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status, len(r.MessageID), r.Queue.Topic)
	// Output: ok 32 orders
}

// Consumes a topic. A message that cannot be handled now comes again after
// delay level 5; after 16 times it is a dead letter.
func ExampleClient_NewPushConsumer() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New([]string{addr()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		// Waits for handlers in hand, for 10 s at most.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			log.Print(err)
		}
	}()

	got := make(chan string)
	handle := func(ctx context.Context, m *client.Message) client.Result {
		select {
		case got <- string(m.Body):
			return client.Success
		case <-ctx.Done():
			return client.RetryLater(5)
		}
	}
	_, err = c.NewPushConsumer(ctx, "reminders", handle,
		client.WithSubscription("deliveries", "parcel || letter"),
		client.WithConsumeFromFirst(),
	)
	if err != nil {
		log.Fatal(err)
	}

	p, err := c.NewProducer()
	if err != nil {
		log.Fatal(err)
	}
	for _, tag := range []string{"pallet", "parcel"} {
		if _, err := p.Send(ctx, &client.Message{Topic: "deliveries", Tags: tag, Body: []byte("a " + tag)}); err != nil {
			log.Fatal(err)
		}
	}
	select {
	case body := <-got:
		fmt.Println(body)
	case <-ctx.Done():
		log.Fatal(ctx.Err())
	}
	// Output: a parcel
}

// Reads a topic from its beginning to its end.
func ExamplePullConsumer() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New([]string{addr()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())
	prod, err := c.NewProducer()
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		m := &client.Message{Topic: "ledger", ShardingKey: "account-1", Body: fmt.Appendf(nil, "entry %d", i)}
		if _, err := prod.Send(ctx, m); err != nil {
			log.Fatal(err)
		}
	}

	p, err := c.NewPullConsumer("auditors")
	if err != nil {
		log.Fatal(err)
	}
	queues, err := p.Queues(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range queues {
		offset, err := p.MinOffset(ctx, q)
		if err != nil {
			log.Fatal(err)
		}
		for {
			r, err := p.Pull(ctx, q, offset, 32, 0, "*")
			if err != nil {
				log.Fatal(err)
			}
			for _, m := range r.Messages {
				fmt.Println(m.QueueOffset, string(m.Body))
			}
			offset = r.NextOffset
			if offset >= r.MaxOffset {
				break
			}
		}
	}
	// Output:
	// 0 entry 0
	// 1 entry 1
	// 2 entry 2
}

// Shows what giving a group a topic's past again would do, and does it.
func ExampleAdmin_PlanReset() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New([]string{addr()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())
	a := c.Admin()
	steps, err := a.PlanReset(ctx, "reminders", "orders", client.ResetToTime(time.Now().Add(-time.Hour)))
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range steps {
		if s.From < 0 {
			fmt.Println("queue", s.Queue.ID, "was never committed")
		}
	}
	if err := a.ApplyReset(ctx, "reminders", steps); errors.Is(err, client.ErrGroupNotFound) {
		fmt.Println("no such group")
	} else if err != nil {
		log.Fatal(err)
	}
	// Output:
	// queue 0 was never committed
	// queue 1 was never committed
	// queue 2 was never committed
	// queue 3 was never committed
}
