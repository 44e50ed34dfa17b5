package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// sender carries messages to brokers: chooses queues, makes attempts.
type sender struct {
	client   *Client
	group    string
	retries  int
	selector Selector // nil: round robin that avoids the broker that failed
	robin    Selector
}

// sending is one message, or one batch, on its way through its attempts.
type sending struct {
	topic string
	msg   *Message // for the selector
	// queue is where it must go, hashKey what decides where; both empty leave
	// the choice to the selector.
	queue   Queue
	hashKey string

	body    []byte // not the caller's if it is large: it may be written late
	props   string
	sysFlag int32
	flag    int32
	batch   bool
	// reconsume and maxReconsume are for messages a consumer sends to its retry
	// topic; maxReconsume -1 leaves it to the broker.
	reconsume, maxReconsume int

	tries   int
	avoid   string // broker that failed last
	reroute bool   // ask for the route before the next attempt
	others  bool   // the topic has queues at other brokers than the last
}

// attempt is one try at one queue.
type attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
	call   *call
	queue  Queue
	addr   string
}

// run makes attempts until one succeeds or none is worth it. first, if not
// nil, is under way already.
func (s *sender) run(ctx context.Context, m *sending, first *attempt, err error) (*remoting.Command, *attempt, error) {
	a := first
	for {
		if err == nil {
			var answer *remoting.Command
			if answer, err = s.finish(a); err == nil {
				return answer, a, nil
			}
		}
		if err = s.next(ctx, m, err); err != nil {
			return nil, nil, err
		}
		a, err = s.begin(ctx, m)
	}
}

// begin starts an attempt: when it returns without an error the request is on
// its way, and finish must be called.
func (s *sender) begin(ctx context.Context, m *sending) (*attempt, error) {
	m.tries++
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.requestTimeout)
	a := &attempt{ctx: ctx, cancel: cancel}
	err := s.place(ctx, m, a)
	if err == nil {
		var cn *conn
		if cn, err = s.client.connect(ctx, a.addr); err == nil {
			a.call, err = cn.start(ctx, s.request(m, a.queue))
		}
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return a, nil
}

// finish waits for an attempt's answer.
func (s *sender) finish(a *attempt) (*remoting.Command, error) {
	defer a.cancel()
	answer, err := a.call.wait(a.ctx)
	if err != nil {
		return nil, err
	}
	switch answer.Code {
	case remoting.Success, remoting.FlushDiskTimeout, remoting.FlushSlaveTimeout, remoting.SlaveNotAvailable:
		return answer, nil
	}
	return nil, brokerError(a.addr, a.call.request, answer)
}

// place chooses the queue and finds its broker.
func (s *sender) place(ctx context.Context, m *sending, a *attempt) error {
	if m.reroute {
		m.reroute = false
		// What is known may still do if nobody answers.
		if _, err := s.client.fetchRoute(ctx, m.topic); err != nil {
			s.client.cfg.log.Debug("route not refreshed", "topic", m.topic, "err", err)
		}
	}
	r, err := s.client.publishRoute(ctx, m.topic)
	if err != nil {
		return err
	}
	queues := r.writable()
	if len(queues) == 0 {
		return fmt.Errorf("%w: topic %q cannot be written", ErrNoQueue, m.topic)
	}
	switch {
	case m.queue.Broker != "":
		if !slices.Contains(queues, m.queue) {
			return fmt.Errorf("%w: %s cannot be written", ErrNoQueue, m.queue)
		}
		a.queue = m.queue
	case m.hashKey != "":
		a.queue = queues[hashIndex(m.hashKey, len(queues))]
	case s.selector != nil:
		i := s.selector(m.msg, queues)
		if i < 0 || i >= len(queues) {
			return fmt.Errorf("%w: selector returned %d of %d queues", ErrNoQueue, i, len(queues))
		}
		a.queue = queues[i]
	default:
		elsewhere := slices.DeleteFunc(slices.Clone(queues), func(q Queue) bool { return q.Broker == m.avoid })
		if len(elsewhere) > 0 {
			queues = elsewhere
		}
		a.queue = queues[s.robin(m.msg, queues)]
	}
	m.avoid = a.queue.Broker
	m.others = m.queue.Broker == "" && m.hashKey == "" && s.selector == nil &&
		slices.ContainsFunc(queues, func(q Queue) bool { return q.Broker != a.queue.Broker })
	a.addr = r.addr(a.queue.Broker, true)
	return nil
}

// next decides whether to go on after err, and waits if the same broker is to
// be tried again. It returns the error to give up with.
func (s *sender) next(ctx context.Context, m *sending, err error) error {
	v, reroute := judge(err)
	if v == final || m.tries > s.retries || v == retryElsewhere && !m.others {
		return sendError(m, err)
	}
	m.reroute = reroute
	if !m.others {
		// 50 ms, 100 ms, … 1 s: time for a broker to come back.
		pause := time.NewTimer(min(time.Second, 50*time.Millisecond<<min(m.tries-1, 5)))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return sendError(m, errors.Join(err, contextError(ctx, "further attempts")))
	}
	s.client.cfg.log.Debug("sending again", "topic", m.topic, "tries", m.tries, "err", err)
	return nil
}

func sendError(m *sending, err error) error {
	if m.tries > 1 {
		return fmt.Errorf("send to %q, %d attempts: %w", m.topic, m.tries, err)
	}
	return fmt.Errorf("send to %q: %w", m.topic, err)
}

// request is a fresh request for one attempt.
func (s *sender) request(m *sending, q Queue) *remoting.Command {
	code := remoting.ReqSendMessageV2
	if m.batch {
		code = remoting.ReqSendBatchMessage
	}
	h := remoting.SendHeader{
		ProducerGroup:         s.group,
		Topic:                 m.topic,
		DefaultTopic:          message.TBW102,
		DefaultTopicQueueNums: int32(s.client.cfg.defaultQueues),
		QueueID:               int32(q.ID),
		SysFlag:               m.sysFlag,
		BornTimestamp:         time.Now().UnixMilli(),
		Flag:                  m.flag,
		Properties:            m.props,
		ReconsumeTimes:        int32(m.reconsume),
		MaxReconsumeTimes:     int32(m.maxReconsume),
		Batch:                 m.batch,
		BrokerName:            q.Broker,
	}
	req := remoting.NewRequest(code, h.AppendFields(make(remoting.Fields, 0, 14))...)
	req.HeaderType = remoting.HeaderRocketMQ
	req.Body = m.body
	return req
}
