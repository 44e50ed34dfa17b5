//go:build interop

package client_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/client"
)

func TestInteropPull(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 2), t.name()
	p := t.producer(c)
	q := client.Queue{Topic: topic}
	pc, err := c.NewPullConsumer(group)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := pc.Queues(t.ctx, topic)
	if err != nil || len(queues) != 2 {
		t.Fatalf("queues %v, %v; want 2", queues, err)
	}
	q = queues[1]
	send := func(from, to int) {
		for _, body := range numbered(from, to) {
			if _, err := p.SendTo(t.ctx, q, &client.Message{Topic: topic, Body: []byte(body), Tags: "t" + body[3:]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0, 30)
	time.Sleep(20 * time.Millisecond) // store times of the halves differ
	middle := time.Now()
	time.Sleep(20 * time.Millisecond)
	send(30, 50)
	t.await("the queues' end", func() bool { n, err := pc.MaxOffset(t.ctx, q); return err == nil && n == 50 })
	if n, err := pc.MinOffset(t.ctx, q); err != nil || n != 0 {
		t.Errorf("min offset %d, %v", n, err)
	}
	if n, err := pc.SearchOffset(t.ctx, q, middle); err != nil || n != 30 {
		t.Errorf("offset at the middle %d, %v; want 30", n, err)
	}
	read := func(tags string) []string {
		var got []string
		for offset := int64(0); offset < 50; {
			r, err := pc.Pull(t.ctx, q, offset, 32, 0, tags)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range r.Messages {
				got = append(got, string(m.Body))
			}
			if r.NextOffset <= offset {
				t.Fatalf("pull at %d: %v, next %d", offset, r.Status, r.NextOffset)
			}
			offset = r.NextOffset
		}
		return got
	}
	t.want("all", read("*"), numbered(0, 50))
	t.want("by tag", read("t3"), []string{"0003", "0013", "0023", "0033", "0043"})
	if r, err := pc.Pull(t.ctx, q, 50, 1, 0, ""); err != nil || r.Status != client.NoNewMessage {
		t.Errorf("pull at the end: %v, %v", r.Status, err)
	}
	if r, err := pc.Pull(t.ctx, q, 70, 1, 0, ""); err != nil || r.Status != client.OffsetMoved || r.NextOffset != 50 {
		t.Errorf("pull behind the end: %v next %d, %v", r.Status, r.NextOffset, err)
	}
	pulled := make(chan client.PullResult, 1)
	go func() {
		r, err := pc.Pull(t.ctx, q, 50, 1, 30*time.Second, "")
		if err != nil {
			t.Error(err)
		}
		pulled <- r
	}()
	time.Sleep(100 * time.Millisecond) // it is held by now, or finds the message; both must do
	send(50, 51)
	if r := <-pulled; len(r.Messages) != 1 || string(r.Messages[0].Body) != "0050" {
		t.Errorf("long poll: %v with %d messages", r.Status, len(r.Messages))
	}
	if _, err := pc.Committed(t.ctx, q); !errors.Is(err, client.ErrOffsetNotFound) {
		t.Errorf("committed before any commit: %v, want ErrOffsetNotFound", err)
	}
	if err := pc.Commit(t.ctx, q, 17); err != nil {
		t.Error(err)
	}
	if n, err := pc.Committed(t.ctx, q); err != nil || n != 17 {
		t.Errorf("committed %d, %v; want 17", n, err)
	}
	if at, err := c.Admin().EarliestStoreTime(t.ctx, q); err != nil || at.After(middle) || at.Before(middle.Add(-patience)) {
		t.Errorf("earliest store time %v, %v; want just before %v", at, err, middle)
	}
}

// A reset reaches a member on-line and one that starts later, and older
// commits do not undo it.
func TestInteropReset(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	admin := c.Admin()
	topic, group := t.topic(c, 2), t.name()
	var in received
	pc := t.consume(t.client(), group, in.ok, client.WithSubscription(topic, "*"))
	p := t.producer(c)
	for _, body := range numbered(0, 20) {
		t.send(p, &client.Message{Topic: topic, Body: []byte(body)})
	}
	t.await("20 messages", func() bool { return in.count() >= 20 })
	committed := func(want int64) func() bool {
		return func() bool {
			offsets, err := admin.GroupOffsets(t.ctx, group, topic)
			sum := int64(0)
			for _, o := range offsets {
				sum += o.Committed
			}
			return err == nil && sum == want
		}
	}
	t.await("the commit", committed(20))
	reset := func(target client.ResetTarget, want int64) {
		t.Helper()
		steps, err := admin.PlanReset(t.ctx, group, topic, target)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, s := range steps {
			sum += s.To
		}
		if sum != want {
			t.Errorf("plan %+v, want a sum of %d", steps, want)
		}
		if err := admin.ApplyReset(t.ctx, group, steps); err != nil {
			t.Fatal(err)
		}
	}
	reset(client.ResetToOffset(5), 10)
	t.await("10 messages again", func() bool { return in.count() >= 30 })
	t.await("the commit after the reset", committed(20))
	if err := pc.Close(t.ctx); err != nil {
		t.Error(err)
	}
	reset(client.ResetToEarliest(), 0)
	if !committed(0)() {
		t.Error("the reset does not show in the group's offsets")
	}
	t.consume(t.client(), group, in.ok, client.WithSubscription(topic, "*"))
	t.await("20 messages again", func() bool { return in.count() >= 50 })
	times := map[string]int{}
	for _, body := range in.bodies() {
		times[body]++
	}
	want := map[string]int{}
	offsets := map[string]int64{}
	for _, m := range in.all() {
		offsets[string(m.Body)] = m.QueueOffset
	}
	for _, body := range numbered(0, 20) {
		want[body] = 2
		if offsets[body] >= 5 {
			want[body] = 3
		}
	}
	if diff := cmp.Diff(want, times); diff != "" {
		t.Errorf("times received (-want +got):\n%s", diff)
	}
}

func TestInteropAdmin(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	admin := c.Admin()
	brokers, err := admin.Brokers(t.ctx)
	if err != nil || len(brokers) == 0 || brokers[0].Master() == "" {
		t.Fatalf("brokers %+v, %v; want at least one with a master", brokers, err)
	}
	topic := t.topic(c, 3)
	if queues, err := admin.Queues(t.ctx, topic); err != nil || len(queues) != 3*len(brokers) {
		t.Errorf("queues %v, %v; want 3", queues, err)
	}
	if topics, err := admin.Topics(t.ctx); err != nil && !errors.Is(err, client.ErrNotSupported) || err == nil && !slices.Contains(topics, topic) {
		t.Errorf("topics %v, %v; want %s among them", topics, err, topic)
	}
	if ids, err := admin.ConsumerIDs(t.ctx, t.name()); err != nil || len(ids) != 0 {
		t.Errorf("members of an unknown group: %v, %v", ids, err)
	}
	if err := admin.DeleteTopic(t.ctx, topic); err != nil {
		t.Fatal(err)
	}
	t.await("the topic's end", func() bool {
		_, err := admin.Queues(t.ctx, topic)
		return errors.Is(err, client.ErrTopicNotFound)
	})
	if err := admin.CreateTopic(t.ctx, client.TopicConfig{Name: "SCHEDULE_TOPIC_XXXX"}); err == nil {
		t.Error("the schedule topic could be created")
	}
	// A topic is created by the first send to it.
	p := t.producer(c)
	fresh := t.name()
	t.send(p, &client.Message{Topic: fresh, Body: []byte("x")})
	t.await("the route of a topic created by a send", func() bool {
		queues, err := admin.Queues(t.ctx, fresh)
		return err == nil && len(queues) > 0
	})
}
