package broker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// A pop takes messages of a queue, or of all queues of a topic, and hides them
// from the group until they are acknowledged or their invisible time is over;
// then they are popped again, with their count one higher. Nothing is written
// again for that: the message stays where it is, and store.PopQueue remembers
// what was popped of each queue. (RocketMQ stores a checkpoint for each pop,
// and the message again, in a retry topic, for each time it was not
// acknowledged.) The group's consumer offset is where everything before is
// acknowledged.

const (
	// maxPop bounds the messages of one pop, as RocketMQ's client does.
	maxPop = 32
	// maxFlying bounds what a group has popped of one queue and not
	// acknowledged: beyond, nothing more is popped there. As RocketMQ's
	// popInflightMessageThreshold.
	maxFlying = 10_000
	// Bounds of an invisible time.
	minInvisible = 10 * time.Millisecond
	maxInvisible = 24 * time.Hour
	// reviveQueue and orderRevive are what RocketMQ's clients are told of
	// where a pop is kept; they send it back with each acknowledgement.
	reviveQueue = 0
	orderRevive = 999
	// initMax: a group that is new begins behind the last message, as RocketMQ
	// `ConsumeInitMode`.
	initMax = 1
)

// popRequest is the header of a pop, as RocketMQ `PopMessageRequestHeader`.
type popRequest struct {
	group     string
	topic     *store.Topic
	queueID   int32 // −1: any
	limit     int
	invisible time.Duration
	until     time.Time // of holding it; zero: not at all
	initMode  int32
	order     bool
	filter    *filter
	retryMax  int32
}

// parsePop reads a pop's header and checks that the group may.
func (b *Broker) parsePop(f remoting.Fields) (p popRequest, err error) {
	if err := b.popTarget(f, &p); err != nil {
		return p, err
	}
	limit, err := f.Int32("maxMsgNums")
	if err != nil {
		return p, err
	}
	if limit < 1 || limit > maxPop {
		return p, refuse(remoting.InvalidParameter, "maxMsgNums is %d: 1 to %d is allowed", limit, maxPop)
	}
	p.limit = int(limit)
	if p.invisible, err = invisibleTime(f); err != nil {
		return p, err
	}
	if p.until, err = pollUntil(f); err != nil {
		return p, err
	}
	if p.initMode, err = f.Int32Or("initMode", 0); err != nil {
		return p, err
	}
	if p.order, err = f.BoolOr("order", false); err != nil {
		return p, err
	}
	sub := b.exprs.newSubscription(p.topic.Name, f.Value("exp"), f.Value("expType"), 0)
	if sub.err != nil {
		return p, refuse(remoting.SubscriptionParseFailed, "parse the consumer's subscription failed: %v", sub.err)
	}
	p.filter = &sub.filter
	return p, nil
}

// popTarget reads who pops from where.
func (b *Broker) popTarget(f remoting.Fields, p *popRequest) error {
	group, err := f.Require("consumerGroup")
	if err != nil {
		return err
	}
	name, err := f.Require("topic")
	if err != nil {
		return err
	}
	if p.queueID, err = f.Int32("queueId"); err != nil {
		return err
	}
	g, err := b.tables.useGroup(group, true)
	if err != nil {
		return err
	}
	if !g.ConsumeEnable {
		return forbid(forbiddenGroup, "subscription group [%s] may not consume", group)
	}
	if name == message.ScheduleTopic {
		return forbid(forbiddenTopic, "topic[%s] holds what is not due yet and cannot be popped", name)
	}
	t := b.tables.readable(name)
	if t == nil {
		return refuse(remoting.TopicNotExist, "topic[%s] does not exist", name)
	}
	if t.Perm&permRead == 0 {
		return forbid(forbiddenTopic, "the topic[%s] popping message is forbidden", name)
	}
	if p.queueID >= t.ReadQueues {
		return refuse(remoting.InvalidParameter, "queueId is %d: topic[%s] has the queues 0 to %d", p.queueID, name, t.ReadQueues-1)
	}
	p.group, p.topic, p.retryMax = g.Name, t, g.RetryMaxTimes
	return nil
}

func invisibleTime(f remoting.Fields) (time.Duration, error) {
	ms, err := f.Int64("invisibleTime")
	if err != nil {
		return 0, err
	}
	if ms < minInvisible.Milliseconds() || ms > maxInvisible.Milliseconds() {
		return 0, refuse(remoting.InvalidParameter, "invisibleTime is %d: %d to %d ms is allowed", ms, minInvisible.Milliseconds(), maxInvisible.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// pollUntil reads how long a request may be held.
func pollUntil(f remoting.Fields) (time.Time, error) {
	ms, err := f.Int64Or("pollTime", 0)
	if err != nil || ms <= 0 {
		return time.Time{}, err
	}
	return time.Now().Add(min(time.Duration(min(ms, maxHold.Milliseconds()))*time.Millisecond, maxHold)), nil
}

// popMessage serves POP_MESSAGE. It may wait.
func popMessage(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	p, err := b.parsePop(req.Fields)
	if err != nil {
		return err
	}
	var got popped
	err = b.pops.wait(b, c, &p, func() (bool, int64, error) {
		nextMs, err := b.popOnce(&p, &got)
		return len(got.records) > 0, nextMs, err
	})
	if err != nil {
		got.release()
		return err
	}
	code := remoting.Success
	if len(got.records) == 0 {
		code = remoting.PollingTimeout
	}
	resp := req.Reply(code, "")
	resp.Fields.SetInt("popTime", got.popMs)
	resp.Fields.SetInt("invisibleTime", p.invisible.Milliseconds())
	resp.Fields.SetInt("reviveQid", reviveFor(p.order))
	resp.Fields.SetInt("restNum", got.rest)
	if len(got.records) > 0 {
		resp.Fields.Set("startOffsetInfo", got.starts.String())
		resp.Fields.Set("msgOffsetInfo", got.offsets.String())
	}
	resp.Bodies, resp.Done = got.records, got.release
	c.reply(req, resp)
	return nil
}

func reviveFor(order bool) int64 {
	if order {
		return orderRevive
	}
	return reviveQueue
}

// popped is what a pop has got so far.
type popped struct {
	popMs   int64
	rest    int64 // messages that are left in the queues
	records [][]byte
	bytes   int
	reads   []store.ReadResult
	// starts and offsets are RocketMQ `ExtraInfoUtil`'s "mark queue first;…"
	// and "mark queue entry,entry…;…".
	starts, offsets strings.Builder
	dead            []deadPop
}

// deadPop is a message that was popped too often.
type deadPop struct {
	queue  *store.PopQueue
	id     int32 // of the queue
	offset int64
	popMs  int64
	record []byte
}

func (p *popped) release() {
	for i := range p.reads {
		p.reads[i].Release()
	}
	p.reads, p.records = nil, nil
}

// queuesFrom calls f for each queue that a request means, beginning somewhere,
// until it says that it is enough.
func (p *popRequest) queuesFrom(f func(q int32) (enough bool, err error)) error {
	if p.queueID >= 0 {
		_, err := f(p.queueID)
		return err
	}
	n := max(p.topic.ReadQueues, 1)
	first := rand.Int32N(n)
	for i := range n {
		if enough, err := f((first + i) % n); enough || err != nil {
			return err
		}
	}
	return nil
}

// popOnce pops what there is now. nextMs is when something that is hidden may
// be popped again, 0 for never.
func (b *Broker) popOnce(p *popRequest, got *popped) (nextMs int64, err error) {
	got.popMs, got.rest = b.store.Now().UnixMilli(), 0
	err = p.queuesFrom(func(q int32) (bool, error) {
		next, err := b.popQueue(p, q, got)
		if next > 0 && (nextMs == 0 || next < nextMs) {
			nextMs = next
		}
		return false, err
	})
	dead := got.dead
	got.dead = nil
	for _, d := range dead {
		if err := b.buryPopped(p, &d); err != nil {
			b.log.Error("a message popped too often cannot become a dead letter yet", "group", p.group, "topic", p.topic.Name, "error", err)
		}
	}
	return nextMs, err
}

// popQueue pops from one queue: first what comes again, then what is new.
func (b *Broker) popQueue(p *popRequest, id int32, got *popped) (nextMs int64, err error) {
	q := b.store.PopQueue(p.group, p.topic.Name, id)
	q.Lock()
	defer q.Unlock()
	lo, hi, _ := b.store.Offsets(p.topic.Name, id)
	if q.Next() < 0 || q.Next() > hi {
		q.Begin(b.popBegin(p, id, lo, hi))
	}
	untilMs := got.popMs + p.invisible.Milliseconds()
	var taken []int64
	take := func(record []byte, offset int64, times int32) {
		q.Set(offset, store.Pop{PopMs: got.popMs, UntilMs: untilMs, Times: times})
		v := message.View(record)
		message.SetReconsumeTimes(record, v.ReconsumeTimes()+times)
		got.records = append(got.records, record)
		got.bytes += len(record)
		taken = append(taken, offset)
	}
	due, nextMs := q.Due(got.popMs, p.limit)
	for _, offset := range due {
		if len(got.records) >= p.limit || got.bytes >= maxPullBytes {
			nextMs = got.popMs
			break
		}
		res, err := b.store.Read(p.topic.Name, id, offset, 1, 1, nil)
		if err != nil {
			return nextMs, err
		}
		if len(res.Records) == 0 || message.View(res.Records[0]).QueueOffset() != offset { // gone: damaged, or deleted
			q.Ack(offset)
			res.Release()
			continue
		}
		flight, _ := q.Get(offset)
		record := res.Records[0]
		if message.View(record).ReconsumeTimes()+flight.Times >= p.retryMax {
			q.Set(offset, store.Pop{PopMs: got.popMs, UntilMs: untilMs, Times: flight.Times}) // nobody else's meanwhile
			got.dead = append(got.dead, deadPop{q, id, offset, got.popMs, append([]byte(nil), record...)})
			res.Release()
			continue
		}
		got.reads = append(got.reads, res)
		take(record, offset, flight.Times+1)
	}
	// In order: what is new waits until all before it is acknowledged.
	blocked := p.order && q.Flying() > 0
	for passed := 0; !blocked && q.Next() < hi && len(got.records) < p.limit && got.bytes < maxPullBytes && q.Flying() < maxFlying; {
		res, err := b.store.Read(p.topic.Name, id, max(q.Next(), lo), p.limit-len(got.records), maxPullBytes-got.bytes, p.filter.entries())
		if err != nil {
			return nextMs, err
		}
		if res.Status != store.Found && res.Status != store.NoMatch {
			res.Release()
			break
		}
		for _, record := range res.Records {
			passed += len(record)
		}
		if res.Records = p.filter.keep(res.Records); len(res.Records) > 0 {
			got.reads = append(got.reads, res)
			for _, record := range res.Records {
				take(record, message.View(record).QueueOffset(), 0)
			}
		} else {
			res.Release()
		}
		q.Advance(res.Next)
		if passed >= maxPassed {
			break
		}
	}
	got.rest += max(hi-q.Next(), 0)
	if len(taken) > 0 {
		b.pops.hidden(p.topic.Name, untilMs)
		got.describe(p.topic.Name, id, taken)
	}
	b.store.CommitOffset(p.group, p.topic.Name, id, max(q.Low(), 0))
	return nextMs, nil
}

// popBegin is where a group that pops for the first time begins: at its
// consumer offset, else where it asks to.
func (b *Broker) popBegin(p *popRequest, id int32, lo, hi int64) int64 {
	if at, ok := b.store.Offset(p.group, p.topic.Name, id); ok {
		return min(max(at, lo), hi)
	}
	if p.initMode == initMax && !b.appearedSince(p.group, p.topic.Name, id) {
		return hi
	}
	return lo
}

// describe adds a queue's messages to what clients make their handles from.
func (p *popped) describe(topic string, id int32, offsets []int64) {
	mark := "0"
	if message.IsRetryTopic(topic) {
		mark = "1"
	}
	if p.starts.Len() > 0 {
		p.starts.WriteByte(';')
		p.offsets.WriteByte(';')
	}
	fmt.Fprintf(&p.starts, "%s %d %d", mark, id, offsets[0])
	fmt.Fprintf(&p.offsets, "%s %d ", mark, id)
	for i, offset := range offsets {
		if i > 0 {
			p.offsets.WriteByte(',')
		}
		p.offsets.WriteString(strconv.FormatInt(offset, 10))
	}
}

// buryPopped puts a message that was popped too often into the group's
// dead-letter topic and acknowledges it. RocketMQ leaves that to its clients,
// which drop it.
func (b *Broker) buryPopped(p *popRequest, d *deadPop) error {
	m, _, err := message.DecodeRecord(d.record)
	if err != nil {
		return err
	}
	t, err := b.tables.recordDLQ(p.group)
	if err != nil {
		return err
	}
	d.queue.Lock()
	flight, ok := d.queue.Get(d.offset)
	d.queue.Unlock()
	if !ok || flight.PopMs != d.popMs {
		return nil
	}
	m.Properties = backProperties(&m, message.OffsetID(m.StoreHost, m.PhysicalOffset), 0, true)
	m.Topic, m.QueueID, m.ReconsumeTimes = t.Name, 0, m.ReconsumeTimes+flight.Times+1
	s, err := b.prepare(nil, &m)
	if err == nil {
		err = b.appendWait(s)
	}
	if err != nil {
		return err
	}
	b.ackPopped(d.queue, p.group, p.topic.Name, d.id, d.offset, d.popMs)
	return nil
}
