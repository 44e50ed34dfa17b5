package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

func backFields(group string, offset int64, level int, more ...any) remoting.Fields {
	return append(fields("group", group, "offset", offset, "delayLevel", level, "originMsgId", "id", "originTopic", "t", "unitMode", "false"), fields(more...)...)
}

// levelsOf asks for the state of the levels.
func levelsOf(t *testing.T, c *rawClient) []remoting.LevelState {
	t.Helper()
	was := c.headerType
	defer func() { c.headerType = was }()
	c.headerType = remoting.HeaderJSON // the other has no room for the code
	var body remoting.LevelsBody
	fromJSON(t, c.ok(remoting.ReqTideLevels, nil, nil).Body, &body)
	return body.Levels
}

// TestSendBack is the table of field case F22: where a sent-back message waits.
func TestSendBack(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1h 2h 3h 4h 5h" })
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		for i, test := range []struct {
			level, reconsumed int
			more              []any
			wantLevel         int // 0: the dead-letter topic
		}{
			{-1, 0, nil, 0},
			{0, 0, nil, 3},
			{0, 1, nil, 4},
			{0, 2, nil, 5},
			{0, 9, nil, 5},
			{1, 0, nil, 1},
			{5, 0, nil, 5},
			{6, 0, nil, 5},
			{99, 0, nil, 5},
			{0, 15, nil, 5},
			{0, 16, nil, 0}, // the group's default
			{0, 16, []any{"maxReconsumeTimes", 17}, 5}, // the header's goes before
			{0, 1, []any{"maxReconsumeTimes", 1}, 0},   //
			{1, 0, []any{"maxReconsumeTimes", 0}, 0},   // no retries at all
			{0, 16, []any{"maxReconsumeTimes", -1}, 0}, // none of the header's own
			{-2147483648, 0, []any{"maxReconsumeTimes", 99}, 0},
		} {
			name := fmt.Sprintf("header %d level %d after %d %v", header, test.level, test.reconsumed, test.more)
			c := dial(t, b)
			c.headerType = header
			topic, group := fmt.Sprintf("t%d-%d", i, header), fmt.Sprintf("g%d-%d", i, header)
			f := sendFields(topic, 0, props("TAGS", "red", "UNIQ_KEY", "u1", "KEYS", "k"), "j", test.reconsumed, "h", 5)
			c.ok(remoting.ReqSendMessageV2, f, []byte("again"))
			m := c.pullAll(group, topic, 0, 1)[0]
			before := levelsOf(t, c)
			c.ok(remoting.ReqConsumerSendMsgBack, backFields(group, m.PhysicalOffset, test.level, test.more...), nil)

			after := levelsOf(t, c)
			for l := range after {
				want := before[l].MaxOffset
				if l == test.wantLevel-1 {
					want++
				}
				if after[l].MaxOffset != want {
					t.Errorf("%s: level %d holds %d, want %d", name, l+1, after[l].MaxOffset, want)
				}
			}
			if test.wantLevel > 0 {
				continue
			}
			dead := c.pullAll(group, message.DLQTopic(group), 0, 1)[0]
			want := props("TAGS", "red", "UNIQ_KEY", "u1", "KEYS", "k", "RETRY_TOPIC", topic, "ORIGIN_MESSAGE_ID", message.OffsetID(m.StoreHost, m.PhysicalOffset))
			if string(dead.Body) != "again" || dead.ReconsumeTimes != int32(test.reconsumed)+1 || dead.Properties != want || dead.Flag != 5 || dead.BornTime != m.BornTime {
				t.Errorf("%s: dead letter %+v", name, dead)
			}
			if n := queuesOf(t, c, message.DLQTopic(group)); n != 1 {
				t.Errorf("%s: dead-letter topic has %d queues", name, n)
			}
		}
	}
}

// TestSendBackComesAgain: the message comes to the group again with what it
// had, and its first topic and id.
func TestSendBackComesAgain(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	c := dial(t, b)
	c.send("t", 0, props("TAGS", "red"), "again")
	m := c.pullAll("g", "t", 0, 1)[0]
	first := message.OffsetID(m.StoreHost, m.PhysicalOffset)
	retry := message.RetryTopic("g")
	for hop := 1; hop <= 2; hop++ {
		c.ok(remoting.ReqConsumerSendMsgBack, backFields("g", m.PhysicalOffset, 0), nil)
		m = c.pullAll("g", retry, 0, hop)[hop-1]
		if m.ReconsumeTimes != int32(hop) || string(m.Body) != "again" || m.Properties != props("TAGS", "red", "RETRY_TOPIC", "t", "ORIGIN_MESSAGE_ID", first) {
			t.Errorf("hop %d: %+v", hop, m)
		}
	}
}

// TestSendBackErrors: what cannot be stored is never answered with success.
func TestSendBackErrors(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	delayed := c.send("t", 0, props("DELAY", "18"), "pending")
	c.send("t", 0, "", "x")
	m := c.pullAll("g", "t", 0, 1)[0]
	for _, test := range []struct {
		name   string
		f      remoting.Fields
		code   int
		remark string
	}{
		{"offset within a record", backFields("g", m.PhysicalOffset+1, 0), remoting.SystemError, fmt.Sprint("look message by offset failed, ", m.PhysicalOffset+1)},
		{"offset beyond the log", backFields("g", 1<<40, 0), remoting.SystemError, "look message by offset failed, 1099511627776"},
		{"negative offset", backFields("g", -1, 0), remoting.SystemError, "look message by offset failed, -1"},
		{"message not delivered yet", backFields("g", offsetOf(t, delayed), 0), remoting.SystemError, "not delivered yet"},
		{"group that is no name", backFields("a b", m.PhysicalOffset, 0), remoting.InvalidParameter, `"a b"`},
	} {
		resp := c.want(test.code, remoting.ReqConsumerSendMsgBack, test.f, nil)
		if !strings.Contains(resp.Remark, test.remark) {
			t.Errorf("%s: remark %q, want %q in it", test.name, resp.Remark, test.remark)
		}
	}
	c.ok(remoting.ReqConsumerSendMsgBack, backFields("unheard-of", m.PhysicalOffset, 0), nil) // created

	long := props("k", strings.Repeat("v", message.MaxProperties-len("k\x01\x02")))
	c.send("t", 0, long, "x")
	m = c.pullAll("g", "t", 0, 2)[1]
	c.want(remoting.MessageIllegal, remoting.ReqConsumerSendMsgBack, backFields("g", m.PhysicalOffset, 0), nil)
}

// TestDiskFull: sends and send-backs are refused with 14 while reads go on.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	c.send("t", 0, "", "x")
	m := c.pullAll("g", "t", 0, 1)[0]
	c.ok(remoting.ReqConsumerSendMsgBack, backFields("g", m.PhysicalOffset, 0), nil)
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	full := startBroker(t, func(o *Options) {
		o.Dir = dir
		o.tuneStore = func(s *store.Options) { s.MinFreeBytes = 1 << 60 }
	})
	c = dial(t, full)
	eventually(t, "the store notices the full disk", func() bool { return full.Healthy() != nil })
	for _, f := range []remoting.Fields{sendFields("t", 0, ""), sendFields("t", 0, props("DELAY", "1"))} {
		if resp := c.want(remoting.ServiceNotAvailable, remoting.ReqSendMessageV2, f, []byte("y")); !strings.Contains(resp.Remark, "disk is full") {
			t.Errorf("remark %q", resp.Remark)
		}
	}
	c.want(remoting.ServiceNotAvailable, remoting.ReqConsumerSendMsgBack, backFields("g", m.PhysicalOffset, 0), nil)
	if got := c.pullAll("g", "t", 0, 1); string(got[0].Body) != "x" {
		t.Errorf("got %q", got[0].Body)
	}
}

// TestRetrySends is field case F21: a consumer that sends to its retry topic
// itself.
func TestRetrySends(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1h 2h 3h 4h" })
	for _, code := range []int{remoting.ReqSendMessage, remoting.ReqSendMessageV2} {
		for _, test := range []struct {
			times, limit int
			locked       bool
			dead         bool
		}{
			{1, 1, false, false},
			{2, 1, false, true},
			{1, 2, false, false},
			{16, -1, false, false},
			{17, -1, false, true},
			{1, 16, true, true},
		} {
			c := dial(t, b)
			group := fmt.Sprintf("g%d-%d-%d-%v", code, test.times, test.limit, test.locked)
			retry := message.RetryTopic(group)
			if test.locked {
				c.ok(remoting.ReqLockBatchMQ, nil, asJSON(t, lockBody{group, "c1", []queueName{{"t", "tidemq", 0}}}))
			}
			f := sendFields(retry, 0, props("DELAY", "4", "RETRY_TOPIC", "t"), "j", test.times)
			if test.limit >= 0 {
				f.Set("l", fmt.Sprint(test.limit))
			}
			if code == remoting.ReqSendMessage {
				f = longNames(f)
			}
			before := levelsOf(t, c)[3].MaxOffset
			c.ok(code, f, []byte("retry"))
			if got := levelsOf(t, c)[3].MaxOffset == before; got != test.dead {
				t.Errorf("%s: dead letter %v, want %v", group, got, test.dead)
			}
			if test.dead {
				m := c.pullAll(group, message.DLQTopic(group), 0, 1)[0]
				if m.Properties != props("RETRY_TOPIC", "t") || m.ReconsumeTimes != int32(test.times) {
					t.Errorf("%s: %+v", group, m)
				}
			}
		}
	}
}

// longNames writes a send's header as SEND_MESSAGE has it.
func longNames(f remoting.Fields) remoting.Fields {
	names := map[string]string{
		"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId", "f": "sysFlag",
		"g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch",
	}
	out := make(remoting.Fields, len(f))
	for i, field := range f {
		out[i] = remoting.Field{Key: names[field.Key], Value: field.Value}
	}
	return out
}
