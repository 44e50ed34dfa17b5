package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	// defaultMaxReconsume is how often a concurrent consumer's message is
	// retried, as RocketMQ.
	defaultMaxReconsume = 16
	// consumeAgainAfter is the pause before a message is handled again because
	// it could not be sent back, as RocketMQ.
	consumeAgainAfter = 5 * time.Second
)

// handOut gives messages to handlers as slots become free.
func (pq *processQueue) handOut() {
	defer close(pq.fed)
	p := pq.c
	for e := pq.take(); e != nil; e = pq.take() {
		select {
		case p.slots <- struct{}{}:
			p.work.Go(func() { p.consume(pq, e) })
		case <-pq.ctx.Done():
			return
		}
	}
}

// consume handles one message to the end; it has a slot.
func (p *PushConsumer) consume(pq *processQueue, e *entry) {
	m := e.msg
	for {
		r := p.invoke(m)
		<-p.slots
		if pq.isDropped() {
			return // the queue's next owner begins before this message
		}
		if p.settle(m, r) {
			pq.finish(e)
			return
		}
		// It could be sent nowhere: nothing is lost as long as it is not
		// finished. Handle it again later.
		m.ReconsumeTimes++
		if !sleep(pq.ctx, consumeAgainAfter) {
			return
		}
		select {
		case p.slots <- struct{}{}:
		case <-pq.ctx.Done():
			return
		}
	}
}

// settle does what a result asks for. It reports false when the message is
// neither consumed nor sent back.
func (p *PushConsumer) settle(m *Message, r Result) bool {
	if r == Success {
		return true
	}
	if p.cfg.broadcast {
		p.log.Warn("message failed; broadcast does not retry", "queue", m.Queue.String(), "offset", m.QueueOffset, "id", m.ID, "result", r.String())
		return true
	}
	if err := p.sendBack(m, r.level()); err != nil {
		p.log.Warn("message could not be sent back", "queue", m.Queue.String(), "offset", m.QueueOffset, "id", m.ID, "err", err)
		return false
	}
	return true
}

// invoke runs the handler.
func (p *PushConsumer) invoke(m *Message) (r Result) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("handler panicked", "queue", m.Queue.String(), "offset", m.QueueOffset, "id", m.ID,
				"panic", v, "stack", string(debug.Stack()))
			r = Retry
		}
	}()
	r = p.handler(p.handling, m)
	if r < Success {
		p.log.Error("handler returned an unknown result", "result", r.String())
		r = Retry
	}
	return r
}

// maxReconsume is how often a message is retried.
func (p *PushConsumer) maxReconsume() int {
	switch {
	case p.cfg.maxReconsume >= 0:
		return p.cfg.maxReconsume
	case p.cfg.orderly:
		return math.MaxInt32
	}
	return defaultMaxReconsume
}

// sendBack asks the broker to deliver m to the group again after the delay
// level; 0 leaves the level to the broker, -1 means the dead-letter topic. If
// the broker cannot – the record may be gone by retention, or the broker down –
// the message itself is sent to the retry topic, at any broker that has it.
func (p *PushConsumer) sendBack(m *Message, level int) error {
	ctx, cancel := context.WithTimeout(p.life, 2*p.client.cfg.requestTimeout)
	defer cancel()
	addr, err := p.client.brokerAddr(ctx, m.Queue, true)
	if err == nil {
		_, err = p.client.memberRequest(ctx, addr, remoting.NewRequest(remoting.ReqConsumerSendMsgBack,
			remoting.Field{Key: "offset", Value: itoa(m.PhysicalOffset)},
			remoting.Field{Key: "group", Value: p.group},
			remoting.Field{Key: "delayLevel", Value: itoa(level)},
			remoting.Field{Key: "originMsgId", Value: m.OffsetID},
			remoting.Field{Key: "originTopic", Value: m.Topic},
			remoting.Field{Key: "unitMode", Value: "false"},
			remoting.Field{Key: "maxReconsumeTimes", Value: itoa(p.maxReconsume())},
			remoting.Field{Key: "bname", Value: m.Queue.Broker},
		))
		if err == nil {
			return nil
		}
	}
	if errors.Is(err, ErrTimeout) {
		// It may be stored already; the same message twice is worse than a
		// later retry of the whole.
		return err
	}
	p.log.Debug("broker does not take a message back; sending it", "queue", m.Queue.String(), "offset", m.QueueOffset, "err", err)
	if serr := p.sendToRetryTopic(ctx, m, level); serr != nil {
		return errors.Join(err, serr)
	}
	return nil
}

// sendToRetryTopic sends a copy of m to the retry topic, as RocketMQ's
// sendMessageBackAsNormalMessage. The broker makes it a dead letter when the
// count of retries is over the maximum.
func (p *PushConsumer) sendToRetryTopic(ctx context.Context, m *Message, level int) error {
	topic := message.RetryTopic(p.group)
	times, limit := m.ReconsumeTimes+1, p.maxReconsume()
	switch {
	case level < 0:
		limit = min(limit, times-1)
	case level == 0:
		level = 3 + m.ReconsumeTimes
	}
	copied := *m
	copied.Topic = topic
	copied.DelayLevel = max(0, level)
	copied.Properties = maps.Clone(m.Properties)
	if copied.Properties == nil {
		copied.Properties = map[string]string{}
	}
	delete(copied.Properties, message.PropertyTransactionPrepared)
	copied.Properties[message.PropertyRetryTopic] = m.Topic
	if copied.Properties[message.PropertyOriginMessageID] == "" {
		copied.Properties[message.PropertyOriginMessageID] = m.OffsetID
	}
	copied.Properties[message.PropertyReconsumeTime] = strconv.Itoa(times)
	copied.Properties[message.PropertyMaxReconsumeTimes] = strconv.Itoa(limit)
	s := &sending{
		topic: topic, msg: &copied, body: m.Body, flag: m.Flag, props: copied.properties(m.ID),
		reconsume: times, maxReconsume: limit,
	}
	if m.BodyErr != nil {
		s.sysFlag = message.WithCompression(0, message.CompressionOf(m.SysFlag)) // the body is as it was stored
	}
	if len(s.props) > message.MaxProperties {
		return fmt.Errorf("%w: properties of %d bytes with those of the retry, at most %d", ErrMessageTooLarge, len(s.props), message.MaxProperties)
	}
	a, err := p.sender.begin(ctx, s)
	_, _, err = p.sender.run(ctx, s, a, err)
	return err
}

// handOutInOrder runs handlers one after the other, going to the next message
// only when the one before is settled.
func (pq *processQueue) handOutInOrder() {
	defer close(pq.fed)
	if pq.after != nil {
		select {
		case <-pq.after:
		case <-pq.ctx.Done():
			return
		}
	}
	for e := pq.take(); e != nil; e = pq.take() {
		if !pq.c.consumeInOrder(pq, e) {
			return
		}
	}
}

// consumeInOrder handles one message until it is settled. It reports false when
// the queue ended before that.
func (p *PushConsumer) consumeInOrder(pq *processQueue, e *entry) bool {
	m := e.msg
	for {
		if !pq.waitLock() {
			return false
		}
		select {
		case p.slots <- struct{}{}:
		case <-pq.ctx.Done():
			return false
		}
		r := p.invoke(m)
		<-p.slots
		if pq.isDropped() {
			return false
		}
		if r == Success {
			pq.finish(e)
			return true
		}
		if r == DeadLetter || m.ReconsumeTimes >= p.maxReconsume() {
			if p.giveUpInOrder(m) {
				pq.finish(e)
				return true
			}
		}
		m.ReconsumeTimes++
		if !sleep(pq.ctx, p.cfg.suspend) {
			return false
		}
	}
}

// giveUpInOrder moves a message out of the way, to the dead-letter topic.
func (p *PushConsumer) giveUpInOrder(m *Message) bool {
	if p.cfg.broadcast {
		p.log.Warn("message given up; broadcast has no dead letters", "queue", m.Queue.String(), "offset", m.QueueOffset, "id", m.ID)
		return true
	}
	ctx, cancel := context.WithTimeout(p.life, 2*p.client.cfg.requestTimeout)
	defer cancel()
	if err := p.sendToRetryTopic(ctx, m, -1); err != nil {
		p.log.Warn("message could not be made a dead letter", "queue", m.Queue.String(), "offset", m.QueueOffset, "id", m.ID, "err", err)
		return false
	}
	return true
}

// waitLock waits until the queue lock can be relied on. It reports false when
// the queue ended.
func (pq *processQueue) waitLock() bool {
	if pq.c.cfg.broadcast {
		return pq.ctx.Err() == nil
	}
	for {
		if pq.ctx.Err() != nil {
			return false
		}
		if pq.holdsLock() {
			return true
		}
		select {
		case <-pq.held:
		case <-pq.ctx.Done():
			return false
		}
	}
}
