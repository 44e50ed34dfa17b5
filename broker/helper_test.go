package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shortLevels is a table that tests can wait for.
const shortLevels = "1s 2s 3s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h 1d"

// startBroker runs a broker on a free port until the test ends; what it has
// stored is checked then.
func startBroker(t *testing.T, tune func(*Options)) *Broker {
	t.Helper()
	var b *Broker
	startBrokerIn(t, &b, tune)
	return b
}

// startBrokerIn is startBroker that shows the broker before it is started.
func startBrokerIn(t *testing.T, to **Broker, tune func(*Options)) {
	t.Helper()
	opts := Options{
		Dir:    t.TempDir(),
		Listen: []string{"127.0.0.1:0"},
		Logger: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if tune != nil {
		tune(&opts)
	}
	b, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	*to = b
	if err := b.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		storetest.Check(t, opts.Dir)
	})
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// rawClient speaks frames over a real socket.
type rawClient struct {
	t          *testing.T
	nc         net.Conn
	headerType byte
	language   byte

	mu      sync.Mutex
	next    int32
	pending map[int32]chan *remoting.Command
	ended   chan struct{}
	// notices are the broker's requests.
	notices chan *remoting.Command
}

func dial(t *testing.T, b *Broker) *rawClient { return dialAddr(t, b.Addr()) }

func dialAddr(t *testing.T, addr string) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawClient{
		t: t, nc: nc, language: remoting.LanguageJava,
		pending: make(map[int32]chan *remoting.Command), ended: make(chan struct{}), notices: make(chan *remoting.Command, 1000),
	}
	go c.read()
	t.Cleanup(c.close)
	return c
}

func (c *rawClient) close() {
	c.nc.Close()
	<-c.ended
}

func (c *rawClient) read() {
	defer close(c.ended)
	r := remoting.NewReader(c.nc, 0)
	for {
		cmd, err := r.ReadCommand()
		if err != nil {
			c.mu.Lock()
			for _, ch := range c.pending {
				close(ch)
			}
			c.pending = nil
			c.mu.Unlock()
			return
		}
		if !cmd.IsResponse() {
			c.notices <- cmd
			continue
		}
		c.mu.Lock()
		ch := c.pending[cmd.Opaque]
		delete(c.pending, cmd.Opaque)
		c.mu.Unlock()
		if ch == nil {
			c.t.Errorf("answer nobody asked for: %v", cmd)
			continue
		}
		ch <- cmd
	}
}

// fields makes header fields of "key", value, …
func fields(kv ...any) remoting.Fields {
	var f remoting.Fields
	for i := 0; i < len(kv); i += 2 {
		f = append(f, remoting.Field{Key: kv[i].(string), Value: fmt.Sprint(kv[i+1])})
	}
	return f
}

// start writes a request and returns where its answer comes.
func (c *rawClient) start(code int, f remoting.Fields, body []byte) chan *remoting.Command {
	c.t.Helper()
	ch := make(chan *remoting.Command, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		close(ch)
		return ch
	}
	c.next++
	c.pending[c.next] = ch
	c.put(&remoting.Command{Code: code, Language: c.language, Version: 477, Opaque: c.next, Fields: f, Body: body, HeaderType: c.headerType})
	return ch
}

func (c *rawClient) put(cmd *remoting.Command) {
	c.t.Helper()
	b, err := remoting.AppendCommand(nil, cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.nc.Write(b); err != nil {
		c.t.Logf("write: %v", err)
	}
}

// oneway writes a request that wants no answer.
func (c *rawClient) oneway(code int, f remoting.Fields, body []byte) {
	c.t.Helper()
	c.put(&remoting.Command{Code: code, Version: 477, Opaque: -1, Flag: remoting.FlagOneway, Fields: f, Body: body, HeaderType: c.headerType})
}

const answerLimit = 20 * time.Second

// await waits for an answer.
func await(t *testing.T, ch chan *remoting.Command) *remoting.Command {
	t.Helper()
	select {
	case cmd, ok := <-ch:
		if !ok {
			t.Fatal("connection ended before the answer")
		}
		return cmd
	case <-time.After(answerLimit):
		t.Fatal("no answer")
	}
	return nil
}

// call asks and waits.
func (c *rawClient) call(code int, f remoting.Fields, body []byte) *remoting.Command {
	c.t.Helper()
	return await(c.t, c.start(code, f, body))
}

// want calls and checks the answer's code.
func (c *rawClient) want(wantCode, code int, f remoting.Fields, body []byte) *remoting.Command {
	c.t.Helper()
	resp := c.call(code, f, body)
	if resp.Code != wantCode {
		c.t.Fatalf("%s %v: got code %d %q, want %d", remoting.RequestName(code), f, resp.Code, resp.Remark, wantCode)
	}
	return resp
}

func (c *rawClient) ok(code int, f remoting.Fields, body []byte) *remoting.Command {
	c.t.Helper()
	return c.want(remoting.Success, code, f, body)
}

// asJSON sends v as the body.
func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (c *rawClient) createTopic(name string, queues int) {
	c.t.Helper()
	c.ok(remoting.ReqUpdateAndCreateTopic, fields("topic", name, "defaultTopic", "TBW102", "readQueueNums", queues,
		"writeQueueNums", queues, "perm", 6, "topicFilterType", "SINGLE_TAG", "topicSysFlag", 0, "order", "false"), nil)
}

// props makes a property string of "key", "value", …
func props(kv ...string) string {
	var b []byte
	for i := 0; i < len(kv); i += 2 {
		b = message.AppendProperty(b, kv[i], kv[i+1])
	}
	return string(b)
}

// sendFields is the header of SEND_MESSAGE_V2.
func sendFields(topic string, queue int, properties string, more ...any) remoting.Fields {
	f := fields("a", "p", "b", topic, "c", "TBW102", "d", 4, "e", queue, "f", 0, "g", 1700000000000, "h", 0,
		"i", properties, "j", 0, "k", "false", "m", "false")
	for _, field := range fields(more...) {
		f.Set(field.Key, field.Value)
	}
	return f
}

func (c *rawClient) send(topic string, queue int, properties, body string) *remoting.Command {
	c.t.Helper()
	return c.ok(remoting.ReqSendMessageV2, sendFields(topic, queue, properties), []byte(body))
}

func pullFields(group, topic string, queue int, offset int64, suspendMs int, more ...any) remoting.Fields {
	f := fields("consumerGroup", group, "topic", topic, "queueId", queue, "queueOffset", offset, "maxMsgNums", 32,
		"sysFlag", pullSuspend|pullSubscription, "commitOffset", 0, "suspendTimeoutMillis", suspendMs,
		"subscription", "*", "subVersion", 0, "expressionType", "TAG")
	for _, field := range fields(more...) {
		f.Set(field.Key, field.Value)
	}
	return f
}

// records decodes the body of a pull's answer.
func records(t *testing.T, resp *remoting.Command) []message.Message {
	t.Helper()
	var list []message.Message
	for b := resp.Body; len(b) > 0; {
		m, n, err := message.DecodeRecord(b)
		if err != nil {
			t.Fatalf("record %d: %v", len(list), err)
		}
		if err := m.VerifyBody(); err != nil {
			t.Fatalf("record %d: %v", len(list), err)
		}
		list = append(list, m)
		b = b[n:]
	}
	return list
}

// pullAll pulls until n messages came.
func (c *rawClient) pullAll(group, topic string, queue, n int) []message.Message {
	c.t.Helper()
	var list []message.Message
	var offset int64
	for len(list) < n {
		resp := c.call(remoting.ReqPullMessage, pullFields(group, topic, queue, offset, 15000), nil)
		if resp.Code != remoting.Success && resp.Code != remoting.PullNotFound {
			c.t.Fatalf("pull: code %d %q", resp.Code, resp.Remark)
		}
		list = append(list, records(c.t, resp)...)
		offset = number64(c.t, resp, "nextBeginOffset")
	}
	return list
}

func number64(t *testing.T, cmd *remoting.Command, key string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(cmd.Fields.Value(key), 10, 64)
	if err != nil {
		t.Fatalf("%v: field %s: %v", cmd, key, err)
	}
	return n
}

// notice waits for the broker's next request with that code.
func (c *rawClient) notice(code int) *remoting.Command {
	c.t.Helper()
	deadline := time.After(answerLimit)
	for {
		select {
		case cmd := <-c.notices:
			if cmd.Code == code {
				return cmd
			}
		case <-deadline:
			c.t.Fatalf("no notice %s", remoting.RequestName(code))
		}
	}
}

// beat sends a heartbeat of one consumer.
func (c *rawClient) beat(clientID, group string, topics ...string) {
	c.t.Helper()
	subs := []map[string]any{}
	for _, topic := range append(topics, message.RetryTopic(group)) {
		subs = append(subs, map[string]any{
			"classFilterMode": false, "topic": topic, "subString": "*", "tagsSet": []string{}, "codeSet": []int{}, "subVersion": 1, "expressionType": "TAG",
		})
	}
	c.ok(remoting.ReqHeartBeat, nil, asJSON(c.t, map[string]any{
		"clientID": clientID, "producerDataSet": []any{},
		"consumerDataSet": []any{map[string]any{
			"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
			"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": subs, "unitMode": false,
		}},
	}))
}

func fromJSON(t *testing.T, body []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(answerLimit); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", answerLimit, what)
		}
	}
}

// testClock is a wall clock that tests move.
type testClock struct{ at chan time.Time }

func newTestClock() *testClock {
	c := &testClock{at: make(chan time.Time, 1)}
	c.at <- time.Now()
	return c
}

func (c *testClock) now() time.Time {
	at := <-c.at
	c.at <- at
	return at
}

func (c *testClock) step(d time.Duration) { c.at <- (<-c.at).Add(d) }
