package broker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func TestSendAndPull(t *testing.T) {
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		t.Run(fmt.Sprint("header ", header), func(t *testing.T) {
			b := startBroker(t, nil)
			c := dial(t, b)
			c.headerType = header
			for i := range 10 {
				resp := c.send("orders", 1, props("KEYS", "k1", "TAGS", "red", "UNIQ_KEY", fmt.Sprint("u", i)), fmt.Sprint("body ", i))
				if got := number64(t, resp, "queueOffset"); got != int64(i) {
					t.Errorf("message %d: queue offset %d", i, got)
				}
				if got := resp.Fields.Value("transactionId"); got != fmt.Sprint("u", i) {
					t.Errorf("message %d: transactionId %q", i, got)
				}
				host, _, err := message.ParseOffsetID(resp.Fields.Value("msgId"))
				if err != nil || host.String() != b.Addr() {
					t.Errorf("message %d: id names %v, %v; want %s", i, host, err, b.Addr())
				}
			}
			got := c.pullAll("g", "orders", 1, 10)
			for i, m := range got {
				if string(m.Body) != fmt.Sprint("body ", i) || m.QueueOffset != int64(i) || m.Topic != "orders" || m.QueueID != 1 {
					t.Errorf("message %d: %+v", i, m)
				}
				if want := props("KEYS", "k1", "TAGS", "red", "UNIQ_KEY", fmt.Sprint("u", i)); m.Properties != want {
					t.Errorf("message %d: properties %q, want %q", i, m.Properties, want)
				}
				if m.StoreHost.String() != b.Addr() || m.BornTime != 1700000000000 {
					t.Errorf("message %d: store host %v, born %d", i, m.StoreHost, m.BornTime)
				}
			}
		})
	}
}

func TestDelayedSend(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = shortLevels })
	c := dial(t, b)
	resp := c.send("orders", 2, props("DELAY", "1", "TAGS", "red", "own", "x"), "later")
	sent := c.ok(remoting.ReqViewMessageByID, fields("offset", offsetOf(t, resp)), nil)
	pending := records(t, sent)[0]
	if pending.Topic != message.ScheduleTopic || pending.QueueID != 0 {
		t.Errorf("pending in %s queue %d", pending.Topic, pending.QueueID)
	}
	m := c.pullAll("g", "orders", 2, 1)[0]
	if m.StoreTime < pending.StoreTime+1000 {
		t.Errorf("delivered %d ms after it was stored, want 1000 or more", m.StoreTime-pending.StoreTime)
	}
	if string(m.Body) != "later" || m.Properties != props("TAGS", "red", "own", "x") {
		t.Errorf("got %+v", m)
	}
}

func offsetOf(t *testing.T, resp *remoting.Command) int64 {
	t.Helper()
	_, offset, err := message.ParseOffsetID(resp.Fields.Value("msgId"))
	if err != nil {
		t.Fatal(err)
	}
	return offset
}

// TestDelayValues: what a DELAY property may say, sent alone and in a batch.
func TestDelayValues(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1h 2h 3h" })
	c := dial(t, b)
	for i, test := range []struct {
		delay string
		level int // 0: at once, -1: refused
	}{
		{"0", 0}, {"-1", 0}, {"-2147483648", 0}, {"-9223372036854775809", 0},
		{"1", 1}, {"3", 3}, {"4", 3}, {"19", 3}, {"2147483647", 3}, {"2147483648", 3}, {"99999999999999999999", 3},
		{"", -1}, {"abc", -1}, {"3.5", -1}, {" 3", -1}, {"3 ", -1}, {"0x3", -1}, {"1_0", -1},
	} {
		for _, batch := range []bool{false, true} {
			topic := fmt.Sprintf("t%d-%v", i, batch)
			code, body := remoting.ReqSendMessageV2, []byte("x")
			properties := "DELAY\x01" + test.delay + "\x02"
			f := sendFields(topic, 0, properties)
			if batch {
				code, f = remoting.ReqSendBatchMessage, sendFields(topic, 0, "", "m", "true")
				body = batchOf(t, properties)
			}
			resp := c.call(code, f, body)
			switch {
			case test.level < 0:
				if resp.Code != remoting.MessageIllegal || !strings.Contains(resp.Remark, fmt.Sprintf("%q", test.delay)) {
					t.Errorf("DELAY %q: code %d %q, want 13 and the value", test.delay, resp.Code, resp.Remark)
				}
				continue
			case resp.Code != remoting.Success:
				t.Errorf("DELAY %q: code %d %q", test.delay, resp.Code, resp.Remark)
				continue
			}
			m := records(t, c.ok(remoting.ReqViewMessageByID, fields("offset", offsetOf(t, resp)), nil))[0]
			if test.level == 0 && m.Topic != topic || test.level > 0 && (m.Topic != message.ScheduleTopic || m.QueueID != int32(test.level-1)) {
				t.Errorf("DELAY %q: stored in %s queue %d, want level %d", test.delay, m.Topic, m.QueueID, test.level)
			}
		}
	}
}

func batchOf(t *testing.T, properties ...string) []byte {
	t.Helper()
	var b []byte
	for i, p := range properties {
		var err error
		if b, err = message.AppendBatch(b, &message.BatchMessage{Flag: int32(i), Body: fmt.Append(nil, "body ", i), Properties: p}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestBatch: each message has its own properties and its own delay.
func TestBatch(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s 1h" })
	c := dial(t, b)
	f := sendFields("t", 0, "", "m", "true")
	resp := c.ok(remoting.ReqSendBatchMessage, f, batchOf(t, props("TAGS", "a"), props("DELAY", "2"), props("TAGS", "c")))
	ids := strings.Split(resp.Fields.Value("msgId"), ",")
	if len(ids) != 3 {
		t.Fatalf("ids %v", ids)
	}
	got := c.pullAll("g", "t", 0, 2)
	if string(got[0].Body) != "body 0" || string(got[1].Body) != "body 2" || got[1].QueueOffset != 1 || got[1].Flag != 2 || got[1].Properties != props("TAGS", "c") {
		t.Errorf("got %+v", got)
	}
	_, offset, err := message.ParseOffsetID(ids[1])
	if err != nil {
		t.Fatal(err)
	}
	m := records(t, c.ok(remoting.ReqViewMessageByID, fields("offset", offset), nil))[0]
	if real, _ := m.Property(message.PropertyRealTopic); m.Topic != message.ScheduleTopic || m.QueueID != 1 || real != "t" {
		t.Errorf("second message: %+v", m)
	}

	for _, test := range []struct {
		name string
		body []byte
		want string
	}{
		{"timer in the third", batchOf(t, "", "", props("TIMER_DELAY_MS", "5000")), "message 3 of 3: property TIMER_DELAY_MS"},
		{"transaction", batchOf(t, props("TRAN_MSG", "true")), "message 1 of 1: property PGROUP"},
		{"empty", nil, "batch of 0 messages"},
		{"torn", batchOf(t, "", "")[:30], "malformed"},
		{"too many", batchOf(t, make([]string, maxBatch+1)...), fmt.Sprintf("batch of %d messages: 1 to %d", maxBatch+1, maxBatch)},
	} {
		resp := c.want(remoting.MessageIllegal, remoting.ReqSendBatchMessage, f, test.body)
		if !strings.Contains(resp.Remark, test.want) {
			t.Errorf("%s: remark %q, want %q in it", test.name, resp.Remark, test.want)
		}
	}
	if end := number64(t, c.ok(remoting.ReqGetMaxOffset, fields("topic", "t", "queueId", 0), nil), "offset"); end != 2 {
		t.Errorf("queue ends at %d after refused batches, want 2", end)
	}
	c.want(remoting.MessageIllegal, remoting.ReqSendBatchMessage, sendFields(message.RetryTopic("g"), 0, "", "m", "true"), batchOf(t, ""))
}

// TestSendLimits: what is too large is refused with value and limit, what just
// fits is delivered.
func TestSendLimits(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s"; o.MaxMessageSize = 1000 })
	c := dial(t, b)
	c.createTopic("t", 1)
	value := func(properties string, total int) string {
		return strings.Repeat("v", total-len(properties)-len("k\x01\x02"))
	}
	plain := props("k", value("", message.MaxProperties))
	delayed := props("DELAY", "1", "k", "")
	room := message.MaxProperties - len(props("REAL_TOPIC", "t", "REAL_QID", "0"))
	for _, test := range []struct {
		name, properties string
		body             int
		want             string
	}{
		{"body at the limit", "", 1000, ""},
		{"body over it", "", 1001, "body is 1001 bytes long, maxMessageSize allows 1000"},
		{"no body", "", 0, ""},
		{"properties at the limit", plain, 1, ""},
		{"properties over it", plain + "x", 1, "properties are 32768 bytes long, at most 32767"},
		{"delayed, room for the schedule", props("DELAY", "1", "k", strings.Repeat("v", room-len(delayed))), 1, ""},
		{"delayed, a byte too long", props("DELAY", "1", "k", strings.Repeat("v", room-len(delayed)+1)), 1, "32768 bytes"},
	} {
		resp := c.call(remoting.ReqSendMessageV2, sendFields("t", 0, test.properties), make([]byte, test.body))
		switch {
		case test.want == "" && resp.Code != remoting.Success:
			t.Errorf("%s: code %d %.200q", test.name, resp.Code, resp.Remark)
		case test.want != "" && (resp.Code != remoting.MessageIllegal || !strings.Contains(resp.Remark, test.want)):
			t.Errorf("%s: code %d %.200q, want 13 and %q", test.name, resp.Code, resp.Remark, test.want)
		}
	}
	if got := c.pullAll("g", "t", 0, 4); len(got[3].Properties) != room-len(props("DELAY", "1", "REAL_TOPIC", "t", "REAL_QID", "0"))+len(props("REAL_TOPIC", "t", "REAL_QID", "0")) {
		t.Errorf("delayed message arrived with %d bytes of properties", len(got[3].Properties))
	}
}

// TestUnsupported: what would not be honoured is refused, not delivered at
// once.
func TestUnsupported(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	for _, test := range []struct {
		f    remoting.Fields
		want string
	}{
		{sendFields("t", 0, props("TIMER_DELIVER_MS", "1")), "TIMER_DELIVER_MS"},
		{sendFields("t", 0, props("TIMER_DELAY_MS", "60000.0")), "TIMER_DELAY_MS"},
		{sendFields("t", 0, props("TIMER_DELAY_SEC", "1", "DELAY", "3")), "TIMER_DELAY_SEC"},
		{sendFields("t", 0, props("TIMER_DEL_UNIQKEY", "x")), "TIMER_DEL_UNIQKEY"},
		{sendFields("t", 0, props("TRAN_MSG", "true")), "PGROUP"},
		{sendFields("t", 0, props("TRAN_MSG", "TRUE", "DELAY", "3")), "PGROUP"},
		{sendFields("t", 0, props("TRAN_MSG", "true", "PGROUP", "p", "DELAY", "x")), "DELAY"},
		{sendFields("t", 0, "", "f", message.TransactionPrepared), "PGROUP"},
	} {
		if resp := c.want(remoting.MessageIllegal, remoting.ReqSendMessageV2, test.f, []byte("x")); !strings.Contains(resp.Remark, test.want) {
			t.Errorf("remark %q, want %q in it", resp.Remark, test.want)
		}
	}
	c.send("t", 0, props("TRAN_MSG", "false"), "x")
	if got := c.pullAll("g", "t", 0, 1); len(got) != 1 {
		t.Errorf("got %d messages", len(got))
	}
}

// TestReservedProperties: a sender cannot say where a delayed message goes.
func TestReservedProperties(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	c := dial(t, b)
	c.send("t", 0, props("a", "1", "REAL_TOPIC", "other", "REAL_QID", "3", "POP_CK", "x", "b", "2"), "now")
	c.send("t", 0, props("REAL_TOPIC", "other", "DELAY", "1", "b", "2"), "later")
	got := c.pullAll("g", "t", 0, 2)
	if got[0].Properties != props("a", "1", "b", "2") || got[1].Properties != props("b", "2") {
		t.Errorf("properties %q and %q", got[0].Properties, got[1].Properties)
	}
}

// TestLongTopics: names over 127 bytes are stored in the second layout, at
// once and delayed.
func TestLongTopics(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		c := dial(t, b)
		c.headerType = header
		for _, topic := range []string{message.RetryTopic(strings.Repeat("r", 248-int(header))), message.DLQTopic(strings.Repeat("d", 250-int(header)))} {
			c.send(topic, 0, "", "now")
			c.send(topic, 0, props("DELAY", "1"), "later")
			resp := c.ok(remoting.ReqPullMessage, pullFields("g", topic, 0, 0, 0), nil)
			if magic := binary.BigEndian.Uint32(resp.Body[4:]); magic != message.MagicV2 {
				t.Errorf("magic %#x, want %#x", magic, message.MagicV2)
			}
			got := c.pullAll("g", topic, 0, 2)
			if got[0].Topic != topic || got[1].Topic != topic || string(got[1].Body) != "later" {
				t.Errorf("got %v", got)
			}
		}
	}
}

// TestAutoCreate: topics and groups come with their first use, unless that is
// turned off.
func TestAutoCreate(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DefaultTopicQueues = 6 })
	c := dial(t, b)
	for _, test := range []struct{ asked, want int }{{4, 4}, {6, 6}, {16, 6}, {0, 1}, {-3, 1}} {
		topic := fmt.Sprint("t", test.asked)
		c.ok(remoting.ReqSendMessageV2, sendFields(topic, 0, "", "d", test.asked), nil)
		if got := queuesOf(t, c, topic); got != test.want {
			t.Errorf("asked for %d queues: got %d, want %d", test.asked, got, test.want)
		}
	}
	if got := queuesOf(t, c, message.TBW102); got != 6 {
		t.Errorf("TBW102 has %d queues", got)
	}
	c.want(remoting.InvalidParameter, remoting.ReqSendMessageV2, sendFields("t4", 4, ""), nil)
	c.want(remoting.TopicNotExist, remoting.ReqSendMessageV2, sendFields("new", 0, "", "c", "t4"), nil)

	off := startBroker(t, func(o *Options) { o.DisableAutoCreateTopic, o.DisableAutoCreateGroup = true, true })
	c = dial(t, off)
	c.want(remoting.TopicNotExist, remoting.ReqSendMessageV2, sendFields("t", 0, ""), nil)
	c.want(remoting.TopicNotExist, remoting.ReqGetRouteInfoByTopic, fields("topic", message.TBW102), nil)
	c.createTopic("t", 2)
	c.send("t", 1, "", "x")
	c.want(remoting.SubscriptionGroupNotExist, remoting.ReqPullMessage, pullFields("g", "t", 1, 0, 0), nil)
	c.want(remoting.SubscriptionGroupNotExist, remoting.ReqUpdateConsumerOffset, fields("consumerGroup", "g", "topic", "t", "queueId", 0, "commitOffset", 0), nil)
	c.want(remoting.SubscriptionGroupNotExist, remoting.ReqSendMessageV2, sendFields(message.RetryTopic("g"), 0, ""), nil)
	c.want(remoting.TopicNotExist, remoting.ReqGetRouteInfoByTopic, fields("topic", message.RetryTopic("g")), nil)
	c.beat("id", "g", "t")
	c.ok(remoting.ReqUpdateAndCreateSubscriptionGroup, nil, []byte(`{"groupName":"g","retryMaxTimes":3}`))
	c.beat("id", "g", "t")
	c.ok(remoting.ReqPullMessage, pullFields("g", "t", 1, 0, 0), nil)
	if got := queuesOf(t, c, message.RetryTopic("g")); got != 1 {
		t.Errorf("retry topic has %d queues", got)
	}
}

func queuesOf(t *testing.T, c *rawClient, topic string) int {
	t.Helper()
	var data struct {
		Queues []struct{ WriteQueueNums int } `json:"queueDatas"`
	}
	body := c.ok(remoting.ReqGetRouteInfoByTopic, fields("topic", topic), nil).Body
	if err := json.Unmarshal(body, &data); err != nil || len(data.Queues) != 1 {
		t.Fatalf("route %s: %v", body, err)
	}
	return data.Queues[0].WriteQueueNums
}

// TestPermissions: a topic's permission bits hold for sends and pulls.
func TestPermissions(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	perm := func(p int) {
		c.ok(remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "readQueueNums", 1, "writeQueueNums", 1, "perm", p), nil)
	}
	perm(permRead)
	c.want(remoting.NoPermission, remoting.ReqSendMessageV2, sendFields("t", 0, ""), nil)
	perm(permWrite)
	c.send("t", 0, "", "x")
	resp := c.want(remoting.NoPermission, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0), nil)
	if got := resp.Fields.Value("forbiddenType"); got != "3" {
		t.Errorf("forbiddenType %q", got)
	}
	perm(permRead | permWrite)
	c.ok(remoting.ReqUpdateAndCreateSubscriptionGroup, nil, []byte(`{"groupName":"g","consumeEnable":false}`))
	resp = c.want(remoting.NoPermission, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0), nil)
	if got := resp.Fields.Value("forbiddenType"); got != "2" {
		t.Errorf("forbiddenType %q", got)
	}
}

// TestOrderOnNewTopic: pipelined sends reach a topic that the first of them
// creates in the order they were sent.
func TestOrderOnNewTopic(t *testing.T) {
	b := startBroker(t, nil)
	for round := range 20 {
		c := dial(t, b)
		topic := fmt.Sprint("new", round)
		var answers []chan *remoting.Command
		const n = 50
		for i := range n {
			answers = append(answers, c.start(remoting.ReqSendMessageV2, sendFields(topic, 0, ""), fmt.Append(nil, i)))
		}
		for i, ch := range answers {
			if resp := await(t, ch); resp.Code != 0 || number64(t, resp, "queueOffset") != int64(i) {
				t.Fatalf("round %d message %d: %v at %s", round, i, resp, resp.Fields.Value("queueOffset"))
			}
		}
		for i, m := range c.pullAll("g", topic, 0, n) {
			if string(m.Body) != fmt.Sprint(i) {
				t.Fatalf("round %d: place %d holds %q", round, i, m.Body)
			}
		}
	}
}

// TestOneway: a one-way send is stored and not answered.
func TestOneway(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.oneway(remoting.ReqSendMessageV2, sendFields("t", 0, ""), []byte("quiet"))
	c.oneway(remoting.ReqSendMessageV2, sendFields("a b", 0, ""), []byte("refused"))
	c.oneway(remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0), nil)
	c.createTopic("other", 1) // answered, the others not: the client would complain
	if got := c.pullAll("g", "t", 0, 1); string(got[0].Body) != "quiet" {
		t.Errorf("got %q", got[0].Body)
	}
}

// TestSystemFlag: a multi-tag topic marks its messages; sender's bits stay.
func TestSystemFlag(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.ok(remoting.ReqUpdateAndCreateTopic, fields("topic", "m", "readQueueNums", 1, "writeQueueNums", 1, "perm", 6, "topicFilterType", "MULTI_TAG"), nil)
	c.ok(remoting.ReqSendMessageV2, sendFields("m", 0, "", "f", message.FlagCompressed, "h", 42), []byte("x"))
	m := c.pullAll("g", "m", 0, 1)[0]
	if m.SysFlag != message.FlagCompressed|message.FlagMultiTags || m.Flag != 42 {
		t.Errorf("sysFlag %#x, flag %d", m.SysFlag, m.Flag)
	}
}
