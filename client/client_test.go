package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemq/tidemq/internal/remoting"
)

func TestOptionsOutOfRange(t *testing.T) {
	h := func(context.Context, *Message) Result { return Success }
	cl, err := New([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close(context.Background()) }()
	client := func(o Option) error { _, err := New([]string{"127.0.0.1:1"}, o); return err }
	producer := func(o ProducerOption) error { _, err := cl.NewProducer(o); return err }
	consumer := func(o ...ConsumerOption) error {
		_, err := cl.NewPushConsumer(t.Context(), "g", h, append(o, WithSubscription("t", "*"))...)
		return err
	}
	addrs := func(a ...string) error { _, err := New(a); return err }
	for _, tc := range []struct {
		err  error
		says string
	}{
		{addrs(), "at least one host:port"},
		{addrs("localhost"), `New("localhost"): want host:port`},
		{addrs("127.0.0.1:1", ":2"), `New(":2"): want host:port`},
		{client(WithClientID("")), "1 to 200 characters"},
		{client(WithClientID("a b")), "printable ASCII"},
		{client(WithClientID(strings.Repeat("x", 201))), "1 to 200 characters"},
		{client(WithDialer(nil)), "WithDialer(nil)"},
		{client(WithLogger(nil)), "WithLogger(nil)"},
		{client(WithRequestTimeout(0)), "WithRequestTimeout(0s): want 1ms to 1h0m0s"},
		{client(WithHeartbeat(2 * time.Minute)), "WithHeartbeat(2m0s): want 1s to 1m40s"},
		{client(WithRouteRefresh(time.Millisecond)), "WithRouteRefresh(1ms)"},
		{client(WithDefaultQueues(0)), "WithDefaultQueues(0): want 1 to 65535"},
		{producer(WithProducerGroup("a b")), `"a b"`},
		{producer(WithRetries(-1)), "WithRetries(-1): want 0 to 100"},
		{producer(WithSelector(nil)), "WithSelector(nil)"},
		{producer(WithCompression(9, 1)), "WithCompression(Compression(9))"},
		{producer(WithCompression(Zlib, 0)), "WithCompression(0)"},
		{producer(WithMaxMessageSize(16 << 20)), "WithMaxMessageSize(16777216)"},
		{producer(WithMaxInFlight(0)), "WithMaxInFlight(0)"},
		{consumer(WithSubscription("a b", "*")), `"a b"`},
		{consumer(WithSubscription("t", "a || ")), "tag expression"},
		{consumer(WithConsumeFromTime(time.Time{})), "WithConsumeFromTime"},
		{consumer(WithConcurrency(0)), "WithConcurrency(0): want 1 to 10000"},
		{consumer(WithMaxReconsumeTimes(-1)), "WithMaxReconsumeTimes(-1)"},
		{consumer(WithPullBatch(1025)), "WithPullBatch(1025): want 1 to 1024"},
		{consumer(WithLongPolling(0)), "WithLongPolling(0s)"},
		{consumer(WithQueueLimits(0, 1<<20)), "WithQueueLimits(0)"},
		{consumer(WithQueueLimits(1, 1)), "WithQueueLimits(1): want 1048576"},
		{consumer(WithCommitInterval(0)), "WithCommitInterval(0s)"},
		{consumer(WithRebalanceInterval(0)), "WithRebalanceInterval(0s)"},
		{consumer(WithSuspend(time.Minute)), "WithSuspend(1m0s)"},
		{func() error { _, err := cl.NewPushConsumer(t.Context(), "g", h); return err }(), "WithSubscription at least once"},
		{func() error { _, err := cl.NewPushConsumer(t.Context(), "", h, WithSubscription("t", "")); return err }(), "empty name"},
		{func() error {
			_, err := cl.NewPushConsumer(t.Context(), "g", nil, WithSubscription("t", ""))
			return err
		}(), "a handler"},
		{func() error { _, err := cl.NewPullConsumer(strings.Repeat("g", 121)); return err }(), "at most 120"},
	} {
		if !errors.Is(tc.err, ErrInvalidOption) || !strings.Contains(fmt.Sprint(tc.err), tc.says) {
			t.Errorf("%v, want ErrInvalidOption with %q", tc.err, tc.says)
		}
	}
}

func TestParseTags(t *testing.T) {
	for expr, want := range map[string]subscription{
		"":              {expr: "*"},
		" * ":           {expr: "*"},
		"a":             {expr: "a", tags: []string{"a"}},
		"b||a || b":     {expr: "a || b", tags: []string{"a", "b"}},
		" grün||two w ": {expr: "grün || two w", tags: []string{"grün", "two w"}},
	} {
		got, err := parseTags(expr)
		if err != nil || got.expr != want.expr || !slices.Equal(got.tags, want.tags) {
			t.Errorf("%q: %+v, %v; want %+v", expr, got, err, want)
		}
	}
	for _, expr := range []string{"||", "a||", "a|b", "a\x01"} {
		if got, err := parseTags(expr); err == nil {
			t.Errorf("%q: %+v, want an error", expr, got)
		}
	}
}

// Every queue has one owner, members' shares differ by one at most, and the
// first members have the larger ones.
func TestAllocate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := make([]Queue, rapid.IntRange(0, 50).Draw(t, "queues"))
		for i := range queues {
			queues[i] = Queue{"t", "b", i}
		}
		members := slices.Collect(func(yield func(string) bool) {
			for i := range rapid.IntRange(1, 12).Draw(t, "members") {
				if !yield(fmt.Sprintf("m%02d", i)) {
					return
				}
			}
		})
		var all []Queue
		before := len(queues)
		for _, m := range members {
			part := allocate(queues, members, m)
			if len(part) > before || len(part) < len(queues)/len(members) || len(part) > len(queues)/len(members)+1 {
				t.Fatalf("%s has %d of %d queues among %d, the one before %d", m, len(part), len(queues), len(members), before)
			}
			before = len(part)
			all = append(all, part...)
		}
		if !slices.Equal(all, queues) {
			t.Fatalf("divided %v, want %v", all, queues)
		}
		if got := allocate(queues, members, "stranger"); got != nil {
			t.Fatalf("a stranger has %v", got)
		}
	})
}

// Many requests share a connection; answers in any order find their requests.
func TestAnswersOutOfOrder(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	cl := newTestClient(t, c)
	b := c.brokers[0]
	const n = 100
	var mu sync.Mutex
	var waiting []func()
	for range n {
		b.next(remoting.ReqGetMaxOffset, func(fc *fakeConn, req *remoting.Command) *remoting.Command {
			mu.Lock()
			defer mu.Unlock()
			v, _ := req.Fields.Int64("queueId")
			waiting = append(waiting, func() { _ = fc.w.Write(offsetAnswer(req, v)) })
			if len(waiting) == n { // the last one answers all, backwards
				for i := range waiting {
					waiting[n-1-i]()
				}
			}
			return nil
		})
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			got, err := cl.maxOffset(testContext(t), Queue{"t", "b0", i})
			if err != nil || got != int64(i) {
				t.Errorf("request %d was answered %d, %v", i, got, err)
			}
		})
	}
	wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.conns) != 1 {
		t.Errorf("%d connections, want 1", len(b.conns))
	}
}

// A peer that does not read makes senders wait, no longer than their contexts
// say, and costs the connection in the end.
func TestStalledPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		cn := newConn("stalled", here, slog.New(slog.DiscardHandler), func(*conn, *remoting.Command) {})
		done := make(chan struct{})
		go func() { cn.run(); close(done) }()
		big := func() *remoting.Command {
			r := remoting.NewRequest(remoting.ReqSendMessageV2)
			r.Body = make([]byte, throttleAt/2)
			return r
		}
		for range 2 {
			if err := cn.oneway(t.Context(), big()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cn.start(ctx, big()); !errors.Is(err, ErrTimeout) {
			t.Errorf("send to a stalled peer: %v, want ErrTimeout", err)
		}
		_, err := cn.start(t.Context(), big())
		if !errors.Is(err, ErrConnection) || !errors.Is(err, remoting.ErrSlowPeer) {
			t.Errorf("patient send: %v, want ErrConnection with ErrSlowPeer", err)
		}
		<-done
		if cn.alive() {
			t.Error("the connection is still alive")
		}
	})
}

// Callers that come while a connection is being made share it, and the one
// who gives up does not end it for the others.
func TestDialIsShared(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	dials := 0
	begin := make(chan struct{})
	cl := newTestClient(t, c, WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++ // dials of one address do not overlap
		<-begin
		return new(net.Dialer).DialContext(ctx, network, addr)
	}))
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cl.Admin().Topics(impatient); !errors.Is(err, context.Canceled) {
		t.Errorf("impatient caller: %v", err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := cl.Admin().Topics(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if dials != 1 {
		t.Errorf("%d dials, want 1", dials)
	}
}

func TestClientClose(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	cl := newTestClient(t, c)
	p, err := cl.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	var in inbox
	if _, err := cl.NewPushConsumer(testContext(t), "g", in.handle, WithSubscription("t", "*")); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.NewPullConsumer("g"); !errors.Is(err, ErrGroupInUse) {
		t.Errorf("second consumer of the group: %v, want ErrGroupInUse", err)
	}
	if err := cl.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := cl.Close(testContext(t)); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")}); !errors.Is(err, ErrClosed) {
		t.Errorf("send: %v, want ErrClosed", err)
	}
	if _, err := cl.NewProducer(); !errors.Is(err, ErrClosed) {
		t.Errorf("producer: %v, want ErrClosed", err)
	}
	if _, err := cl.Admin().Brokers(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("admin: %v, want ErrClosed", err)
	}
	if n := len(c.brokers[0].requests(remoting.ReqUnregisterClient)); n != 2 {
		t.Errorf("%d requests to leave, want one for each group", n)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cl, err := New([]string{addr})
	if err != nil {
		t.Fatal(err)
	}
	p, err := cl.NewProducer(WithRetries(1))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")})
	if !errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "2 attempts") {
		t.Errorf("send: %v, want ErrConnection with the address and the attempts", err)
	}
	// A consumer starts all the same, and keeps trying.
	var in inbox
	if _, err := cl.NewPushConsumer(testContext(t), "g", in.handle, WithSubscription("t", "*")); err != nil {
		t.Errorf("push consumer: %v", err)
	}
	if err := cl.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestRouteAnswers(t *testing.T) {
	c := newFakeCluster(t, 1)
	b := c.brokers[0]
	cl := newTestClient(t, c)
	route := func(body string) (*route, error) {
		b.next(remoting.ReqGetRouteInfoByTopic, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
			a := ok(req)
			a.Body = []byte(body)
			return a
		})
		return cl.fetchRoute(testContext(t), "t")
	}
	r, err := route(`{"brokerDatas":[{"brokerAddrs":{0:"m:1",1:"s:1"},"brokerName":"y"},{"brokerAddrs":{"2":"s:2","10":"s:3"},"brokerName":"x"}],
		"queueDatas":[{"brokerName":"y","perm":6,"readQueueNums":1,"writeQueueNums":2},{"brokerName":"x","perm":6,"readQueueNums":2,"writeQueueNums":2},
		{"brokerName":"z","perm":2,"readQueueNums":1,"writeQueueNums":1}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Queue{{"t", "y", 0}, {"t", "y", 1}}, r.writable()); diff != "" {
		t.Errorf("writable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Queue{{"t", "x", 0}, {"t", "x", 1}, {"t", "y", 0}}, r.readable()); diff != "" {
		t.Errorf("readable (-want +got):\n%s", diff)
	}
	if got := r.addr("x", false); got != "s:2" {
		t.Errorf("x is read at %q, want its lowest replica s:2", got)
	}
	for name, body := range map[string]string{
		"empty":           "",
		"no JSON":         "topic",
		"wrong types":     `{"queueDatas":{}}`,
		"too many queues": `{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2000000000,"writeQueueNums":1}]}`,
		"negative queues": `{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":1,"writeQueueNums":-1}]}`,
	} {
		if r, err := route(body); !errors.Is(err, ErrBadAnswer) {
			t.Errorf("%s: %+v, %v; want ErrBadAnswer", name, r, err)
		}
	}
	// What was known stays when an answer is no use.
	if r, err := cl.route(testContext(t), "t"); err != nil || len(r.writable()) != 2 {
		t.Errorf("known route: %v", err)
	}
}

func TestFileOffsets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "offsets.json")
	s, err := openFileOffsets(path, "g")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	q := Queue{"t", "b", 1}
	if _, err := s.load(ctx, q); !errors.Is(err, ErrOffsetNotFound) {
		t.Errorf("load: %v, want ErrOffsetNotFound", err)
	}
	for o := range int64(3) {
		if err := errors.Join(s.save(ctx, q, o), s.flush()); err != nil {
			t.Fatal(err)
		}
	}
	s, err = openFileOffsets(path, "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.load(ctx, q); err != nil || o != 2 {
		t.Errorf("load after opening again: %d, %v; want 2", o, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("%d files are left, want 1", len(names))
	}
	for name, text := range map[string]string{"empty": "", "cut": `{"group":"g","offs`, "negative": `{"group":"g","offsets":[{"topic":"t","offset":-1}]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openFileOffsets(path, "g"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s file: %v, want an error with the path", name, err)
		}
	}
}
