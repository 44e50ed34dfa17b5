package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// lockEvery is how often queue locks are renewed, as RocketMQ.
const lockEvery = 20 * time.Second

// lockLoop renews the queue locks. A queue whose lock went to another member
// is given up without a commit.
func (p *PushConsumer) lockLoop() {
	for sleep(p.life, lockEvery) {
		queues := p.snapshot()
		names := make([]Queue, len(queues))
		for i, pq := range queues {
			names[i] = pq.queue
		}
		if len(names) == 0 {
			continue
		}
		at := time.Now()
		held, err := p.lock(p.life, names)
		if err != nil && p.life.Err() == nil {
			// What could not be asked for stays trusted for its time.
			p.log.Warn("queue locks not renewed", "err", err)
		}
		for _, pq := range queues {
			ours, known := held[pq.queue]
			switch {
			case ours:
				pq.locked(at)
			case known:
				p.log.Warn("queue lock lost", "queue", pq.queue.String())
				p.lose(pq)
			}
		}
	}
}

// lose drops a queue that belongs to another member already.
func (p *PushConsumer) lose(pq *processQueue) {
	pq.cancel()
	ctx, cancel := context.WithTimeout(p.life, p.client.cfg.requestTimeout)
	defer cancel()
	pq.drop(ctx)
	p.mu.Lock()
	if p.queues[pq.queue] == pq && !p.closed {
		delete(p.queues, pq.queue)
		p.leaving[pq.queue] = true
		p.work.Go(func() {
			<-pq.fed
			p.mu.Lock()
			delete(p.leaving, pq.queue)
			p.mu.Unlock()
			poke(p.wake)
		})
	}
	p.mu.Unlock()
}

// lockBody is the body of lock and unlock requests, as RocketMQ
// LockBatchRequestBody.
type lockBody struct {
	Group    string     `json:"consumerGroup"`
	ClientID string     `json:"clientId"`
	Only     bool       `json:"onlyThisBroker"`
	Queues   []queueKey `json:"mqSet"`
}

// lock asks for queue locks, broker by broker. The map says for each queue
// whether we hold it; queues whose broker did not answer are not in it.
func (p *PushConsumer) lock(ctx context.Context, queues []Queue) (map[Queue]bool, error) {
	held := map[Queue]bool{}
	err := p.byBroker(ctx, remoting.ReqLockBatchMQ, queues, func(asked []Queue, answer *remoting.Command) error {
		var body struct {
			Held []queueKey `json:"lockOKMQSet"`
		}
		if err := unmarshalLenient(answer.Body, &body); err != nil {
			return fmt.Errorf("%w: queue locks: %w", ErrBadAnswer, err)
		}
		for _, q := range asked {
			held[q] = slices.Contains(body.Held, queueKey{BrokerName: q.Broker, QueueID: q.ID, Topic: q.Topic})
		}
		return nil
	})
	return held, err
}

func (p *PushConsumer) unlock(ctx context.Context, queues []*processQueue) error {
	names := make([]Queue, len(queues))
	for i, pq := range queues {
		names[i] = pq.queue
	}
	return p.byBroker(ctx, remoting.ReqUnlockBatchMQ, names, func([]Queue, *remoting.Command) error { return nil })
}

// byBroker sends a lock or unlock request to each broker that has some of
// queues.
func (p *PushConsumer) byBroker(ctx context.Context, code int, queues []Queue, answered func([]Queue, *remoting.Command) error) error {
	queues = slices.SortedFunc(slices.Values(queues), func(a, b Queue) int {
		return cmp.Or(cmp.Compare(a.Broker, b.Broker), compareQueues(a, b))
	})
	var errs []error
	for len(queues) > 0 {
		n := slices.IndexFunc(queues, func(q Queue) bool { return q.Broker != queues[0].Broker })
		if n < 0 {
			n = len(queues)
		}
		part := queues[:n]
		queues = queues[n:]
		body := lockBody{Group: p.group, ClientID: p.client.cfg.clientID}
		for _, q := range part {
			body.Queues = append(body.Queues, queueKey{BrokerName: q.Broker, QueueID: q.ID, Topic: q.Topic})
		}
		errs = append(errs, func() error {
			addr, err := p.client.brokerAddr(ctx, part[0], true)
			if err != nil {
				return err
			}
			req := remoting.NewRequest(code)
			if req.Body, err = json.Marshal(body); err != nil {
				return err
			}
			answer, err := p.client.memberRequest(ctx, addr, req)
			if err != nil {
				return err
			}
			return answered(part, answer)
		}())
	}
	return errors.Join(errs...)
}
