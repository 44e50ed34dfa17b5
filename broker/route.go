package broker

import (
	"encoding/json"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// brokerData is RocketMQ's BrokerData. Its keys are quoted, as every client
// reads them; RocketMQ leaves that to the request's acceptStandardJsonOnly.
type brokerData struct {
	Addrs        map[string]string `json:"brokerAddrs"`
	BrokerName   string            `json:"brokerName"`
	Cluster      string            `json:"cluster"`
	ActingMaster bool              `json:"enableActingMaster"`
}

// routeData is RocketMQ's TopicRouteData.
type routeData struct {
	Brokers      []brokerData   `json:"brokerDatas"`
	FilterServer map[string]any `json:"filterServerTable"`
	OrderTopic   string         `json:"orderTopicConf,omitempty"`
	Queues       []queueData    `json:"queueDatas"`
}

type queueData struct {
	BrokerName   string `json:"brokerName"`
	Perm         int32  `json:"perm"`
	ReadQueues   int32  `json:"readQueueNums"`
	TopicSysFlag int32  `json:"topicSysFlag"`
	WriteQueues  int32  `json:"writeQueueNums"`
}

// brokerFor is this broker as a connection's client reaches it.
func (b *Broker) brokerFor(c *conn) brokerData {
	return brokerData{
		Addrs:      map[string]string{b.brokerIDText: c.hostText},
		BrokerName: b.opts.BrokerName,
		Cluster:    b.opts.ClusterName,
	}
}

// route serves GET_ROUTEINFO_BY_TOPIC.
func route(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	t := b.tables.routed(name)
	if t == nil {
		return refuse(remoting.TopicNotExist, "No topic route info in name server for the topic: %s", name)
	}
	perm := t.Perm
	if b.wiped.Load() {
		perm &^= permWrite
	}
	order := ""
	if b.settings.Load().orderMessage {
		order, _ = b.store.KVConfig(orderNamespace, t.Name)
	}
	return c.replyJSON(req, routeData{
		Brokers:      []brokerData{b.brokerFor(c)},
		FilterServer: map[string]any{},
		OrderTopic:   order,
		Queues: []queueData{{
			BrokerName: b.opts.BrokerName, Perm: perm, TopicSysFlag: t.SysFlag,
			ReadQueues: t.ReadQueues, WriteQueues: t.WriteQueues,
		}},
	})
}

// clusterInfo serves GET_BROKER_CLUSTER_INFO.
func clusterInfo(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	return c.replyJSON(req, struct {
		Brokers  map[string]brokerData `json:"brokerAddrTable"`
		Clusters map[string][]string   `json:"clusterAddrTable"`
	}{
		Brokers:  map[string]brokerData{b.opts.BrokerName: b.brokerFor(c)},
		Clusters: map[string][]string{b.opts.ClusterName: {b.opts.BrokerName}},
	})
}

// topicList is RocketMQ's TopicList.
type topicList struct {
	Topics []string `json:"topicList"`
	Addr   string   `json:"brokerAddr,omitempty"`
}

// allTopics serves GET_ALL_TOPIC_LIST_FROM_NAMESERVER and
// GET_TOPICS_BY_CLUSTER.
func allTopics(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	if cluster, ok := req.Fields.Get("cluster"); ok && cluster != b.opts.ClusterName {
		return c.replyJSON(req, topicList{Topics: []string{}})
	}
	return c.replyJSON(req, topicList{Topics: b.tables.topicNames()})
}

// createTopic serves UPDATE_AND_CREATE_TOPIC.
func createTopic(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	f := req.Fields
	config := topicDefaults()
	var err error
	if config.Name, err = f.Require("topic"); err != nil {
		return err
	}
	for key, to := range map[string]*int32{
		"readQueueNums": &config.ReadQueues, "writeQueueNums": &config.WriteQueues, "perm": &config.Perm, "topicSysFlag": &config.TopicSysFlag,
	} {
		if *to, err = f.Int32Or(key, *to); err != nil {
			return err
		}
	}
	if config.Order, err = f.BoolOr("order", false); err != nil {
		return err
	}
	config.FilterType = f.Value("topicFilterType")
	attributes, err := parseAttributes(f.Value("attributes"))
	if err != nil {
		return err
	}
	if err := config.check(); err != nil {
		return err
	}
	if err := b.putTopic(config, attributes); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// createTopics serves UPDATE_AND_CREATE_TOPIC_LIST: all are checked before the
// first is created.
func createTopics(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body struct {
		List []json.RawMessage `json:"topicConfigList"`
	}
	if err := decodeJSON(req.Body, &body); err != nil {
		return err
	}
	configs := make([]topicConfig, len(body.List))
	for i, text := range body.List {
		configs[i] = topicDefaults()
		if err := decodeJSON(text, &configs[i]); err != nil {
			return err
		}
		if err := configs[i].check(); err != nil {
			return err
		}
	}
	for i := range configs {
		if err := b.putTopic(configs[i], attributesOf(configs[i].Attributes)); err != nil {
			return err
		}
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// topicDefaults is a topic as it is created when a request leaves all but the
// name out.
func topicDefaults() topicConfig {
	return topicConfig{ReadQueues: DefaultTopicQueues, WriteQueues: DefaultTopicQueues, Perm: permRead | permWrite}
}

// check refuses a topic that may not be created, and fills in the filter type.
func (t *topicConfig) check() error {
	if err := userTopic(t.Name); err != nil {
		return err
	}
	for _, n := range []struct {
		key         string
		value       int32
		least, most int32
	}{
		{"readQueueNums", t.ReadQueues, 1, maxQueues},
		{"writeQueueNums", t.WriteQueues, 1, maxQueues},
		{"perm", t.Perm, 0, permAll},
		{"topicSysFlag", t.TopicSysFlag, 0, 3},
	} {
		if n.value < n.least || n.value > n.most {
			return refuse(remoting.InvalidParameter, "%s is %d: %d to %d is allowed", n.key, n.value, n.least, n.most)
		}
	}
	switch t.FilterType {
	case "":
		t.FilterType = singleTag
	case singleTag, multiTag:
	default:
		return refuse(remoting.InvalidParameter, "topicFilterType is %q: %s and %s are allowed", t.FilterType, singleTag, multiTag)
	}
	return nil
}

// putTopic creates or changes a topic. It may block.
func (b *Broker) putTopic(c topicConfig, attributes attributeChanges) error {
	return b.tables.updateTopic(c.Name, func(t *store.Topic) {
		t.ReadQueues, t.WriteQueues, t.Perm, t.SysFlag, t.Order, t.FilterType = c.ReadQueues, c.WriteQueues, c.Perm, c.TopicSysFlag, c.Order, c.FilterType
		attributes.apply(&t.Attributes)
	})
}

// deleteTopic serves DELETE_TOPIC_IN_BROKER. Deleting what does not exist
// succeeds, as in RocketMQ.
func deleteTopic(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	if err := userTopic(name); err != nil {
		return err
	}
	if err := b.tables.deleteTopic(name); err != nil {
		return err
	}
	b.deletedTopic(name)
	b.stats.dropTopic(name)
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// deleteRoute serves DELETE_TOPIC_IN_NAMESRV, which administrators send after
// they deleted a topic in its brokers. The name server in here has no route of
// its own to forget.
func deleteRoute(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	if _, err := req.Fields.Require("topic"); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// userTopic refuses names that are no topic, and system topics: users neither
// create nor delete those.
func userTopic(name string) error {
	if err := validTopic(name); err != nil {
		return err
	}
	if message.IsSystemTopic(name) {
		return refuse(remoting.InvalidParameter, "The topic[%s] is conflict with system topic.", name)
	}
	return nil
}

// validTopic refuses names that are no topic.
func validTopic(name string) error {
	if name == message.RetryTopic("") || name == message.DLQTopic("") {
		return refuse(remoting.InvalidParameter, "topic[%s] names no group", name)
	}
	return message.ValidateTopic(name)
}
