package broker

import (
	"fmt"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// maxQueueEntries bounds the entries of one QUERY_CONSUME_QUEUE.
const maxQueueEntries = 1024

// queryConsumeQueue serves QUERY_CONSUME_QUEUE: entries of a queue from index
// on. With consumerGroup it shows the group's subscription, too.
func queryConsumeQueue(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	f := req.Fields
	topic, queue, err := b.namedQueue(f)
	if err != nil {
		return err
	}
	index, err := f.Int64Or("index", 0)
	if err != nil {
		return err
	}
	count, err := f.Int32Or("count", 10)
	if err != nil {
		return err
	}
	if count < 1 || count > maxQueueEntries {
		return refuse(remoting.InvalidParameter, "count is %d: 1 to %d is allowed", count, maxQueueEntries)
	}
	type entry struct {
		Address  int64 `json:"physicOffset"`
		Size     int   `json:"physicSize"`
		TagsCode int64 `json:"tagsCode"`
		Eval     bool  `json:"eval"`
	}
	body := struct {
		Subscription *subscriptionJSON `json:"subscriptionData,omitempty"`
		Filter       string            `json:"filterData,omitempty"`
		Entries      []entry           `json:"queueData"`
		Max          int64             `json:"maxQueueIndex"`
		Min          int64             `json:"minQueueIndex"`
	}{Entries: []entry{}}
	body.Min, body.Max, _ = b.store.Offsets(topic, queue)
	if group := f.Value("consumerGroup"); group != "" {
		if sub, _, _ := b.registry.subscriptionOf(group, topic); sub != nil {
			j := sub.json()
			body.Subscription = &j
		} else {
			body.Filter = fmt.Sprintf("%s@%s is not online!", group, topic)
		}
	}
	if index < body.Min || index >= body.Max {
		resp := req.Reply(remoting.Success, fmt.Sprintf("Index %d of %d@%s is not exist!", index, queue, topic))
		c.reply(req, resp)
		return nil
	}
	for at := index; len(body.Entries) < int(count) && at < body.Max; {
		res, err := b.store.Read(topic, queue, at, int(count)-len(body.Entries), maxPullBytes, nil)
		if err != nil {
			return err
		}
		for _, r := range res.Records {
			v := message.View(r)
			tags, _ := v.Property(message.PropertyTags)
			body.Entries = append(body.Entries, entry{Address: v.PhysicalOffset(), Size: len(r), TagsCode: message.TagsCode(tags), Eval: true})
		}
		next := res.Next
		res.Release()
		if next <= at {
			break
		}
		at = next
	}
	return c.replyJSON(req, body)
}

// nothingToClean serves CLEAN_EXPIRED_CONSUMEQUEUE and CLEAN_UNUSED_TOPIC:
// queues go with their topic, and with the log that they point into, so that
// nothing of the kind is ever left.
func nothingToClean(_ *Broker, c *conn, req *remoting.Command, _ bool) error {
	c.reply(req, req.Reply(remoting.Success, ""))
	return nil
}

// haStatus serves GET_BROKER_HA_STATUS: a master without replicas.
func haStatus(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	return c.replyJSON(req, map[string]any{
		"master": true, "masterCommitLogMaxOffset": b.store.LogInfo().End, "inSyncSlaveNums": 0, "haConnectionInfo": []any{},
	})
}

// levelStats is what GET_TOPIC_STATS_INFO answers for SCHEDULE_TOPIC_XXXX: per
// level, the entries that wait.
func (b *Broker) levelStats() []byte {
	states := make(map[int32]store.LevelState)
	for level := 1; level <= len(b.levels); level++ {
		states[int32(level-1)] = b.store.Level(b.levels.Delay(level))
	}
	body := []byte(`{"offsetTable":{`)
	for q := range int32(len(b.levels)) {
		if q > 0 {
			body = append(body, ',')
		}
		body = b.appendQueue(body, message.ScheduleTopic, q)
		body = fmt.Appendf(body, `:{"lastUpdateTimestamp":0,"maxOffset":%d,"minOffset":%d}`, states[q].Next, states[q].Head)
	}
	return append(body, "}}"...)
}
