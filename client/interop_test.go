//go:build interop

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/client"
)

// These tests run against any server, TideMQ or Apache RocketMQ, whose name
// server TIDEMQ_INTEROP_ADDR names (default 127.0.0.1:9876). Its first delay
// level must be 1 s, its second at least 2 s. They leave topics and groups with
// names of their own behind.

func interopAddr() string {
	if a := os.Getenv("TIDEMQ_INTEROP_ADDR"); a != "" {
		return a
	}
	return "127.0.0.1:9876"
}

// patience is how long a test waits for what must come. Topics and groups
// reach a name server of its own with a delay.
const patience = 90 * time.Second

type interop struct {
	*testing.T
	ctx context.Context
}

func newInterop(t *testing.T) interop {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return interop{t, ctx}
}

// name returns one that no other run uses.
func (t interop) name() string {
	return fmt.Sprintf("%s-%08x", strings.ReplaceAll(t.Name(), "/", "-"), rand.Uint32())
}

func (t interop) client() *client.Client {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	c, err := client.New([]string{interopAddr()}, client.WithLogger(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// topic creates a topic and waits until its route is known.
func (t interop) topic(c *client.Client, queues int) string {
	t.Helper()
	name := t.name()
	if err := c.Admin().CreateTopic(t.ctx, client.TopicConfig{Name: name, ReadQueues: queues, WriteQueues: queues}); err != nil {
		t.Fatal(err)
	}
	t.await("route of "+name, func() bool {
		qs, err := c.Admin().Queues(t.ctx, name)
		return err == nil && len(qs) >= queues
	})
	return name
}

func (t interop) producer(c *client.Client, opts ...client.ProducerOption) *client.Producer {
	t.Helper()
	p, err := c.NewProducer(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (t interop) send(p *client.Producer, m *client.Message) client.SendResult {
	t.Helper()
	r, err := p.Send(t.ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (t interop) consume(c *client.Client, group string, h client.Handler, opts ...client.ConsumerOption) *client.PushConsumer {
	t.Helper()
	// Short polls and commits, so that resets and hand-overs take seconds.
	opts = append([]client.ConsumerOption{
		client.WithConsumeFromFirst(), client.WithLongPolling(2 * time.Second),
		client.WithCommitInterval(200 * time.Millisecond), client.WithRebalanceInterval(time.Second),
	}, opts...)
	p, err := c.NewPushConsumer(t.ctx, group, h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits until done holds.
func (t interop) await(what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-t.ctx.Done():
			t.Fatalf("waited in vain for: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// received collects what handlers get.
type received struct {
	mu   sync.Mutex
	msgs []*client.Message
	at   []time.Time
}

func (r *received) add(m *client.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.msgs = append(r.msgs, m)
	r.at = append(r.at, time.Now())
}

func (r *received) ok(_ context.Context, m *client.Message) client.Result {
	r.add(m)
	return client.Success
}

func (r *received) all() []*client.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.msgs)
}

func (r *received) bodies() []string {
	var out []string
	for _, m := range r.all() {
		out = append(out, string(m.Body))
	}
	return out
}

func (r *received) count() int { return len(r.all()) }

func numbered(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%04d", i))
	}
	return out
}

func (t interop) want(what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Every way of sending, and every field, there and back.
func TestInteropSendAndConsume(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 4), t.name()
	var in received
	t.consume(c, group, in.ok, client.WithSubscription(topic, "*"))
	var selected received
	t.consume(t.client(), group+"-tags", selected.ok, client.WithSubscription(topic, "Aa || grün"))

	p := t.producer(c)
	sent := map[string]*client.Message{}
	ids := map[string]string{}
	levels := map[string]time.Time{}
	note := func(m *client.Message, r client.SendResult) {
		sent[string(m.Body)] = m
		ids[string(m.Body)] = r.MessageID
	}
	text := bytes.Repeat([]byte("tide "), 4000)
	for i, m := range []*client.Message{
		{Body: []byte("plain")},
		{Body: []byte("all fields"), Tags: "grün", Keys: []string{"k1", "k2"}, Properties: map[string]string{"p": "v", "ü": "ö"}, Flag: 42, ShardingKey: "s"},
		{Body: []byte("hash collision 1"), Tags: "Aa"},
		{Body: []byte("hash collision 2"), Tags: "BB"},
		{Body: append([]byte("zlib"), text...)},
		{Body: []byte{0, 1, 2, 255, 254}},
		{Body: []byte("level 1"), DelayLevel: 1, Tags: "Aa", Keys: []string{"late"}},
		{Body: []byte("level 2"), DelayLevel: 2},
	} {
		m.Topic = topic
		if m.DelayLevel > 0 {
			levels[string(m.Body)] = time.Now()
		}
		r := t.send(p, m)
		note(m, r)
		if m.DelayLevel == 0 && (r.Queue.Topic != topic || r.QueueOffset < 0 || len(r.OffsetID) != 32) || r.Status != client.SendOK {
			t.Errorf("message %d: result %+v", i, r)
		}
	}
	for kind, name := range map[client.Compression]string{client.LZ4: "lz4", client.Zstd: "zstd"} {
		m := &client.Message{Topic: topic, Body: append([]byte(name), text...)}
		note(m, t.send(t.producer(t.client(), client.WithCompression(kind, 1000)), m))
	}
	var batch []*client.Message
	for i := range 3 {
		batch = append(batch, &client.Message{Topic: topic, Body: fmt.Appendf(nil, "batch %d", i), Tags: "b" + strconv.Itoa(i)})
	}
	results, err := p.SendBatch(t.ctx, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		note(batch[i], r)
		if r.QueueOffset != results[0].QueueOffset+int64(i) || len(r.OffsetID) != 32 {
			t.Errorf("batch message %d: result %+v after %+v", i, r, results[0])
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range 20 {
		m := &client.Message{Topic: topic, Body: fmt.Appendf(nil, "async %d", i)}
		wg.Add(1)
		err := p.SendAsync(t.ctx, m, func(r client.SendResult, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			note(m, r)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	oneway := &client.Message{Topic: topic, Body: []byte("one-way")}
	if err := p.SendOneway(t.ctx, oneway); err != nil {
		t.Fatal(err)
	}
	note(oneway, client.SendResult{})

	t.await(fmt.Sprintf("%d messages", len(sent)), func() bool { return in.count() >= len(sent) })
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.msgs) != len(sent) {
		t.Errorf("received %d messages, sent %d", len(in.msgs), len(sent))
	}
	for i, got := range in.msgs {
		body := string(got.Body)
		m := sent[body]
		if m == nil {
			t.Errorf("received what was not sent: %.50q", body)
			continue
		}
		type fields struct {
			Topic, Tags, ShardingKey, ID string
			Keys                         []string
			Flag                         int32
			Err                          error
		}
		want := fields{m.Topic, m.Tags, m.ShardingKey, ids[body], m.Keys, m.Flag, nil}
		if ids[body] == "" {
			want.ID = got.ID
		}
		keys := got.Keys
		if len(keys) == 0 {
			keys = nil
		}
		if diff := cmp.Diff(want, fields{got.Topic, got.Tags, got.ShardingKey, got.ID, keys, got.Flag, got.BodyErr}); diff != "" {
			t.Errorf("%.50q (-sent +received):\n%s", body, diff)
		}
		for k, v := range m.Properties {
			if got.Properties[k] != v {
				t.Errorf("%.50q: property %q is %q, sent %q", body, k, got.Properties[k], v)
			}
		}
		if sentAt, delayed := levels[body]; delayed {
			if d := in.at[i].Sub(sentAt); d < time.Duration(m.DelayLevel)*time.Second {
				t.Errorf("%q came %v after it was sent", body, d)
			}
			if got.Queue.Topic != topic || got.StoreTime.Sub(got.BornTime) < time.Second {
				t.Errorf("%q came from %s, born %v, stored %v", body, got.Queue, got.BornTime, got.StoreTime)
			}
		}
	}
	t.await("the selected ones", func() bool { return selected.count() >= 3 })
	got := selected.bodies()
	slices.Sort(got)
	t.want("selected by tag", got, []string{"all fields", "hash collision 1", "level 1"})
}

func TestInteropRefusals(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	p := t.producer(c, client.WithRetries(0), client.WithMaxMessageSize(15<<20), client.WithCompression(client.NoCompression, 1))
	topic := t.topic(c, 1)
	var be *client.BrokerError
	_, err := p.Send(t.ctx, &client.Message{Topic: topic, Body: make([]byte, 5<<20)})
	if !errors.Is(err, client.ErrRefused) || !errors.As(err, &be) || be.Code != 13 || be.Name != "MESSAGE_ILLEGAL" {
		t.Errorf("5 MiB: %v, want refusal 13", err)
	}
	_, err = p.Send(t.ctx, &client.Message{Topic: "SCHEDULE_TOPIC_XXXX", Body: []byte("x")})
	if err == nil {
		t.Error("a send to the schedule topic was accepted")
	}
	if _, err := c.Admin().Call(t.ctx, interopAddr(), 12345, nil, nil); !errors.Is(err, client.ErrNotSupported) {
		t.Errorf("unknown request: %v, want ErrNotSupported", err)
	}
	// The connection goes on.
	t.send(p, &client.Message{Topic: topic, Body: []byte("x")})
}

// Failed messages come back with their count, then are dead letters.
func TestInteropRetryAndDeadLetter(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 2), t.name()
	var in received
	h := func(_ context.Context, m *client.Message) client.Result {
		in.add(m)
		switch string(m.Body) {
		case "twice":
			if m.ReconsumeTimes < 2 {
				return client.RetryLater(1)
			}
		case "never":
			return client.RetryLater(1)
		case "dead":
			return client.DeadLetter
		}
		return client.Success
	}
	t.consume(c, group, h, client.WithSubscription(topic, "*"), client.WithMaxReconsumeTimes(2))
	p := t.producer(c)
	ids := map[string]string{}
	for _, body := range []string{"good", "twice", "never", "dead"} {
		ids[body] = t.send(p, &client.Message{Topic: topic, Body: []byte(body), Tags: "tag", Keys: []string{body}}).MessageID
	}
	t.await("all attempts", func() bool { return in.count() >= 8 })
	var got []string
	for _, m := range in.all() {
		got = append(got, fmt.Sprintf("%s %d", m.Body, m.ReconsumeTimes))
		if m.Topic != topic || m.ID != ids[string(m.Body)] || m.Tags != "tag" || m.Keys[0] != string(m.Body) {
			t.Errorf("attempt %d of %q: topic %q, id %q, tag %q, keys %q", m.ReconsumeTimes, m.Body, m.Topic, m.ID, m.Tags, m.Keys)
		}
	}
	slices.Sort(got)
	t.want("attempts", got, []string{"dead 0", "good 0", "never 0", "never 1", "never 2", "twice 0", "twice 1", "twice 2"})
	t.want("dead letters", t.deadLetters(c, group, 2), []string{"dead", "never"})
}

// deadLetters waits for n and returns their bodies, sorted.
func (t interop) deadLetters(c *client.Client, group string, n int) []string {
	t.Helper()
	p, err := t.client().NewPullConsumer(group + "-dead")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	t.await(fmt.Sprintf("%d dead letters", n), func() bool {
		queues, err := p.Queues(t.ctx, "%DLQ%"+group)
		if err != nil {
			return false
		}
		got = nil
		for _, q := range queues {
			r, err := p.Pull(t.ctx, q, 0, 32, 0, "*")
			if err != nil {
				return false
			}
			for _, m := range r.Messages {
				got = append(got, string(m.Body))
			}
		}
		return len(got) >= n
	})
	slices.Sort(got)
	return got
}

// Two members share the queues; when one leaves the other goes on behind what
// it consumed.
func TestInteropRebalance(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 6), t.name()
	var a, b received
	pa := t.consume(t.client(), group, a.ok, client.WithSubscription(topic, "*"))
	cb := t.client()
	pb := t.consume(cb, group, b.ok, client.WithSubscription(topic, "*"))
	own := func(p *client.PushConsumer) int {
		return len(slices.DeleteFunc(p.Queues(), func(q client.Queue) bool { return q.Topic != topic }))
	}
	t.await("3 queues each", func() bool { return own(pa) == 3 && own(pb) == 3 })
	if ids, err := c.Admin().ConsumerIDs(t.ctx, group); err != nil || len(ids) != 2 || !slices.Contains(ids, cb.ClientID()) {
		t.Errorf("members %q, %v; want two, with %s", ids, err, cb.ClientID())
	}
	p := t.producer(c)
	sendAll := func(from, to int) {
		for _, body := range numbered(from, to) {
			t.send(p, &client.Message{Topic: topic, Body: []byte(body)})
		}
	}
	all := func() []string {
		got := append(a.bodies(), b.bodies()...)
		slices.Sort(got)
		return got
	}
	sendAll(0, 60)
	t.await("60 messages", func() bool { return len(all()) >= 60 })
	t.want("received by two", all(), numbered(0, 60))
	if a.count() != 30 || b.count() != 30 {
		t.Errorf("received %d and %d, want 30 each", a.count(), b.count())
	}
	if err := pb.Close(t.ctx); err != nil {
		t.Error(err)
	}
	t.await("6 queues for the one who stays", func() bool { return own(pa) == 6 })
	sendAll(60, 120)
	t.await("120 messages", func() bool { return len(all()) >= 120 })
	t.want("received in all", all(), numbered(0, 120))
	if b.count() != 30 {
		t.Errorf("the one who left received %d, want 30", b.count())
	}
}

func TestInteropBroadcast(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 3), t.name()
	dir := t.TempDir()
	var a, b received
	start := func(r *received, file string) *client.PushConsumer {
		return t.consume(t.client(), group, r.ok, client.WithSubscription(topic, "*"), client.WithBroadcast(filepath.Join(dir, file)))
	}
	pa, _ := start(&a, "a"), start(&b, "b")
	p := t.producer(c)
	for _, body := range numbered(0, 20) {
		t.send(p, &client.Message{Topic: topic, Body: []byte(body)})
	}
	t.await("20 messages each", func() bool { return a.count() >= 20 && b.count() >= 20 })
	if err := pa.Close(t.ctx); err != nil {
		t.Error(err)
	}
	for _, body := range numbered(20, 30) {
		t.send(p, &client.Message{Topic: topic, Body: []byte(body)})
	}
	start(&a, "a")
	t.await("30 messages each", func() bool { return a.count() >= 30 && b.count() >= 30 })
	for name, r := range map[string]*received{"a": &a, "b": &b} {
		got := r.bodies()
		slices.Sort(got)
		t.want(name, got, numbered(0, 30))
	}
}

// Orderly: each key in order, one at a time, over a failure and a change of
// members, and a message given up becomes a dead letter.
func TestInteropOrderly(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 4), t.name()
	var mu sync.Mutex
	byKey := map[string][]string{}
	fails := map[string]int{"k1 0005": 1, "k2 0007": 100}
	h := func(_ context.Context, m *client.Message) client.Result {
		mu.Lock()
		defer mu.Unlock()
		body := string(m.Body)
		if fails[body] > 0 {
			fails[body]--
			return client.Retry
		}
		byKey[m.ShardingKey] = append(byKey[m.ShardingKey], body)
		return client.Success
	}
	opts := []client.ConsumerOption{
		client.WithSubscription(topic, "*"), client.WithOrderly(),
		client.WithSuspend(50 * time.Millisecond), client.WithMaxReconsumeTimes(3),
	}
	first := t.consume(t.client(), group, h, opts...)
	p := t.producer(c)
	sendAll := func(from, to int) {
		for _, n := range numbered(from, to) {
			for k := range 4 {
				key := "k" + strconv.Itoa(k)
				t.send(p, &client.Message{Topic: topic, Body: []byte(key + " " + n), ShardingKey: key})
			}
		}
	}
	total := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, l := range byKey {
			n += len(l)
		}
		return n
	}
	sendAll(0, 20)
	t.await("the first half but one", func() bool { return total() >= 79 })
	second := t.consume(t.client(), group, h, opts...)
	t.await("a share for the second member", func() bool {
		return slices.ContainsFunc(second.Queues(), func(q client.Queue) bool { return q.Topic == topic })
	})
	sendAll(20, 40)
	t.await("all but one", func() bool { return total() >= 159 })
	if err := first.Close(t.ctx); err != nil {
		t.Error(err)
	}
	sendAll(40, 50)
	t.await("all of three rounds but one", func() bool { return total() >= 199 })
	mu.Lock()
	defer mu.Unlock()
	for k := range 4 {
		key := "k" + strconv.Itoa(k)
		var want []string
		for _, n := range numbered(0, 50) {
			if body := key + " " + n; body != "k2 0007" {
				want = append(want, body)
			}
		}
		t.want(key, byKey[key], want)
	}
	t.want("dead letters", t.deadLetters(c, group, 1), []string{"k2 0007"})
}

// A consumer gets what its SQL92 expression matches, delayed messages too.
func TestInteropSQL(tt *testing.T) {
	t := newInterop(tt)
	c := t.client()
	topic, group := t.topic(c, 2), t.name()
	var in received
	t.consume(c, group, in.ok, client.WithSQLSubscription(topic, "region = 'eu' AND qty BETWEEN 5 AND 10"), client.WithConsumeFromFirst())
	p := t.producer(c)
	for i, m := range []*client.Message{
		{Body: []byte("a"), Properties: map[string]string{"region": "eu", "qty": "7"}},
		{Body: []byte("b"), Properties: map[string]string{"region": "us", "qty": "7"}},
		{Body: []byte("c"), Properties: map[string]string{"region": "eu", "qty": "70"}},
		{Body: []byte("d")},
		{Body: []byte("e"), Properties: map[string]string{"region": "eu", "qty": "10"}, DelayLevel: 1},
		{Body: []byte("f"), Properties: map[string]string{"region": "us", "qty": "10"}, DelayLevel: 1},
	} {
		m.Topic, m.Keys = topic, []string{fmt.Sprint(i)}
		t.send(p, m)
	}
	t.await("the messages that match", func() bool { return in.count() >= 2 })
	var got []string
	for _, m := range in.all() {
		got = append(got, string(m.Body))
	}
	slices.Sort(got)
	t.want("messages", got, []string{"a", "e"})
}
