package broker

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// dataVersion is RocketMQ's DataVersion: it grows with every change.
type dataVersion struct {
	Counter      uint64 `json:"counter"`
	StateVersion int64  `json:"stateVersion"`
	Timestamp    int64  `json:"timestamp"`
}

// topicConfig is RocketMQ's TopicConfig.
type topicConfig struct {
	Attributes   map[string]string `json:"attributes"`
	Order        bool              `json:"order"`
	Perm         int32             `json:"perm"`
	ReadQueues   int32             `json:"readQueueNums"`
	FilterType   string            `json:"topicFilterType"`
	Name         string            `json:"topicName"`
	TopicSysFlag int32             `json:"topicSysFlag"`
	WriteQueues  int32             `json:"writeQueueNums"`
}

func topicConfigOf(t *store.Topic) topicConfig {
	c := topicConfig{
		Attributes: t.Attributes, Order: t.Order, Perm: t.Perm, ReadQueues: t.ReadQueues, FilterType: t.FilterType,
		Name: t.Name, TopicSysFlag: t.SysFlag, WriteQueues: t.WriteQueues,
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	if c.FilterType == "" {
		c.FilterType = singleTag
	}
	return c
}

// groupConfig is RocketMQ's SubscriptionGroupConfig, as far as it means
// something here.
type groupConfig struct {
	Attributes           map[string]string `json:"attributes"`
	BrokerID             int64             `json:"brokerId"`
	BroadcastEnable      bool              `json:"consumeBroadcastEnable"`
	ConsumeEnable        bool              `json:"consumeEnable"`
	ConsumeFromMinEnable bool              `json:"consumeFromMinEnable"`
	Orderly              bool              `json:"consumeMessageOrderly"`
	Name                 string            `json:"groupName"`
	NotifyChange         bool              `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes        int32             `json:"retryMaxTimes"`
	RetryQueues          int32             `json:"retryQueueNums"`
	WhichBrokerWhenSlow  int64             `json:"whichBrokerWhenConsumeSlowly"`
}

func groupConfigOf(g *store.Group) groupConfig {
	c := groupConfig{
		Attributes: g.Attributes, BrokerID: g.BrokerID, BroadcastEnable: g.BroadcastEnable, ConsumeEnable: g.ConsumeEnable,
		ConsumeFromMinEnable: g.ConsumeFromMinEnable, Orderly: g.OrderlyEnable, Name: g.Name, NotifyChange: g.NotifyChange,
		RetryMaxTimes: g.RetryMaxTimes, RetryQueues: g.RetryQueues, WhichBrokerWhenSlow: g.WhichBrokerWhenSlow,
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	return c
}

// attributeChanges are "+key=value" and "-key", as RocketMQ `AttributeParser`.
type attributeChanges struct {
	set    map[string]string
	remove []string
}

func parseAttributes(text string) (a attributeChanges, err error) {
	if text == "" {
		return a, nil
	}
	a.set = make(map[string]string)
	for entry := range strings.SplitSeq(text, ",") {
		key, value, has := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(key, "+") && len(key) > 1 && has:
			a.set[key[1:]] = value
		case strings.HasPrefix(key, "-") && len(key) > 1 && !has:
			a.remove = append(a.remove, key[1:])
		default:
			return a, refuse(remoting.InvalidParameter, "attributes has %q: +key=value and -key are allowed", entry)
		}
	}
	return a, nil
}

func (a *attributeChanges) apply(to *map[string]string) {
	if *to == nil && len(a.set) > 0 {
		*to = make(map[string]string)
	}
	maps.Copy(*to, a.set)
	for _, key := range a.remove {
		delete(*to, key)
	}
}

// allTopicConfig serves GET_ALL_TOPIC_CONFIG.
func allTopicConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	body := struct {
		Version dataVersion            `json:"dataVersion"`
		Table   map[string]topicConfig `json:"topicConfigTable"`
	}{Version: dataVersion{Timestamp: b.started.UnixMilli()}, Table: map[string]topicConfig{}}
	for _, t := range b.store.Topics() {
		body.Table[t.Name] = topicConfigOf(&t)
		body.Version.Counter = max(body.Version.Counter, t.Changed)
	}
	return c.replyJSON(req, body)
}

// oneTopicConfig serves GET_TOPIC_CONFIG.
func oneTopicConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	t := b.tables.topic(name)
	if t == nil {
		return refuse(remoting.TopicNotExist, "No topic in this broker. topic: %s", name)
	}
	return c.replyJSON(req, topicConfigOf(t))
}

// allGroupConfig serves GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
func allGroupConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	body := struct {
		Version   dataVersion            `json:"dataVersion"`
		Forbidden map[string]any         `json:"forbiddenTable"`
		Table     map[string]groupConfig `json:"subscriptionGroupTable"`
	}{Version: dataVersion{Timestamp: b.started.UnixMilli()}, Forbidden: map[string]any{}, Table: map[string]groupConfig{}}
	for _, g := range b.store.Groups() {
		body.Table[g.Name] = groupConfigOf(&g)
		body.Version.Counter = max(body.Version.Counter, g.Changed)
	}
	return c.replyJSON(req, body)
}

// oneGroupConfig serves GET_SUBSCRIPTIONGROUP_CONFIG.
func oneGroupConfig(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("group")
	if err != nil {
		return err
	}
	g := b.tables.group(name)
	if g == nil {
		return refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist", name)
	}
	return c.replyJSON(req, groupConfigOf(g))
}

// updateGroup serves UPDATE_AND_CREATE_SUBSCRIPTIONGROUP. What the body leaves
// out has RocketMQ's defaults.
func updateGroup(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	config, err := parseGroup(req.Body)
	if err != nil {
		return err
	}
	if err := b.putGroup(config); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// updateGroups serves UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all are checked
// before the first is changed.
func updateGroups(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body struct {
		List []json.RawMessage `json:"groupConfigList"`
	}
	if err := decodeJSON(req.Body, &body); err != nil {
		return err
	}
	configs := make([]groupConfig, len(body.List))
	for i, text := range body.List {
		var err error
		if configs[i], err = parseGroup(text); err != nil {
			return err
		}
	}
	for _, config := range configs {
		if err := b.putGroup(config); err != nil {
			return err
		}
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// parseGroup reads a group's settings and checks them.
func parseGroup(body []byte) (groupConfig, error) {
	config := groupConfigOf(defaultGroup(""))
	if err := decodeJSON(body, &config); err != nil {
		return config, err
	}
	if err := message.ValidateGroup(config.Name); err != nil {
		return config, err
	}
	if config.RetryQueues < 0 || config.RetryQueues > maxQueues {
		return config, refuse(remoting.InvalidParameter, "retryQueueNums is %d: 0 to %d is allowed", config.RetryQueues, maxQueues)
	}
	if config.RetryMaxTimes < -1 {
		return config, refuse(remoting.InvalidParameter, "retryMaxTimes is %d: -1 or more is allowed", config.RetryMaxTimes)
	}
	return config, nil
}

// putGroup creates or changes a group. It may block.
func (b *Broker) putGroup(config groupConfig) error {
	g := store.Group{
		Name: config.Name, ConsumeEnable: config.ConsumeEnable, ConsumeFromMinEnable: config.ConsumeFromMinEnable,
		BroadcastEnable: config.BroadcastEnable, OrderlyEnable: config.Orderly, RetryQueues: config.RetryQueues,
		RetryMaxTimes: config.RetryMaxTimes, BrokerID: config.BrokerID, WhichBrokerWhenSlow: config.WhichBrokerWhenSlow,
		NotifyChange: config.NotifyChange,
	}
	if old := b.tables.group(config.Name); old != nil {
		g.Attributes = maps.Clone(old.Attributes)
	}
	changes := attributesOf(config.Attributes)
	changes.apply(&g.Attributes)
	return b.tables.putGroup(g)
}

// attributesOf reads the changes of attributes in a body: "+key" and "key" set
// one, "-key" removes it.
func attributesOf(m map[string]string) attributeChanges {
	changes := attributeChanges{set: map[string]string{}}
	for key, value := range m {
		if strings.HasPrefix(key, "-") {
			changes.remove = append(changes.remove, key[1:])
		} else {
			changes.set[strings.TrimPrefix(key, "+")] = value
		}
	}
	return changes
}

// deleteGroup serves DELETE_SUBSCRIPTIONGROUP. A group's offsets go with it,
// whatever cleanOffset says: a group of that name that comes later is new.
func deleteGroup(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("groupName")
	if err != nil {
		return err
	}
	if err := b.tables.deleteGroup(name); err != nil {
		return err
	}
	b.stats.dropGroup(name)
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}
