package broker

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// TestAdminTables: settings of topics and groups, as tools read them.
func TestAdminTables(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s 5s 10s 30s"; o.BrokerID = 3 })
	c := dial(t, b)
	c.ok(remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "readQueueNums", 3, "writeQueueNums", 2, "perm", 6, "order", "true", "attributes", "+message.type=DELAY,+x=1"), nil)
	c.ok(remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "readQueueNums", 3, "writeQueueNums", 4, "perm", 6, "attributes", "-x"), nil)
	want := `{"attributes":{"message.type":"DELAY"},"order":false,"perm":6,"readQueueNums":3,"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4}`
	if body := string(c.ok(remoting.ReqGetTopicConfig, fields("topic", "t"), nil).Body); body != want {
		t.Errorf("topic %s, want %s", body, want)
	}
	if body := string(c.ok(remoting.ReqGetAllTopicConfig, nil, nil).Body); !strings.Contains(body, `"topicConfigTable":{"t":`+want) {
		t.Errorf("topics %s", body)
	}
	c.ok(remoting.ReqUpdateAndCreateSubscriptionGroup, nil, []byte(`{"groupName":"g","retryQueueNums":2,"retryMaxTimes":5,"attributes":{"+k":"v"}}`))
	want = `{"attributes":{"k":"v"},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"groupName":"g","notifyConsumerIdsChangedEnable":true,"retryMaxTimes":5,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":1}`
	if body := string(c.ok(remoting.ReqGetSubscriptionGroupConfig, fields("group", "g"), nil).Body); body != want {
		t.Errorf("group %s, want %s", body, want)
	}
	if body := string(c.ok(remoting.ReqGetAllSubscriptionGroupConfig, nil, nil).Body); !strings.Contains(body, `"subscriptionGroupTable":{"g":`+want) {
		t.Errorf("groups %s", body)
	}
	if n := queuesOf(t, c, message.RetryTopic("g")); n != 2 {
		t.Errorf("retry topic has %d queues", n)
	}
	c.ok(remoting.ReqDeleteSubscriptionGroup, fields("groupName", "g", "cleanOffset", "true"), nil)
	c.want(remoting.SubscriptionGroupNotExist, remoting.ReqGetSubscriptionGroupConfig, fields("group", "g"), nil)
	c.want(remoting.InvalidParameter, remoting.ReqUpdateAndCreateSubscriptionGroup, nil, []byte(`{"groupName":"a b"}`))
	config := string(c.ok(remoting.ReqGetBrokerConfig, nil, nil).Body)
	for _, line := range []string{"messageDelayLevel=1s 5s 10s 30s\n", "brokerId=3\n", "flushDiskType=SYNC_FLUSH\n", "brokerName=tidemq\n"} {
		if !strings.Contains(config, line) {
			t.Errorf("config %q, want %q in it", config, line)
		}
	}
	var list topicList
	fromJSON(t, c.ok(remoting.ReqGetAllTopicListFromNameserver, nil, nil).Body, &list)
	if !slices.Contains(list.Topics, "t") {
		t.Errorf("topics %v", list.Topics)
	}
	fromJSON(t, c.ok(remoting.ReqGetTopicsByCluster, fields("cluster", "elsewhere"), nil).Body, &list)
	if len(list.Topics) != 0 {
		t.Errorf("topics of another cluster %v", list.Topics)
	}
	c.ok(remoting.ReqHeartBeat, nil, []byte(`{"clientID":"p1","producerDataSet":[{"groupName":"pg"}]}`))
	var producers struct{ ConnectionSet []connectionJSON }
	fromJSON(t, c.ok(remoting.ReqGetProducerConnectionList, fields("producerGroup", "pg"), nil).Body, &producers)
	if len(producers.ConnectionSet) != 1 || producers.ConnectionSet[0].ClientID != "p1" {
		t.Errorf("producers %+v", producers)
	}
	var all struct{ Data map[string][]any }
	fromJSON(t, c.ok(remoting.ReqGetAllProducerInfo, nil, nil).Body, &all)
	if got := slices.Collect(maps.Keys(all.Data)); !slices.Equal(got, []string{"pg"}) {
		t.Errorf("producer groups %v", got)
	}
	c.ok(remoting.ReqDeleteTopicInNamesrv, fields("topic", "t"), nil)
	c.ok(remoting.ReqDeleteTopicInBroker, fields("topic", "t"), nil)
	c.want(remoting.TopicNotExist, remoting.ReqGetRouteInfoByTopic, fields("topic", "t"), nil)
	c.want(remoting.TopicNotExist, remoting.ReqGetTopicConfig, fields("topic", "t"), nil)
}
