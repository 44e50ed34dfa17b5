package broker

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// Bits of a pull's system flag, as RocketMQ `PullSysFlag`.
const (
	pullCommitOffset = 1 << 0
	pullSuspend      = 1 << 1
	pullSubscription = 1 << 2
)

// Reasons of a forbidden pull, as RocketMQ `ForbiddenType`.
const (
	forbiddenGroup     = 2
	forbiddenTopic     = 3
	forbiddenBroadcast = 4
)

const (
	// maxPullRecords and maxPullBytes bound one pull's answer; a single record
	// is always answered.
	maxPullRecords = 4096
	maxPullBytes   = 2 << 20
	// maxPassed bounds the bytes that one pull reads for an expression that
	// matches none of them; then the client is told where to go on.
	maxPassed = 4 << 20
	// maxHold bounds how long a pull is held.
	maxHold = 5 * time.Minute
	// maxHeld bounds the pulls held for one connection; what comes on top is
	// answered at once.
	maxHeld = 16384
)

// pullRequest is the header of a pull, as RocketMQ `PullMessageRequestHeader`.
type pullRequest struct {
	req *remoting.Command
	// kept: req's memory is its own, not the connection's for the next request.
	kept       bool
	group      string
	topic      string
	queueID    int32
	offset     int64
	maxRecords int32
	maxBytes   int32
	sysFlag    int32
	commit     int64
	suspendMs  int64
	expression string
	version    int64
	kind       string
}

// parsePull reads a pull's header. Its strings borrow from req.
func parsePull(req *remoting.Command) (p pullRequest, err error) {
	f := req.Fields
	p = pullRequest{req: req, expression: f.Value("subscription"), kind: f.Value("expressionType")}
	if p.group, err = f.Require("consumerGroup"); err != nil {
		return p, err
	}
	if p.topic, err = f.Require("topic"); err != nil {
		return p, err
	}
	for _, n := range []struct {
		key      string
		to       *int32
		required bool
	}{{"queueId", &p.queueID, true}, {"maxMsgNums", &p.maxRecords, true}, {"sysFlag", &p.sysFlag, true}, {"maxMsgBytes", &p.maxBytes, false}} {
		if !n.required {
			*n.to, err = f.Int32Or(n.key, 0)
		} else {
			*n.to, err = f.Int32(n.key)
		}
		if err != nil {
			return p, err
		}
	}
	if p.offset, err = f.Int64("queueOffset"); err != nil {
		return p, err
	}
	for _, n := range []struct {
		key string
		to  *int64
	}{{"commitOffset", &p.commit}, {"suspendTimeoutMillis", &p.suspendMs}, {"subVersion", &p.version}} {
		if *n.to, err = f.Int64Or(n.key, 0); err != nil {
			return p, err
		}
	}
	if p.maxRecords <= 0 {
		return p, refuse(remoting.InvalidParameter, "maxMsgNums is %d: 1 or more is allowed", p.maxRecords)
	}
	return p, nil
}

// pullMessage serves PULL_MESSAGE and LITE_PULL_MESSAGE.
func pullMessage(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error {
	p, err := parsePull(req)
	if err != nil {
		return err
	}
	p.kept = mayBlock
	group, sub, err := b.mayPull(&p, mayBlock)
	if err != nil {
		return err
	}
	if p.sysFlag&pullCommitOffset != 0 && p.commit >= 0 {
		// The pull goes on whatever becomes of the offset that rides on it.
		if err := b.commitOffset(group, p.topic, p.queueID, p.commit); err != nil {
			b.log.Debug("offset on a pull not committed", "remote", c.remote, "group", p.group, "topic", p.topic, "error", err)
		}
	}
	var until time.Time
	if p.sysFlag&pullSuspend != 0 && p.suspendMs > 0 {
		until = time.Now().Add(min(time.Duration(p.suspendMs)*time.Millisecond, maxHold))
	}
	return b.servePull(c, &p, &sub.filter, until)
}

// mayPull checks a pull in the order of RocketMQ `PullMessageProcessor` and
// returns the group and the subscription to filter by.
func (b *Broker) mayPull(p *pullRequest, mayBlock bool) (*store.Group, *subscription, error) {
	group, err := b.tables.useGroup(p.group, mayBlock)
	if err != nil {
		return nil, nil, err
	}
	if !group.ConsumeEnable {
		return nil, nil, forbid(forbiddenGroup, "subscription group [%s] may not consume", p.group)
	}
	if p.topic == message.ScheduleTopic {
		return nil, nil, forbid(forbiddenTopic, "topic[%s] holds what is not due yet and cannot be pulled", p.topic)
	}
	topic := b.tables.readable(p.topic)
	if topic == nil {
		return nil, nil, refuse(remoting.TopicNotExist, "topic[%s] does not exist", p.topic)
	}
	if topic.Perm&permRead == 0 {
		return nil, nil, forbid(forbiddenTopic, "the topic[%s] pulling message is forbidden", p.topic)
	}
	if p.queueID < 0 || p.queueID >= topic.ReadQueues {
		return nil, nil, refuse(remoting.InvalidParameter, "queueId is %d: topic[%s] has the queues 0 to %d", p.queueID, p.topic, topic.ReadQueues-1)
	}
	sub, err := b.pullSubscription(group, p)
	return group, sub, err
}

// pullSubscription returns what a pull is filtered by: what it says itself, or
// what the group's heartbeats said. A heartbeat may be missing, or older than
// the pull: after a subscribe, when the client's queues changed, when the
// broker has just started. RocketMQ refuses such pulls until the next one, up
// to 30 s later. Here they are served: without a filter, as clients compare
// the tags themselves. For SQL92 they do not, so these wait for the heartbeat.
func (b *Broker) pullSubscription(group *store.Group, p *pullRequest) (*subscription, error) {
	if p.sysFlag&pullSubscription != 0 {
		sub := b.exprs.newSubscription(p.topic, p.expression, p.kind, p.version)
		if sub.err != nil {
			return nil, refuse(remoting.SubscriptionParseFailed, "parse the consumer's subscription failed: %v", sub.err)
		}
		return sub, nil
	}
	known, model, online := b.registry.subscriptionOf(p.group, p.topic)
	switch {
	case model == broadcasting && !group.BroadcastEnable:
		return nil, forbid(forbiddenBroadcast, "the consumer group [%s] may not broadcast", p.group)
	case known != nil && known.version >= p.version:
		if known.err != nil {
			return nil, refuse(remoting.FilterDataNotExist, "the subscription of group [%s] cannot be used: %v", p.group, known.err)
		}
		return known, nil
	case isTag(p.kind):
		return &everything, nil
	case !online:
		return nil, refuse(remoting.SubscriptionNotExist, "the consumer group [%s] has no member on-line", p.group)
	case known == nil:
		return nil, refuse(remoting.SubscriptionNotExist, "the consumer group [%s] does not subscribe topic[%s]", p.group, p.topic)
	}
	return nil, refuse(remoting.SubscriptionNotLatest, "the subscription of group [%s] is of version %d here, %d asked for", p.group, known.version, p.version)
}

// everything is the subscription that filters nothing.
var everything = subscription{kind: tagFilter, expression: allTags}

// forbid refuses a pull with NO_PERMISSION and its reason.
func forbid(reason int64, format string, args ...any) error {
	r := &refusal{code: remoting.NoPermission, remark: fmt.Sprintf(format, args...)}
	r.fields.SetInt("forbiddenType", reason)
	return r
}

// servePull answers a pull, or holds it until a message arrives or the time
// until is over; zero: it is not held.
func (b *Broker) servePull(c *conn, p *pullRequest, f *filter, until time.Time) error {
	match := f.entries()
	passed := 0 // bytes read that the expression did not match
	for {
		if to, moved := b.resets.moved(c, p.group, p.topic, p.queueID, p.offset); moved {
			b.answerMoved(c, p, to)
			return nil
		}
		maxBytes := maxPullBytes
		if p.maxBytes > 0 {
			maxBytes = min(maxBytes, int(p.maxBytes))
		}
		res, err := b.store.Read(p.topic, p.queueID, p.offset, min(int(p.maxRecords), maxPullRecords), maxBytes, match)
		if err != nil {
			return err
		}
		if f != nil && f.sql != nil && res.Status == store.Found {
			read := 0
			for _, r := range res.Records {
				read += len(r)
			}
			if res.Records = f.keep(res.Records); len(res.Records) == 0 {
				res.Status = store.NoMatch
				if passed += read; passed < maxPassed && res.Next < res.Max {
					res.Release()
					p.offset = res.Next
					continue
				}
			}
		}
		next, wait := p.offset, false
		switch res.Status {
		case store.NoMessageYet:
			wait = true
		case store.NoQueue:
			wait = p.offset == 0
		case store.NoMatch:
			// All there is was passed over: what comes next may match.
			next, wait = res.Next, res.Next >= res.Max
		}
		if !wait || until.IsZero() || b.hold.heldBy(c) >= maxHeld {
			b.answerPull(c, p, &res)
			return nil
		}
		res.Release()
		next, again := b.holdPull(c, p, next, f, until)
		if !again {
			return nil
		}
		p.offset = next
	}
}

// holdPull holds a pull and looks at the queue once more: an entry that became
// visible between the caller's look and the hold is seen here, a later one
// finds the pull held. The same goes for a reset of the group's offsets. again
// says that the caller has to look again, from next on; otherwise the pull is
// held, answered, or another goroutine's, and the caller must not touch it.
func (b *Broker) holdPull(c *conn, p *pullRequest, offset int64, f *filter, until time.Time) (next int64, again bool) {
	if !p.kept { // this is the goroutine that reads the connection
		c.keep()
		p.kept = true
	}
	group, key := p.group, queueKey{p.topic, p.queueID}
	held := &heldPull{key: key, offset: offset, filter: f, deadline: until, conn: c, pull: p}
	if !b.hold.hold(held) {
		b.answerEmpty(c, p, offset)
		return 0, false
	}
	_, end, ok := b.store.Offsets(key.topic, key.id)
	if !ok || end <= offset {
		if _, moved := b.resets.moved(c, group, key.topic, key.id, offset); !moved {
			return 0, false
		}
	}
	if !b.hold.take(held) {
		return 0, false
	}
	return held.offset, true
}

// resumePull goes on with a pull that was held.
func (b *Broker) resumePull(h *heldPull, why wakeReason) {
	p, c := h.pull, h.conn
	p.offset = h.offset
	until := h.deadline
	switch why {
	case wokenByClose:
		b.answerEmpty(c, p, p.offset)
		return
	case wokenByTimeout:
		until = time.Time{}
	}
	if b.tables.readable(p.topic) == nil { // deleted meanwhile
		c.replyError(p.req, refuse(remoting.TopicNotExist, "topic[%s] does not exist", p.topic))
		return
	}
	if err := b.servePull(c, p, h.filter, until); err != nil {
		c.replyError(p.req, err)
	}
}

// answerPull answers with what the store found, by the codes of RocketMQ
// `PullMessageProcessor.composeResponseHeader`.
func (b *Broker) answerPull(c *conn, p *pullRequest, res *store.ReadResult) {
	code, remark := remoting.Success, ""
	switch res.Status {
	case store.Found:
	case store.NoMatch:
		code, remark = remoting.PullRetryImmediately, "NO_MATCHED_MESSAGE"
	case store.NoMessageYet:
		code, remark = remoting.PullNotFound, "OFFSET_OVERFLOW_ONE"
	case store.OffsetTooSmall:
		code, remark = remoting.PullOffsetMoved, "OFFSET_TOO_SMALL"
	case store.OffsetTooLarge:
		code, remark = remoting.PullOffsetMoved, "OFFSET_OVERFLOW_BADLY"
	case store.NoQueue:
		code, remark = remoting.PullNotFound, "NO_MATCHED_LOGIC_QUEUE"
		if p.offset != 0 {
			code = remoting.PullOffsetMoved
		}
	}
	b.stats.pulled(p.group, p.topic, res.Records)
	resp := p.req.Reply(code, remark)
	resp.Fields = b.pullFields(res.Next, res.Min, res.Max)
	resp.Bodies = res.Records
	resp.Done = res.Release
	c.reply(p.req, resp)
}

// answerEmpty says that nothing is there yet.
func (b *Broker) answerEmpty(c *conn, p *pullRequest, next int64) {
	lo, hi, _ := b.store.Offsets(p.topic, p.queueID)
	resp := p.req.Reply(remoting.PullNotFound, "OFFSET_OVERFLOW_ONE")
	resp.Fields = b.pullFields(next, lo, hi)
	c.reply(p.req, resp)
}

// answerMoved sends the puller to the position its group was reset to.
func (b *Broker) answerMoved(c *conn, p *pullRequest, to int64) {
	lo, hi, _ := b.store.Offsets(p.topic, p.queueID)
	resp := p.req.Reply(remoting.PullOffsetMoved, "OFFSET_RESET")
	resp.Fields = b.pullFields(to, lo, hi)
	c.reply(p.req, resp)
}

func (b *Broker) pullFields(next, lo, hi int64) remoting.Fields {
	f := make(remoting.Fields, 0, 4)
	f = append(f, remoting.Field{Key: "suggestWhichBrokerId", Value: b.brokerIDText})
	f.SetInt("nextBeginOffset", next)
	f.SetInt("minOffset", lo)
	f.SetInt("maxOffset", hi)
	return f
}

// deletedTopic wakes the pulls of a topic that is gone.
func (b *Broker) deletedTopic(topic string) {
	b.hold.wakeIf(queueKey{strings.Clone(topic), -1}, func(*heldPull) bool { return true })
}
