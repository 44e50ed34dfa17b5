package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func commitFields(group, topic string, queue int, offset int64) remoting.Fields {
	return fields("consumerGroup", group, "topic", topic, "queueId", queue, "commitOffset", offset)
}

func committed(t *testing.T, c *rawClient, group, topic string, queue int) int64 {
	t.Helper()
	resp := c.call(remoting.ReqQueryConsumerOffset, fields("consumerGroup", group, "topic", topic, "queueId", queue, "setZeroIfNotFound", "false"), nil)
	if resp.Code == remoting.QueryNotFound {
		return -1
	}
	return number64(t, resp, "offset")
}

func (c *rawClient) sendMany(topic string, queue, n int) {
	c.t.Helper()
	answers := make([]chan *remoting.Command, n)
	for i := range answers {
		answers[i] = c.start(remoting.ReqSendMessageV2, sendFields(topic, queue, ""), fmt.Append(nil, i))
	}
	for i, ch := range answers {
		if resp := await(c.t, ch); resp.Code != 0 {
			c.t.Fatalf("send %d: %v", i, resp)
		}
	}
}

// TestCommits is field case F29: what a commit may say, and that no backlog is
// negative.
func TestCommits(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	c.createTopic("t", 2)
	c.sendMany("t", 0, 200)
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		c.headerType = header
		for _, test := range []struct {
			offset int64
			code   int
			want   int64
		}{
			{100, 0, 100}, {50, 0, 50}, {1e15, 29, 50}, {-7, 29, 50}, {201, 29, 50}, {200, 0, 200}, {120, 0, 120},
		} {
			resp := c.want(test.code, remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 0, test.offset), nil)
			if test.code != 0 && !strings.Contains(resp.Remark, fmt.Sprintf("commitOffset is %d: queue 0 of topic[t] ends at 200", test.offset)) {
				t.Errorf("remark %q", resp.Remark)
			}
			if got := committed(t, c, "g", "t", 0); got != test.want {
				t.Errorf("after %d: %d, want %d", test.offset, got, test.want)
			}
		}
	}
	c.headerType = remoting.HeaderJSON
	c.want(remoting.InvalidParameter, remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 1, 1), nil)
	c.want(remoting.InvalidParameter, remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 2, 0), nil)
	c.want(remoting.TopicNotExist, remoting.ReqUpdateConsumerOffset, commitFields("g", "u", 0, 0), nil)
	var body remoting.OffsetsBody
	fromJSON(t, c.ok(remoting.ReqTideOffsets, fields("group", "g"), nil).Body, &body)
	if len(body.Topics) != 1 || body.Topics[0].Lag != 80 || body.Topics[0].Queues[0].Committed != 120 || body.Topics[0].Queues[1].Committed != -1 {
		t.Errorf("offsets %+v", body)
	}
	c.want(remoting.SubscriptionGroupNotExist, remoting.ReqTideOffsets, fields("group", "nobody"), nil)
	c.want(remoting.TopicNotExist, remoting.ReqTideOffsets, fields("group", "g", "topic", "u"), nil)

	// A pull carries a commit.
	c.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 150, 0, "sysFlag", pullCommitOffset|pullSubscription, "commitOffset", 150), nil)
	if got := committed(t, c, "g", "t", 0); got != 150 {
		t.Errorf("a pull committed %d, want 150", got)
	}
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c = dial(t, startBroker(t, func(o *Options) { o.Dir = dir }))
	if got := committed(t, c, "g", "t", 0); got != 150 {
		t.Errorf("after a restart %d, want 150", got)
	}
}

// TestFirstOffset: a group without an offset is told so, and begins where it
// wants to, unless the queue appeared after it subscribed the topic; and always
// when it asks not to be told zero.
func TestFirstOffset(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 2)
	c.createTopic("u", 2)
	c.sendMany("t", 0, 1)
	ask := func(group, topic string, queue int, zero bool, want int) {
		t.Helper()
		resp := c.want(want, remoting.ReqQueryConsumerOffset, fields("consumerGroup", group, "topic", topic, "queueId", queue, "setZeroIfNotFound", zero), nil)
		if want == 0 && number64(t, resp, "offset") != 0 {
			t.Errorf("%s in %s/%d: %v", group, topic, queue, resp)
		}
	}
	const unknown = remoting.QueryNotFound
	ask("g", "t", 0, true, unknown) // the group may want the last, or a time
	ask("g", "t", 1, true, unknown) // empty

	c.beat("c1", "g", "t")
	ask("g", "t", 0, true, unknown) // the message was there before
	c.sendMany("t", 1, 1)
	ask("g", "t", 1, true, 0) // this one came afterwards
	ask("g", "t", 1, false, unknown)
	ask("h", "t", 1, true, unknown) // another group
	c.beat("c1", "g", "t", "u")
	c.sendMany("u", 0, 1)
	ask("g", "u", 0, true, 0)
	ask("g", "t", 0, true, unknown)

	// A queue that appears while the group is away.
	c.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", "u", 0, 1), nil)
	c.ok(remoting.ReqUnregisterClient, fields("clientID", "c1", "consumerGroup", "g"), nil)
	c.sendMany("u", 1, 1)
	c.beat("c2", "g", "u")
	ask("g", "u", 1, true, 0)
	ask("g", "u", 1, false, unknown)
	// One that has older messages than the group consumed is none.
	c.ok(remoting.ReqUpdateConsumerOffset, commitFields("k", "u", 1, 1), nil)
	ask("k", "u", 0, true, unknown)
}

// TestQueueBounds: min, max, earliest store time and search by time.
func TestQueueBounds(t *testing.T) {
	clock := newTestClock()
	b := startBroker(t, func(o *Options) { o.Now = clock.now })
	c := dial(t, b)
	c.createTopic("t", 2)
	number := func(code int, key string, f remoting.Fields) int64 {
		t.Helper()
		return number64(t, c.ok(code, f, nil), key)
	}
	q := func(queue int, more ...any) remoting.Fields {
		return append(fields("topic", "t", "queueId", queue), fields(more...)...)
	}
	if got := number(remoting.ReqGetEarliestMsgStoreTime, "timestamp", q(0)); got != -1 {
		t.Errorf("earliest time of an empty queue: %d", got)
	}
	// Ten of a thousand share one store time.
	var times []int64
	for i := range 30 {
		if i < 10 || i >= 20 {
			clock.step(10 * time.Millisecond)
		}
		c.send("t", 0, "", fmt.Sprint(i))
	}
	for _, m := range c.pullAll("g", "t", 0, 30) {
		times = append(times, m.StoreTime)
	}
	same := times[9]
	if times[19] != same || times[20] == same || times[8] == same {
		t.Fatalf("store times %v", times)
	}
	if got := number(remoting.ReqGetEarliestMsgStoreTime, "timestamp", q(0)); got != times[0] {
		t.Errorf("earliest time %d, want %d", got, times[0])
	}
	for _, test := range []struct {
		ms       int64
		boundary string
		want     int64
	}{
		{0, "", 0}, {times[0] - 1, "", 0}, {times[0], "", 0}, {times[0] + 1, "", 1},
		{same, "", 9}, {same, "LOWER", 9}, {same + 1, "", 20},
		{times[29], "", 29}, {times[29] + 1, "", 30}, {times[29] + 3600_000, "", 30},
		{same, "UPPER", 19},
	} {
		f := q(0, "timestamp", test.ms)
		if test.boundary != "" {
			f.Set("boundaryType", test.boundary)
		}
		if got := number(remoting.ReqSearchOffsetByTimestamp, "offset", f); got != test.want {
			t.Errorf("offset at %d %s: %d, want %d", test.ms, test.boundary, got, test.want)
		}
	}
	if lo, hi := number(remoting.ReqGetMinOffset, "offset", q(0)), number(remoting.ReqGetMaxOffset, "offset", q(0)); lo != 0 || hi != 30 {
		t.Errorf("bounds %d and %d", lo, hi)
	}
	if hi := number(remoting.ReqGetMaxOffset, "offset", q(1)); hi != 0 {
		t.Errorf("end of an empty queue %d", hi)
	}
	// The retry topic of a group that has none yet.
	if hi := number(remoting.ReqGetMaxOffset, "offset", fields("topic", message.RetryTopic("g"), "queueId", 0)); hi != 0 {
		t.Errorf("end of an unrecorded retry topic %d", hi)
	}
	c.want(remoting.TopicNotExist, remoting.ReqGetMaxOffset, fields("topic", "u", "queueId", 0), nil)
}

// TestPullOutside: a pull before or beyond the queue is sent to its bound.
func TestPullOutside(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 2)
	c.sendMany("t", 0, 10)
	for _, test := range []struct {
		queue  int
		offset int64
		code   int
		next   int64
	}{
		{0, -5, remoting.PullOffsetMoved, 0},
		{0, 0, remoting.Success, 10},
		{0, 9, remoting.Success, 10},
		{0, 10, remoting.PullNotFound, 10},
		{0, 11, remoting.PullOffsetMoved, 10},
		{0, 1 << 50, remoting.PullOffsetMoved, 10},
		{1, 0, remoting.PullNotFound, 0},
		{1, 3, remoting.PullOffsetMoved, 0},
	} {
		resp := c.want(test.code, remoting.ReqPullMessage, pullFields("g", "t", test.queue, test.offset, 0), nil)
		if got := number64(t, resp, "nextBeginOffset"); got != test.next {
			t.Errorf("queue %d from %d: next %d, want %d", test.queue, test.offset, got, test.next)
		}
		for _, key := range []string{"minOffset", "maxOffset", "suggestWhichBrokerId"} {
			number64(t, resp, key)
		}
	}
	resp := c.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 2, 0, "maxMsgNums", 3), nil)
	if got := records(t, resp); len(got) != 3 || got[0].QueueOffset != 2 || number64(t, resp, "nextBeginOffset") != 5 {
		t.Errorf("got %d records", len(got))
	}
	resp = c.ok(remoting.ReqLitePullMessage, pullFields("g", "t", 0, 2, 0, "maxMsgBytes", 1), nil)
	if got := records(t, resp); len(got) != 1 {
		t.Errorf("maxMsgBytes 1 gave %d records", len(got))
	}
}

// TestResetRequests: what a reset does to offsets, with nobody on-line.
func TestResetRequests(t *testing.T) {
	clock := newTestClock()
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir, o.Now = dir, clock.now })
	c := dial(t, b)
	c.createTopic("t", 3)
	for i := range 20 {
		clock.step(10 * time.Millisecond)
		c.send("t", i%2, "", fmt.Sprint(i))
	}
	c.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 0, 8), nil)
	middle := c.pullAll("g", "t", 0, 10)[5].StoreTime
	reset := func(more ...any) remoting.ResetBody {
		t.Helper()
		var body remoting.ResetBody
		fromJSON(t, c.ok(remoting.ReqTideResetOffsets, append(fields("group", "g", "topic", "t"), fields(more...)...), nil).Body, &body)
		return body
	}
	to := func(body remoting.ResetBody) []int64 {
		var list []int64
		for _, q := range body.Queues {
			list = append(list, q.To)
		}
		return list
	}
	if body := reset("to", "time", "value", middle, "dryRun", "true"); !body.DryRun || !slices.Equal(to(body), []int64{5, 5, 0}) || body.Queues[0].From != 8 || body.Queues[1].From != -1 {
		t.Errorf("dry run %+v", body)
	}
	if got := committed(t, c, "g", "t", 0); got != 8 {
		t.Errorf("a dry run moved the offset to %d", got)
	}
	for _, test := range []struct {
		args []any
		want []int64
	}{
		{[]any{"to", "time", "value", middle}, []int64{5, 5, 0}},
		{[]any{"to", "latest"}, []int64{10, 10, 0}},
		{[]any{"to", "earliest"}, []int64{0, 0, 0}},
		{[]any{"to", "offset", "value", 7}, []int64{7, 7, 0}},
		{[]any{"to", "offset", "value", 99}, []int64{10, 10, 0}},
		{[]any{"to", "time", "value", clock.now().Add(time.Hour).UnixMilli()}, []int64{10, 10, 0}},
		{[]any{"to", "time", "value", 0}, []int64{0, 0, 0}},
	} {
		if got := to(reset(test.args...)); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.args, got, test.want)
		}
		for q, want := range test.want {
			if got := committed(t, c, "g", "t", q); got != want {
				t.Errorf("%v: queue %d at %d, want %d", test.args, q, got, want)
			}
		}
	}
	if got := to(reset("to", "offset", "value", 4, "queueId", 1)); !slices.Equal(got, []int64{4}) {
		t.Errorf("one queue: %v", got)
	}
	c.want(remoting.InvalidParameter, remoting.ReqTideResetOffsets, fields("group", "g", "topic", "t", "to", "latest", "queueId", 3), nil)
	c.want(remoting.TopicNotExist, remoting.ReqTideResetOffsets, fields("group", "g", "topic", "u", "to", "latest"), nil)
	c.want(remoting.SubscriptionGroupNotExist, remoting.ReqTideResetOffsets, fields("group", "h", "topic", "t", "to", "latest"), nil)

	// RocketMQ's own request, answered in its shape.
	resp := c.ok(remoting.ReqInvokeBrokerToResetOffset, fields("group", "g", "topic", "t", "timestamp", middle, "isForce", "true"), nil)
	want := `{"offsetTable":{{"brokerName":"tidemq","queueId":0,"topic":"t"}:5,{"brokerName":"tidemq","queueId":1,"topic":"t"}:5,{"brokerName":"tidemq","queueId":2,"topic":"t"}:0}}`
	if string(resp.Body) != want {
		t.Errorf("body %s, want %s", resp.Body, want)
	}
	resp = c.ok(remoting.ReqInvokeBrokerToResetOffset, fields("group", "g", "topic", "t", "queueId", 0, "offset", 3, "timestamp", -1), nil)
	if string(resp.Body) != `{"offsetTable":{{"brokerName":"tidemq","queueId":0,"topic":"t"}:3}}` {
		t.Errorf("body %s", resp.Body)
	}
	c.want(remoting.SystemError, remoting.ReqInvokeBrokerToResetOffset, fields("group", "g", "topic", "t", "queueId", 0, "offset", 11, "timestamp", -1), nil)
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c = dial(t, startBroker(t, func(o *Options) { o.Dir, o.Now = dir, clock.now }))
	if got := committed(t, c, "g", "t", 0); got != 3 {
		t.Errorf("after a restart %d, want 3", got)
	}
}

// TestResetWithMembers: members on-line are told, older commits do not undo
// the reset, pulls from elsewhere are moved, and a pull from the new position
// ends all that.
func TestResetWithMembers(t *testing.T) {
	b := startBroker(t, nil)
	member, stranger, admin := dial(t, b), dial(t, b), dial(t, b)
	admin.createTopic("t", 1)
	admin.sendMany("t", 0, 100)
	member.beat("m", "g", "t")
	member.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 0, 90), nil)
	held := member.start(remoting.ReqPullMessage, pullFields("g", "t", 0, 100, 30000), nil)
	strangerHeld := stranger.start(remoting.ReqPullMessage, pullFields("g", "t", 0, 100, 30000), nil)
	eventually(t, "both pulls are held", func() bool { return b.hold.count.Load() == 2 })

	var body remoting.ResetBody
	fromJSON(t, admin.ok(remoting.ReqTideResetOffsets, fields("group", "g", "topic", "t", "to", "offset", "value", 10), nil).Body, &body)
	if body.Told != 1 {
		t.Errorf("told %d members", body.Told)
	}
	n := member.notice(remoting.ReqResetConsumerClientOffset)
	if string(n.Body) != `{"offsetTable":{{"brokerName":"tidemq","queueId":0,"topic":"t"}:10}}` || n.Fields.Value("topic") != "t" || n.Fields.Value("group") != "g" || !n.IsOneway() {
		t.Errorf("notice %v %v %s", n, n.Fields, n.Body)
	}
	// Who was not told and waits at the old position is moved at once.
	if resp := await(t, strangerHeld); resp.Code != remoting.PullOffsetMoved || number64(t, resp, "nextBeginOffset") != 10 {
		t.Errorf("stranger's pull: %v next %s", resp, resp.Fields.Value("nextBeginOffset"))
	}
	// Older commits: alone, and on a pull.
	resp := member.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 0, 95), nil)
	if !strings.Contains(resp.Remark, "reset") {
		t.Errorf("remark %q", resp.Remark)
	}
	member.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 50, 0, "sysFlag", pullCommitOffset|pullSubscription, "commitOffset", 95), nil)
	if got := committed(t, member, "g", "t", 0); got != 10 {
		t.Errorf("an older commit moved the offset to %d", got)
	}
	// Another pull of who was not told is moved, too; the member still has time.
	stranger.want(remoting.PullOffsetMoved, remoting.ReqPullMessage, pullFields("g", "t", 0, 60, 0), nil)
	// Another group and another topic are not concerned.
	stranger.ok(remoting.ReqPullMessage, pullFields("h", "t", 0, 60, 0), nil)
	stranger.ok(remoting.ReqUpdateConsumerOffset, commitFields("h", "t", 0, 60), nil)
	if got := committed(t, stranger, "h", "t", 0); got != 60 {
		t.Errorf("another group's commit: %d", got)
	}

	member.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 10, 0), nil)
	member.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 0, 42), nil)
	if got := committed(t, member, "g", "t", 0); got != 42 {
		t.Errorf("a commit after the reset was followed: %d, want 42", got)
	}
	stranger.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 60, 0), nil)
	admin.send("t", 0, "", "new") // ends the member's old pull
	await(t, held)
}

// TestResetExpires: what nobody follows is forgotten, and a member that was
// told has its time.
func TestResetExpires(t *testing.T) {
	var r resets
	told, other := new(conn), new(conn)
	offsets := map[int32]int64{0: 10}
	start := time.Now()
	r.begin("g", "t", offsets, start)
	if _, moved := r.moved(other, "g", "t", 0, 50); moved {
		t.Error("moved before the reset was stored")
	}
	if !r.ignores("g", "t", 0, 50) || r.ignores("g", "t", 0, 10) || r.ignores("g", "t", 1, 50) {
		t.Error("ignores is wrong before the reset was stored")
	}
	r.stored("g", "t", offsets, []*conn{told}, start)
	if _, moved := r.moved(told, "g", "t", 0, 50); moved {
		t.Error("moved who was told just now")
	}
	r.stored("g", "t", offsets, []*conn{told}, start.Add(-resetGrace))
	if to, moved := r.moved(told, "g", "t", 0, 50); !moved || to != 10 {
		t.Error("not moved after its time")
	}
	r.expire(start.Add(resetLifetime + time.Second))
	if r.count.Load() != 0 || r.ignores("g", "t", 0, 50) {
		t.Error("not forgotten")
	}
	r.begin("g", "t", offsets, start)
	r.cancel("g", "t", offsets)
	if r.count.Load() != 0 {
		t.Error("not cancelled")
	}
	r.begin("g", "t", offsets, start.Add(-resetLifetime-time.Second))
	if r.ignores("g", "t", 0, 50) {
		t.Error("an expired reset ignores commits")
	}
}

// TestConsumeStats is field case F62: a table for what exists.
func TestConsumeStats(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	for _, topic := range []string{"t", "u"} {
		c.createTopic(topic, 1)
		c.sendMany(topic, 0, 10)
		c.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", topic, 0, 4), nil)
	}
	stored := c.pullAll("g", "t", 0, 10)[3].StoreTime
	row := func(topic string) string {
		return fmt.Sprintf(`{"brokerName":"tidemq","queueId":0,"topic":%q}:{"brokerOffset":10,"consumerOffset":4,"lastTimestamp":`, topic)
	}
	body := string(c.ok(remoting.ReqGetConsumeStats, fields("consumerGroup", "g"), nil).Body)
	if !strings.HasPrefix(body, `{"offsetTable":{`+row("t")+fmt.Sprint(stored)) || !strings.Contains(body, row("u")) {
		t.Errorf("body %s", body)
	}
	c.ok(remoting.ReqDeleteTopicInBroker, fields("topic", "u"), nil)
	body = string(c.ok(remoting.ReqGetConsumeStats, fields("consumerGroup", "g"), nil).Body)
	if !strings.Contains(body, row("t")) || strings.Contains(body, row("u")) {
		t.Errorf("after the deletion of u: %s", body)
	}
	if body := string(c.ok(remoting.ReqGetConsumeStats, fields("consumerGroup", "new"), nil).Body); body != `{"offsetTable":{},"consumeTps":0}` {
		t.Errorf("a group that never read: %s", body)
	}
	body = string(c.ok(remoting.ReqGetTopicStatsInfo, fields("topic", "t"), nil).Body)
	if !strings.HasPrefix(body, `{"offsetTable":{{"brokerName":"tidemq","queueId":0,"topic":"t"}:{"lastUpdateTimestamp":`) || !strings.HasSuffix(body, `,"maxOffset":10,"minOffset":0}}}`) {
		t.Errorf("topic stats %s", body)
	}
	if body := string(c.ok(remoting.ReqQueryTopicConsumeByWho, fields("topic", "t"), nil).Body); body != `{"groupList":["g"]}` {
		t.Errorf("groups of t: %s", body)
	}
}

// TestFirstCommitsInOrder: the last of a connection's commits counts, also
// while the first one's group is being created.
func TestFirstCommitsInOrder(t *testing.T) {
	const commits, groups = 50, 20
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	c.sendMany("t", 0, commits)
	for n := range groups {
		group := fmt.Sprint("g", n)
		var last chan *remoting.Command
		for offset := range int64(commits) {
			last = c.start(remoting.ReqUpdateConsumerOffset, commitFields(group, "t", 0, offset+1), nil)
		}
		if resp := await(t, last); resp.Code != remoting.Success {
			t.Fatal(resp)
		}
		if got := committed(t, c, group, "t", 0); got != commits {
			t.Errorf("%s: committed %d, want %d", group, got, commits)
		}
	}
}
