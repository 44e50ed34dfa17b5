package broker

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// fromFastjson decodes a body that may have objects as names.
func fromFastjson(t *testing.T, body []byte, v any) {
	t.Helper()
	if err := decodeJSON(body, v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
}

// TestKVConfigRequests: the name server's table, and what routes make of it.
func TestKVConfigRequests(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	c.createTopic("t", 2)
	c.want(remoting.QueryNotFound, remoting.ReqGetKVConfig, fields("namespace", "ORDER_TOPIC_CONFIG", "key", "t"), nil)
	c.want(remoting.QueryNotFound, remoting.ReqGetKVListByNamespace, fields("namespace", "ORDER_TOPIC_CONFIG"), nil)
	c.ok(remoting.ReqPutKVConfig, fields("namespace", "ORDER_TOPIC_CONFIG", "key", "t", "value", "tidemq:2"), nil)
	if v, _ := c.ok(remoting.ReqGetKVConfig, fields("namespace", "ORDER_TOPIC_CONFIG", "key", "t"), nil).Fields.Get("value"); v != "tidemq:2" {
		t.Errorf("value %q", v)
	}
	if body := string(c.ok(remoting.ReqGetKVListByNamespace, fields("namespace", "ORDER_TOPIC_CONFIG"), nil).Body); body != `{"table":{"t":"tidemq:2"}}` {
		t.Errorf("list %s", body)
	}
	order := func() string {
		var r routeData
		fromJSON(t, c.ok(remoting.ReqGetRouteInfoByTopic, fields("topic", "t"), nil).Body, &r)
		return r.OrderTopic
	}
	if got := order(); got != "tidemq:2" {
		t.Errorf("the route's order configuration is %q", got)
	}
	c.ok(remoting.ReqUpdateNamesrvConfig, nil, []byte("orderMessageEnable=false\n"))
	if got := order(); got != "" {
		t.Errorf("order configuration %q while it is switched off", got)
	}
	c.ok(remoting.ReqDeleteKVConfig, fields("namespace", "ORDER_TOPIC_CONFIG", "key", "t"), nil)
	c.ok(remoting.ReqDeleteKVConfig, fields("namespace", "ORDER_TOPIC_CONFIG", "key", "t"), nil)
	c.want(remoting.QueryNotFound, remoting.ReqGetKVConfig, fields("namespace", "ORDER_TOPIC_CONFIG", "key", "t"), nil)
	c.want(remoting.InvalidParameter, remoting.ReqPutKVConfig, fields("namespace", "n", "key", strings.Repeat("k", 256), "value", "v"), nil)
	c.want(remoting.InvalidParameter, remoting.ReqPutKVConfig, fields("namespace", "n", "key", "k", "value", strings.Repeat("v", 32769)), nil)
	c.want(remoting.InvalidParameter, remoting.ReqPutKVConfig, fields("key", "k", "value", "v"), nil)
	for _, code := range []int{remoting.ReqPutKVConfig, remoting.ReqGetKVConfig, remoting.ReqDeleteKVConfig, remoting.ReqGetKVListByNamespace} {
		c.want(remoting.NoPermission, code, fields("namespace", changedNamespace, "key", "maxMessageSize", "value", "x"), nil)
	}
}

// TestWritePerm: routes without the permission to write, and with it again.
func TestWritePerm(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	perm := func() int32 {
		var r routeData
		fromJSON(t, c.ok(remoting.ReqGetRouteInfoByTopic, fields("topic", "t"), nil).Body, &r)
		return r.Queues[0].Perm
	}
	for _, step := range []struct {
		code   int
		broker string
		key    string
		all    bool
		perm   int32
	}{
		{remoting.ReqWipeWritePermOfBroker, "another", "wipeTopicCount", false, 6},
		{remoting.ReqWipeWritePermOfBroker, "tidemq", "wipeTopicCount", true, 4},
		{remoting.ReqAddWritePermOfBroker, "tidemq", "addTopicCount", true, 6},
	} {
		n := number64(t, c.ok(step.code, fields("brokerName", step.broker), nil), step.key)
		if (n > 0) != step.all || perm() != step.perm {
			t.Errorf("%s of %s: %d topics, perm %d", remoting.RequestName(step.code), step.broker, n, perm())
		}
	}
}

// TestUpdateBrokerConfig: what can change does, durably; the rest is refused by
// name, and nothing of a body that has a fault is taken.
func TestUpdateBrokerConfig(t *testing.T) {
	dir := t.TempDir()
	open := func(tune func(*Options)) (*Broker, *rawClient) {
		b := startBroker(t, func(o *Options) {
			o.Dir, o.DelayLevels = dir, "1s 5s 10s 30s"
			if tune != nil {
				tune(o)
			}
		})
		return b, dial(t, b)
	}
	b, c := open(nil)
	config := func() map[string]string {
		m := map[string]string{}
		for line := range strings.Lines(string(c.ok(remoting.ReqGetBrokerConfig, nil, nil).Body)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			m[k] = v
		}
		return m
	}
	before := config()
	for body, want := range map[string]struct {
		code int
		text string
	}{
		"maxMessageSize=100\nbrokerName=other\n": {remoting.NoPermission, "brokerName=other"},
		"maxMessageSize=100\nnoSuchKey=1\n":      {remoting.InvalidParameter, "noSuchKey=1"},
		"maxMessageSize=0\n":                     {remoting.InvalidParameter, "1 to 15728640"},
		"defaultTopicQueueNums=8193\n":           {remoting.InvalidParameter, "1 to 8192"},
		"autoCreateTopicEnable=maybe\n":          {remoting.InvalidParameter, "true and false"},
		"messageDelayLevel=1s 5s 10s 30s 1m\n":   {remoting.NoPermission, "messageDelayLevel=1s 5s 10s 30s 1m"},
		"":                                       {remoting.InvalidParameter, "no key"},
	} {
		if resp := c.want(want.code, remoting.ReqUpdateBrokerConfig, nil, []byte(body)); !strings.Contains(resp.Remark, want.text) {
			t.Errorf("%q: remark %q, want %q in it", body, resp.Remark, want.text)
		}
	}
	if after := config(); !maps.Equal(before, after) {
		t.Errorf("refused changes changed %v to %v", before, after)
	}
	// A value with blanks that is in force already is no change.
	c.ok(remoting.ReqUpdateBrokerConfig, nil, []byte("messageDelayLevel=1s 5s 10s 30s\n"))
	c.ok(remoting.ReqUpdateBrokerConfig, nil, []byte("maxMessageSize=100\nautoCreateTopicEnable=false\ndefaultTopicQueueNums=3\n"))
	c.createTopic("t", 1)
	c.want(remoting.MessageIllegal, remoting.ReqSendMessageV2, sendFields("t", 0, ""), make([]byte, 101))
	c.ok(remoting.ReqSendMessageV2, sendFields("t", 0, ""), make([]byte, 100))
	c.want(remoting.TopicNotExist, remoting.ReqSendMessageV2, sendFields("new", 0, ""), nil)

	restart := func(tune func(*Options)) {
		c.close()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b, c = open(tune)
	}
	restart(nil)
	if got := config(); got["maxMessageSize"] != "100" || got["autoCreateTopicEnable"] != "false" || got["defaultTopicQueueNums"] != "3" {
		t.Errorf("after a start: %v", got)
	}
	// The configuration was changed since: it counts.
	restart(func(o *Options) { o.MaxMessageSize = 200 })
	if got := config(); got["maxMessageSize"] != "200" || got["defaultTopicQueueNums"] != "3" {
		t.Errorf("after a start with another configuration: %v", got)
	}
	c.ok(remoting.ReqUpdateBrokerConfig, nil, []byte("defaultTopicQueueNums=8\n"))
	if kept := b.store.KVConfigs(changedNamespace); kept["defaultTopicQueueNums"] != "" {
		t.Errorf("a setting that is as configured is kept: %v", kept)
	}
}

// TestRuntimeInfo: what exporter, dashboard and mqadmin parse is there, and
// counts.
func TestRuntimeInfo(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1m 2m" })
	c := dial(t, b)
	c.createTopic("t", 1)
	for range 3 {
		c.send("t", 0, "", "0123456789")
	}
	c.send("t", 0, props("DELAY", "2"), "later")
	c.pullAll("g", "t", 0, 3)
	c.want(remoting.RequestCodeNotSupported, 3001, nil, nil)
	c.want(remoting.RequestCodeNotSupported, 77777, nil, nil)
	c.want(remoting.RequestCodeNotSupported, 77777, nil, nil)
	var body struct {
		Table map[string]string `json:"table"`
	}
	fromJSON(t, c.ok(remoting.ReqGetBrokerRuntimeInfo, nil, nil).Body, &body)
	for key, want := range map[string]string{
		"msgPutTotalTodayNow": "4", "msgGetTotalTodayNow": "3", "putMessageTimesTotal": "4", "putMessageFailedTimes": "0", "brokerActive": "true",
		"scheduleMessageOffset_1": "0,0", "scheduleMessageOffset_2": "0,1", "timerCongestNum": "1", "sendThreadPoolQueueSize": "0",
		"requestsNotSupported": "3", "requestsNotSupported_3001": "1", "requestsNotSupported_77777": "2", "commitLogMinOffset": "0",
		"brokerVersionDesc": "V5_5_0", "brokerVersion": "513",
	} {
		if got := body.Table[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{
		"putTps", "getMissTps", "getFoundTps", "getTotalTps", "getTransferredTps", "putMessageDistributeTime", "commitLogDirCapacity", "remainHowManyDataToFlush",
		"runtime", "bootTimestamp", "commitLogDiskRatio", "consumeQueueDiskRatio", "commitLogMaxOffset", "earliestMessageTimeStamp", "putMessageAverageSize",
		"queryThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueCapacity", "dispatchMaxBuffer", "pageCacheLockTimeMills", "putLatency99", "putLatency999",
	} {
		if body.Table[key] == "" {
			t.Errorf("%s is missing", key)
		}
	}
	type window struct{ Sum int64 }
	var stats struct{ StatsMinute, StatsHour, StatsDay window }
	for _, k := range []struct {
		name, key string
		sum       int64
	}{{"TOPIC_PUT_NUMS", "t", 3}, {"TOPIC_PUT_NUMS", message.ScheduleTopic, 1}, {"GROUP_GET_NUMS", "t@g", 3}, {"BROKER_PUT_NUMS", "DefaultCluster", 4}, {"BROKER_GET_NUMS", "DefaultCluster", 3}} {
		fromJSON(t, c.ok(remoting.ReqViewBrokerStatsData, fields("statsName", k.name, "statsKey", k.key), nil).Body, &stats)
		if stats.StatsMinute.Sum != k.sum || stats.StatsHour.Sum != k.sum || stats.StatsDay.Sum != k.sum {
			t.Errorf("%s %s: %+v, want %d", k.name, k.key, stats, k.sum)
		}
	}
	fromJSON(t, c.ok(remoting.ReqViewBrokerStatsData, fields("statsName", "TOPIC_PUT_SIZE", "statsKey", "t"), nil).Body, &stats)
	if stats.StatsDay.Sum < 30 {
		t.Errorf("bytes put: %+v", stats)
	}
	for _, k := range [][2]string{{"TOPIC_PUT_NUMS", "nowhere"}, {"NO_SUCH", "t"}, {"BROKER_PUT_NUMS", "elsewhere"}} {
		c.want(remoting.SystemError, remoting.ReqViewBrokerStatsData, fields("statsName", k[0], "statsKey", k[1]), nil)
	}
	c.ok(remoting.ReqDeleteTopicInBroker, fields("topic", "t"), nil)
	c.want(remoting.SystemError, remoting.ReqViewBrokerStatsData, fields("statsName", "GROUP_GET_NUMS", "statsKey", "t@g"), nil)
}

// TestWhyNot: every code of RocketMQ that is not served says what it is and
// why not.
func TestWhyNot(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	for _, code := range []int{103, 104, 322, 904, 902, 903, 908, 513, 354, 355, 60, 5001, 301, 1002, 1005, 1007, 1013, 2001, 2004, 3001, 3010, 200074, 200079} {
		resp := c.want(remoting.RequestCodeNotSupported, code, nil, nil)
		if want := fmt.Sprintf("%s (%d) is not supported: ", remoting.RequestName(code), code); !strings.HasPrefix(resp.Remark, want) {
			t.Errorf("%d: remark %q, want %q…", code, resp.Remark, want)
		}
	}
	for code := 100000; code < 100200; code++ { // more codes than are counted each
		c.want(remoting.RequestCodeNotSupported, code, nil, nil)
	}
	n := 0
	if sum := b.stats.unsupported.each(func(int, int64) { n++ }); sum != 223 || n != maxCodes+1 {
		t.Errorf("%d requests of %d codes counted", sum, n)
	}
}

// TestGroupOffsetsOfTools: bodies whose names are queues, and what changes
// offsets.
func TestGroupOffsetsOfTools(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 2)
	for range 4 {
		c.send("t", 0, props("TAGS", "a"), "m")
	}
	c.ok(remoting.ReqUpdateConsumerOffset, fields("consumerGroup", "g", "topic", "t", "queueId", 0, "commitOffset", 3), nil)
	type wrapper struct{ BrokerOffset, ConsumerOffset, LastTimestamp, PullOffset int64 }
	type consumeStats struct {
		OffsetTable map[string]wrapper
		ConsumeTps  *float64
	}
	queue := `{"brokerName":"tidemq","queueId":0,"topic":"t"}`
	var stats consumeStats
	fromFastjson(t, c.ok(remoting.ReqGetConsumeStats, fields("consumerGroup", "g"), nil).Body, &stats)
	if got := stats.OffsetTable[queue]; got.BrokerOffset != 4 || got.ConsumerOffset != 3 || got.LastTimestamp == 0 || len(stats.OffsetTable) != 2 || stats.ConsumeTps == nil {
		t.Errorf("stats %+v", stats)
	}
	var all struct {
		ConsumeStatsList []map[string][]consumeStats
		TotalDiff        int64
	}
	fromFastjson(t, c.ok(remoting.ReqGetBrokerConsumeStats, fields("isOrder", "false"), nil).Body, &all)
	if all.TotalDiff != 1 || len(all.ConsumeStatsList) != 1 || len(all.ConsumeStatsList[0]["g"]) != 1 || all.ConsumeStatsList[0]["g"][0].OffsetTable[queue].ConsumerOffset != 3 {
		t.Errorf("all groups %+v", all)
	}
	fromFastjson(t, c.ok(remoting.ReqGetBrokerConsumeStats, fields("isOrder", "true"), nil).Body, &all)
	if len(all.ConsumeStatsList[0]["g"]) != 0 {
		t.Errorf("ordered topics %+v", all)
	}
	var span struct {
		ConsumeTimeSpanSet []struct {
			MessageQueue                                            struct{ QueueID int32 }
			MinTimeStamp, MaxTimeStamp, ConsumeTimeStamp, DelayTime int64
		}
	}
	fromJSON(t, c.ok(remoting.ReqQueryConsumeTimeSpan, fields("topic", "t", "group", "g"), nil).Body, &span)
	if s := span.ConsumeTimeSpanSet; len(s) != 2 || s[0].MinTimeStamp <= 0 || s[0].ConsumeTimeStamp < s[0].MinTimeStamp || s[0].MaxTimeStamp < s[0].ConsumeTimeStamp || s[1].MinTimeStamp != -1 {
		t.Errorf("time spans %+v", s)
	}

	c.ok(remoting.ReqCloneGroupOffset, fields("srcGroup", "g", "destGroup", "copy", "topic", "", "offline", "true"), nil)
	if at, ok := b.store.Offset("copy", "t", 0); at != 3 || !ok {
		t.Errorf("cloned offset %d, %v", at, ok)
	}
	var table struct{ OffsetTable map[string]map[string]int64 }
	fromFastjson(t, c.ok(remoting.ReqGetAllConsumerOffset, nil, nil).Body, &table)
	if table.OffsetTable["t@g"]["0"] != 3 || table.OffsetTable["t@copy"]["0"] != 3 {
		t.Errorf("all offsets %+v", table)
	}
	var topics topicList
	fromJSON(t, c.ok(remoting.ReqQueryTopicsByConsumer, fields("group", "copy"), nil).Body, &topics)
	if len(topics.Topics) != 1 || topics.Topics[0] != "t" {
		t.Errorf("topics %v", topics)
	}
	c.ok(remoting.ReqUpdateConsumerOffset, fields("consumerGroup", "behind", "topic", "t", "queueId", 0, "commitOffset", 1), nil)
	var correction struct{ CorrectionOffsets map[string]int64 }
	fromJSON(t, c.ok(remoting.ReqQueryCorrectionOffset, fields("topic", "t", "compareGroup", "g", "filterGroups", ""), nil).Body, &correction)
	if correction.CorrectionOffsets["0"] != 1 {
		t.Errorf("correction %+v", correction)
	}
	fromJSON(t, c.ok(remoting.ReqQueryCorrectionOffset, fields("topic", "t", "compareGroup", "behind", "filterGroups", "behind"), nil).Body, &correction)
	if correction.CorrectionOffsets["0"] != 1<<63-1 {
		t.Errorf("correction without the group that is behind %+v", correction)
	}

	var queues struct {
		QueueData                    []struct{ PhysicOffset, PhysicSize, TagsCode int64 }
		MaxQueueIndex, MinQueueIndex int64
	}
	fromJSON(t, c.ok(remoting.ReqQueryConsumeQueue, fields("topic", "t", "queueId", 0, "index", 1, "count", 2), nil).Body, &queues)
	if len(queues.QueueData) != 2 || queues.MaxQueueIndex != 4 || queues.QueueData[0].TagsCode != message.TagsCode("a") || queues.QueueData[0].PhysicOffset >= queues.QueueData[1].PhysicOffset {
		t.Errorf("queue %+v", queues)
	}
	c.want(remoting.InvalidParameter, remoting.ReqQueryConsumeQueue, fields("topic", "t", "queueId", 0, "index", 0, "count", 1025), nil)
	if resp := c.ok(remoting.ReqQueryConsumeQueue, fields("topic", "t", "queueId", 0, "index", 4, "count", 1), nil); len(resp.Body) != 0 || resp.Remark == "" {
		t.Errorf("an index beyond the end: %v", resp)
	}
}

// TestConsumerStatus: members are asked, and what they say in fastjson's form
// is passed on in it.
func TestConsumerStatus(t *testing.T) {
	b := startBroker(t, nil)
	c, member := dial(t, b), dial(t, b)
	c.want(remoting.SystemError, remoting.ReqInvokeBrokerToGetConsumerStatus, fields("topic", "t", "group", "g", "clientAddr", ""), nil)
	member.ok(remoting.ReqHeartBeat, nil, []byte(`{"clientID":"m1","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"t","subString":"*","subVersion":1}]}]}`))
	answer := c.start(remoting.ReqInvokeBrokerToGetConsumerStatus, fields("topic", "t", "group", "g", "clientAddr", ""), nil)
	for {
		var ask *remoting.Command
		select {
		case ask = <-member.notices:
		case <-time.After(answerLimit):
			t.Fatal("the member was not asked")
		}
		if ask.Code != remoting.ReqGetConsumerStatusFromClient {
			continue
		}
		resp := ask.Reply(remoting.Success, "")
		resp.Body = []byte(`{"consumerTable":{},"messageQueueTable":{{"brokerName":"tidemq","queueId":1,"topic":"t"}:7}}`)
		member.put(resp)
		break
	}
	want := `{"consumerTable":{"m1":{{"brokerName":"tidemq","queueId":1,"topic":"t"}:7}},"messageQueueTable":{}}`
	if got := string(await(t, answer).Body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestListsOfTopicsAndGroups: all of a list or, when one is refused, none.
func TestListsOfTopicsAndGroups(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.ok(remoting.ReqUpdateAndCreateTopicList, nil, []byte(`{"topicConfigList":[{"topicName":"a","readQueueNums":3,"writeQueueNums":2,"perm":6,"attributes":{"+message.type":"DELAY"}},{"topicName":"b"}]}`))
	if a, b := b.tables.topic("a"), b.tables.topic("b"); a == nil || b == nil || a.ReadQueues != 3 || a.Attributes["message.type"] != "DELAY" || b.WriteQueues != DefaultTopicQueues {
		t.Errorf("topics %+v, %+v", a, b)
	}
	c.want(remoting.InvalidParameter, remoting.ReqUpdateAndCreateTopicList, nil, []byte(`{"topicConfigList":[{"topicName":"c"},{"topicName":"TBW102"}]}`))
	c.ok(remoting.ReqUpdateAndCreateSubscriptionGroupList, nil, []byte(`{"groupConfigList":[{"groupName":"g1","retryMaxTimes":3},{"groupName":"g2"}]}`))
	c.want(remoting.InvalidParameter, remoting.ReqUpdateAndCreateSubscriptionGroupList, nil, []byte(`{"groupConfigList":[{"groupName":"g3"},{"groupName":"a b"}]}`))
	if b.tables.topic("c") != nil || b.tables.group("g3") != nil || b.tables.group("g2") == nil || b.tables.group("g1").RetryMaxTimes != 3 {
		t.Error("a list with a fault was taken in part, or a good one not")
	}
	var topics topicList
	fromJSON(t, c.ok(remoting.ReqGetSystemTopicListFromNS, nil, nil).Body, &topics)
	if topics.Addr != b.Addr() {
		t.Errorf("the broker to ask for system topics is %q", topics.Addr)
	}
	fromJSON(t, c.ok(remoting.ReqGetSystemTopicListFromBroker, nil, nil).Body, &topics)
	for _, name := range topics.Topics {
		if !message.IsSystemTopic(name) {
			t.Errorf("%s is no system topic", name)
		}
	}
	c.ok(remoting.ReqUpdateAndCreateTopic, fields("topic", "unit", "readQueueNums", 1, "writeQueueNums", 1, "perm", 6, "topicSysFlag", 2), nil)
	for code, want := range map[int]int{remoting.ReqGetUnitTopicList: 0, remoting.ReqGetHasUnitSubTopicList: 1, remoting.ReqGetHasUnitSubUnunitTopicList: 1} {
		fromJSON(t, c.ok(code, nil, nil).Body, &topics)
		if len(topics.Topics) != want {
			t.Errorf("%s: %v", remoting.RequestName(code), topics.Topics)
		}
	}
	if body := string(c.ok(remoting.ReqGetBrokerHAStatus, nil, nil).Body); !strings.Contains(body, `"master":true`) {
		t.Errorf("HA status %s", body)
	}
	for _, code := range []int{remoting.ReqCleanExpiredConsumeQueue, remoting.ReqCleanUnusedTopic} {
		c.ok(code, nil, nil)
	}
}
