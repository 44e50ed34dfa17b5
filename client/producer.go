package client

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// writtenLate: a connection's Writer copies shorter bodies at once and takes
// longer ones from where they are when their turn comes. The caller may have
// given up by then and use the memory anew.
const writtenLate = 4 << 10

// SendStatus says how safe an accepted message is.
type SendStatus int

// What brokers say about a message they stored.
const (
	// SendOK: stored as the broker's flush mode promises.
	SendOK SendStatus = iota
	// FlushDiskTimeout: stored, but not known to be on disk in time.
	FlushDiskTimeout
	// FlushReplicaTimeout: stored, but not known to be on a replica in time.
	FlushReplicaTimeout
	// ReplicaNotAvailable: stored, but there is no replica.
	ReplicaNotAvailable
)

// String implements fmt.Stringer.
func (s SendStatus) String() string {
	switch s {
	case SendOK:
		return "ok"
	case FlushDiskTimeout:
		return "flush disk timeout"
	case FlushReplicaTimeout:
		return "flush replica timeout"
	case ReplicaNotAvailable:
		return "replica not available"
	}
	return fmt.Sprintf("SendStatus(%d)", int(s))
}

// SendResult is what became of a message that the broker accepted.
type SendResult struct {
	Status SendStatus
	// MessageID is the unique id that the message keeps through delays and
	// retries; consumers see it as Message.ID.
	MessageID string
	// OffsetID is the id of the stored record. A delayed message gets a new
	// record, and a new OffsetID, when it is due.
	OffsetID string
	// Queue is the queue it was sent to.
	Queue Queue
	// QueueOffset is its number in the queue it waits in: Queue, or its delay
	// level's.
	QueueOffset int64
}

// Producer sends messages. Its methods may be called concurrently.
type Producer struct {
	cfg      producerConfig
	sender   sender
	client   *Client
	inFlight chan struct{} // one per SendAsync under way

	mu     sync.Mutex
	closed bool
	busy   int           // sends under way
	idle   chan struct{} // closed by the last send after Close began
}

// NewProducer returns a producer. Errors wrap [ErrInvalidOption],
// [ErrGroupInUse] or [ErrClosed].
func (c *Client) NewProducer(opts ...ProducerOption) (*Producer, error) {
	cfg := defaultProducerConfig()
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	p := &Producer{
		cfg:      cfg,
		client:   c,
		inFlight: make(chan struct{}, cfg.maxInFlight),
		idle:     make(chan struct{}),
		sender:   sender{client: c, group: cfg.group, retries: cfg.retries, selector: cfg.selector, robin: RoundRobin()},
	}
	if err := c.addProducer(p); err != nil {
		return nil, err
	}
	return p, nil
}

// Send sends m and waits for the broker's answer, with further attempts as
// WithRetries says. ctx bounds all of it; each attempt takes at most the
// client's request timeout.
//
// With a nil error the broker stored m as its flush mode promises, once or, if
// the answer to an earlier attempt was lost, more than once. Errors:
// [ErrInvalidMessage] and [ErrMessageTooLarge] before anything was sent,
// *[BrokerError] for a refusal; after any other error m may have been stored.
func (p *Producer) Send(ctx context.Context, m *Message) (SendResult, error) {
	return p.send(ctx, m, Queue{})
}

// SendTo is Send to a queue of the caller's choice; q.Topic must be m.Topic.
func (p *Producer) SendTo(ctx context.Context, q Queue, m *Message) (SendResult, error) {
	if q.Broker == "" || q.Topic != m.Topic {
		return SendResult{}, fmt.Errorf("%w: queue %s for a message of topic %q", ErrInvalidMessage, q, m.Topic)
	}
	return p.send(ctx, m, q)
}

func (p *Producer) send(ctx context.Context, m *Message, q Queue) (SendResult, error) {
	if err := p.enter(); err != nil {
		return SendResult{}, err
	}
	defer p.leave()
	s, id, err := p.prepare(m, q)
	if err != nil {
		return SendResult{}, err
	}
	a, err := p.sender.begin(ctx, s)
	return p.result(ctx, s, id, a, err)
}

// SendAsync sends m and calls done, on a goroutine of its own, when the answer
// is there. It waits only for the route, for room (WithMaxInFlight) and for
// the message to be handed to the connection: messages that one goroutine
// sends to one queue arrive in order, unless an attempt must be repeated. An
// error it returns is the whole answer; done is not called then.
func (p *Producer) SendAsync(ctx context.Context, m *Message, done func(SendResult, error)) error {
	if err := p.enter(); err != nil {
		return err
	}
	s, id, err := p.prepare(m, Queue{})
	if err != nil {
		p.leave()
		return err
	}
	select {
	case p.inFlight <- struct{}{}:
	case <-ctx.Done():
		p.leave()
		return contextError(ctx, fmt.Sprintf("room among %d sends in flight", p.cfg.maxInFlight))
	}
	a, err := p.sender.begin(ctx, s)
	go func() { // leave ends it for Close
		defer p.leave()
		r, err := p.result(ctx, s, id, a, err)
		<-p.inFlight
		done(r, err)
	}()
	return nil
}

// SendOneway hands m to the connection and returns: no answer, no further
// attempts, and no telling whether it was stored.
func (p *Producer) SendOneway(ctx context.Context, m *Message) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	s, _, err := p.prepare(m, Queue{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.cfg.requestTimeout)
	defer cancel()
	var a attempt
	if err := p.sender.place(ctx, s, &a); err != nil {
		return err
	}
	cn, err := p.client.connect(ctx, a.addr)
	if err != nil {
		return err
	}
	return cn.oneway(ctx, p.sender.request(s, a.queue))
}

// SendBatch sends several messages of one topic in one request, to one queue:
// all are stored, with neighbouring offsets, or none. Batches cannot be
// delayed, and are not compressed; their size counts against
// WithMaxMessageSize as a whole. The results are in the order of msgs.
func (p *Producer) SendBatch(ctx context.Context, msgs []*Message) ([]SendResult, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	s, ids, err := p.prepareBatch(msgs)
	if err != nil {
		return nil, err
	}
	a, err := p.sender.begin(ctx, s)
	first, err := p.result(ctx, s, ids[0], a, err)
	if err != nil {
		return nil, err
	}
	// The answer has the first queue offset, and the ids divided by commas.
	results := make([]SendResult, len(msgs))
	offsetIDs := strings.Split(first.OffsetID, ",")
	for i := range results {
		results[i] = first
		results[i].MessageID = ids[i]
		results[i].QueueOffset += int64(i)
		results[i].OffsetID = ""
		if len(offsetIDs) == len(msgs) {
			results[i].OffsetID = offsetIDs[i]
		}
	}
	return results, nil
}

// Close waits for sends under way until ctx ends, and leaves the producer
// group. Sends that begin later return [ErrClosed].
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	if p.busy == 0 {
		close(p.idle)
	}
	p.mu.Unlock()
	var err error
	select {
	case <-p.idle:
	case <-ctx.Done():
		err = contextError(ctx, "sends under way")
	}
	lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.client.cfg.requestTimeout)
	defer cancel()
	if lerr := p.client.leave(lctx, p.cfg.group, ""); lerr != nil {
		// The broker forgets us with the connection anyway.
		p.client.cfg.log.Debug("producer group not left", "group", p.cfg.group, "err", lerr)
	}
	return err
}

func (p *Producer) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.busy++
	return nil
}

func (p *Producer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if p.closed && p.busy == 0 {
		close(p.idle)
	}
}

// prepare checks m and encodes what all attempts share.
func (p *Producer) prepare(m *Message, q Queue) (*sending, string, error) {
	if err := m.validate(p.cfg.maxMessageSize); err != nil {
		return nil, "", err
	}
	id := p.client.ids.UniqueID(time.Now())
	s := &sending{
		topic: m.Topic, msg: m, queue: q, hashKey: m.ShardingKey,
		body: m.Body, flag: m.Flag, props: m.properties(id), maxReconsume: -1,
	}
	if len(s.props) > message.MaxProperties {
		return nil, "", fmt.Errorf("%w: properties of %d bytes, at most %d allowed", ErrMessageTooLarge, len(s.props), message.MaxProperties)
	}
	if len(m.Body) >= p.cfg.compressOver {
		var err error
		if s.body, s.sysFlag, err = compress(p.cfg.compression, m.Body, 0); err != nil {
			return nil, "", fmt.Errorf("compress body: %w", err)
		}
	}
	if s.sysFlag == 0 && len(m.Body) >= writtenLate {
		s.body = bytes.Clone(m.Body)
	}
	return s, id, nil
}

func (p *Producer) prepareBatch(msgs []*Message) (*sending, []string, error) {
	if len(msgs) == 0 {
		return nil, nil, fmt.Errorf("%w: empty batch", ErrInvalidMessage)
	}
	first := msgs[0]
	s := &sending{topic: first.Topic, msg: first, hashKey: first.ShardingKey, batch: true, maxReconsume: -1}
	s.props = string(message.AppendProperty(nil, message.PropertyWaitStoreMsgOK, "true"))
	ids := make([]string, len(msgs))
	for i, m := range msgs {
		if err := m.validate(p.cfg.maxMessageSize); err != nil {
			return nil, nil, fmt.Errorf("message %d of the batch: %w", i, err)
		}
		var why string
		switch {
		case m.Topic != first.Topic:
			why = fmt.Sprintf("topic %q, the first has %q", m.Topic, first.Topic)
		case m.ShardingKey != first.ShardingKey:
			why = fmt.Sprintf("sharding key %q, the first has %q", m.ShardingKey, first.ShardingKey)
		case m.DelayLevel > 0:
			why = "delay level " + strconv.Itoa(m.DelayLevel) + ", batches cannot be delayed"
		case message.IsRetryTopic(m.Topic):
			why = "a retry topic"
		}
		if why != "" {
			return nil, nil, fmt.Errorf("%w: message %d of the batch has %s", ErrInvalidMessage, i, why)
		}
		ids[i] = p.client.ids.UniqueID(time.Now())
		var err error
		s.body, err = message.AppendBatch(s.body, &message.BatchMessage{Flag: m.Flag, Body: m.Body, Properties: m.properties(ids[i])})
		if err != nil {
			return nil, nil, fmt.Errorf("%w: message %d of the batch: %w", ErrMessageTooLarge, i, err)
		}
		if len(s.body) > p.cfg.maxMessageSize {
			return nil, nil, fmt.Errorf("%w: batch is over %d bytes with message %d of %d",
				ErrMessageTooLarge, p.cfg.maxMessageSize, i+1, len(msgs))
		}
	}
	return s, ids, nil
}

// result runs the attempts to the end and reads the answer.
func (p *Producer) result(ctx context.Context, s *sending, id string, a *attempt, err error) (SendResult, error) {
	answer, a, err := p.sender.run(ctx, s, a, err)
	if err != nil {
		return SendResult{}, err
	}
	r := SendResult{MessageID: id, Queue: a.queue}
	switch answer.Code {
	case remoting.FlushDiskTimeout:
		r.Status = FlushDiskTimeout
	case remoting.FlushSlaveTimeout:
		r.Status = FlushReplicaTimeout
	case remoting.SlaveNotAvailable:
		r.Status = ReplicaNotAvailable
	}
	// It is stored: an answer that cannot be read is no reason to send again.
	if r.OffsetID, err = requireText(answer, "msgId"); err != nil {
		return r, sendError(s, err)
	}
	queueID, err := answer.Fields.Int32("queueId")
	if err != nil {
		return r, sendError(s, fmt.Errorf("%w: %w", ErrBadAnswer, err))
	}
	r.Queue.ID = int(queueID)
	if r.QueueOffset, err = requireInt64(answer, "queueOffset"); err != nil {
		return r, sendError(s, err)
	}
	return r, nil
}
