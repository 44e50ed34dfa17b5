package broker

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// appendConsumeStats appends RocketMQ's ConsumeStats: how far a group is in
// topics. It returns by how many messages the group is behind. Topics that do
// not exist are left out, so that a group whose retry topic is not recorded yet
// has a table, too.
func (b *Broker) appendConsumeStats(dst []byte, group string, topics []string, offsets map[string]map[int32]int64) ([]byte, int64) {
	var behind int64
	rate := 0.0
	dst = append(dst, `{"offsetTable":{`...)
	first := true
	for _, name := range topics {
		t := b.tables.topic(name)
		if t == nil {
			continue
		}
		if f := b.stats.lookUp(groupGet, groupTopic{group, name}); f != nil {
			w := f.within(time.Minute, time.Now())
			rate += float64(w.messages) / w.seconds
		}
		for q := range t.ReadQueues {
			_, hi, _ := b.store.Offsets(t.Name, q)
			// Read after the queue's end would show an offset ahead of it.
			committed := min(offsets[name][q], hi)
			var stored int64
			if committed > 0 {
				stored = b.storeTimeOf(t.Name, q, committed-1)
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			behind += hi - committed
			dst = b.appendQueue(dst, t.Name, q)
			dst = fmt.Appendf(dst, `:{"brokerOffset":%d,"consumerOffset":%d,"lastTimestamp":%d,"pullOffset":%d}`, hi, committed, stored, committed)
		}
	}
	return fmt.Appendf(dst, `},"consumeTps":%s}`, strconv.FormatFloat(rate, 'f', -1, 64)), behind
}

// consumeStats serves GET_CONSUME_STATS.
func consumeStats(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("consumerGroup")
	if err != nil {
		return err
	}
	offsets := b.store.GroupOffsets(group)
	topics := slices.Sorted(maps.Keys(offsets))
	if list := req.Fields.Value("topicList"); list != "" {
		topics = strings.Split(list, ";")
	} else if topic := req.Fields.Value("topic"); topic != "" {
		topics = []string{topic}
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body, _ = b.appendConsumeStats(nil, group, topics, offsets)
	c.reply(req, resp)
	return nil
}

// brokerConsumeStats serves GET_BROKER_CONSUME_STATS: every group in every
// topic that it has offsets in, with isOrder only in ordered topics.
func brokerConsumeStats(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	ordered, err := req.Fields.BoolOr("isOrder", false)
	if err != nil {
		return err
	}
	var total int64
	body := []byte(`{"consumeStatsList":[`)
	for i, g := range b.store.Groups() {
		if i > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{%s:[`, quoted(g.Name))
		offsets := b.store.GroupOffsets(g.Name)
		first := true
		for _, topic := range slices.Sorted(maps.Keys(offsets)) {
			t := b.tables.topic(topic)
			if t == nil || ordered && !t.Order {
				continue
			}
			if sub, _, online := b.registry.subscriptionOf(g.Name, topic); online && sub == nil {
				continue // read once, and no more
			}
			if !first {
				body = append(body, ',')
			}
			first = false
			var behind int64
			body, behind = b.appendConsumeStats(body, g.Name, []string{topic}, offsets)
			total += behind
		}
		body = append(body, "]}"...)
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = fmt.Appendf(body, `],"brokerAddr":%s,"totalDiff":%d,"totalInflightDiff":0}`, quoted(c.hostText), total)
	c.reply(req, resp)
	return nil
}

// consumeTimeSpan serves QUERY_CONSUME_TIME_SPAN: when the messages of a
// topic's queues were stored, from the first to the last, and of those the one
// that the group consumed last.
func consumeTimeSpan(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	group, err := req.Fields.Require("group")
	if err != nil {
		return err
	}
	t := b.tables.topic(topic)
	if t == nil {
		return refuse(remoting.TopicNotExist, "topic[%s] does not exist", topic)
	}
	nowMs := b.store.Now().UnixMilli()
	body := []byte(`{"consumeTimeSpanSet":[`)
	for q := range t.WriteQueues {
		lo, hi, _ := b.store.Offsets(t.Name, q)
		first, last := int64(-1), int64(-1)
		if hi > lo {
			first, last = b.storeTimeOf(t.Name, q, lo), b.storeTimeOf(t.Name, q, hi-1)
		}
		committed, _ := b.store.Offset(group, t.Name, q)
		consumed, delay := first, int64(0)
		if committed > lo {
			consumed = b.storeTimeOf(t.Name, q, committed-1)
		}
		if committed < hi {
			delay = max(nowMs-b.storeTimeOf(t.Name, q, max(committed, lo)), 0)
		}
		if q > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"messageQueue":`...)
		body = b.appendQueue(body, t.Name, q)
		body = fmt.Appendf(body, `,"minTimeStamp":%d,"maxTimeStamp":%d,"consumeTimeStamp":%d,"delayTime":%d}`, first, last, consumed, delay)
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = append(body, "]}"...)
	c.reply(req, resp)
	return nil
}

// groupsOfTopic serves QUERY_TOPIC_CONSUME_BY_WHO.
func groupsOfTopic(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	groups := b.registry.subscribers(topic)
	for _, g := range b.store.Groups() {
		if _, ok := b.store.GroupOffsets(g.Name)[topic]; ok && !slices.Contains(groups, g.Name) {
			groups = append(groups, g.Name)
		}
	}
	slices.Sort(groups)
	return c.replyJSON(req, map[string][]string{"groupList": append([]string{}, groups...)})
}

// topicsOfGroup serves QUERY_TOPICS_BY_CONSUMER: where a group has offsets.
func topicsOfGroup(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("group")
	if err != nil {
		return err
	}
	topics := append([]string{}, slices.Sorted(maps.Keys(b.store.GroupOffsets(group)))...)
	return c.replyJSON(req, topicList{Topics: topics, Addr: c.hostText})
}

// groupSubscription serves QUERY_SUBSCRIPTION_BY_CONSUMER. A group that is not
// on-line, or does not subscribe the topic, has no subscriptionData.
func groupSubscription(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("group")
	if err != nil {
		return err
	}
	topic, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	body := map[string]any{"group": group, "topic": topic}
	if sub, _, _ := b.registry.subscriptionOf(group, topic); sub != nil {
		body["subscriptionData"] = sub.json()
	}
	return c.replyJSON(req, body)
}

// allOffsets serves GET_ALL_CONSUMER_OFFSET, as RocketMQ
// `ConsumerOffsetSerializeWrapper`: queues' offsets by TOPIC@GROUP.
func allOffsets(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	table := make(map[string]map[int32]int64)
	for _, group := range b.store.OffsetGroups() {
		for topic, queues := range b.store.GroupOffsets(group) {
			table[topic+"@"+group] = queues
		}
	}
	return c.replyJSON(req, map[string]any{"offsetTable": table, "dataVersion": dataVersion{Timestamp: b.started.UnixMilli()}})
}

// allDelayOffsets serves GET_ALL_DELAY_OFFSET: by level, the next entry to
// deliver, as RocketMQ `DelayOffsetSerializeWrapper`.
func allDelayOffsets(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	table := make(map[int]int64)
	for _, l := range b.levelTable(b.store.Now().UnixMicro()) {
		if l.Level > 0 {
			table[l.Level] = l.Offset
		}
	}
	return c.replyJSON(req, map[string]any{"offsetTable": table, "dataVersion": dataVersion{Timestamp: b.started.UnixMilli()}})
}

// correctionOffsets serves QUERY_CORRECTION_OFFSET: by queue of a topic, the
// least offset among all groups but those of filterGroups; the greatest number
// there is where compareGroup is behind it. Nothing is changed; RocketMQ
// deletes the offsets of filterGroups on the way.
func correctionOffsets(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	topic, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	filtered := strings.Split(req.Fields.Value("filterGroups"), ",")
	least := make(map[int32]int64)
	for _, group := range b.store.OffsetGroups() {
		if slices.Contains(filtered, group) {
			continue
		}
		for q, offset := range b.store.GroupOffsets(group)[topic] {
			if lo, _, _ := b.store.Offsets(topic, q); offset < lo {
				continue
			}
			if old, ok := least[q]; !ok || offset < old {
				least[q] = offset
			}
		}
	}
	for q, offset := range b.store.GroupOffsets(req.Fields.Value("compareGroup"))[topic] {
		if v, ok := least[q]; ok && v > offset {
			least[q] = math.MaxInt64
		}
	}
	return c.replyJSON(req, map[string]any{"correctionOffsets": least})
}

// cloneOffsets serves CLONE_GROUP_OFFSET: destGroup goes on from where srcGroup
// is, in one topic or in all. What destGroup has on-line is told, as by a
// reset. It is durable when it is answered.
func cloneOffsets(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	f := req.Fields
	src, err := f.Require("srcGroup")
	if err != nil {
		return err
	}
	name, err := f.Require("destGroup")
	if err != nil {
		return err
	}
	offline, err := f.BoolOr("offline", false)
	if err != nil {
		return err
	}
	offsets := b.store.GroupOffsets(src)
	if topic := f.Value("topic"); topic != "" {
		offsets = map[string]map[int32]int64{topic: offsets[topic]}
	}
	dest, err := b.tables.useGroup(name, true)
	if err != nil {
		return err
	}
	for topic, queues := range offsets {
		t := b.tables.topic(topic)
		if t == nil || len(queues) == 0 {
			continue
		}
		if sub, _, online := b.registry.subscriptionOf(src, topic); online && sub == nil && !offline {
			continue // srcGroup reads it no more
		}
		if _, err := b.resetOffsets(dest.Name, t.Name, b.withinQueues(t, queues), 0); err != nil {
			return err
		}
	}
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// withinQueues moves offsets into what a topic's queues hold now.
func (b *Broker) withinQueues(t *store.Topic, offsets map[int32]int64) map[int32]int64 {
	within := make(map[int32]int64, len(offsets))
	for q, offset := range offsets {
		if q < t.ReadQueues {
			lo, hi, _ := b.store.Offsets(t.Name, q)
			within[q] = min(max(offset, lo), hi)
		}
	}
	return within
}

// consumerStatus serves INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the members of a
// group are asked (221) for their offsets in a topic; with clientAddr only the
// member of that client id.
func consumerStatus(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	group, err := req.Fields.Require("group")
	if err != nil {
		return err
	}
	topic, err := req.Fields.Require("topic")
	if err != nil {
		return err
	}
	only := req.Fields.Value("clientAddr")
	view, online := b.registry.consumerGroup(group)
	if !online {
		return refuse(remoting.SystemError, "No Any Consumer online in the consumer group: [%s]", group)
	}
	body := []byte(`{"consumerTable":{`)
	first := true
	for _, info := range view.clients {
		if only != "" && only != info.id {
			continue
		}
		answer, err := info.conn.ask(remoting.NewRequest(remoting.ReqGetConsumerStatusFromClient,
			remoting.Field{Key: "topic", Value: topic}, remoting.Field{Key: "group", Value: group}))
		if err != nil {
			b.log.Warn("consumer did not tell its offsets", "group", group, "client", info.id, "error", err)
			continue
		}
		var told struct {
			Table map[string]int64 `json:"messageQueueTable"`
		}
		if answer.Code != remoting.Success || decodeJSON(answer.Body, &told) != nil {
			continue
		}
		if !first {
			body = append(body, ',')
		}
		first = false
		body = append(append(body, quoted(info.id)...), ":{"...)
		for i, queue := range slices.Sorted(maps.Keys(told.Table)) {
			if i > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, "%s:%d", queue, told.Table[queue]) // queue is the object that names it
		}
		body = append(body, '}')
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = append(body, `},"messageQueueTable":{}}`...)
	c.reply(req, resp)
	return nil
}
