package client

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/remoting"
)

// owners returns who consumes each queue of t.
func owners(t *testing.T, ps map[string]*PushConsumer) map[int]string {
	t.Helper()
	out := map[int]string{}
	for id, p := range ps {
		for _, q := range p.Queues() {
			if q.Topic != "t" {
				continue
			}
			if other := out[q.ID]; other != "" {
				t.Errorf("%s is owned by %s and %s", q, other, id)
			}
			out[q.ID] = id
		}
	}
	return out
}

func TestRebalance(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		pt.c.createTopic("t", 5)
		in := map[string]*inbox{"a": {}, "b": {}, "c": {}}
		ps := map[string]*PushConsumer{}
		all := func() []string {
			var got []string
			for _, i := range in {
				got = append(got, i.bodies()...)
			}
			slices.Sort(got)
			return got
		}
		ps["a"] = pt.consume(pt.client("a"), in["a"].handle)
		settle(time.Second)
		ca := pt.client("b")
		ps["b"] = pt.consume(ca, in["b"].handle)
		ps["c"] = pt.consume(pt.client("c"), in["c"].handle)
		settle(time.Second) // by notice, before the interval
		if diff := cmp.Diff(map[int]string{0: "a", 1: "a", 2: "b", 3: "b", 4: "c"}, owners(t, ps)); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		pt.put(0, 50, 5)
		settle(time.Second)
		wantBodies(t, "received by three", all(), numbers(0, 50))
		if n := len(in["c"].bodies()); n != 10 {
			t.Errorf("c received %d, want 10", n)
		}

		// One leaves in order: its queues are taken over behind what it consumed.
		if err := ps["b"].Close(t.Context()); err != nil {
			t.Error(err)
		}
		delete(ps, "b")
		settle(time.Second)
		if diff := cmp.Diff(map[int]string{0: "a", 1: "a", 2: "a", 3: "c", 4: "c"}, owners(t, ps)); diff != "" {
			t.Errorf("owners after one left (-want +got):\n%s", diff)
		}
		pt.put(50, 50, 5)
		settle(time.Second)
		wantBodies(t, "received by two", all(), numbers(0, 100))

		// Queues added are found at the next division.
		pt.c.createTopic("t", 7)
		for q := 5; q < 7; q++ {
			pt.c.brokers[0].put("t", q, fmt.Sprintf("1%02d", q), "")
		}
		settle(21 * time.Second)
		if diff := cmp.Diff(map[int]string{0: "a", 1: "a", 2: "a", 3: "a", 4: "c", 5: "c", 6: "c"}, owners(t, ps)); diff != "" {
			t.Errorf("owners with more queues (-want +got):\n%s", diff)
		}
		wantBodies(t, "received from new queues", all(), append(numbers(0, 100), "105", "106"))
	})
}

// A broker that stops and comes back, having forgotten its members, is told
// again, and every queue goes on where it was.
func TestBrokerRestart(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 4)
		ins := map[string]*inbox{"a": {}, "b": {}}
		ps := map[string]*PushConsumer{}
		for id, in := range ins {
			ps[id] = pt.consume(pt.client(id), in.handle)
		}
		settle(time.Second)
		pt.put(0, 40, 4)
		settle(6 * time.Second)
		b.cut(true)
		settle(10 * time.Second)
		b.mu.Lock()
		b.down = false
		b.mu.Unlock()
		pt.put(40, 40, 4)
		settle(25 * time.Second)
		if got := owners(t, ps); len(got) != 4 {
			t.Errorf("owners %v, want 4 queues owned", got)
		}
		got := slices.Sorted(slices.Values(append(ins["a"].bodies(), ins["b"].bodies()...)))
		wantBodies(t, "received", slices.Compact(got), numbers(0, 80))
		if len(got) != 80 {
			t.Errorf("%d deliveries of 80 messages consumed and committed before the stop", len(got))
		}
	})
}

// A broker that forgets a member without losing the connection is told again
// before queues are given up.
func TestBrokerForgetsMember(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 2)
		var in inbox
		p := pt.consume(pt.client("a"), in.handle)
		settle(time.Second)
		b.mu.Lock()
		b.members["g"] = map[string]*fakeConn{"other": nil}
		for fc := range b.conns {
			b.members["g"]["other"] = fc // somebody the broker can tell things
		}
		b.mu.Unlock()
		settle(20 * time.Second)
		if n := len(p.Queues()); n != 2 { // one of two, and the retry queue
			t.Errorf("%d queues, want 2", n)
		}
	})
}

// A broker that takes everything and answers nothing loses its connection with
// the next heartbeat, so that what waits on it goes on elsewhere.
func TestHalfOpenConnection(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		var in inbox
		pt.consume(pt.client("a"), in.handle, WithLongPolling(time.Minute))
		settle(time.Second)
		b.next(remoting.ReqHeartBeat, func(*fakeConn, *remoting.Command) *remoting.Command { return nil })
		b.mu.Lock()
		var before *fakeConn
		for fc := range b.conns {
			before = fc
		}
		b.mu.Unlock()
		settle(35 * time.Second)
		b.mu.Lock()
		if b.conns[before] || len(b.conns) != 1 {
			t.Errorf("%d connections, the silent one still among them: %v", len(b.conns), b.conns[before])
		}
		b.mu.Unlock()
		pt.put(0, 3, 1)
		settle(time.Second)
		wantBodies(t, "received over the new connection", in.sorted(), numbers(0, 3))
	})
}
