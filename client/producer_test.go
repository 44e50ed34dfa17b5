package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// readBack pulls the one message of a queue.
func readBack(t *testing.T, c *fakeCluster, q Queue, offset int64) *Message {
	t.Helper()
	p, err := newTestClient(t, c).NewPullConsumer("readers")
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Pull(testContext(t), q, offset, 1, 0, "*")
	if err != nil || len(r.Messages) != 1 {
		t.Fatalf("pull of %s at %d: %d messages, %v", q, offset, len(r.Messages), err)
	}
	return r.Messages[0]
}

func TestSend(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("orders", 1)
	p := newTestProducer(t, c)
	m := &Message{
		Topic: "orders", Tags: "paid", Keys: []string{"k1", "k2"}, Body: []byte("hello"), DelayLevel: 3, ShardingKey: "s",
		Properties: map[string]string{"colour": "blue", "a": "b"}, Flag: 7,
	}
	before := time.Now().Truncate(time.Millisecond)
	r, err := p.Send(testContext(t), m)
	if err != nil {
		t.Fatal(err)
	}
	want := SendResult{Queue: Queue{"orders", "b0", 0}, MessageID: r.MessageID, OffsetID: r.OffsetID}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if len(r.MessageID) != 32 || len(r.OffsetID) != 32 {
		t.Errorf("ids %q and %q, want 32 digits each", r.MessageID, r.OffsetID)
	}
	got := readBack(t, c, r.Queue, 0)
	sent := *m
	sent.ID, sent.OffsetID, sent.Queue, sent.BornTime, sent.StoreTime = r.MessageID, r.OffsetID, r.Queue, got.BornTime, got.StoreTime
	sent.BornHost, sent.StoreHost = got.BornHost, got.StoreHost
	if diff := cmp.Diff(&sent, got, cmpopts.EquateComparable(got.BornHost)); diff != "" {
		t.Errorf("received (-sent +got):\n%s", diff)
	}
	if got.BornTime.Before(before) || got.BornTime.After(time.Now()) || got.StoreHost.String() != c.brokers[0].addr {
		t.Errorf("born %v, store host %v: want after %v, and %v", got.BornTime, got.StoreHost, before, c.brokers[0].addr)
	}
	if d, _ := message.Property(c.brokers[0].stored("orders", 0)[0].Properties, message.PropertyDelay); d != "3" {
		t.Errorf("property DELAY %q, want 3", d)
	}
}

func TestSendCompression(t *testing.T) {
	text := bytes.Repeat([]byte("a level-based scheduled message store "), 200)
	noise := make([]byte, 8192)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for _, tc := range []struct {
		name string
		opts []ProducerOption
		body []byte
		want message.Compression
	}{
		{"zlib by default", nil, text, message.CompressionZlib},
		{"at the limit", nil, text[:4096], message.CompressionZlib},
		{"below the limit", nil, text[:4095], message.CompressionNone},
		{"lz4", []ProducerOption{WithCompression(LZ4, 100)}, text, message.CompressionLZ4},
		{"zstd", []ProducerOption{WithCompression(Zstd, 100)}, text, message.CompressionZstd},
		{"none", []ProducerOption{WithCompression(NoCompression, 100)}, text, message.CompressionNone},
		{"would not shrink", nil, noise, message.CompressionNone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newFakeCluster(t, 1)
			c.createTopic("t", 1)
			p := newTestProducer(t, c, tc.opts...)
			body := bytes.Clone(tc.body)
			res, err := p.Send(testContext(t), &Message{Topic: "t", Body: body})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(body, tc.body) {
				t.Error("the caller's body was changed")
			}
			rec := c.brokers[0].stored("t", 0)[0]
			if got := message.CompressionOf(rec.SysFlag); got != tc.want {
				t.Errorf("compression %v, want %v", got, tc.want)
			}
			if tc.want != message.CompressionNone && len(rec.Body) >= len(tc.body) {
				t.Errorf("stored body has %d bytes, the message %d", len(rec.Body), len(tc.body))
			}
			if got := readBack(t, c, res.Queue, 0); !bytes.Equal(got.Body, tc.body) || got.BodyErr != nil {
				t.Errorf("body comes back with %d bytes, %v", len(got.Body), got.BodyErr)
			}
		})
	}
}

func TestDamagedBodyIsKept(t *testing.T) {
	for _, kind := range []message.Compression{message.CompressionZlib, message.CompressionLZ4, message.CompressionZstd, 7} {
		rec := message.Message{Topic: "t", Body: []byte("not compressed"), SysFlag: message.WithCompression(0, kind)}
		m := fromRecord(Queue{Topic: "t"}, &rec)
		if !errors.Is(m.BodyErr, ErrBadBody) || string(m.Body) != "not compressed" {
			t.Errorf("%v: body %q, error %v", kind, m.Body, m.BodyErr)
		}
	}
}

func TestSendInvalid(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	p := newTestProducer(t, c, WithMaxMessageSize(1000))
	ok := func() *Message { return &Message{Topic: "t", Body: []byte("x")} }
	for _, tc := range []struct {
		name   string
		change func(*Message)
		want   error
		says   string
	}{
		{"no topic", func(m *Message) { m.Topic = "" }, ErrInvalidMessage, "empty name"},
		{"topic too long", func(m *Message) { m.Topic = strings.Repeat("t", 128) }, ErrInvalidMessage, "127"},
		{"topic with a blank", func(m *Message) { m.Topic = "a b" }, ErrInvalidMessage, "a b"},
		{"no body", func(m *Message) { m.Body = nil }, ErrInvalidMessage, "empty body"},
		{"body too large", func(m *Message) { m.Body = make([]byte, 1001) }, ErrMessageTooLarge, "1001 bytes, at most 1000"},
		{"negative level", func(m *Message) { m.DelayLevel = -1 }, ErrInvalidMessage, "-1"},
		{"two tags", func(m *Message) { m.Tags = "a||b" }, ErrInvalidMessage, "a||b"},
		{"tag with separator", func(m *Message) { m.Tags = "a\x01" }, ErrInvalidMessage, `\x01`},
		{"empty key", func(m *Message) { m.Keys = []string{"a", ""} }, ErrInvalidMessage, `key ""`},
		{"key with a blank", func(m *Message) { m.Keys = []string{"a b"} }, ErrInvalidMessage, "a b"},
		{"property with separator", func(m *Message) { m.Properties = map[string]string{"k": "\x02"} }, ErrInvalidMessage, "k"},
		{"property without a value", func(m *Message) { m.Properties = map[string]string{"k": ""} }, ErrInvalidMessage, "k"},
		{"property with a field", func(m *Message) { m.Properties = map[string]string{"DELAY": "3"} }, ErrInvalidMessage, "DELAY"},
		{"properties too long", func(m *Message) { m.Properties = map[string]string{"k": strings.Repeat("v", 32767)} }, ErrMessageTooLarge, "32767"},
	} {
		m := ok()
		tc.change(m)
		_, err := p.Send(testContext(t), m)
		if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.says) {
			t.Errorf("%s: %v, want %v with %q", tc.name, err, tc.want, tc.says)
		}
	}
	if n := len(c.brokers[0].requests(remoting.ReqSendMessageV2)); n != 0 {
		t.Errorf("%d sends reached the broker", n)
	}
}

// Faults of one attempt; the send goes on to the other broker, or gives up.
func TestSendFaults(t *testing.T) {
	reply := func(code int) fault {
		return func(_ *fakeConn, req *remoting.Command) *remoting.Command { return req.Reply(code, "scripted") }
	}
	raw := func(b []byte) fault {
		return func(fc *fakeConn, _ *remoting.Command) *remoting.Command {
			_, _ = fc.nc.Write(b)
			return nil
		}
	}
	var brokerErr *BrokerError
	for _, tc := range []struct {
		name  string
		fault fault
		again bool // the send is repeated
		want  any  // the error when it is not repeated, or with no retries left
	}{
		{"busy", reply(remoting.SystemBusy), true, ErrBusy},
		{"full disk", reply(remoting.ServiceNotAvailable), true, ErrBusy},
		{"flow control", reply(remoting.FlowControl), true, ErrBusy},
		{"error in the broker", reply(remoting.SystemError), true, &brokerErr},
		{"no permission", reply(remoting.NoPermission), true, ErrNoPermission},
		{"illegal", reply(remoting.MessageIllegal), false, ErrRefused},
		{"not supported", reply(remoting.RequestCodeNotSupported), false, ErrNotSupported},
		{"unknown code", reply(4711), false, &brokerErr},
		{"no answer", func(*fakeConn, *remoting.Command) *remoting.Command { return nil }, true, ErrTimeout},
		{"connection closed", func(fc *fakeConn, _ *remoting.Command) *remoting.Command {
			fc.nc.Close()
			return nil
		}, true, ErrConnection},
		{"connection breaks within an answer", func(fc *fakeConn, req *remoting.Command) *remoting.Command {
			frame, _ := remoting.AppendCommand(nil, ok(req, remoting.Field{Key: "msgId", Value: "x"}))
			_, _ = fc.nc.Write(frame[:len(frame)/2])
			fc.nc.Close()
			return nil
		}, true, ErrConnection},
		{"garbage", raw([]byte("\x00\x00\x00\x08\x77\x00\x00\x00abcd")), true, remoting.ErrHeaderType},
		{"another protocol", raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")), true, ErrConnection},
		{"oversized frame", raw([]byte("\x7f\xff\xff\xff\x00\x00\x00\x10")), true, remoting.ErrFrameTooLarge},
		{"answer to another opaque", func(fc *fakeConn, req *remoting.Command) *remoting.Command {
			a := ok(req)
			a.Opaque += 1000
			return a
		}, true, ErrTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newFakeCluster(t, 2)
			c.createTopic("t", 1)
			for _, b := range c.brokers {
				b.next(remoting.ReqSendMessageV2, tc.fault)
			}
			send := func(retries int) (SendResult, error) {
				cl := newTestClient(t, c, WithRequestTimeout(300*time.Millisecond))
				p, err := cl.NewProducer(WithRetries(retries))
				if err != nil {
					t.Fatal(err)
				}
				return p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")})
			}
			check := func(err error) {
				t.Helper()
				switch want := tc.want.(type) {
				case error:
					if !errors.Is(err, want) {
						t.Errorf("error %v, want %v", err, want)
					}
				case **BrokerError:
					if !errors.As(err, want) || (*want).Remark != "scripted" {
						t.Errorf("error %v, want a *BrokerError with the remark", err)
					}
				}
			}
			if !tc.again {
				_, err := send(2)
				check(err)
				if n := len(c.brokers[0].requests(remoting.ReqSendMessageV2)) + len(c.brokers[1].requests(remoting.ReqSendMessageV2)); n != 1 {
					t.Errorf("%d attempts, want 1", n)
				}
				return
			}
			_, err := send(0)
			check(err)
			// One broker's fault is used up; the send meets the other's and goes
			// on to the first.
			for range 2 { // the first attempt may go to either
				if _, err := send(1); err != nil {
					t.Errorf("with a retry: %v", err)
				}
			}
		})
	}
}

// Both answers of a duplicate carry the same opaque; the next request must not
// take the second for its own.
func TestDuplicateAnswer(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	b := c.brokers[0]
	b.next(remoting.ReqSendMessageV2, func(fc *fakeConn, req *remoting.Command) *remoting.Command {
		b.mu.Lock()
		a := b.send(fc, req)
		b.mu.Unlock()
		_ = fc.w.Write(a)
		return a
	})
	p := newTestProducer(t, c)
	for i := range 3 {
		r, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")})
		if err != nil || r.QueueOffset != int64(i) {
			t.Fatalf("send %d: offset %d, %v", i, r.QueueOffset, err)
		}
	}
}

func TestSendStoredButUnsure(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	b := c.brokers[0]
	p := newTestProducer(t, c)
	for code, want := range map[int]SendStatus{
		remoting.FlushDiskTimeout:  FlushDiskTimeout,
		remoting.FlushSlaveTimeout: FlushReplicaTimeout,
		remoting.SlaveNotAvailable: ReplicaNotAvailable,
	} {
		b.next(remoting.ReqSendMessageV2, func(fc *fakeConn, req *remoting.Command) *remoting.Command {
			b.mu.Lock()
			defer b.mu.Unlock()
			a := b.send(fc, req)
			a.Code = code
			return a
		})
		r, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")})
		if err != nil || r.Status != want {
			t.Errorf("code %d: status %v, %v; want %v", code, r.Status, err, want)
		}
	}
}

func TestSendFollowsContext(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	p := newTestProducer(t, c)
	release := make(chan struct{})
	defer close(release)
	c.brokers[0].next(remoting.ReqSendMessageV2, func(*fakeConn, *remoting.Command) *remoting.Command {
		<-release
		return nil
	})
	ctx, cancel := context.WithCancelCause(testContext(t))
	reason := errors.New("user left")
	go func() {
		for len(c.brokers[0].requests(remoting.ReqSendMessageV2)) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel(reason)
	}()
	if _, err := p.Send(ctx, &Message{Topic: "t", Body: []byte("x")}); !errors.Is(err, reason) {
		t.Errorf("error %v, want %v", err, reason)
	}
}

func TestSendAsync(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	p := newTestProducer(t, c, WithMaxInFlight(16))
	const n = 500
	var mu sync.Mutex
	var wg sync.WaitGroup
	offsets := make([]int64, n)
	for i := range n {
		wg.Add(1)
		err := p.SendAsync(testContext(t), &Message{Topic: "t", Body: fmt.Append(nil, i)}, func(r SendResult, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			offsets[i] = r.QueueOffset
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	for i, m := range c.brokers[0].stored("t", 0) {
		if string(m.Body) != fmt.Sprint(i) || offsets[i] != int64(i) {
			t.Fatalf("entry %d holds %q, its sender was told %d", i, m.Body, offsets[i])
		}
	}
	if err := p.SendAsync(testContext(t), &Message{Topic: "t"}, func(SendResult, error) { t.Error("called") }); !errors.Is(err, ErrInvalidMessage) {
		t.Errorf("error %v, want ErrInvalidMessage", err)
	}
}

// A full window makes SendAsync wait, for as long as its context allows.
func TestSendAsyncWindow(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	p := newTestProducer(t, c, WithMaxInFlight(1))
	release := make(chan struct{})
	c.brokers[0].next(remoting.ReqSendMessageV2, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
		<-release
		return req.Reply(remoting.MessageIllegal, "")
	})
	answered := make(chan error, 2)
	done := func(_ SendResult, err error) { answered <- err }
	if err := p.SendAsync(testContext(t), &Message{Topic: "t", Body: []byte("1")}, done); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(testContext(t), time.Millisecond)
	defer cancel()
	if err := p.SendAsync(ctx, &Message{Topic: "t", Body: []byte("2")}, done); !errors.Is(err, ErrTimeout) {
		t.Errorf("second send: %v, want ErrTimeout", err)
	}
	close(release)
	if err := <-answered; !errors.Is(err, ErrRefused) {
		t.Errorf("first send: %v, want ErrRefused", err)
	}
	if err := p.SendAsync(testContext(t), &Message{Topic: "t", Body: []byte("3")}, done); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("third send: %v", err)
	}
}

func TestSendOneway(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	p := newTestProducer(t, c)
	if err := p.SendOneway(testContext(t), &Message{Topic: "t", Body: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	// A further request on the connection comes behind it.
	if r, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("2")}); err != nil || r.QueueOffset != 1 {
		t.Fatalf("offset %d, %v; want 1", r.QueueOffset, err)
	}
	if r := c.brokers[0].requests(remoting.ReqSendMessageV2)[0]; !r.IsOneway() {
		t.Error("the request wants an answer")
	}
}

func TestSendBatch(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	p := newTestProducer(t, c, WithMaxMessageSize(2000))
	ctx := testContext(t)
	msgs := []*Message{
		{Topic: "t", Body: []byte("a"), Tags: "x", Flag: 1},
		{Topic: "t", Body: []byte("b"), Keys: []string{"k"}},
		{Topic: "t", Body: []byte("c"), Properties: map[string]string{"p": "v"}},
	}
	results, err := p.SendBatch(ctx, msgs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		got := readBackAt(t, c, r)
		if !bytes.Equal(got.Body, msgs[i].Body) || got.Tags != msgs[i].Tags || got.Flag != msgs[i].Flag ||
			got.ID != r.MessageID || got.OffsetID != r.OffsetID || r.QueueOffset != int64(i) {
			t.Errorf("message %d came back as %+v for %+v", i, got, r)
		}
	}
	big := &Message{Topic: "t", Body: make([]byte, 1500)}
	for _, tc := range []struct {
		name string
		msgs []*Message
		want error
		says string
	}{
		{"empty", nil, ErrInvalidMessage, "empty batch"},
		{"two topics", []*Message{msgs[0], {Topic: "u", Body: []byte("x")}}, ErrInvalidMessage, `message 1 of the batch has topic "u"`},
		{"delayed", []*Message{msgs[0], {Topic: "t", Body: []byte("x"), DelayLevel: 2}}, ErrInvalidMessage, "delay level 2"},
		{"two sharding keys", []*Message{msgs[0], {Topic: "t", Body: []byte("x"), ShardingKey: "s"}}, ErrInvalidMessage, `"s"`},
		{"too large together", []*Message{big, big}, ErrMessageTooLarge, "message 2 of 2"},
	} {
		if _, err := p.SendBatch(ctx, tc.msgs); !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.says) {
			t.Errorf("%s: %v, want %v with %q", tc.name, err, tc.want, tc.says)
		}
	}
}

func readBackAt(t *testing.T, c *fakeCluster, r SendResult) *Message {
	t.Helper()
	return readBack(t, c, r.Queue, r.QueueOffset)
}

func TestQueueChoice(t *testing.T) {
	c := newFakeCluster(t, 2)
	c.createTopic("t", 4)
	ctx := testContext(t)
	count := func(p *Producer, key string, n int) map[Queue]int {
		t.Helper()
		seen := map[Queue]int{}
		for range n {
			r, err := p.Send(ctx, &Message{Topic: "t", Body: []byte("x"), ShardingKey: key})
			if err != nil {
				t.Fatal(err)
			}
			seen[r.Queue]++
		}
		return seen
	}
	p := newTestProducer(t, c)
	if seen := count(p, "", 80); len(seen) != 8 || seen[Queue{"t", "b1", 3}] != 10 {
		t.Errorf("round robin: %v, want each of 8 queues 10 times", seen)
	}
	if seen := count(p, "customer-7", 10); len(seen) != 1 {
		t.Errorf("sharding key: %v, want one queue", seen)
	}
	byBody := newTestProducer(t, c, WithSelector(HashBy(func(m *Message) string { return string(m.Body) })))
	if seen := count(byBody, "", 10); len(seen) != 1 {
		t.Errorf("by hash: %v, want one queue", seen)
	}
	last := newTestProducer(t, c, WithSelector(func(_ *Message, queues []Queue) int { return len(queues) - 1 }))
	if seen := count(last, "", 5); seen[Queue{"t", "b1", 3}] != 5 {
		t.Errorf("selector: %v, want the last queue", seen)
	}
	bad := newTestProducer(t, c, WithSelector(func(_ *Message, queues []Queue) int { return len(queues) }))
	if _, err := bad.Send(ctx, &Message{Topic: "t", Body: []byte("x")}); !errors.Is(err, ErrNoQueue) {
		t.Errorf("selector out of range: %v, want ErrNoQueue", err)
	}
	if r, err := p.SendTo(ctx, Queue{"t", "b0", 2}, &Message{Topic: "t", Body: []byte("x")}); err != nil || r.Queue != (Queue{"t", "b0", 2}) {
		t.Errorf("SendTo: %v, %v", r.Queue, err)
	}
	if _, err := p.SendTo(ctx, Queue{"t", "b0", 4}, &Message{Topic: "t", Body: []byte("x")}); !errors.Is(err, ErrNoQueue) {
		t.Errorf("SendTo a queue that is not there: %v, want ErrNoQueue", err)
	}
}

func TestTopicCreatedBySend(t *testing.T) {
	c := newFakeCluster(t, 1)
	ctx := testContext(t)
	p := newTestProducer(t, c)
	if _, err := p.Send(ctx, &Message{Topic: "fresh", Body: []byte("x")}); !errors.Is(err, ErrTopicNotFound) {
		t.Errorf("without creation: %v, want ErrTopicNotFound", err)
	}
	c.mu.Lock()
	c.auto = true
	c.mu.Unlock()
	for range 20 {
		if _, err := p.Send(ctx, &Message{Topic: "fresh", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for q := range 4 {
		if n := len(c.brokers[0].stored("fresh", q)); n != 5 {
			t.Errorf("queue %d holds %d messages, want 5 of 20 in 4 queues", q, n)
		}
	}
}

// The second name server is asked when the first is gone.
func TestNameServerFailover(t *testing.T) {
	c := newFakeCluster(t, 2)
	c.createTopic("t", 1)
	c.brokers[0].cut(true)
	c.brokers[0].l.Close()
	p := newTestProducer(t, c, WithRetries(3))
	for range 4 {
		r, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")})
		if err != nil || r.Queue.Broker != "b1" {
			t.Fatalf("sent to %q, %v; want b1", r.Queue.Broker, err)
		}
	}
}

func TestProducerClose(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	cl := newTestClient(t, c)
	p, err := cl.NewProducer(WithProducerGroup("g"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.NewProducer(WithProducerGroup("g")); !errors.Is(err, ErrGroupInUse) {
		t.Errorf("second producer: %v, want ErrGroupInUse", err)
	}
	release := make(chan struct{})
	b := c.brokers[0]
	b.next(remoting.ReqSendMessageV2, func(fc *fakeConn, req *remoting.Command) *remoting.Command {
		<-release
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.send(fc, req)
	})
	answered := make(chan error, 1)
	if err := p.SendAsync(testContext(t), &Message{Topic: "t", Body: []byte("x")}, func(_ SendResult, err error) { answered <- err }); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Close(testContext(t)) }()
	for p.enter() == nil { // until Close has begun
		p.leave()
	}
	select {
	case err := <-closed:
		t.Fatalf("closed with a send under way: %v", err)
	default:
	}
	close(release)
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("send under way: %v", err)
		}
	default:
		t.Error("Close returned before the send was answered")
	}
	if _, err := p.Send(testContext(t), &Message{Topic: "t", Body: []byte("x")}); !errors.Is(err, ErrClosed) {
		t.Errorf("send after close: %v, want ErrClosed", err)
	}
	if _, err := cl.NewProducer(WithProducerGroup("g")); err != nil {
		t.Errorf("the group is free again: %v", err)
	}
}
