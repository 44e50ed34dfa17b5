package broker

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	// resetLifetime bounds how long a reset ignores older commits when nobody
	// pulls from its position: clients take up to 10 s to act on the notice
	// (220) and up to 20 s more until their next rebalance.
	resetLifetime = 60 * time.Second
	// resetGrace is how long a member that was told may go on pulling from its
	// old position. It drops what it gets; moving it as well would make it
	// start over twice.
	resetGrace = 15 * time.Second
)

// resets keeps the offset resets that members have not followed yet. Until a
// pull comes from the new position, or resetLifetime is over, commits for that
// group and queue are ignored, for they count what was consumed before the
// reset; and a pull from elsewhere is sent to the new position (21), as
// RocketMQ with useServerSideResetOffset, unless its connection was told and
// still has time. In memory only: the offsets themselves are in the log.
type resets struct {
	// count is the number of entries; requests look at it before they lock.
	count atomic.Int64

	mu      sync.Mutex
	entries map[resetKey]*pendingReset
}

type resetKey struct {
	group, topic string
	queue        int32
}

type pendingReset struct {
	to int64
	// stored: the new offset is durable. Before, commits are ignored already,
	// but nobody is moved.
	stored bool
	until  time.Time
	told   map[*conn]time.Time // connection → end of its grace
}

// begin notes resets that are about to be stored.
func (r *resets) begin(group, topic string, offsets map[int32]int64, now time.Time) {
	group, topic = strings.Clone(group), strings.Clone(topic)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = make(map[resetKey]*pendingReset)
	}
	for queue, to := range offsets {
		r.entries[resetKey{group, topic, queue}] = &pendingReset{to: to, until: now.Add(resetLifetime)}
	}
	r.count.Store(int64(len(r.entries)))
}

// stored makes resets effective; told are the connections that are being sent
// the new offsets.
func (r *resets) stored(group, topic string, offsets map[int32]int64, told []*conn, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for queue := range offsets {
		p := r.entries[resetKey{group, topic, queue}]
		if p == nil {
			continue
		}
		p.stored = true
		p.told = make(map[*conn]time.Time, len(told))
		for _, c := range told {
			p.told[c] = now.Add(resetGrace)
		}
	}
}

// cancel forgets resets that could not be stored.
func (r *resets) cancel(group, topic string, offsets map[int32]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for queue := range offsets {
		delete(r.entries, resetKey{group, topic, queue})
	}
	r.count.Store(int64(len(r.entries)))
}

// lookLocked returns what is pending for a queue, nil when it expired.
func (r *resets) lookLocked(k resetKey, now time.Time) *pendingReset {
	p := r.entries[k]
	if p != nil && now.After(p.until) {
		r.forgetLocked(k)
		return nil
	}
	return p
}

func (r *resets) forgetLocked(k resetKey) {
	delete(r.entries, k)
	r.count.Store(int64(len(r.entries)))
}

// moved reports where a pull at offset is to be sent instead. A pull at the
// new position ends the reset.
func (r *resets) moved(c *conn, group, topic string, queue int32, offset int64) (to int64, moved bool) {
	if r.count.Load() == 0 {
		return 0, false
	}
	now := time.Now()
	k := resetKey{group, topic, queue}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.lookLocked(k, now)
	switch {
	case p == nil || !p.stored:
		return 0, false
	case p.to == offset:
		r.forgetLocked(k)
		return 0, false
	case now.Before(p.told[c]):
		return 0, false
	}
	return p.to, true
}

// ignores reports whether a commit counts what was consumed before a reset.
func (r *resets) ignores(group, topic string, queue int32, offset int64) bool {
	if r.count.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.lookLocked(resetKey{group, topic, queue}, time.Now())
	return p != nil && p.to != offset
}

// expire forgets what nobody followed.
func (r *resets) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.entries {
		r.lookLocked(k, now)
	}
}

// resetOffsets sets a group's offsets in a topic durably and has its members
// go on from there. It returns how many members were told. It may block.
func (b *Broker) resetOffsets(group, topic string, offsets map[int32]int64, timestamp int64) (told int, err error) {
	view, online := b.registry.consumerGroup(group)
	// Members that broadcast keep their offsets themselves.
	guard := !online || view.messageModel != broadcasting
	if guard {
		b.resets.begin(group, topic, offsets, time.Now())
	}
	if err := b.store.ResetOffsets(group, topic, offsets); err != nil {
		b.resets.cancel(group, topic, offsets)
		return 0, err
	}
	b.resetPops(group, topic, offsets)
	conns := make([]*conn, 0, len(view.clients))
	for _, info := range view.clients {
		conns = append(conns, info.conn)
	}
	if guard {
		b.resets.stored(group, topic, offsets, conns, time.Now())
	}
	for _, info := range view.clients {
		info.conn.tell(b.resetNotice(group, topic, offsets, timestamp, info.language))
	}
	// Pulls held at the old position by whoever was not told look again.
	for queue := range offsets {
		b.hold.wakeIf(queueKey{topic, queue}, func(p *heldPull) bool { return p.pull.group == group })
	}
	b.log.Info("offsets reset", "group", group, "topic", topic, "queues", len(offsets), "told", len(conns))
	return len(conns), nil
}

// resetNotice is RESET_CONSUMER_CLIENT_OFFSET (220), as RocketMQ
// `Broker2Client.resetOffset`. C++ clients get a list instead of a map.
func (b *Broker) resetNotice(group, topic string, offsets map[int32]int64, timestamp int64, language byte) *remoting.Command {
	cmd := remoting.NewRequest(remoting.ReqResetConsumerClientOffset,
		remoting.Field{Key: "topic", Value: topic}, remoting.Field{Key: "group", Value: group})
	cmd.Fields.SetInt("timestamp", timestamp)
	cmd.Fields.Set("isForce", "true")
	if language == remoting.LanguageCPP {
		cmd.Body = b.offsetList(topic, offsets)
	} else {
		cmd.Body = b.offsetTable(topic, offsets)
	}
	return cmd
}

// offsetsAt returns the offset at a time for queues of a topic: the first
// entry stored then or later, the end when there is none or ms is negative.
func (b *Broker) offsetsAt(topic string, queues []int32, ms int64) (map[int32]int64, error) {
	offsets := make(map[int32]int64, len(queues))
	for _, q := range queues {
		_, end, _ := b.store.Offsets(topic, q)
		if ms >= 0 {
			at, err := b.store.OffsetByTime(topic, q, ms, false)
			if err != nil {
				return nil, err
			}
			end = at
		}
		offsets[q] = end
	}
	return offsets, nil
}

// resetTarget is what a reset means: group and topic exist.
type resetTarget struct {
	group, topic string
	// queue is the only one meant, -1 for all; queues are those meant.
	queue  int32
	queues []int32
}

// parseResetTarget reads the fields that resets have in common.
func (b *Broker) parseResetTarget(f remoting.Fields) (target resetTarget, err error) {
	group, err := f.Require("group")
	if err != nil {
		return target, err
	}
	topic, err := f.Require("topic")
	if err != nil {
		return target, err
	}
	if target.queue, err = f.Int32Or("queueId", -1); err != nil {
		return target, err
	}
	t := b.tables.topic(topic)
	if t == nil {
		return target, refuse(remoting.TopicNotExist, "topic[%s] does not exist", topic)
	}
	g := b.tables.group(group)
	if g == nil {
		return target, refuse(remoting.SubscriptionGroupNotExist, "subscription group [%s] does not exist", group)
	}
	target.group, target.topic = g.Name, t.Name
	if target.queue >= t.ReadQueues {
		return target, refuse(remoting.InvalidParameter, "queueId is %d: topic[%s] has the queues 0 to %d", target.queue, topic, t.ReadQueues-1)
	}
	if target.queue >= 0 {
		target.queues = []int32{target.queue}
		return target, nil
	}
	for q := range t.ReadQueues {
		target.queues = append(target.queues, q)
	}
	return target, nil
}

// invokeReset serves INVOKE_BROKER_TO_RESET_OFFSET (222), as RocketMQ
// `AdminBrokerProcessor.resetOffset` with useServerSideResetOffset, but tells
// the members on-line as well. It answers with a ResetOffsetBody.
func invokeReset(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	f := req.Fields
	offset, err := f.Int64Or("offset", -1)
	if err != nil {
		return err
	}
	timestamp, err := f.Int64Or("timestamp", -1)
	if err != nil {
		return err
	}
	target, err := b.parseResetTarget(f)
	if err != nil {
		return err
	}
	var offsets map[int32]int64
	if target.queue >= 0 && offset != -1 {
		lo, hi, _ := b.store.Offsets(target.topic, target.queue)
		if offset < lo || offset > hi {
			return refuse(remoting.SystemError, "offset %d is not within queue %d of topic[%s]: %d to %d", offset, target.queue, target.topic, lo, hi)
		}
		offsets = map[int32]int64{target.queue: offset}
	} else if offsets, err = b.offsetsAt(target.topic, target.queues, timestamp); err != nil {
		return err
	}
	if _, err := b.resetOffsets(target.group, target.topic, offsets, timestamp); err != nil {
		return err
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = b.offsetTable(target.topic, offsets)
	c.reply(req, resp)
	return nil
}
