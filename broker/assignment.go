package broker

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// Ways of getting messages, as RocketMQ `MessageRequestMode`.
const (
	modePull = "PULL"
	modePop  = "POP"
)

// modeNamespace is where the store keeps requestModes, by "topic@group".
const modeNamespace = "TIDEMQ_MESSAGE_REQUEST_MODE"

// requestMode says how a group gets a topic's messages when its members leave
// it to the broker, as RocketMQ `SetMessageRequestModeRequestBody`.
type requestMode struct {
	Topic string `json:"topic"`
	Group string `json:"consumerGroup"`
	Mode  string `json:"mode"`
	// Share is how many members besides its own each member shares its queues
	// with in pop mode; 0: all pop from all.
	Share int `json:"popShareQueueNum"`
}

func modeKey(topic, group string) string { return topic + "@" + group }

// requestModeOf returns a group's mode; pull where nobody said otherwise.
func (b *Broker) requestModeOf(topic, group string) requestMode {
	m := requestMode{Topic: topic, Group: group, Mode: modePull}
	if text, ok := b.store.KVConfig(modeNamespace, modeKey(topic, group)); ok {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			b.log.Error("a group's request mode cannot be read", "topic", topic, "group", group, "error", err)
		}
	}
	return m
}

// setRequestMode serves SET_MESSAGE_REQUEST_MODE, as RocketMQ
// `QueryAssignmentProcessor`. The mode is kept over restarts.
func setRequestMode(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var m requestMode
	if err := decodeJSON(req.Body, &m); err != nil {
		return err
	}
	switch {
	case message.IsRetryTopic(m.Topic):
		return refuse(remoting.NoPermission, "retry topic is not allowed to set mode")
	case b.tables.topic(m.Topic) == nil:
		return refuse(remoting.TopicNotExist, "topic[%s] not exist", m.Topic)
	case b.tables.group(m.Group) == nil:
		return refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist", m.Group)
	case m.Mode != modePull && m.Mode != modePop:
		return refuse(remoting.InvalidParameter, "mode is %q: %s and %s are allowed", m.Mode, modePull, modePop)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := b.store.PutKVConfig(modeNamespace, modeKey(m.Topic, m.Group), string(text)); err != nil {
		return err
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// allRequestModes serves GET_ALL_MESSAGE_REQUEST_MODE.
func allRequestModes(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	modes := map[string]map[string]requestMode{}
	for key := range b.store.KVConfigs(modeNamespace) {
		topic, group, _ := strings.Cut(key, "@")
		if modes[topic] == nil {
			modes[topic] = map[string]requestMode{}
		}
		modes[topic][group] = b.requestModeOf(topic, group)
	}
	return c.replyJSON(req, map[string]any{"messageRequestModeMap": modes})
}

// assignment is RocketMQ's MessageQueueAssignment.
type assignment struct {
	Queue queueName `json:"messageQueue"`
	Mode  string    `json:"mode"`
}

// queryAssignment serves QUERY_ASSIGNMENT: the queues of this broker that a
// member is to read, and how. Without an answer to give, the list is left out
// and the member keeps what it has.
func queryAssignment(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body struct {
		Topic    string `json:"topic"`
		Group    string `json:"consumerGroup"`
		ClientID string `json:"clientId"`
		Strategy string `json:"strategyName"`
		Model    string `json:"messageModel"`
	}
	if err := decodeJSON(req.Body, &body); err != nil {
		return err
	}
	t := b.tables.readable(body.Topic)
	ids := b.registry.clientIDs(body.Group)
	if t == nil || body.Model != broadcasting && !slices.Contains(ids, body.ClientID) {
		return c.replyJSON(req, struct{}{})
	}
	queues := make([]int32, t.ReadQueues)
	for i := range queues {
		queues[i] = int32(i)
	}
	m := b.requestModeOf(body.Topic, body.Group)
	if body.Model != broadcasting {
		divide, ok := strategies[body.Strategy]
		if !ok {
			return refuse(remoting.InvalidParameter, "strategyName is %q: AVG and AVG_BY_CIRCLE are allowed", body.Strategy)
		}
		at := slices.Index(ids, body.ClientID)
		if m.Mode == modePop {
			queues = popShare(divide, queues, at, len(ids), m.Share)
		} else {
			queues = divide(queues, at, len(ids))
		}
	}
	list := make([]assignment, 0, len(queues))
	for _, id := range queues {
		list = append(list, assignment{queueName{Topic: t.Name, BrokerName: b.opts.BrokerName, QueueID: id}, m.Mode})
	}
	return c.replyJSON(req, map[string]any{"messageQueueAssignments": list})
}

// strategies divide queues among members, of which the one that asks is number
// at, as RocketMQ's `AllocateMessageQueueStrategy` of that name.
var strategies = map[string]func(queues []int32, at, members int) []int32{
	"AVG": func(queues []int32, at, members int) []int32 {
		size, more := len(queues)/members, len(queues)%members
		from := at*size + min(at, more)
		if at < more {
			size++
		}
		return queues[from : from+size]
	},
	"AVG_BY_CIRCLE": func(queues []int32, at, members int) []int32 {
		var mine []int32
		for i := at; i < len(queues); i += members {
			mine = append(mine, queues[i])
		}
		return mine
	},
}

// popShare is which queues a member pops from, as RocketMQ `allocate4Pop`: −1
// is all of them; with share, its own and those of as many members behind it.
func popShare(divide func([]int32, int, int) []int32, queues []int32, at, members, share int) []int32 {
	switch {
	case share <= 0 || share >= members-1:
		return []int32{-1}
	case members > len(queues):
		return []int32{queues[at%len(queues)]}
	}
	var mine []int32
	for i := 0; i <= share; i++ {
		mine = append(mine, divide(queues, (at+i)%members, members)...)
	}
	slices.Sort(mine)
	return slices.Compact(mine)
}
