package broker

import (
	"container/heap"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// Defaults of the check-back, as RocketMQ `BrokerConfig`.
const (
	defaultTransactionTimeout  = 6 * time.Second
	defaultTransactionInterval = 30 * time.Second
	defaultTransactionChecks   = 15
)

// checks are the transactions that are waited for: a producer that has not
// ended one within the timeout is asked what became of it
// (CHECK_TRANSACTION_STATE), again and again in intervals; after so many times
// the message goes to TRANS_CHECK_MAX_TIME_TOPIC. One that has ended is
// dropped when its time comes. What was asked is in memory: a restart goes by
// the age of the half message.
type checks struct {
	mu   sync.Mutex
	heap checkHeap
	// wake tells that the earliest changed; capacity 1.
	wake chan struct{}
	// turn chooses among the producers of a group.
	turn atomic.Uint32
}

// check is one transaction that is waited for.
type check struct {
	at      time.Time
	address int64
	done    int // times that the producer was asked
}

func (k *checks) add(c check) {
	k.mu.Lock()
	heap.Push(&k.heap, c)
	first := k.heap[0].address == c.address
	k.mu.Unlock()
	if first {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// due takes the earliest check when its time has come; otherwise it says how
// long to wait.
func (k *checks) due(now time.Time) (c check, wait time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.heap) == 0 {
		return c, time.Hour, false
	}
	if wait = k.heap[0].at.Sub(now); wait > 0 {
		return c, wait, false
	}
	return heap.Pop(&k.heap).(check), 0, true
}

// began notes a half message that was stored. It is called on the store's
// writer.
func (b *Broker) began(m *store.Message) {
	wait := b.opts.TransactionTimeout
	if text, ok := message.View(m.Record).Property(message.PropertyCheckImmunityTime); ok {
		wait = b.immunity(text)
	}
	b.checks.add(check{at: time.Now().Add(wait), address: m.Appended.Address})
}

// immunity is how long a producer is not asked about its transaction, by its
// own property in seconds; −1 and what is no number stand for the broker's
// timeout.
func (b *Broker) immunity(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return b.opts.TransactionTimeout
	}
	return time.Duration(n) * time.Second
}

// checkTransactions asks producers about their transactions until the broker
// closes.
func (b *Broker) checkTransactions() {
	for _, h := range b.store.Halves() {
		b.checks.add(check{at: time.Now(), address: h.Address, done: -1})
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-b.checks.wake:
		case <-timer.C:
		}
		for {
			c, wait, ok := b.checks.due(time.Now())
			if !ok {
				timer.Reset(wait)
				break
			}
			b.checkOne(c)
		}
	}
}

// checkOne asks about one transaction, or gives it up.
func (b *Broker) checkOne(c check) {
	h, open := b.store.Half(c.address)
	if !open {
		return
	}
	later := func(d time.Duration) {
		c.at = time.Now().Add(d)
		b.checks.add(c)
	}
	m, err := b.readHalf(c.address)
	if err != nil {
		b.log.Error("a transaction cannot be looked at", "error", err)
		later(b.opts.TransactionInterval)
		return
	}
	if c.done < 0 { // stored before the broker started
		first := b.opts.TransactionTimeout
		if text, ok := m.Property(message.PropertyCheckImmunityTime); ok {
			first = b.immunity(text)
		}
		over := b.store.Now().Sub(time.UnixMilli(h.StoreMs)) - first
		// At least one question is left, however long the broker was down.
		c.done = min(max(int((over+b.opts.TransactionInterval)/b.opts.TransactionInterval), 0), b.opts.TransactionChecks-1)
		if over < 0 {
			c.done = 0
			later(-over)
			return
		}
	}
	if c.done >= b.opts.TransactionChecks {
		if err := b.giveUp(m, c); err != nil {
			b.log.Error("a transaction cannot be given up", "log_address", c.address, "error", err)
			later(b.opts.TransactionInterval)
		}
		return
	}
	c.done++
	if err := b.askProducer(m, c.done); err != nil {
		b.log.Warn("a producer cannot be asked about its transaction", "log_address", c.address, "time", c.done, "of", b.opts.TransactionChecks, "error", err)
	}
	later(b.opts.TransactionInterval)
}

// askProducer sends CHECK_TRANSACTION_STATE to a producer of the transaction's
// group, as RocketMQ `AbstractTransactionalMessageCheckListener`. Its answer is
// an END_TRANSACTION.
func (b *Broker) askProducer(half *message.Message, times int) error {
	group, _ := half.Property(message.PropertyProducerGroup)
	producers := b.registry.producerGroup(group)
	if len(producers) == 0 {
		return refuse(remoting.SystemError, "no producer of group %s is on-line", group)
	}
	m := *half
	var err error
	if m.Topic, m.QueueID, err = realTarget(half); err != nil {
		return err
	}
	props := message.RemoveProperties(m.Properties, message.PropertyTransactionCheckTimes)
	m.Properties = string(message.AppendProperty([]byte(props), message.PropertyTransactionCheckTimes, strconv.Itoa(times)))
	body, err := message.AppendRecord(nil, &m)
	if err != nil {
		return err
	}
	id, _ := half.Property(message.PropertyUniqueKey)
	cmd := remoting.NewRequest(remoting.ReqCheckTransactionState,
		remoting.Field{Key: "topic", Value: half.Topic},
		remoting.Field{Key: "msgId", Value: id},
		remoting.Field{Key: "transactionId", Value: id},
		remoting.Field{Key: "offsetMsgId", Value: message.OffsetID(half.StoreHost, half.PhysicalOffset)},
		remoting.Field{Key: "bname", Value: b.opts.BrokerName})
	cmd.Fields.SetInt("tranStateTableOffset", half.QueueOffset)
	cmd.Fields.SetInt("commitLogOffset", half.PhysicalOffset)
	cmd.Body = body
	producers[int(b.checks.turn.Add(1)%uint32(len(producers)))].conn.tell(cmd)
	return nil
}

// giveUp puts a message whose producer never knew into
// TRANS_CHECK_MAX_TIME_TOPIC, with its REAL_TOPIC and REAL_QID.
func (b *Broker) giveUp(half *message.Message, c check) error {
	t, err := b.tables.createTopic(internalTopic(message.TransCheckMaxTopic))
	if err != nil {
		return err
	}
	m := *half
	m.Topic, m.QueueID = t.Name, 0
	m.PreparedTransactionOffset = c.address
	props := message.RemoveProperties(m.Properties, message.PropertyTransactionCheckTimes)
	m.Properties = string(message.AppendProperty([]byte(props), message.PropertyTransactionCheckTimes, strconv.Itoa(c.done)))
	record, err := message.AppendRecord(nil, &m)
	if err != nil {
		return err
	}
	tags, _ := m.Property(message.PropertyTags)
	err = b.appendWait(store.Message{Topic: t.Name, Record: record, TagsCode: message.TagsCode(tags), Ends: true, Origin: store.Origin{Identity: c.address}})
	if err == nil {
		b.log.Warn("a transaction was given up: its message is in "+t.Name, "log_address", c.address, "asked", c.done)
	}
	return err
}

// appendWait stores one message and waits for it.
func (b *Broker) appendWait(m store.Message) error {
	done := make(chan error, 1)
	b.store.Append(&store.Batch{Messages: []store.Message{m}, Done: func(batch *store.Batch, err error) {
		if err == nil {
			err = batch.Messages[0].Err
		}
		done <- err
	}})
	return <-done
}

// checkHeap orders checks by time.
type checkHeap []check

func (q checkHeap) Len() int           { return len(q) }
func (q checkHeap) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q checkHeap) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *checkHeap) Push(x any)        { *q = append(*q, x.(check)) }
func (q *checkHeap) Pop() any {
	old := *q
	c := old[len(old)-1]
	*q = old[:len(old)-1]
	return c
}
