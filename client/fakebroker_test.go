package client

// What the brokers of a fakeCluster answer.

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func ok(req *remoting.Command, fields ...remoting.Field) *remoting.Command {
	a := req.Reply(remoting.Success, "")
	a.Fields = fields
	return a
}

func offsetAnswer(req *remoting.Command, v int64) *remoting.Command {
	return ok(req, remoting.Field{Key: "offset", Value: itoa(v)})
}

func (b *fakeBroker) handle(fc *fakeConn, req *remoting.Command) *remoting.Command {
	f := func(key string) string { return strings.Clone(req.Fields.Value(key)) }
	n := func(key string) int64 { v, _ := req.Fields.Int64(key); return v }
	q := Queue{f("topic"), b.name, int(n("queueId"))}
	switch req.Code {
	case remoting.ReqGetRouteInfoByTopic:
		return b.c.route(req, f("topic"))
	case remoting.ReqGetBrokerClusterInfo:
		a := ok(req)
		a.Body = []byte(`{"brokerAddrTable":{`)
		for i, br := range b.c.brokers {
			if i > 0 {
				a.Body = append(a.Body, ',')
			}
			a.Body = fmt.Appendf(a.Body, `%q:{"brokerAddrs":{0:%q},"brokerName":%q,"cluster":"fake"}`, br.name, br.addr, br.name)
		}
		a.Body = append(a.Body, `},"clusterAddrTable":{}}`...)
		return a
	case remoting.ReqGetAllTopicListFromNameserver:
		b.c.mu.Lock()
		defer b.c.mu.Unlock()
		a := ok(req)
		a.Body = appendJSON(nil, map[string]any{"topicList": slices.Collect(maps.Keys(b.c.topics))})
		return a
	case remoting.ReqUpdateAndCreateTopic:
		b.c.createTopic(f("topic"), int(n("writeQueueNums")))
		return ok(req)
	case remoting.ReqDeleteTopicInBroker:
		b.c.deleteTopic(f("topic"))
		return ok(req)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	switch req.Code {
	case remoting.ReqHeartBeat:
		var h heartbeatData
		if err := json.Unmarshal(req.Body, &h); err != nil {
			return req.Reply(remoting.SystemError, err.Error())
		}
		fc.id = h.ClientID
		for _, c := range h.Consumers {
			b.c.createTopic(message.RetryTopic(c.Group), 1)
			if b.members[c.Group] == nil {
				b.members[c.Group] = map[string]*fakeConn{}
			}
			if b.members[c.Group][h.ClientID] != fc {
				b.members[c.Group][h.ClientID] = fc
				b.notifyLocked(c.Group)
			}
		}
		return ok(req)
	case remoting.ReqUnregisterClient:
		if g := f("consumerGroup"); g != "" {
			delete(b.members[g], f("clientID"))
			b.notifyLocked(g)
		}
		return ok(req)
	case remoting.ReqGetConsumerListByGroup:
		ids := slices.Collect(maps.Keys(b.members[f("consumerGroup")]))
		if len(ids) == 0 {
			return req.Reply(remoting.SystemError, "no consumer for this group")
		}
		a := ok(req)
		a.Body = appendJSON(nil, map[string]any{"consumerIdList": ids})
		return a
	case remoting.ReqSendMessageV2, remoting.ReqSendBatchMessage:
		return b.send(fc, req)
	case remoting.ReqPullMessage:
		return b.pull(req, q)
	case remoting.ReqConsumerSendMsgBack:
		return b.sendBack(req)
	case remoting.ReqGetMinOffset:
		return offsetAnswer(req, b.min[q])
	case remoting.ReqGetMaxOffset:
		return offsetAnswer(req, int64(len(b.queues[q])))
	case remoting.ReqSearchOffsetByTimestamp:
		i := slices.IndexFunc(b.queues[q], func(m message.Message) bool { return m.StoreTime >= n("timestamp") })
		if i < 0 {
			i = len(b.queues[q])
		}
		return offsetAnswer(req, int64(i))
	case remoting.ReqGetEarliestMsgStoreTime:
		t := int64(-1)
		if len(b.queues[q]) > 0 {
			t = b.queues[q][0].StoreTime
		}
		return ok(req, remoting.Field{Key: "timestamp", Value: itoa(t)})
	case remoting.ReqQueryConsumerOffset:
		if o, found := b.offsets[f("consumerGroup")][q]; found {
			return offsetAnswer(req, o)
		}
		return req.Reply(remoting.QueryNotFound, "not found")
	case remoting.ReqUpdateConsumerOffset:
		b.setOffset(f("consumerGroup"), q, n("commitOffset"))
		return ok(req)
	case remoting.ReqInvokeBrokerToResetOffset:
		b.setOffset(f("group"), q, n("offset"))
		a := ok(req)
		a.Body = fmt.Appendf(nil, `{"offsetTable":{{"brokerName":%q,"queueId":%d,"topic":%q}:%d}}`, q.Broker, q.ID, q.Topic, n("offset"))
		return a
	case remoting.ReqLockBatchMQ:
		return b.lock(req)
	case remoting.ReqUnlockBatchMQ:
		var body lockBody
		_ = json.Unmarshal(req.Body, &body)
		for _, k := range body.Queues {
			if q := (Queue{k.Topic, k.BrokerName, k.QueueID}); b.locks[q] == body.ClientID {
				delete(b.locks, q)
			}
		}
		return ok(req)
	}
	return req.Reply(remoting.RequestCodeNotSupported, fmt.Sprint("code ", req.Code))
}

func (b *fakeBroker) setOffset(group string, q Queue, offset int64) {
	if b.offsets[group] == nil {
		b.offsets[group] = map[Queue]int64{}
	}
	b.offsets[group][q] = offset
}

func (b *fakeBroker) lock(req *remoting.Command) *remoting.Command {
	var body lockBody
	_ = json.Unmarshal(req.Body, &body)
	held := []queueKey{}
	for _, k := range body.Queues {
		q := Queue{k.Topic, k.BrokerName, k.QueueID}
		if owner := b.locks[q]; owner == "" || owner == body.ClientID {
			b.locks[q] = body.ClientID
			held = append(held, k)
		}
	}
	a := ok(req)
	a.Body = appendJSON(nil, map[string]any{"lockOKMQSet": held})
	return a
}

// route answers as fastjson writes: broker ids without quotes.
func (c *fakeCluster) route(req *remoting.Command, topic string) *remoting.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	queues, found := c.topics[topic]
	if !found && topic == message.TBW102 && c.auto {
		queues, found = 8, true
	}
	if !found {
		return req.Reply(remoting.TopicNotExist, "No topic route info in name server for the topic: "+topic)
	}
	a := ok(req)
	a.Body = []byte(`{"brokerDatas":[`)
	for i, b := range c.brokers {
		if i > 0 {
			a.Body = append(a.Body, ',')
		}
		a.Body = fmt.Appendf(a.Body, `{"brokerAddrs":{0:%q},"brokerName":%q,"cluster":"fake"}`, b.addr, b.name)
	}
	a.Body = append(a.Body, `],"filterServerTable":{},"queueDatas":[`...)
	for i, b := range c.brokers {
		if i > 0 {
			a.Body = append(a.Body, ',')
		}
		a.Body = fmt.Appendf(a.Body, `{"brokerName":%q,"perm":6,"readQueueNums":%d,"writeQueueNums":%d,"topicSysFlag":0}`, b.name, queues, queues)
	}
	a.Body = append(a.Body, `]}`...)
	return a
}

// send stores what a send carries.
func (b *fakeBroker) send(fc *fakeConn, req *remoting.Command) *remoting.Command {
	h, err := remoting.ParseSend(req.Fields)
	if err != nil {
		return req.Reply(remoting.SystemError, err.Error())
	}
	b.c.mu.Lock()
	_, found := b.c.topics[h.Topic]
	if !found && b.c.auto {
		b.c.topics[strings.Clone(h.Topic)] = int(h.DefaultTopicQueueNums)
		found = true
	}
	b.c.mu.Unlock()
	if !found {
		return req.Reply(remoting.TopicNotExist, "no topic "+h.Topic)
	}
	entries := []message.BatchMessage{{Flag: h.Flag, Body: req.Body, Properties: h.Properties}}
	if h.Batch {
		if entries, err = message.DecodeBatch(req.Body); err != nil {
			return req.Reply(remoting.MessageIllegal, err.Error())
		}
	}
	topic := h.Topic
	if message.IsRetryTopic(topic) && h.ReconsumeTimes > h.MaxReconsumeTimes {
		topic = "%DLQ%" + strings.TrimPrefix(topic, message.RetryTopic(""))
	}
	var ids []string
	first := int64(-1)
	for _, e := range entries {
		m := b.append(message.Message{
			Topic: strings.Clone(topic), QueueID: h.QueueID, Flag: e.Flag, SysFlag: h.SysFlag, BornTime: h.BornTimestamp,
			BornHost: hostOf(fc.nc), Body: e.Body, Properties: strings.Clone(e.Properties), ReconsumeTimes: h.ReconsumeTimes,
		})
		if first < 0 {
			first = m.QueueOffset
		}
		ids = append(ids, message.OffsetID(m.StoreHost, m.PhysicalOffset))
	}
	return ok(req, remoting.Field{Key: "msgId", Value: strings.Join(ids, ",")},
		remoting.Field{Key: "queueId", Value: itoa(h.QueueID)}, remoting.Field{Key: "queueOffset", Value: itoa(first)})
}

func hostOf(nc net.Conn) netip.AddrPort {
	if a, err := netip.ParseAddrPort(nc.RemoteAddr().String()); err == nil {
		return a
	}
	return netip.MustParseAddrPort("127.0.0.1:1")
}

// put stores a message from outside, as a test's producer.
func (b *fakeBroker) put(topic string, queue int, body string, tags string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &Message{Tags: tags}
	b.append(message.Message{Topic: topic, QueueID: int32(queue), Body: []byte(body), BornTime: time.Now().UnixMilli(),
		BornHost: netip.MustParseAddrPort("127.0.0.1:1"), Properties: m.properties("ID" + body[:min(len(body), 16)])})
}

func (b *fakeBroker) append(m message.Message) message.Message {
	q := Queue{m.Topic, b.name, int(m.QueueID)}
	m.QueueOffset = int64(len(b.queues[q]))
	m.PhysicalOffset = 0
	for _, l := range b.queues {
		m.PhysicalOffset += 1000 * int64(len(l))
	}
	m.StoreTime = time.Now().UnixMilli()
	m.StoreHost = netip.MustParseAddrPort(b.addr)
	b.queues[q] = append(b.queues[q], m)
	if ch := b.arrived[q]; ch != nil {
		close(ch)
		delete(b.arrived, q)
	}
	return m
}

// pull answers at once or when something arrives.
func (b *fakeBroker) pull(req *remoting.Command, q Queue) *remoting.Command {
	offset, _ := req.Fields.Int64("queueOffset")
	batch, _ := req.Fields.Int64("maxMsgNums")
	flags, _ := req.Fields.Int64("sysFlag")
	waitMs, _ := req.Fields.Int64("suspendTimeoutMillis")
	answer := func(code int, next int64, body []byte) *remoting.Command {
		a := req.Reply(code, "")
		a.Fields = remoting.Fields{
			{Key: "suggestWhichBrokerId", Value: "0"},
			{Key: "nextBeginOffset", Value: itoa(next)},
			{Key: "minOffset", Value: itoa(b.min[q])},
			{Key: "maxOffset", Value: itoa(int64(len(b.queues[q])))},
		}
		a.Body = body
		return a
	}
	if flags&pullSuspend != 0 && offset == int64(len(b.queues[q])) {
		ch := b.arrived[q]
		if ch == nil {
			ch = make(chan struct{})
			b.arrived[q] = ch
		}
		b.mu.Unlock()
		timer := time.NewTimer(time.Duration(waitMs) * time.Millisecond)
		select {
		case <-ch:
		case <-timer.C:
		case <-b.stop:
		}
		timer.Stop()
		b.mu.Lock()
	}
	log := b.queues[q]
	switch {
	case offset < b.min[q]:
		return answer(remoting.PullOffsetMoved, b.min[q], nil)
	case offset > int64(len(log)):
		return answer(remoting.PullOffsetMoved, int64(len(log)), nil)
	case offset == int64(len(log)):
		return answer(remoting.PullNotFound, offset, nil)
	}
	sub, _ := parseTags(req.Fields.Value("subscription"))
	var body []byte
	next, n := offset, int64(0)
	for ; next < int64(len(log)) && n < batch; next++ {
		m := log[next]
		tags, _ := m.Property(message.PropertyTags)
		// Brokers select by hash only.
		if sub.tags != nil && !slices.ContainsFunc(sub.tags, func(t string) bool { return message.TagsCode(t) == message.TagsCode(tags) }) {
			continue
		}
		var err error
		if body, err = message.AppendRecord(body, &m); err != nil {
			return req.Reply(remoting.SystemError, err.Error())
		}
		n++
	}
	if n == 0 {
		return answer(remoting.PullRetryImmediately, next, nil)
	}
	return answer(remoting.Success, next, body)
}

// sendBack stores the message at a physical offset in the retry topic, or as a
// dead letter.
func (b *fakeBroker) sendBack(req *remoting.Command) *remoting.Command {
	offset, _ := req.Fields.Int64("offset")
	group := req.Fields.Value("group")
	level, _ := req.Fields.Int64("delayLevel")
	limit, _ := req.Fields.Int64("maxReconsumeTimes")
	for _, l := range b.queues {
		for _, m := range l {
			if m.PhysicalOffset != offset {
				continue
			}
			m.Properties = message.RemoveProperties(m.Properties, message.PropertyDelay)
			if _, again := m.Property(message.PropertyRetryTopic); !again {
				m.Properties = string(message.AppendProperty([]byte(m.Properties), message.PropertyRetryTopic, m.Topic))
			}
			m.Topic, m.QueueID = message.RetryTopic(group), 0
			if int64(m.ReconsumeTimes) >= limit || level < 0 {
				m.Topic = message.DLQTopic(group)
				b.c.createTopic(m.Topic, 1)
			}
			m.ReconsumeTimes++
			b.append(m)
			return ok(req)
		}
	}
	return req.Reply(remoting.SystemError, "look message by offset failed, "+strconv.FormatInt(offset, 10))
}
