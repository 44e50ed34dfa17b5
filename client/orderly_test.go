package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func TestOrderly(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 3)
		var mu sync.Mutex
		running := map[Queue]int{}
		got := map[int][]string{}
		fails := map[string]int{"004": 2, "007": 100}
		h := func(_ context.Context, m *Message) Result {
			mu.Lock()
			running[m.Queue]++
			if running[m.Queue] > 1 {
				t.Errorf("two handlers for %s", m.Queue)
			}
			got[m.Queue.ID] = append(got[m.Queue.ID], string(m.Body))
			fail := fails[string(m.Body)] > 0
			fails[string(m.Body)]--
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running[m.Queue]--
			mu.Unlock()
			if fail {
				return Retry
			}
			return Success
		}
		pt.put(0, 12, 3)
		ps := map[string]*PushConsumer{}
		ps["a"] = pt.consume(pt.client("a"), h, WithConsumeFromFirst(), WithOrderly(), WithMaxReconsumeTimes(3))
		settle(30 * time.Second)
		want := map[int][]string{
			0: {"000", "003", "006", "009"},
			1: {"001", "004", "004", "004", "007", "007", "007", "007", "010"},
			2: {"002", "005", "008", "011"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
		dead := b.stored(message.DLQTopic("g"), 0)
		if len(dead) != 1 || string(dead[0].Body) != "007" {
			t.Errorf("%d dead letters, want 007", len(dead))
		}

		// A second member gets its queues with their locks, and order goes on.
		ps["b"] = pt.consume(pt.client("b"), h, WithOrderly())
		settle(5 * time.Second)
		own := owners(t, ps)
		if diff := cmp.Diff(map[int]string{0: "a", 1: "a", 2: "b"}, own); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		b.mu.Lock()
		locks := maps.Clone(b.locks)
		b.mu.Unlock()
		for q, id := range own {
			if locks[Queue{"t", "b0", q}] != id {
				t.Errorf("queue %d is owned by %s and locked by %q", q, id, locks[Queue{"t", "b0", q}])
			}
		}
		if err := ps["a"].Close(t.Context()); err != nil {
			t.Error(err)
		}
		pt.put(12, 3, 3)
		settle(25 * time.Second)
		if got[0][4] != "012" || got[1][9] != "013" || got[2][4] != "014" {
			t.Errorf("received after a member left: %v", got)
		}
	})
}

// An orderly queue goes to the next member only when its handler has returned.
func TestOrderlyHandOver(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		pt.c.createTopic("t", 2)
		release := make(chan struct{})
		slow := inbox{result: func(m *Message) Result {
			if string(m.Body) == "001" {
				<-release
			}
			return Success
		}}
		var other inbox
		pt.put(0, 4, 2)
		pt.consume(pt.client("a"), slow.handle, WithConsumeFromFirst(), WithOrderly())
		settle(time.Second)
		pt.consume(pt.client("b"), other.handle, WithConsumeFromFirst(), WithOrderly())
		settle(5 * time.Second)
		wantBodies(t, "second member, while the first handles 001", other.bodies(), nil)
		close(release)
		settle(30 * time.Second)
		wantBodies(t, "second member", other.bodies(), []string{"003"})
		wantBodies(t, "first member", slow.sorted(), []string{"000", "001", "002"})
	})
}

// A lock that another member got – after a long pause, say – ends the queue
// without a commit.
func TestOrderlyLockLost(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		var in inbox
		p := pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithOrderly())
		settle(time.Second)
		q := Queue{"t", "b0", 0}
		b.mu.Lock()
		b.locks[q] = "somebody"
		b.mu.Unlock()
		settle(20 * time.Second)
		if slices.Contains(p.Queues(), q) {
			t.Error("queue still owned without its lock")
		}
		pt.put(0, 1, 1)
		settle(time.Second)
		wantBodies(t, "received without the lock", in.bodies(), nil)
		b.mu.Lock()
		delete(b.locks, q)
		b.mu.Unlock()
		settle(20 * time.Second)
		wantBodies(t, "received with the lock", in.bodies(), []string{"000"})
	})
}

// When the broker cannot be asked, a lock is trusted for a time, and then
// nothing is handled until it is held again.
func TestOrderlyLockExpires(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		var handled atomic.Int32
		h := func(context.Context, *Message) Result {
			handled.Add(1)
			time.Sleep(5 * time.Second)
			return Success
		}
		pt.put(0, 30, 1)
		pt.consume(pt.client("a"), h, WithConsumeFromFirst(), WithOrderly())
		settle(7 * time.Second)
		b.cut(true) // what was pulled is there to be handled
		settle(80 * time.Second)
		if n := handled.Load(); n < 4 || n > 7 {
			t.Errorf("handled %d, want those of the 30 s after the last lock", n)
		}
		b.mu.Lock()
		b.down = false
		b.mu.Unlock()
		settle(3 * time.Minute)
		if n := handled.Load(); n < 30 {
			t.Errorf("handled %d with the broker back, want all 30", n)
		}
	})
}

// A dead letter in order that cannot be stored holds the queue, and is tried
// again.
func TestOrderlyDeadLetterRefused(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 2, 1)
		b.answer(remoting.ReqSendMessageV2, remoting.MessageIllegal, "scripted")
		in := inbox{result: func(m *Message) Result {
			if string(m.Body) == "000" {
				return DeadLetter
			}
			return Success
		}}
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithOrderly())
		settle(10 * time.Second)
		wantBodies(t, "handled", in.bodies(), []string{"000", "000", "001"})
		if n := len(b.stored(message.DLQTopic("g"), 0)); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}
