package client

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// Requests that brokers make: offsets reset (220), offsets asked for (221),
// state of a consumer (307), one message to consume at once (309).

// noGroup answers for a group this client has no fitting consumer of, as
// RocketMQ's clients do.
func noGroup(req *remoting.Command, group string) *remoting.Command {
	return req.Reply(remoting.SystemError, fmt.Sprintf("the consumer group <%s> is not in this client", group))
}

// serveReset works on code 220. The body's table names queues and offsets.
func (c *Client) serveReset(req *remoting.Command) *remoting.Command {
	group, topic := req.Fields.Value("group"), req.Fields.Value("topic")
	p, ok := c.consumer(group).(*PushConsumer)
	if !ok {
		return noGroup(req, group)
	}
	var body struct {
		Offsets queueTable `json:"offsetTable"`
	}
	if err := unmarshalLenient(req.Body, &body); err != nil {
		c.cfg.log.Warn("offset reset not understood", "group", group, "topic", topic, "err", err)
		return req.Reply(remoting.SystemError, "offset table: "+err.Error())
	}
	p.resetOffsets(topic, body.Offsets)
	return req.Reply(remoting.Success, "")
}

// serveStatus works on code 221.
func (c *Client) serveStatus(req *remoting.Command) *remoting.Command {
	topic := req.Fields.Value("topic")
	offsets := map[Queue]int64{}
	if p, ok := c.consumer(req.Fields.Value("group")).(*PushConsumer); ok {
		for _, pq := range p.snapshot() {
			if topic == "" || pq.queue.Topic == topic {
				offsets[pq.queue] = pq.offset()
			}
		}
	}
	answer := req.Reply(remoting.Success, "")
	answer.Body = append(answer.Body, `{"messageQueueTable":`...)
	answer.Body = appendQueueMap(answer.Body, offsets, func(b []byte, v int64) []byte { return fmt.Append(b, v) })
	answer.Body = append(answer.Body, '}')
	return answer
}

// processQueueInfo is a queue's state, as RocketMQ ProcessQueueInfo.
type processQueueInfo struct {
	CommitOffset         int64 `json:"commitOffset"`
	CachedMsgMinOffset   int64 `json:"cachedMsgMinOffset"`
	CachedMsgMaxOffset   int64 `json:"cachedMsgMaxOffset"`
	CachedMsgCount       int   `json:"cachedMsgCount"`
	CachedMsgSizeInMiB   int   `json:"cachedMsgSizeInMiB"`
	Locked               bool  `json:"locked"`
	LastLockTimestamp    int64 `json:"lastLockTimestamp"`
	Dropped              bool  `json:"droped"` // so spelt
	LastPullTimestamp    int64 `json:"lastPullTimestamp"`
	LastConsumeTimestamp int64 `json:"lastConsumeTimestamp"`
}

func (pq *processQueue) info() processQueueInfo {
	locked := pq.c.cfg.orderly && !pq.c.cfg.broadcast && pq.holdsLock()
	pq.mu.Lock()
	defer pq.mu.Unlock()
	i := processQueueInfo{
		CommitOffset:         pq.offsetLocked(),
		CachedMsgCount:       pq.waiting,
		CachedMsgSizeInMiB:   pq.bytes >> 20,
		Locked:               locked,
		Dropped:              pq.dropped,
		LastPullTimestamp:    pq.lastPull.UnixMilli(),
		LastConsumeTimestamp: pq.lastConsume.UnixMilli(),
	}
	if locked {
		i.LastLockTimestamp = pq.lockedAt.UnixMilli()
	}
	if n := len(pq.entries); n > 0 {
		i.CachedMsgMinOffset, i.CachedMsgMaxOffset = pq.entries[0].offset, pq.entries[n-1].offset
	}
	return i
}

// maxStackBytes bounds the goroutine stacks sent where Java sends a jstack.
const maxStackBytes = 256 << 10

// serveRunningInfo works on code 307, as RocketMQ ConsumerRunningInfo.
func (c *Client) serveRunningInfo(req *remoting.Command) *remoting.Command {
	group := req.Fields.Value("consumerGroup")
	m := c.consumer(group)
	if m == nil {
		return noGroup(req, group)
	}
	data := m.heartbeat()
	properties := map[string]string{
		"PROP_NAMESERVER_ADDR":      strings.Join(c.nameServers, ";"),
		"PROP_CONSUME_TYPE":         data.ConsumeType,
		"PROP_CONSUMEORDERLY":       "false",
		"PROP_CLIENT_VERSION":       "TideMQ Go client",
		"PROP_THREADPOOL_CORE_SIZE": "0",
	}
	queues := map[Queue]processQueueInfo{}
	started := int64(0)
	switch p := m.(type) {
	case *PushConsumer:
		properties["PROP_CONSUMEORDERLY"] = fmt.Sprint(p.cfg.orderly)
		properties["PROP_THREADPOOL_CORE_SIZE"] = itoa(p.cfg.concurrency)
		started = p.started.UnixMilli()
		for _, pq := range p.snapshot() {
			queues[pq.queue] = pq.info()
		}
	case *PullConsumer:
		started = p.version
	}
	properties["PROP_CONSUMER_START_TIMESTAMP"] = itoa(started)

	answer := req.Reply(remoting.Success, "")
	b := append(answer.Body, `{"properties":`...)
	b = appendJSON(b, properties)
	b = append(b, `,"subscriptionSet":`...)
	b = appendJSON(b, data.Subscriptions)
	b = append(b, `,"mqTable":`...)
	b = appendQueueMap(b, queues, func(b []byte, v processQueueInfo) []byte { return appendJSON(b, v) })
	b = append(b, `,"statusTable":{}`...)
	if on, _ := req.Fields.BoolOr("jstackEnable", false); on {
		stack := make([]byte, maxStackBytes)
		b = append(b, `,"jstack":`...)
		b = appendQuoted(b, stack[:runtime.Stack(stack, true)])
	}
	answer.Body = append(b, '}')
	return answer
}

// appendJSON appends a value that always encodes.
func appendJSON(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, b...)
}

// consumeDirectlyResult is the answer to code 309, as RocketMQ
// ConsumeMessageDirectlyResult.
type consumeDirectlyResult struct {
	Order      bool   `json:"order"`
	AutoCommit bool   `json:"autoCommit"`
	Result     string `json:"consumeResult"`
	Remark     string `json:"remark,omitempty"`
	SpentMs    int64  `json:"spentTimeMills"`
}

// serveConsumeDirectly works on code 309: an administrator has one message
// handled by this member. Its offset does not move, and it is not sent back.
func (c *Client) serveConsumeDirectly(req *remoting.Command) *remoting.Command {
	group := req.Fields.Value("consumerGroup")
	p, ok := c.consumer(group).(*PushConsumer)
	if !ok {
		return noGroup(req, group)
	}
	rec, _, err := message.DecodeRecord(req.Body)
	if err != nil {
		return req.Reply(remoting.SystemError, "message: "+err.Error())
	}
	m := fromRecord(Queue{Topic: rec.Topic, Broker: req.Fields.Value("brokerName"), ID: int(rec.QueueID)}, &rec)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return req.Reply(remoting.SystemError, "the consumer is closing")
	}
	result := make(chan consumeDirectlyResult, 1)
	p.work.Go(func() { result <- p.consumeDirectly(m) })
	p.mu.Unlock()
	answer := req.Reply(remoting.Success, "")
	select {
	case r := <-result:
		answer.Body = appendJSON(nil, r)
	case <-p.handling.Done():
		return req.Reply(remoting.SystemError, "the consumer was closed")
	}
	return answer
}

func (p *PushConsumer) consumeDirectly(m *Message) (r consumeDirectlyResult) {
	began := time.Now()
	r = consumeDirectlyResult{Order: p.cfg.orderly, AutoCommit: true, Result: "CR_SUCCESS"}
	defer func() {
		if v := recover(); v != nil {
			r.Result, r.Remark = "CR_THROW_EXCEPTION", fmt.Sprint("handler panicked: ", v)
		}
		r.SpentMs = min(time.Since(began).Milliseconds(), math.MaxInt32)
	}()
	if got := p.handler(p.handling, m); got != Success {
		r.Result, r.Remark = "CR_LATER", got.String()
	}
	return r
}

var _ = []groupMember{(*PushConsumer)(nil), (*PullConsumer)(nil)}
