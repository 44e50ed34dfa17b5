package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// inbox is a handler that notes what it got.
type inbox struct {
	mu   sync.Mutex
	got  []string
	msgs []*Message
	// result decides; nil is Success.
	result func(*Message) Result
}

func (b *inbox) handle(_ context.Context, m *Message) Result {
	b.mu.Lock()
	b.got = append(b.got, string(m.Body))
	b.msgs = append(b.msgs, m)
	b.mu.Unlock()
	if b.result != nil {
		return b.result(m)
	}
	return Success
}

func (b *inbox) bodies() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

func (b *inbox) sorted() []string { return slices.Sorted(slices.Values(b.bodies())) }

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%03d", i))
	}
	return out
}

// pushTest is a bubble with a cluster of pipes, where time is the test's.
type pushTest struct {
	t    *testing.T
	c    *fakeCluster
	dial Dialer
}

func pushBubble(t *testing.T, brokers int, f func(*testing.T, *pushTest)) {
	synctest.Test(t, func(t *testing.T) {
		c, dial := newPipeCluster(brokers)
		t.Cleanup(c.close)
		f(t, &pushTest{t: t, c: c, dial: dial})
	})
}

func (pt *pushTest) client(id string) *Client {
	pt.t.Helper()
	return newTestClient(pt.t, pt.c, WithDialer(pt.dial), WithClientID(id))
}

func (pt *pushTest) consume(cl *Client, h Handler, opts ...ConsumerOption) *PushConsumer {
	pt.t.Helper()
	opts = append([]ConsumerOption{WithSubscription("t", "*")}, opts...)
	p, err := cl.NewPushConsumer(pt.t.Context(), "g", h, opts...)
	if err != nil {
		pt.t.Fatal(err)
	}
	return p
}

// put stores n messages, numbered from start, in turn into the topic's queues.
func (pt *pushTest) put(start, n, queues int) {
	for i := range n {
		pt.c.brokers[0].put("t", i%queues, fmt.Sprintf("%03d", start+i), "")
	}
}

// settle lets d pass and everything that follows from it happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func wantBodies(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestPushConsume(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 4)
		pt.put(0, 10, 4)
		var in inbox
		p := pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst())
		settle(time.Second)
		wantBodies(t, "before the start", in.sorted(), numbers(0, 10))
		pt.put(10, 100, 4)
		settle(time.Millisecond) // a held pull is answered at once
		wantBodies(t, "while running", in.sorted(), numbers(0, 110))
		if got := b.committed("g", "t", 0); got > 0 {
			t.Errorf("committed %d before the interval", got)
		}
		settle(5 * time.Second)
		for q := range 4 {
			if got, want := b.committed("g", "t", q), int64(len(b.stored("t", q))); got != want {
				t.Errorf("queue %d: committed %d, want %d", q, got, want)
			}
		}
		m := in.msgs[0]
		if m.Topic != "t" || m.ReconsumeTimes != 0 || m.ID == "" || m.Queue.Broker != "b0" {
			t.Errorf("message %+v", m)
		}
		pt.put(110, 4, 4)
		settle(time.Millisecond)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := b.committed("g", "t", 0); got != int64(len(b.stored("t", 0))) {
			t.Errorf("committed %d at close, want %d", got, len(b.stored("t", 0)))
		}
		if n := len(b.members["g"]); n != 0 {
			t.Errorf("%d members after close", n)
		}
	})
}

func TestConsumeFrom(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts func(middle time.Time) []ConsumerOption
		want []string
	}{
		{"last", func(time.Time) []ConsumerOption { return nil }, nil},
		{"first", func(time.Time) []ConsumerOption { return []ConsumerOption{WithConsumeFromFirst()} }, numbers(0, 10)},
		{"time", func(m time.Time) []ConsumerOption { return []ConsumerOption{WithConsumeFromTime(m)} }, numbers(5, 10)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
				pt.c.createTopic("t", 1)
				pt.put(0, 5, 1)
				time.Sleep(time.Second)
				middle := time.Now()
				pt.put(5, 5, 1)
				var in inbox
				cl := pt.client("a")
				p := pt.consume(cl, in.handle, tc.opts(middle)...)
				settle(time.Second)
				wantBodies(t, "first start", in.sorted(), tc.want)
				// The place is kept even if nothing was consumed.
				if err := p.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				pt.put(10, 5, 1)
				pt.consume(cl, in.handle, tc.opts(middle)...)
				settle(time.Second)
				wantBodies(t, "second start", in.sorted(), append(tc.want, numbers(10, 15)...))
			})
		})
	}
}

// A broker that is still loading must not make the group begin elsewhere.
func TestBrokerStillLoading(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 10, 1)
		b.mu.Lock()
		b.setOffset("g", Queue{"t", "b0", 0}, 7)
		b.mu.Unlock()
		for range 6 {
			b.answer(remoting.ReqQueryConsumerOffset, remoting.ServiceNotAvailable, "loading")
		}
		var in inbox
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst())
		settle(time.Minute)
		wantBodies(t, "received", in.sorted(), numbers(7, 10))
	})
}

// What is sent to a topic that appears after the consumer is not skipped,
// although the group begins at the end of topics that are there.
func TestTopicAppearsLater(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		var in inbox
		pt.consume(pt.client("a"), in.handle)
		settle(time.Minute)
		pt.c.createTopic("t", 2)
		pt.put(0, 6, 2)
		settle(20 * time.Second)
		wantBodies(t, "received", in.sorted(), numbers(0, 6))
	})
}

func TestTags(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		// "Aa" and "BB" have the same hash, so the broker gives both.
		for i, tag := range []string{"Aa", "BB", "", "grün", "x", "Aa"} {
			b.put("t", 0, fmt.Sprint(i), tag)
		}
		var in inbox
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithSubscription("t", "Aa || grün"))
		settle(6 * time.Second)
		wantBodies(t, "received", in.sorted(), []string{"0", "3", "5"})
		if got := b.committed("g", "t", 0); got != 6 {
			t.Errorf("committed %d, want 6: what was filtered counts as consumed", got)
		}
	})
}

func TestRetryAndDeadLetter(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		b.put("t", 0, "ok", "")
		b.put("t", 0, "twice", "tag")
		b.put("t", 0, "never", "")
		b.put("t", 0, "dead", "")
		b.put("t", 0, "panics", "")
		panicked := false
		in := inbox{}
		in.result = func(m *Message) Result {
			switch body := string(m.Body); {
			case m.Topic != "t":
				t.Errorf("message of topic %q, want the first topic", m.Topic)
			case body == "twice" && m.ReconsumeTimes < 2:
				return RetryLater(3)
			case body == "never":
				return Retry
			case body == "dead":
				return DeadLetter
			case body == "panics" && !panicked:
				panicked = true
				panic("scripted")
			}
			return Success
		}
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithMaxReconsumeTimes(3), WithConcurrency(1))
		settle(30 * time.Second)
		count := map[string]int{}
		for _, m := range in.msgs {
			count[string(m.Body)]++
			if m.ReconsumeTimes > 0 && (m.Queue.Topic != message.RetryTopic("g") || m.ID != "ID"+string(m.Body)) {
				t.Errorf("retried message in %s with id %s", m.Queue, m.ID)
			}
		}
		want := map[string]int{"ok": 1, "twice": 3, "never": 4, "dead": 1, "panics": 2}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Errorf("times handled (-want +got):\n%s", diff)
		}
		var dead []string
		for _, m := range b.stored(message.DLQTopic("g"), 0) {
			dead = append(dead, string(m.Body))
		}
		slices.Sort(dead)
		wantBodies(t, "dead letters", dead, []string{"dead", "never"})
		levels := map[string]int{}
		for _, r := range b.requests(remoting.ReqConsumerSendMsgBack) {
			levels[r.Fields.Value("delayLevel")]++
			if r.Fields.Value("maxReconsumeTimes") != "3" {
				t.Errorf("maxReconsumeTimes %q, want 3", r.Fields.Value("maxReconsumeTimes"))
			}
		}
		if diff := cmp.Diff(map[string]int{"3": 2, "0": 5, "-1": 1}, levels); diff != "" {
			t.Errorf("delay levels (-want +got):\n%s", diff)
		}
		if got := b.committed("g", "t", 0); got != 5 {
			t.Errorf("committed %d, want 5", got)
		}
	})
}

// A broker that cannot take a message back gets it as a new one; if it takes
// neither, the message is handled again and its offset stays.
func TestSendBackRefused(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		b.put("t", 0, "x", "tag")
		b.answer(remoting.ReqConsumerSendMsgBack, remoting.SystemError, "look message by offset failed")
		b.answer(remoting.ReqSendMessageV2, remoting.MessageIllegal, "scripted")
		b.answer(remoting.ReqConsumerSendMsgBack, remoting.SystemError, "look message by offset failed")
		in := inbox{result: func(m *Message) Result {
			if m.Queue.Topic == "t" {
				return Retry
			}
			return Success
		}}
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst())
		settle(time.Second)
		if n := len(in.bodies()); n != 1 {
			t.Fatalf("handled %d times, want 1", n)
		}
		settle(3900 * time.Millisecond)
		if got := b.committed("g", "t", 0); got > 0 {
			t.Errorf("committed %d with the message neither consumed nor stored", got)
		}
		settle(10 * time.Second)
		if n := len(in.bodies()); n != 3 {
			t.Fatalf("handled %d times, want 3: at first, again, and from the retry topic", n)
		}
		m := in.msgs[2]
		if m.Topic != "t" || m.Tags != "tag" || m.ID != "IDx" || m.ReconsumeTimes != 2 || m.Properties["ORIGIN_MESSAGE_ID"] != in.msgs[0].OffsetID {
			t.Errorf("retried message %+v", m)
		}
		if got := b.committed("g", "t", 0); got != 1 {
			t.Errorf("committed %d, want 1", got)
		}
	})
}

func TestCloseWaitsForHandlers(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 50, 1)
		in := inbox{result: func(*Message) Result { time.Sleep(10 * time.Second); return Success }}
		p := pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithConcurrency(5))
		settle(time.Second)
		start := time.Now()
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 9*time.Second {
			t.Errorf("close took %v, want the 9 s the handlers had left", d)
		}
		if n, c := len(in.bodies()), b.committed("g", "t", 0); n != 5 || c != 5 {
			t.Errorf("handled %d, committed %d; want the 5 in hand, and no more", n, c)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// A handler that does not return in time is told so by its context, and its
// message is not committed.
func TestCloseGivesUp(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 3, 1)
		returned := make(chan struct{})
		h := func(ctx context.Context, m *Message) Result {
			if string(m.Body) == "001" {
				<-ctx.Done()
				close(returned)
			}
			return Success
		}
		p := pt.consume(pt.client("a"), h, WithConsumeFromFirst())
		settle(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v, want the deadline", err)
		}
		<-returned
		if got := b.committed("g", "t", 0); got != 1 {
			t.Errorf("committed %d, want 1: what is before the message not consumed", got)
		}
	})
}

// Pulling pauses when enough is held.
func TestFlowControl(t *testing.T) {
	for _, tc := range []struct {
		name string
		opt  ConsumerOption
		most int64 // offset of the last pull
	}{
		{"messages", WithQueueLimits(40, 1<<30), 64},
		{"bytes", WithQueueLimits(60000, 1<<20), 32},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
				b := pt.c.brokers[0]
				pt.c.createTopic("t", 1)
				for i := range 200 {
					b.put("t", 0, fmt.Sprintf("%03d", i)+strings.Repeat(" ", 40000), "")
				}
				release := make(chan struct{})
				in := inbox{result: func(*Message) Result { <-release; return Success }}
				pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithConcurrency(2), tc.opt)
				settle(time.Minute)
				pulls := func() (n int, last int64) {
					for _, r := range b.requests(remoting.ReqPullMessage) {
						if r.Fields.Value("topic") == "t" {
							n++
							last, _ = r.Fields.Int64("queueOffset")
						}
					}
					return n, last
				}
				if _, last := pulls(); last > tc.most {
					t.Errorf("pulled on to %d, want a pause at %d", last, tc.most)
				}
				if n := len(in.bodies()); n != 2 {
					t.Errorf("%d handlers run, want 2", n)
				}
				close(release)
				settle(time.Minute)
				if n := len(in.bodies()); n != 200 {
					t.Errorf("handled %d, want 200", n)
				}
			})
		})
	}
}

// One message that takes long holds the committed offset back, and the span
// keeps the others from running far ahead.
func TestCommitStopsBeforeUnfinished(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 3000, 1)
		release := make(chan struct{})
		in := inbox{result: func(m *Message) Result {
			if m.QueueOffset == 7 {
				<-release
			}
			return Success
		}}
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst())
		settle(time.Minute)
		if got := b.committed("g", "t", 0); got != 7 {
			t.Errorf("committed %d, want 7", got)
		}
		if n := len(in.bodies()); n < 2000 || n >= 2050 {
			t.Errorf("handled %d with one stuck, want about the span of 2000", n)
		}
		close(release)
		settle(time.Minute)
		if got := b.committed("g", "t", 0); got != 3000 {
			t.Errorf("committed %d, want 3000", got)
		}
	})
}

func TestBroadcast(t *testing.T) {
	dir := t.TempDir()
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 2)
		pt.put(0, 10, 2)
		in := map[string]*inbox{"a": {}, "b": {result: func(*Message) Result { return Retry }}}
		start := func(id string) *PushConsumer {
			return pt.consume(pt.client(id), in[id].handle, WithConsumeFromFirst(), WithBroadcast(filepath.Join(dir, id+".json")))
		}
		a, _ := start("a"), start("b")
		settle(6 * time.Second)
		for id := range in {
			wantBodies(t, id, in[id].sorted(), numbers(0, 10))
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(b.requests(remoting.ReqUpdateConsumerOffset)) + len(b.requests(remoting.ReqConsumerSendMsgBack)); n != 0 {
			t.Errorf("%d commits and retries at the broker, want none", n)
		}
		pt.put(10, 10, 2)
		start("a")
		settle(6 * time.Second)
		wantBodies(t, "a after a restart", in["a"].sorted(), numbers(0, 20))
		cl := pt.client("c")
		_, err := cl.NewPushConsumer(t.Context(), "other", in["a"].handle, WithSubscription("t", ""), WithBroadcast(filepath.Join(dir, "a.json")))
		if err == nil || !strings.Contains(err.Error(), `belongs to group "g"`) {
			t.Errorf("offset file of another group: %v", err)
		}
	})
}

// Requests a broker makes, and what it is answered.
func TestServeBroker(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 3, 1)
		in := inbox{result: func(m *Message) Result {
			if string(m.Body) == "002" {
				panic("scripted")
			}
			return Success
		}}
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithMaxReconsumeTimes(0))
		settle(6 * time.Second)
		var opaque int32 = 1000
		ask := func(code int, fields remoting.Fields, body []byte) *remoting.Command {
			t.Helper()
			opaque++
			b.toMembers("g", func() *remoting.Command {
				r := remoting.NewRequest(code, fields...)
				r.Opaque, r.Body = opaque, body
				return r
			})
			synctest.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, r := range b.got {
				if r.IsResponse() && r.Opaque == opaque {
					return r
				}
			}
			t.Fatalf("no answer to code %d", code)
			return nil
		}
		group := remoting.Field{Key: "consumerGroup", Value: "g"}
		record, err := message.AppendRecord(nil, &b.queues[Queue{"t", "b0", 0}][0])
		if err != nil {
			t.Fatal(err)
		}
		broken, err := message.AppendRecord(nil, &b.queues[Queue{"t", "b0", 0}][2])
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			code int
			with remoting.Fields
			body []byte
			want int
			says []string
		}{
			{"status", remoting.ReqGetConsumerStatusFromClient, remoting.Fields{{Key: "group", Value: "g"}, {Key: "topic", Value: "t"}}, nil,
				remoting.Success, []string{`{"messageQueueTable":{{"brokerName":"b0","queueId":0,"topic":"t"}:3}}`}},
			{"running info", remoting.ReqGetConsumerRunningInfo, remoting.Fields{group, {Key: "jstackEnable", Value: "true"}}, nil,
				remoting.Success, []string{`"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"`, `{"brokerName":"b0","queueId":0,"topic":"t"}:{"commitOffset":3`, `"subString":"*"`, "serveRunningInfo"}},
			{"running info of another group", remoting.ReqGetConsumerRunningInfo, remoting.Fields{{Key: "consumerGroup", Value: "h"}}, nil,
				remoting.SystemError, nil},
			{"consume directly", remoting.ReqConsumeMessageDirectly, remoting.Fields{group}, record,
				remoting.Success, []string{`"consumeResult":"CR_SUCCESS"`}},
			{"consume directly, and panic", remoting.ReqConsumeMessageDirectly, remoting.Fields{group}, broken,
				remoting.Success, []string{`"consumeResult":"CR_THROW_EXCEPTION"`, "scripted"}},
			{"consume directly without a message", remoting.ReqConsumeMessageDirectly, remoting.Fields{group}, []byte("x"),
				remoting.SystemError, nil},
			{"reset with a broken table", remoting.ReqResetConsumerClientOffset, remoting.Fields{{Key: "group", Value: "g"}, {Key: "topic", Value: "t"}}, []byte("{{"),
				remoting.SystemError, nil},
			{"not known", 9999, nil, nil, remoting.RequestCodeNotSupported, nil},
		} {
			a := ask(tc.code, tc.with, tc.body)
			if a.Code != tc.want {
				t.Errorf("%s: code %d, want %d", tc.name, a.Code, tc.want)
			}
			for _, s := range tc.says {
				if !strings.Contains(string(a.Body), s) {
					t.Errorf("%s: body lacks %q:\n%.600s", tc.name, s, a.Body)
				}
			}
		}
	})
}
