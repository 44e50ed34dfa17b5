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

func idsOf(t *testing.T, c *rawClient, group string) []string {
	t.Helper()
	resp := c.call(remoting.ReqGetConsumerListByGroup, fields("consumerGroup", group), nil)
	if resp.Code == remoting.SystemError {
		return nil
	}
	var body struct{ ConsumerIDList []string }
	fromJSON(t, resp.Body, &body)
	return body.ConsumerIDList
}

// TestMembers: two members see the same list, and are told of each change.
func TestMembers(t *testing.T) {
	b := startBroker(t, nil)
	asks := dial(t, b)
	one, two := dial(t, b), dial(t, b)
	if got := idsOf(t, asks, "g"); got != nil {
		t.Errorf("members before the first heartbeat: %v", got)
	}
	one.beat("z-one", "g", "t")
	if n := one.notice(remoting.ReqNotifyConsumerIDsChanged); n.Fields.Value("consumerGroup") != "g" || !n.IsOneway() {
		t.Errorf("notice %v %v", n, n.Fields)
	}
	two.beat("a-two", "g", "t")
	one.notice(remoting.ReqNotifyConsumerIDsChanged)
	two.notice(remoting.ReqNotifyConsumerIDsChanged)
	for _, c := range []*rawClient{asks, one, two} {
		if got := idsOf(t, c, "g"); !slices.Equal(got, []string{"a-two", "z-one"}) {
			t.Errorf("members %v", got)
		}
	}
	one.beat("z-one", "g", "t") // nothing changed: nobody is told
	// The same client on a second connection is still one member.
	again := dial(t, b)
	again.beat("z-one", "g", "t")
	one.notice(remoting.ReqNotifyConsumerIDsChanged)
	two.notice(remoting.ReqNotifyConsumerIDsChanged)
	if got := idsOf(t, asks, "g"); !slices.Equal(got, []string{"a-two", "z-one"}) {
		t.Errorf("members %v", got)
	}
	again.close()
	one.notice(remoting.ReqNotifyConsumerIDsChanged)
	two.notice(remoting.ReqNotifyConsumerIDsChanged)
	// A new subscription tells everybody; so does leaving, by word or by death.
	two.beat("a-two", "g", "t", "u")
	one.notice(remoting.ReqNotifyConsumerIDsChanged)
	two.notice(remoting.ReqNotifyConsumerIDsChanged)
	one.ok(remoting.ReqUnregisterClient, fields("clientID", "z-one", "consumerGroup", "g"), nil)
	two.notice(remoting.ReqNotifyConsumerIDsChanged)
	if got := idsOf(t, asks, "g"); !slices.Equal(got, []string{"a-two"}) {
		t.Errorf("members %v", got)
	}
	one.beat("z-one", "g", "t", "u")
	two.notice(remoting.ReqNotifyConsumerIDsChanged)
	two.close()
	one.notice(remoting.ReqNotifyConsumerIDsChanged) // its own joining
	one.notice(remoting.ReqNotifyConsumerIDsChanged)
	eventually(t, "the dead member is gone", func() bool { return slices.Equal(idsOf(t, asks, "g"), []string{"z-one"}) })
	select {
	case n := <-one.notices:
		t.Errorf("one notice too many: %v", n)
	default:
	}
}

// TestHeartbeatRecords: a group and its retry topic come with the first
// heartbeat; a route request finds the retry topic before.
func TestHeartbeatRecords(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	retry := message.RetryTopic("g")
	if n := queuesOf(t, c, retry); n != 1 {
		t.Errorf("retry topic has %d queues", n)
	}
	if slices.Contains(b.tables.topicNames(), retry) {
		t.Error("a route request recorded the retry topic")
	}
	// A pull may be held there before it is recorded.
	held := c.start(remoting.ReqPullMessage, pullFields("g", retry, 0, 0, 15000), nil)
	c.beat("id", "g", "t")
	if !slices.Contains(b.tables.topicNames(), retry) || b.tables.group("g") == nil {
		t.Error("the heartbeat did not record group and retry topic")
	}
	c.send(retry, 0, "", "retry")
	if got := records(t, await(t, held)); len(got) != 1 {
		t.Errorf("got %d messages", len(got))
	}
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, func(o *Options) { o.Dir = dir })
	if b.tables.topic(retry) == nil || b.tables.group("g") == nil {
		t.Error("group or retry topic did not survive a restart")
	}
}

// TestHeartbeatForms: what clients of other languages send.
func TestHeartbeatForms(t *testing.T) {
	b := startBroker(t, nil)
	for i, test := range []struct {
		name, body string
		topics     []string
		tags       []string
	}{
		{"Java", `{"clientID":"c","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[97,-3],"expressionType":"TAG","subString":"a || b","subVersion":1700000000001,"tagsSet":["a","b"],"topic":"t"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}`, []string{"t"}, []string{"a", "b"}},
		{"Go", `{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"t","subString":"a","tagsSet":["a"],"codeSet":["97"],"subVersion":1700000000001,"expressionType":"TAG"}],"unitMode":false}]}`, []string{"t"}, []string{"a"}},
		{"text for numbers", `{"clientID":"c","consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"t","tagsSet":["x"],"subVersion":"12","expressionType":"TAG"}]}]}`, []string{"t"}, []string{"x"}},
		{"everything", `{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"t","subString":"*","subVersion":1}]}]}`, []string{"t"}, []string{}},
		{"filter class", `{"clientID":"c","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"t","classFilterMode":true,"subString":"org.example.Filter","subVersion":1}]}]}`, []string{"t"}, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, b)
			group := fmt.Sprint("g", i)
			c.ok(remoting.ReqHeartBeat, nil, []byte(strings.ReplaceAll(test.body, `"G"`, `"`+group+`"`)))
			var body struct {
				ConnectionSet     []connectionJSON
				SubscriptionTable map[string]subscriptionJSON
			}
			fromJSON(t, c.ok(remoting.ReqGetConsumerConnectionList, fields("consumerGroup", group), nil).Body, &body)
			if len(body.ConnectionSet) != 1 || body.ConnectionSet[0].ClientID != "c" || body.ConnectionSet[0].Language != "JAVA" {
				t.Errorf("connections %+v", body.ConnectionSet)
			}
			for _, topic := range test.topics {
				if got := body.SubscriptionTable[topic]; !slices.Equal(got.TagsSet, test.tags) {
					t.Errorf("tags of %s: %v, want %v", topic, got.TagsSet, test.tags)
				}
			}
		})
	}
}

// TestSubscriptionOfGroup: a pull without a subscription uses the group's.
func TestSubscriptionOfGroup(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.send("t", 0, props("TAGS", "red"), "r")
	c.send("t", 0, props("TAGS", "blue"), "b")
	pull := func(want int, more ...any) *remoting.Command {
		t.Helper()
		return c.want(want, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, append([]any{"sysFlag", 0}, more...)...), nil)
	}
	// Before the first heartbeat, and while it is older than the pull, the
	// client gets everything: it compares the tags itself.
	all := func(more ...any) {
		t.Helper()
		if got := records(t, pull(remoting.Success, more...)); len(got) != 2 {
			t.Errorf("%v: got %v", more, got)
		}
	}
	all()
	beat := func(sub string, version int) {
		t.Helper()
		c.ok(remoting.ReqHeartBeat, nil, fmt.Appendf(nil, `{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"t","subString":%q,"subVersion":%d,"expressionType":"TAG"}]}]}`, sub, version))
	}
	beat("blue", 5)
	if got := records(t, pull(remoting.Success)); len(got) != 1 || string(got[0].Body) != "b" {
		t.Errorf("got %v", got)
	}
	all("subVersion", 6)
	pull(remoting.PullNotFound, "topic", message.RetryTopic("g"))
	beat("red", 4) // older: ignored
	if got := records(t, pull(remoting.Success)); string(got[0].Body) != "b" {
		t.Errorf("an older subscription replaced a newer one: %v", got)
	}
	beat("red", 6)
	if got := records(t, pull(remoting.Success)); string(got[0].Body) != "r" {
		t.Errorf("got %v", got)
	}
}

// TestQueueLocks: one member of a group locks a queue, until it unlocks or the
// lock expires.
func TestQueueLocks(t *testing.T) {
	var l queueLocks
	q := func(ids ...int32) []queueName {
		var list []queueName
		for _, id := range ids {
			list = append(list, queueName{"t", "b", id})
		}
		return list
	}
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		after  time.Duration
		client string
		ask    []queueName
		got    []queueName
	}{
		{0, "a", q(0, 1), q(0, 1)},
		{0, "b", q(1, 2), q(2)},
		{0, "a", q(0, 1), q(0, 1)},
		{59 * time.Second, "a", q(0), q(0)},                   // renews 0, not 1
		{2 * time.Second, "b", q(0, 1), q(1)},                 // 1 expired
		{0, "a", q(1), []queueName{}},                         //
		{61 * time.Second, "c", q(0, 1, 2, 3), q(0, 1, 2, 3)}, // all expired
	} {
		now = now.Add(step.after)
		if got := l.lock("g", step.client, step.ask, now); !slices.Equal(got, step.got) {
			t.Errorf("step %d: %s got %v, want %v", i, step.client, got, step.got)
		}
	}
	if got := l.lock("other", "a", q(0), now); len(got) != 1 {
		t.Error("locks of one group keep another out")
	}
	l.unlock("g", "a", q(0)) // not its own
	if got := l.lock("g", "a", q(0), now); len(got) != 0 {
		t.Error("unlocked what another holds")
	}
	l.unlock("g", "c", q(0))
	if got := l.lock("g", "a", q(0), now); len(got) != 1 {
		t.Error("not unlocked")
	}
	if !l.ordered("g", now) || l.ordered("nobody", now) || l.ordered("g", now.Add(2*lockLifetime)) {
		t.Error("ordered is wrong")
	}
	l.expire(now.Add(2 * lockLifetime))
	if len(l.groups) != 0 {
		t.Errorf("expired locks are kept: %v", l.groups)
	}
}

// TestLockRequests: the same over the wire.
func TestLockRequests(t *testing.T) {
	b := startBroker(t, nil)
	one, two := dial(t, b), dial(t, b)
	lock := func(c *rawClient, id string) []queueName {
		t.Helper()
		var body struct{ LockOKMQSet []queueName }
		fromJSON(t, c.ok(remoting.ReqLockBatchMQ, nil, []byte(`{"clientId":"`+id+`","consumerGroup":"g","mqSet":[{"brokerName":"tidemq","queueId":3,"topic":"t"}],"onlyThisBroker":false}`)).Body, &body)
		return body.LockOKMQSet
	}
	if got := lock(one, "one"); !slices.Equal(got, []queueName{{"t", "tidemq", 3}}) {
		t.Errorf("got %v", got)
	}
	if got := lock(two, "two"); len(got) != 0 {
		t.Errorf("two got %v", got)
	}
	one.ok(remoting.ReqUnlockBatchMQ, nil, asJSON(t, lockBody{"g", "one", []queueName{{"t", "tidemq", 3}}}))
	if got := lock(two, "two"); len(got) != 1 {
		t.Errorf("two got %v after the unlock", got)
	}
	one.want(remoting.InvalidParameter, remoting.ReqLockBatchMQ, nil, []byte(`{"consumerGroup":"g","mqSet":[]}`))
}

// TestSilentClients: who sends no heartbeat for too long loses the connection.
func TestSilentClients(t *testing.T) {
	var r registry
	early, late := new(conn), new(conn)
	at := time.Unix(1000, 0)
	r.joinConsumer("g", "", "", "", &clientInfo{id: "early", conn: early, seen: at}, nil, 0)
	r.joinProducer("p", &clientInfo{id: "early", conn: early, seen: at})
	r.joinConsumer("g", "", "", "", &clientInfo{id: "late", conn: late, seen: at.Add(time.Minute)}, nil, 0)
	if got := r.silent(at.Add(time.Second)); !slices.Equal(got, []*conn{early}) {
		t.Errorf("silent: %v", got)
	}
	if got := r.gone(early); len(got) != 1 || !slices.Equal(got[0].conns, []*conn{late}) {
		t.Errorf("told: %v", got)
	}
	// A heartbeat that was still in hand must not bring it back.
	r.joinConsumer("g", "", "", "", &clientInfo{id: "early", conn: early, seen: at}, nil, 0)
	r.joinProducer("p", &clientInfo{id: "early", conn: early, seen: at})
	if got := r.clientIDs("g"); !slices.Equal(got, []string{"late"}) || len(r.producerGroup("p")) != 0 {
		t.Errorf("members %v", got)
	}
}

// TestRelay: administrators ask clients by way of the broker.
func TestRelay(t *testing.T) {
	b := startBroker(t, nil)
	admin, client := dial(t, b), dial(t, b)
	client.beat("c1", "g", "t")
	ask := fields("consumerGroup", "g", "clientId", "c1", "jstackEnable", "false")
	answer := admin.start(remoting.ReqGetConsumerRunningInfo, ask, nil)
	req := client.notice(remoting.ReqGetConsumerRunningInfo)
	if req.IsOneway() || req.Fields.Value("clientId") != "c1" {
		t.Errorf("asked %v %v", req, req.Fields)
	}
	resp := req.Reply(0, "")
	resp.Body = []byte(`{"properties":{}}`)
	client.put(resp)
	if got := await(t, answer); got.Code != 0 || string(got.Body) != `{"properties":{}}` {
		t.Errorf("got %v %q", got, got.Body)
	}
	admin.want(remoting.SystemError, remoting.ReqGetConsumerRunningInfo, fields("consumerGroup", "g", "clientId", "c2"), nil)

	sent := admin.send("t", 0, "", "try this")
	answer = admin.start(remoting.ReqConsumeMessageDirectly, fields("consumerGroup", "g", "clientId", "c1", "msgId", sent.Fields.Value("msgId")), nil)
	req = client.notice(remoting.ReqConsumeMessageDirectly)
	if m := records(t, req); len(m) != 1 || string(m[0].Body) != "try this" || req.Fields.Value("brokerName") != "tidemq" {
		t.Errorf("handed %v %v", m, req.Fields)
	}
	client.close() // dies without an answer
	if got := await(t, answer); got.Code != remoting.SystemError {
		t.Errorf("got %v", got)
	}
}
