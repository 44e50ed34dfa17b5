package broker

import (
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// heartbeatData is the body of a heartbeat, as RocketMQ `HeartbeatData`. Sets
// of tags codes are left alone: they follow from the tags.
type heartbeatData struct {
	ClientID    string `json:"clientID"`
	ProducerSet []struct {
		GroupName string `json:"groupName"`
	} `json:"producerDataSet"`
	ConsumerSet []consumerData `json:"consumerDataSet"`
	// WithoutSub: the second form of heartbeats leaves the subscriptions out
	// while they did not change.
	WithoutSub bool `json:"withoutSub"`
}

type consumerData struct {
	GroupName        string `json:"groupName"`
	ConsumeType      string `json:"consumeType"`
	MessageModel     string `json:"messageModel"`
	ConsumeFromWhere string `json:"consumeFromWhere"`
	Subscriptions    []struct {
		ClassFilterMode bool     `json:"classFilterMode"`
		Topic           string   `json:"topic"`
		SubString       string   `json:"subString"`
		TagsSet         []string `json:"tagsSet"`
		SubVersion      number   `json:"subVersion"`
		ExpressionType  string   `json:"expressionType"`
	} `json:"subscriptionDataSet"`
}

// subscriptions returns what the consumer subscribes.
func (d *consumerData) subscriptions(exprs *expressions) []*subscription {
	subs := make([]*subscription, 0, len(d.Subscriptions))
	for i := range d.Subscriptions {
		s := &d.Subscriptions[i]
		expression := s.SubString
		if s.ClassFilterMode && isTag(s.ExpressionType) {
			expression = allTags // the client filters
		} else if expression == "" && len(s.TagsSet) > 0 {
			expression = strings.Join(s.TagsSet, "||")
		}
		subs = append(subs, exprs.newSubscription(s.Topic, expression, s.ExpressionType, int64(s.SubVersion)))
	}
	return subs
}

// heartbeat serves HEART_BEAT: it notes the client's groups, tells the members
// of those that changed, and records what a first use creates: the group and
// its retry topic.
func heartbeat(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error {
	var data heartbeatData
	if err := decodeJSON(req.Body, &data); err != nil {
		return err
	}
	if data.ClientID == "" {
		return refuse(remoting.InvalidParameter, "clientID is empty")
	}
	info := &clientInfo{id: data.ClientID, conn: c, language: req.Language, version: req.Version, seen: time.Now()}
	recorded := true
	for i := range data.ConsumerSet {
		d := &data.ConsumerSet[i]
		g := b.tables.group(d.GroupName)
		if g == nil {
			if err := message.ValidateGroup(d.GroupName); err != nil {
				return err
			}
			if !b.tables.autoGroup() {
				continue // as RocketMQ: pulls are refused with 26
			}
		}
		if g == nil || b.tables.topic(message.RetryTopic(g.Name)) == nil {
			recorded = false
		}
		// Members count from the moment the heartbeat came in, so that a pull
		// behind it on the same connection finds its subscription.
		subs := d.subscriptions(&b.exprs)
		if data.WithoutSub {
			subs = nil
		}
		if n, changed := b.registry.joinConsumer(d.GroupName, d.ConsumeType, d.MessageModel, d.ConsumeFromWhere, info, subs, b.store.End()); changed {
			b.notify([]membersChanged{n})
		}
	}
	for i := range data.ProducerSet {
		b.registry.joinProducer(data.ProducerSet[i].GroupName, info)
	}
	if !recorded {
		if !mayBlock {
			return errApart
		}
		for i := range data.ConsumerSet {
			name := data.ConsumerSet[i].GroupName
			if b.tables.group(name) == nil && !b.tables.autoGroup() {
				continue
			}
			g, err := b.tables.useGroup(name, true)
			if err != nil {
				return err
			}
			if _, err := b.tables.recordRetry(g); err != nil {
				return err
			}
		}
	}
	resp := req.Reply(remoting.Success, "")
	// "Changed" makes clients that know heartbeats without subscriptions send
	// them each time, which costs little and cannot go stale over a restart.
	resp.Fields = remoting.Fields{{Key: "IS_SUPPORT_HEART_BEAT_V2", Value: "true"}, {Key: "IS_SUB_CHANGE", Value: "true"}}
	c.reply(req, resp)
	return nil
}

// unregister serves UNREGISTER_CLIENT: the client leaves a consumer group, a
// producer group, or both.
func unregister(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	n, changed := b.registry.leave(c, req.Fields.Value("consumerGroup"), req.Fields.Value("producerGroup"))
	if changed {
		b.notify([]membersChanged{n})
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// notify tells members that their group changed (40), so that they divide the
// queues anew at once, unless the group's settings say otherwise.
func (b *Broker) notify(changed []membersChanged) {
	for _, n := range changed {
		if g := b.tables.group(n.group); g != nil && !g.NotifyChange {
			continue
		}
		for _, c := range n.conns {
			c.tell(remoting.NewRequest(remoting.ReqNotifyConsumerIDsChanged, remoting.Field{Key: "consumerGroup", Value: n.group}))
		}
	}
}

// checkClient serves CHECK_CLIENT_CONFIG: whether the broker can filter as a
// consumer wants, whose expression may be wrong.
func checkClient(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body struct {
		SubscriptionData struct {
			Topic          string `json:"topic"`
			SubString      string `json:"subString"`
			ExpressionType string `json:"expressionType"`
		} `json:"subscriptionData"`
	}
	if len(req.Body) > 0 {
		if err := decodeJSON(req.Body, &body); err != nil {
			return err
		}
	}
	d := &body.SubscriptionData
	if sub := b.exprs.newSubscription(d.Topic, d.SubString, d.ExpressionType, 0); sub.err != nil {
		return refuse(remoting.SubscriptionParseFailed, "%v", sub.err)
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// consumerList serves GET_CONSUMER_LIST_BY_GROUP.
func consumerList(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("consumerGroup")
	if err != nil {
		return err
	}
	ids := b.registry.clientIDs(group)
	if len(ids) == 0 {
		return refuse(remoting.SystemError, "no consumer for this group, %s", group)
	}
	return c.replyJSON(req, map[string][]string{"consumerIdList": ids})
}

// lockBody is the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.
type lockBody struct {
	ConsumerGroup string      `json:"consumerGroup"`
	ClientID      string      `json:"clientId"`
	Queues        []queueName `json:"mqSet"`
}

// lockQueues serves LOCK_BATCH_MQ; it answers with the queues locked.
func lockQueues(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body lockBody
	if err := decodeJSON(req.Body, &body); err != nil {
		return err
	}
	if body.ConsumerGroup == "" || body.ClientID == "" {
		return refuse(remoting.InvalidParameter, "consumerGroup %q and clientId %q must be given", body.ConsumerGroup, body.ClientID)
	}
	locked := b.locks.lock(body.ConsumerGroup, body.ClientID, body.Queues, time.Now())
	return c.replyJSON(req, map[string][]queueName{"lockOKMQSet": locked})
}

// unlockQueues serves UNLOCK_BATCH_MQ.
func unlockQueues(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	var body lockBody
	if err := decodeJSON(req.Body, &body); err != nil {
		return err
	}
	b.locks.unlock(body.ConsumerGroup, body.ClientID, body.Queues)
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}
