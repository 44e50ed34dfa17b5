package broker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// woken collects what a holder runs.
type woken struct {
	mu   sync.Mutex
	list []string
}

func (w *woken) run(p *heldPull, why wakeReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, fmt.Sprintf("%s%d@%d:%d", p.key.topic, p.key.id, p.offset, why))
}

func (w *woken) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

func (w *woken) want(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := w.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: woke %v, want %v", what, got, want)
	}
}

func arrival(topic string, id int32, first int64, codes ...int64) []store.Arrival {
	return []store.Arrival{{Topic: topic, QueueID: id, First: first, Next: first + int64(len(codes)), TagsCodes: codes}}
}

func TestHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w woken
		h := newHolder(2, w.run)
		defer h.close()
		one, two := new(conn), new(conn)
		hold := func(c *conn, topic string, id int32, offset int64, after time.Duration, tags ...int64) *heldPull {
			t.Helper()
			p := &heldPull{key: queueKey{topic, id}, offset: offset, deadline: time.Now().Add(after), conn: c}
			if len(tags) > 0 {
				p.filter = &filter{codes: tags}
			}
			if !h.hold(p) {
				t.Fatal("not held")
			}
			return p
		}

		hold(one, "t", 0, 5, 10*time.Second)
		h.arrive(arrival("t", 1, 5, 0))
		h.arrive(arrival("u", 0, 5, 0))
		w.want(t, "another queue")
		h.arrive(arrival("t", 0, 4, 0))
		w.want(t, "an entry it has")
		h.arrive(arrival("t", 0, 5, 0))
		w.want(t, "its entry", "t0@5:0")
		h.arrive(arrival("t", 0, 6, 0))
		w.want(t, "once only")

		// A filter: what does not match is passed over and not looked at again.
		hold(one, "t", 0, 7, 10*time.Second, 42)
		h.arrive(arrival("t", 0, 7, 1, 2))
		w.want(t, "no match")
		h.arrive(arrival("t", 0, 9, 1, 42))
		w.want(t, "a match", "t0@9:0")
		hold(one, "t", 0, 3, 10*time.Second, 42)
		h.arrive(arrival("t", 0, 9, 1))
		w.want(t, "entries between that nobody saw", "t0@3:0")
		hold(one, "t", 0, 10, 10*time.Second, 42)
		h.arrive(arrival("t", 0, 9, 42, 1))
		w.want(t, "a match before its offset")
		h.arrive(arrival("t", 0, 11, 42))
		w.want(t, "a match after it", "t0@11:0")

		// Time: the earliest first, whatever the order they came in.
		hold(one, "t", 0, 0, 3*time.Second)
		hold(one, "t", 1, 0, 1*time.Second)
		p := hold(two, "t", 2, 0, 2*time.Second)
		time.Sleep(999 * time.Millisecond)
		w.want(t, "before the first deadline")
		time.Sleep(time.Millisecond)
		w.want(t, "first deadline", "t1@0:1")
		if !h.take(p) || h.take(p) {
			t.Error("take is wrong")
		}
		time.Sleep(time.Second)
		w.want(t, "taken back")
		time.Sleep(time.Second)
		w.want(t, "last deadline", "t0@0:1")

		// A connection that ends, and one that goes on.
		for i := range int32(3) {
			hold(one, "t", i, 0, time.Hour)
			hold(two, "t", i, 0, time.Hour)
		}
		h.drop(one)
		if h.hold(&heldPull{key: queueKey{"t", 0}, conn: one, deadline: time.Now().Add(time.Hour)}) {
			t.Error("held for a connection that ended")
		}
		if h.heldBy(one) != 0 || h.heldBy(two) != 3 {
			t.Errorf("held %d and %d", h.heldBy(one), h.heldBy(two))
		}
		h.arrive(arrival("t", 1, 0, 0))
		w.want(t, "arrival after the drop", "t1@0:0")
		h.wakeIf(queueKey{"t", -1}, func(p *heldPull) bool { return p.key.id == 2 })
		w.want(t, "chosen", "t2@0:0")
		if h.count.Load() != 1 {
			t.Errorf("%d held, want 1", h.count.Load())
		}
		h.close()
		w.want(t, "close", "t0@0:2")
		if h.hold(&heldPull{key: queueKey{"t", 0}, conn: two, deadline: time.Now().Add(time.Hour)}) {
			t.Error("held after close")
		}
	})
}

// TestHolderManyPulls: random holds, takes, drops and arrivals leave the three
// views in agreement.
func TestHolderManyPulls(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		var w woken
		h := newHolder(3, w.run)
		defer h.close()
		conns := []*conn{new(conn), new(conn), new(conn)}
		var held []*heldPull
		for range 5000 {
			switch n := rnd.IntN(10); {
			case n < 6:
				p := &heldPull{key: queueKey{"t", rnd.Int32N(4)}, deadline: time.Now().Add(time.Duration(rnd.IntN(1000)) * time.Millisecond), conn: conns[rnd.IntN(len(conns))]}
				if h.hold(p) {
					held = append(held, p)
				}
			case n < 7 && len(held) > 0:
				h.take(held[rnd.IntN(len(held))])
			case n < 8:
				h.arrive(arrival("t", rnd.Int32N(4), 0, 0))
			case n < 9:
				time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
			default:
				if i := rnd.IntN(len(conns)); rnd.IntN(20) == 0 {
					h.drop(conns[i])
					conns[i] = new(conn)
				}
			}
		}
		h.mu.Lock()
		n, inQueues, inConns := len(h.byTime), 0, 0
		for _, list := range h.queues {
			inQueues += len(list)
		}
		for _, c := range conns {
			inConns += len(c.pulls)
		}
		for i, p := range h.byTime {
			if p.inHeap != i || h.queues[p.key][p.inQueue] != p || p.conn.pulls[p.inConn] != p || !p.held {
				t.Errorf("pull %d is misplaced", i)
			}
		}
		h.mu.Unlock()
		if inQueues != n || inConns != n || h.count.Load() != int64(n) {
			t.Errorf("by time %d, in queues %d, of connections %d, counted %d", n, inQueues, inConns, h.count.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h.count.Load() != 0 {
			t.Errorf("%d held after every deadline", h.count.Load())
		}
	})
}

// TestNoArrivalMissed is field case F60: single messages at random moments
// around each pull's beginning, plain and filtered; none waits for the end of
// a hold time.
func TestNoArrivalMissed(t *testing.T) {
	b := startBroker(t, nil)
	producer := dial(t, b)
	producer.createTopic("t", 2)
	const n = 400
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for queue, tag := range []string{"*", "red"} {
		consumer := dial(t, b)
		var offset int64
		for i := range n {
			// The hold would outlast the test's patience: only a wake-up helps.
			answer := consumer.start(remoting.ReqPullMessage, pullFields("g", "t", queue, offset, 120_000, "subscription", tag), nil)
			for range rnd.IntN(2000) { // about as long as a pull takes to be held
			}
			if queue == 1 {
				producer.send("t", queue, props("TAGS", "blue"), "not wanted")
			}
			producer.send("t", queue, props("TAGS", "red"), fmt.Sprint(i))
			resp := await(t, answer)
			for resp.Code == remoting.PullRetryImmediately {
				offset = number64(t, resp, "nextBeginOffset")
				resp = consumer.call(remoting.ReqPullMessage, pullFields("g", "t", queue, offset, 120_000, "subscription", tag), nil)
			}
			got := records(t, resp)
			if resp.Code != 0 || len(got) != 1 || string(got[0].Body) != fmt.Sprint(i) {
				t.Fatalf("queue %d message %d: %v with %d messages", queue, i, resp, len(got))
			}
			offset = number64(t, resp, "nextBeginOffset")
		}
	}
}

// TestHeldPulls: what ends a held pull besides an arrival.
func TestHeldPulls(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	c := dial(t, b)
	c.createTopic("t", 3)
	c.sendMany("t", 1, 3)
	held := func(n int64) {
		t.Helper()
		eventually(t, fmt.Sprint(n, " pulls are held"), func() bool { return b.hold.count.Load() == n })
	}

	resp := c.call(remoting.ReqPullMessage, pullFields("g", "t", 1, 3, 50), nil)
	if resp.Code != remoting.PullNotFound || number64(t, resp, "nextBeginOffset") != 3 {
		t.Errorf("after its time: %v", resp)
	}
	// Filtered out by the time it ends: the next pull need not look again.
	answer := c.start(remoting.ReqPullMessage, pullFields("g", "t", 1, 3, 300, "subscription", "red"), nil)
	held(1)
	c.send("t", 1, props("TAGS", "blue"), "x")
	if resp := await(t, answer); resp.Code != remoting.PullNotFound || number64(t, resp, "nextBeginOffset") != 4 {
		t.Errorf("filtered out: %v next %s", resp, resp.Fields.Value("nextBeginOffset"))
	}
	// All there is was filtered out before: held as well.
	answer = c.start(remoting.ReqPullMessage, pullFields("g", "t", 1, 0, 120_000, "subscription", "red"), nil)
	held(1)
	c.send("t", 1, props("TAGS", "red"), "x")
	if resp := await(t, answer); resp.Code != 0 || len(records(t, resp)) != 1 {
		t.Errorf("behind what was filtered out: %v", resp)
	}
	// Without the flag, or without a time: not held.
	c.want(remoting.PullNotFound, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 120_000, "sysFlag", pullSubscription), nil)
	c.want(remoting.PullNotFound, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0), nil)
	c.want(remoting.PullRetryImmediately, remoting.ReqPullMessage, pullFields("g", "t", 1, 0, 0, "subscription", "green"), nil)
	// A delayed message wakes it when it is due.
	answer = c.start(remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 120_000), nil)
	c.send("t", 0, props("DELAY", "1"), "later")
	if got := records(t, await(t, answer)); len(got) != 1 || string(got[0].Body) != "later" {
		t.Errorf("got %v", got)
	}
	// The topic goes away.
	answer = c.start(remoting.ReqPullMessage, pullFields("g", "t", 2, 0, 120_000), nil)
	held(1)
	c.ok(remoting.ReqDeleteTopicInBroker, fields("topic", "t"), nil)
	if resp := await(t, answer); resp.Code != remoting.TopicNotExist {
		t.Errorf("after the topic's deletion: %v", resp)
	}
	// The connection goes away.
	c.createTopic("u", 8)
	other := dial(t, b)
	for q := range 8 {
		other.start(remoting.ReqPullMessage, pullFields("g", "u", q, 0, 120_000), nil)
	}
	held(8)
	other.close()
	held(0)
	// The broker goes away: held pulls are answered.
	answer = c.start(remoting.ReqPullMessage, pullFields("g", "u", 0, 0, 120_000), nil)
	held(1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if resp := await(t, answer); resp.Code != remoting.PullNotFound {
		t.Errorf("when the broker closed: %v", resp)
	}
}

// TestCloseUnderLoad: closing while sends are in flight answers every one that
// was stored, and loses none that was answered.
func TestCloseUnderLoad(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	setup := dial(t, b)
	setup.createTopic("t", 4)
	var mu sync.Mutex
	acked := make(map[string]bool)
	var wg sync.WaitGroup
	for p := range 4 {
		c := dial(t, b)
		wg.Go(func() {
			for i := 0; ; i++ {
				body := fmt.Sprintf("%d-%d", p, i)
				resp, ok := <-c.start(remoting.ReqSendMessageV2, sendFields("t", p, ""), []byte(body))
				if !ok || resp.Code == remoting.ServiceNotAvailable {
					return
				}
				if resp.Code != remoting.Success {
					t.Errorf("%s: %v", body, resp)
					return
				}
				mu.Lock()
				acked[body] = true
				mu.Unlock()
			}
		})
	}
	eventually(t, "some sends are answered", func() bool { mu.Lock(); defer mu.Unlock(); return len(acked) > 500 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	c := dial(t, startBroker(t, func(o *Options) { o.Dir = dir }))
	got := make(map[string]int)
	for q := range 4 {
		end := number64(t, c.ok(remoting.ReqGetMaxOffset, fields("topic", "t", "queueId", q), nil), "offset")
		for _, m := range c.pullAll("g", "t", q, int(end)) {
			got[string(m.Body)]++
		}
	}
	for body := range acked {
		if got[body] != 1 {
			t.Errorf("%s was answered and is there %d times", body, got[body])
		}
	}
	for body, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", body, n)
		}
	}
}

// TestPullWhileSending: consumers that pull while producers send see every
// message of a queue once and in order.
func TestPullWhileSending(t *testing.T) {
	b := startBroker(t, nil)
	setup := dial(t, b)
	setup.createTopic("t", 4)
	const n = 1000
	var wg sync.WaitGroup
	for q := range 4 {
		producer, consumer := dial(t, b), dial(t, b)
		wg.Go(func() { producer.sendMany("t", q, n) })
		wg.Go(func() {
			for i, m := range consumer.pullAll(fmt.Sprint("g", q%2), "t", q, n) {
				if string(m.Body) != fmt.Sprint(i) || m.QueueOffset != int64(i) {
					t.Errorf("queue %d place %d: %q at %d", q, i, m.Body, m.QueueOffset)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestLargeBodies: bodies that the connection's writer does not copy arrive
// whole, while the store's buffers are used again.
func TestLargeBodies(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	const n = 60
	for i := range n {
		body := make([]byte, 3000+i*1000)
		for j := range body {
			body[j] = byte(i + j)
		}
		c.ok(remoting.ReqSendMessageV2, sendFields("t", 0, ""), body)
	}
	var wg sync.WaitGroup
	for range 4 {
		r := dial(t, b)
		wg.Go(func() {
			var list []message.Message
			for offset := int64(0); offset < n; {
				resp := r.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, offset, 0), nil)
				list = append(list, records(t, resp)...)
				offset = number64(t, resp, "nextBeginOffset")
			}
			for i, m := range list {
				if len(m.Body) != 3000+i*1000 || m.Body[0] != byte(i) || m.Body[len(m.Body)-1] != byte(i+len(m.Body)-1) {
					t.Errorf("message %d has %d bytes", i, len(m.Body))
				}
			}
		})
	}
	wg.Wait()
}
