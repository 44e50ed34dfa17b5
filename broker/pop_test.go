package broker

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func popFields(group, topic string, queue int, invisible time.Duration, poll time.Duration, more ...any) remoting.Fields {
	f := fields("consumerGroup", group, "topic", topic, "queueId", queue, "maxMsgNums", 32, "invisibleTime", invisible.Milliseconds(),
		"pollTime", poll.Milliseconds(), "bornTime", time.Now().UnixMilli(), "initMode", 0, "order", "false")
	for _, field := range fields(more...) {
		f.Set(field.Key, field.Value)
	}
	return f
}

// poppedMessage is a message and the header that acknowledges it, made as
// RocketMQ's client does.
type poppedMessage struct {
	message.Message
	ack remoting.Fields
}

func (m *poppedMessage) String() string { return fmt.Sprintf("%s/%d", m.Body, m.ReconsumeTimes) }

func poppedMessages(t *testing.T, resp *remoting.Command, group string) []poppedMessage {
	t.Helper()
	starts, entries := map[string]string{}, map[string][]string{}
	for part := range strings.SplitSeq(resp.Fields.Value("startOffsetInfo"), ";") {
		if w := strings.Split(part, " "); len(w) == 3 {
			starts[w[1]] = w[2]
		}
	}
	for part := range strings.SplitSeq(resp.Fields.Value("msgOffsetInfo"), ";") {
		if w := strings.Split(part, " "); len(w) == 3 {
			entries[w[1]] = strings.Split(w[2], ",")
		}
	}
	var list []poppedMessage
	for _, m := range records(t, resp) {
		q := fmt.Sprint(m.QueueID)
		if starts[q] == "" || !slices.Contains(entries[q], fmt.Sprint(m.QueueOffset)) {
			t.Fatalf("message %d of queue %s is not in %v", m.QueueOffset, q, resp.Fields)
		}
		info := strings.Join([]string{starts[q], resp.Fields.Value("popTime"), resp.Fields.Value("invisibleTime"), resp.Fields.Value("reviveQid"), "0", "tidemq", q, fmt.Sprint(m.QueueOffset)}, " ")
		list = append(list, poppedMessage{m, fields("consumerGroup", group, "topic", m.Topic, "queueId", m.QueueID, "offset", m.QueueOffset, "extraInfo", info)})
	}
	return list
}

// pop pops and returns what came.
func (c *rawClient) pop(group, topic string, queue int, invisible, poll time.Duration, more ...any) []poppedMessage {
	c.t.Helper()
	resp := c.call(remoting.ReqPopMessage, popFields(group, topic, queue, invisible, poll, more...), nil)
	if resp.Code != 0 && resp.Code != remoting.PollingTimeout {
		c.t.Fatalf("pop: %v", resp)
	}
	list := poppedMessages(c.t, resp, group)
	if (len(list) == 0) != (resp.Code == remoting.PollingTimeout) {
		c.t.Fatalf("pop: %d messages with code %d", len(list), resp.Code)
	}
	return list
}

const long = time.Hour

// TestPop: what is popped is hidden until its invisible time is over, comes
// again with its count one higher, and not any more once it is acknowledged.
func TestPop(t *testing.T) {
	clock := newTestClock()
	b := startBroker(t, func(o *Options) { o.Now = clock.now })
	// In JSON headers alone: ROCKETMQ's have no room for pop's codes.
	const topic, group = "t", "g"
	c := dial(t, b)
	c.createTopic(topic, 2)
	for i := range 6 {
		c.send(topic, i%2, props("TAGS", []string{"red", "blue"}[i/2%2]), fmt.Sprint(i))
	}
	first := c.pop(group, topic, -1, 60*time.Second, 0)
	if len(first) != 6 || len(c.pop(group, topic, -1, long, 0)) != 0 {
		t.Fatalf("popped %v", first)
	}
	if n := len(c.pop("other", topic, 0, long, 0)); n != 3 {
		t.Errorf("another group got %d", n)
	}
	for i := range first {
		if first[i].ReconsumeTimes == 0 && string(first[i].Body) != "1" && string(first[i].Body) != "2" {
			c.ok(remoting.ReqAckMessage, first[i].ack, nil)
			c.want(remoting.NoMessage, remoting.ReqAckMessage, first[i].ack, nil)
		}
	}
	// Queue 0 has entry 1 ("2") open, queue 1 entry 0 ("1").
	if got := [2]int64{committed(t, c, group, topic, 0), committed(t, c, group, topic, 1)}; got != [2]int64{1, 0} {
		t.Errorf("offsets %v", got)
	}
	clock.step(59 * time.Second)
	if got := c.pop(group, topic, -1, long, 0); len(got) != 0 {
		t.Errorf("too early: %v", got)
	}
	clock.step(time.Second)
	again := c.pop(group, topic, -1, 60*time.Second, 0)
	if len(again) != 2 || again[0].ReconsumeTimes != 1 || again[1].ReconsumeTimes != 1 {
		t.Fatalf("again %v", again)
	}
	// The old handles are no good any more.
	for i := range first {
		c.want(remoting.NoMessage, remoting.ReqAckMessage, first[i].ack, nil)
		c.want(remoting.NoMessage, remoting.ReqChangeMessageInvisibleTime, append(slices.Clone(first[i].ack), fields("invisibleTime", 1000)...), nil)
	}
	// Hidden for longer: by another handle.
	resp := c.ok(remoting.ReqChangeMessageInvisibleTime, append(slices.Clone(again[0].ack), fields("invisibleTime", 600_000)...), nil)
	clock.step(60 * time.Second)
	third := c.pop(group, topic, -1, long, 0)
	if len(third) != 1 || string(third[0].Body) != string(again[1].Body) || third[0].ReconsumeTimes != 2 {
		t.Errorf("third %v", third)
	}
	info := strings.Split(again[0].ack.Value("extraInfo"), " ")
	info[1], info[2] = resp.Fields.Value("popTime"), resp.Fields.Value("invisibleTime")
	again[0].ack.Set("extraInfo", strings.Join(info, " "))
	c.ok(remoting.ReqAckMessage, again[0].ack, nil)
	c.ok(remoting.ReqAckMessage, third[0].ack, nil)
	if got := [2]int64{committed(t, c, group, topic, 0), committed(t, c, group, topic, 1)}; got != [2]int64{3, 3} {
		t.Errorf("offsets at the end %v", got)
	}
}

// TestPopFilters: by tag and by SQL92; what is not wanted is passed over.
func TestPopFilters(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	for i := range 6 {
		c.send("t", 0, props("TAGS", []string{"red", "blue"}[i%2], "n", fmt.Sprint(i)), fmt.Sprint(i))
	}
	if got := fmt.Sprint(bodiesOf(c.pop("g", "t", 0, long, 0, "exp", "blue", "expType", "TAG"))); got != "[1 3 5]" {
		t.Errorf("by tag %v", got)
	}
	if got := fmt.Sprint(bodiesOf(c.pop("h", "t", 0, long, 0, "exp", "n >= 4", "expType", "SQL92"))); got != "[4 5]" {
		t.Errorf("by SQL92 %v", got)
	}
	if got := committed(t, c, "h", "t", 0); got != 4 {
		t.Errorf("offset %d", got)
	}
	c.want(remoting.SubscriptionParseFailed, remoting.ReqPopMessage, popFields("h", "t", 0, long, 0, "exp", "n >", "expType", "SQL92"), nil)
}

func bodiesOf(list []poppedMessage) (out []string) {
	for i := range list {
		out = append(out, string(list[i].Body))
	}
	return out
}

// TestPopWaits: a held pop gets what arrives, and what comes again, at once.
func TestPopWaits(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	c, d := dial(t, b), dial(t, b)
	c.createTopic("t", 4)
	answer := c.start(remoting.ReqPopMessage, popFields("g", "t", -1, 300*time.Millisecond, 2*time.Minute), nil)
	question := d.start(remoting.ReqNotification, popFields("h", "t", 2, 0, 2*time.Minute), nil)
	eventually(t, "a held pop", func() bool {
		return number64(t, d.ok(remoting.ReqPollingInfo, fields("consumerGroup", "g", "topic", "t", "queueId", -1), nil), "pollingNum") == 1
	})
	d.send("t", 2, props("DELAY", "1"), "x")
	got := poppedMessages(t, await(t, answer), "g")
	if len(got) != 1 || got[0].QueueID != 2 {
		t.Fatalf("popped %v", got)
	}
	if resp := await(t, question); resp.Fields.Value("hasMsg") != "true" {
		t.Errorf("notification %v", resp)
	}
	began := time.Now()
	again := c.pop("g", "t", -1, long, 2*time.Minute)
	if len(again) != 1 || again[0].ReconsumeTimes != 1 || time.Since(began) > 100*time.Second {
		t.Errorf("again %v after %v", again, time.Since(began))
	}
	// Another one waits for longer than the message is now hidden.
	answer = d.start(remoting.ReqPopMessage, popFields("g", "t", -1, long, 2*time.Minute), nil)
	eventually(t, "a held pop", func() bool { return b.pops.held("g", "t", -1) == 1 })
	c.ok(remoting.ReqChangeMessageInvisibleTime, append(slices.Clone(again[0].ack), fields("invisibleTime", 20)...), nil)
	if got := poppedMessages(t, await(t, answer), "g"); len(got) != 1 || got[0].ReconsumeTimes != 2 {
		t.Errorf("after a change %v", got)
	}
	if resp := d.ok(remoting.ReqNotification, popFields("g", "t", -1, 0, 0), nil); resp.Fields.Value("hasMsg") != "false" {
		t.Errorf("notification %v", resp)
	}
	// Held until the connection ends, and until the broker closes.
	e := dial(t, b)
	e.start(remoting.ReqPopMessage, popFields("g", "t", -1, long, 2*time.Minute), nil)
	eventually(t, "a held pop", func() bool { return b.pops.held("g", "t", -1) == 1 })
	e.close()
	eventually(t, "no held pop", func() bool { return b.pops.held("g", "t", -1) == 0 })
	answer = d.start(remoting.ReqPopMessage, popFields("g", "t", -1, long, 2*time.Minute), nil)
	eventually(t, "a held pop", func() bool { return b.pops.held("g", "t", -1) == 1 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if resp := await(t, answer); resp.Code != remoting.PollingTimeout {
		t.Errorf("at the close: %v", resp)
	}
}

// TestPopSurvives: what is popped stays hidden, and what is acknowledged stays
// so, over a stop and over a kill.
func TestPopSurvives(t *testing.T) {
	dir := t.TempDir()
	clock := newTestClock()
	tune := func(o *Options) { o.Dir, o.Now = dir, clock.now }
	b := startBroker(t, tune)
	c := dial(t, b)
	for i := range 4 {
		c.send("t", 0, "", fmt.Sprint(i))
	}
	got := c.pop("g", "t", 0, time.Minute, 0, "maxMsgNums", 3)
	c.ok(remoting.ReqAckMessage, got[1].ack, nil)
	killed := t.TempDir()
	eventually(t, "what was popped in the log", func() bool {
		os.RemoveAll(killed)
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			return false
		}
		log, err := os.ReadFile(killed + "/commitlog/00000000000000000001")
		return err == nil && strings.Count(string(log), "\x01g\x01t\x00") > 0
	})
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, killed} {
		dir = d
		b := startBroker(t, tune)
		c := dial(t, b)
		if got := fmt.Sprint(bodiesOf(c.pop("g", "t", 0, time.Minute, 0))); got != "[3]" {
			t.Errorf("after a restart: %v", got)
		}
		c.ok(remoting.ReqAckMessage, got[2].ack, nil)
		clock.step(61 * time.Second)
		list := c.pop("g", "t", 0, long, 0)
		if got := fmt.Sprint(bodiesOf(list)); got != "[0 3]" || list[0].ReconsumeTimes != 1 {
			t.Errorf("again: %v", list)
		}
		clock.step(-61 * time.Second)
	}
}

// TestPopDeadLetter: a message that is never acknowledged ends where dead
// letters are.
func TestPopDeadLetter(t *testing.T) {
	clock := newTestClock()
	b := startBroker(t, func(o *Options) { o.Now = clock.now })
	c := dial(t, b)
	c.ok(remoting.ReqUpdateAndCreateSubscriptionGroup, nil, asJSON(t, map[string]any{"groupName": "g", "retryMaxTimes": 2}))
	c.send("t", 0, props("KEYS", "k"), "x")
	for times := range 3 {
		got := c.pop("g", "t", 0, time.Second, 0)
		if len(got) != 1 || int(got[0].ReconsumeTimes) != times {
			t.Fatalf("time %d: %v", times, got)
		}
		clock.step(time.Second)
	}
	if got := c.pop("g", "t", 0, time.Second, 0); len(got) != 0 {
		t.Errorf("popped %v", got)
	}
	dead := c.pullAll("g", message.DLQTopic("g"), 0, 1)[0]
	if topic, _ := dead.Property("RETRY_TOPIC"); string(dead.Body) != "x" || topic != "t" || dead.ReconsumeTimes != 3 {
		t.Errorf("dead letter %+v", dead)
	}
	if got := committed(t, c, "g", "t", 0); got != 1 {
		t.Errorf("offset %d", got)
	}
}

// TestPopInOrder: an orderly group gets nothing new of a queue before all that
// it has of it is acknowledged.
func TestPopInOrder(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	for i := range 3 {
		c.send("t", 0, "", fmt.Sprint(i))
	}
	first := c.pop("g", "t", 0, long, 0, "order", "true", "maxMsgNums", 2)
	answer := c.start(remoting.ReqPopMessage, popFields("g", "t", 0, long, 2*time.Minute, "order", "true"), nil)
	if got := fmt.Sprint(bodiesOf(first)); got != "[0 1]" {
		t.Errorf("popped %v", got)
	}
	eventually(t, "a held pop", func() bool { return b.pops.held("g", "t", 0) == 1 })
	c.ok(remoting.ReqAckMessage, first[0].ack, nil)
	c.ok(remoting.ReqAckMessage, first[1].ack, nil)
	if got := fmt.Sprint(bodiesOf(poppedMessages(t, await(t, answer), "g"))); got != "[2]" {
		t.Errorf("popped %v", got)
	}
}

// TestPopOthers: batch acknowledgement, peek, where a new group begins, resets,
// and what is refused.
func TestPopOthers(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.sendMany("t", 0, 20)
	if resp := c.ok(remoting.ReqPeekMessage, fields("consumerGroup", "g", "topic", "t", "queueId", -1, "maxMsgNums", 3), nil); len(records(t, resp)) != 3 || number64(t, resp, "restNum") != 17 {
		t.Errorf("peek %v", resp)
	}
	if got := c.pop("late", "t", -1, long, 0, "initMode", 1); len(got) != 0 {
		t.Errorf("a group that begins behind the last: %v", got)
	}
	got := c.pop("g", "t", -1, long, 0, "maxMsgNums", 20)
	if len(got) != 20 {
		t.Fatalf("popped %d", len(got))
	}
	var popMs int64
	fmt.Sscan(strings.Split(got[0].ack.Value("extraInfo"), " ")[1], &popMs)
	bits := base64.StdEncoding.EncodeToString([]byte{0b0000_0101, 0b1000_0000}) // 0, 2, 15
	c.ok(remoting.ReqBatchAckMessage, nil, asJSON(t, map[string]any{"brokerName": "tidemq", "acks": []any{map[string]any{
		"c": "g", "t": "t", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": popMs, "it": long.Milliseconds(), "b": bits}}}))
	for i := range got {
		want := 0
		if i == 0 || i == 2 || i == 15 {
			want = remoting.NoMessage
		}
		c.want(want, remoting.ReqAckMessage, got[i].ack, nil)
	}
	c.ok(remoting.ReqInvokeBrokerToResetOffset, fields("topic", "t", "group", "g", "timestamp", 0, "isForce", "true"), nil)
	if got := c.pop("g", "t", 0, long, 0); len(got) != 20 {
		t.Errorf("after a reset %d", len(got))
	}

	for _, test := range []struct {
		code, req int
		f         remoting.Fields
	}{
		{remoting.InvalidParameter, remoting.ReqPopMessage, popFields("g", "t", 0, 0, 0)},
		{remoting.InvalidParameter, remoting.ReqPopMessage, popFields("g", "t", 0, 25*time.Hour, 0)},
		{remoting.InvalidParameter, remoting.ReqPopMessage, popFields("g", "t", 0, long, 0, "maxMsgNums", 33)},
		{remoting.InvalidParameter, remoting.ReqPopMessage, popFields("g", "t", 9, long, 0)},
		{remoting.TopicNotExist, remoting.ReqPopMessage, popFields("g", "none", 0, long, 0)},
		{remoting.NoPermission, remoting.ReqPopMessage, popFields("g", message.ScheduleTopic, 0, long, 0)},
		{remoting.InvalidParameter, remoting.ReqAckMessage, fields("consumerGroup", "g", "topic", "t", "queueId", 0, "offset", 0, "extraInfo", "1 2")},
		{remoting.InvalidParameter, remoting.ReqAckMessage, fields("consumerGroup", "g", "topic", "t", "queueId", 0, "offset", 0, "extraInfo", "1 x 2 3")},
		{remoting.NoMessage, remoting.ReqAckMessage, fields("consumerGroup", "nobody", "topic", "t", "queueId", 0, "offset", 0, "extraInfo", "1 2 3 4")},
	} {
		if resp := c.call(test.req, test.f, nil); resp.Code != test.code {
			t.Errorf("%s %v: %v, want %d", remoting.RequestName(test.req), test.f, resp, test.code)
		}
	}
}

// TestAssignment: how members of a group that leave it to the broker divide
// the queues, and how they are told to get their messages.
func TestAssignment(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	c.createTopic("t", 5)
	members := []*rawClient{dial(t, b), dial(t, b), dial(t, b)}
	for i, m := range members {
		m.beat(fmt.Sprint("c", i), "g", "t")
	}
	ask := func(client, strategy, model string) (queues []int32, mode string) {
		t.Helper()
		var body struct {
			List []assignment `json:"messageQueueAssignments"`
		}
		fromJSON(t, c.ok(remoting.ReqQueryAssignment, nil, asJSON(t, map[string]any{"topic": "t", "consumerGroup": "g", "clientId": client, "strategyName": strategy, "messageModel": model})).Body, &body)
		for _, a := range body.List {
			queues, mode = append(queues, a.Queue.QueueID), a.Mode
			if a.Queue.BrokerName != "tidemq" || a.Queue.Topic != "t" {
				t.Errorf("assignment %+v", a)
			}
		}
		return queues, mode
	}
	for _, test := range []struct {
		client, strategy, model, want string
	}{
		{"c0", "AVG", "CLUSTERING", "[0 1]"},
		{"c1", "AVG", "CLUSTERING", "[2 3]"},
		{"c2", "AVG", "CLUSTERING", "[4]"},
		{"c0", "AVG_BY_CIRCLE", "CLUSTERING", "[0 3]"},
		{"c2", "AVG_BY_CIRCLE", "CLUSTERING", "[2]"},
		{"c2", "AVG", "BROADCASTING", "[0 1 2 3 4]"},
		{"stranger", "AVG", "CLUSTERING", "[]"},
	} {
		if got, mode := ask(test.client, test.strategy, test.model); fmt.Sprint(got) != test.want || len(got) > 0 && mode != modePull {
			t.Errorf("%+v: %v %s", test, got, mode)
		}
	}
	set := func(want int, m requestMode) {
		t.Helper()
		c.want(want, remoting.ReqSetMessageRequestMode, nil, asJSON(t, m))
	}
	set(remoting.NoPermission, requestMode{"%RETRY%g", "g", modePop, 0})
	set(remoting.TopicNotExist, requestMode{"none", "g", modePop, 0})
	set(remoting.SubscriptionGroupNotExist, requestMode{"t", "none", modePop, 0})
	set(remoting.InvalidParameter, requestMode{"t", "g", "PUSH", 0})
	set(0, requestMode{"t", "g", modePop, 0})
	if got, mode := ask("c1", "AVG", "CLUSTERING"); fmt.Sprint(got) != "[-1]" || mode != modePop {
		t.Errorf("pop: %v %s", got, mode)
	}
	set(0, requestMode{"t", "g", modePop, 1})
	if got, _ := ask("c2", "AVG", "CLUSTERING"); fmt.Sprint(got) != "[0 1 4]" {
		t.Errorf("pop with a share: %v", got)
	}
	c.want(remoting.InvalidParameter, remoting.ReqQueryAssignment, nil, asJSON(t, map[string]any{"topic": "t", "consumerGroup": "g", "clientId": "c0", "strategyName": "MINE", "messageModel": "CLUSTERING"}))
	want := `{"messageRequestModeMap":{"t":{"g":{"topic":"t","consumerGroup":"g","mode":"POP","popShareQueueNum":1}}}}`
	for _, m := range members {
		m.close()
	}
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c = dial(t, startBroker(t, func(o *Options) { o.Dir = dir }))
	if got := c.ok(remoting.ReqGetAllMessageRequestMode, nil, nil).Body; string(got) != want {
		t.Errorf("modes after a restart: %s", got)
	}
}
