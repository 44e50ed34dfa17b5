package broker

import (
	"fmt"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// topicStats serves GET_TOPIC_STATS_INFO.
func topicStats(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	if name == message.ScheduleTopic {
		resp := req.Reply(remoting.Success, "")
		resp.Body = b.levelStats()
		c.reply(req, resp)
		return nil
	}
	t := b.tables.topic(name)
	if t == nil {
		return refuse(remoting.TopicNotExist, "topic[%s] does not exist", name)
	}
	body := []byte(`{"offsetTable":{`)
	for q := range max(t.ReadQueues, t.WriteQueues) {
		lo, hi, _ := b.store.Offsets(t.Name, q)
		var stored int64
		if hi > lo {
			stored = b.storeTimeOf(t.Name, q, hi-1)
		}
		if q > 0 {
			body = append(body, ',')
		}
		body = b.appendQueue(body, t.Name, q)
		body = fmt.Appendf(body, `:{"lastUpdateTimestamp":%d,"maxOffset":%d,"minOffset":%d}`, stored, hi, lo)
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = append(body, "}}"...)
	c.reply(req, resp)
	return nil
}

// consumerConnections serves GET_CONSUMER_CONNECTION_LIST.
func consumerConnections(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("consumerGroup")
	if err != nil {
		return err
	}
	view, online := b.registry.consumerGroup(group)
	if !online {
		return refuse(remoting.ConsumerNotOnline, "the consumer group[%s] not online", group)
	}
	subs := make(map[string]subscriptionJSON, len(view.subs))
	for _, s := range view.subs {
		subs[s.topic] = s.json()
	}
	return c.replyJSON(req, struct {
		Connections []connectionJSON            `json:"connectionSet"`
		FromWhere   string                      `json:"consumeFromWhere"`
		Type        string                      `json:"consumeType"`
		Model       string                      `json:"messageModel"`
		Subs        map[string]subscriptionJSON `json:"subscriptionTable"`
	}{connectionsJSON(view.clients), view.fromWhere, view.consumeType, view.messageModel, subs})
}

// producerConnections serves GET_PRODUCER_CONNECTION_LIST.
func producerConnections(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("producerGroup")
	if err != nil {
		return err
	}
	clients := b.registry.producerGroup(group)
	if len(clients) == 0 {
		return refuse(remoting.SystemError, "the producer group[%s] not exist", group)
	}
	return c.replyJSON(req, map[string][]connectionJSON{"connectionSet": connectionsJSON(clients)})
}

// allProducers serves GET_ALL_PRODUCER_INFO.
func allProducers(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	type producerInfo struct {
		ClientID string `json:"clientId"`
		Language string `json:"language"`
		SeenMs   int64  `json:"lastUpdateTimestamp"`
		Remote   string `json:"remoteIP"`
		Version  int    `json:"version"`
	}
	data := make(map[string][]producerInfo)
	for _, group := range b.registry.producerGroups() {
		for _, info := range b.registry.producerGroup(group) {
			data[group] = append(data[group], producerInfo{
				ClientID: info.id, Language: remoting.LanguageName(info.language), SeenMs: info.seen.UnixMilli(),
				Remote: info.conn.remote.String(), Version: info.version,
			})
		}
	}
	return c.replyJSON(req, map[string]any{"data": data})
}
