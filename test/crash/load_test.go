package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemq/tidemq/client"
	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	topic     = "crash"
	producers = 8
	queues    = 4
	topLevel  = 3 // of table
)

// outcome is what became of a send.
type outcome int

const (
	unanswered outcome = iota // stored or not
	acked                     // stored
	refused                   // not stored
)

// sent is a message and what became of it. What it says is not kept: load.message
// makes it again.
type sent struct {
	began, ended int64 // ms, around the send
	outcome      outcome
	result       client.SendResult
}

// load is 8 producers that send at several levels, each the next message when
// the one before is answered or given up, and their books.
type load struct {
	t        *testing.T
	seed     uint64
	producer *client.Producer
	queues   []client.Queue
	// refusals are the texts one of which a refusal must have, besides code 14.
	refusals []string

	ended atomic.Bool
	wg    sync.WaitGroup
	// gate is held by each send, and for writing while the producers pause.
	gate   sync.RWMutex
	paused bool // the test's own

	mu      sync.Mutex
	sent    [producers][]sent
	acked   [producers]int
	refused [producers]int
}

// startLoad creates the topic and begins to send. The load is stopped, and its
// client closed, when the test ends.
func startLoad(t *testing.T, seed uint64, addr string, refusals ...string) *load {
	t.Helper()
	ctx := context.Background()
	c := newClient(t, addr)
	if err := c.Admin().CreateTopic(ctx, client.TopicConfig{Name: topic, ReadQueues: queues, WriteQueues: queues}); err != nil {
		t.Fatal(err)
	}
	qs, err := c.Admin().Queues(ctx, topic)
	if err != nil || len(qs) != queues {
		t.Fatalf("queues %v, %v", qs, err)
	}
	p, err := c.NewProducer(client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, seed: seed, producer: p, queues: qs, refusals: refusals}
	for n := range producers {
		l.wg.Go(func() {
			for !l.ended.Load() {
				l.send(n)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// newClient returns a client that is closed when the test ends.
func newClient(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.New([]string{addr}, client.WithRequestTimeout(2*time.Second), client.WithHeartbeat(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Logf("close of a client: %v", err)
		}
	})
	return c
}

// stop ends the load; the books are complete when it returns.
func (l *load) stop() {
	l.ended.Store(true)
	l.resume()
	l.wg.Wait()
}

// pause stops the producers between two messages.
func (l *load) pause() {
	l.gate.Lock()
	l.paused = true
}

// resume lets them go on.
func (l *load) resume() {
	if l.paused {
		l.paused = false
		l.gate.Unlock()
	}
}

// message is what a producer sends as its message seq, and the number of the
// queue it names. It is the same each time.
func (l *load) message(producer, seq int) (*client.Message, int) {
	r := rand.New(rand.NewPCG(l.seed, uint64(producer)<<32|uint64(seq)))
	level := r.IntN(topLevel + 2) // one above the table too
	m := &client.Message{
		Topic: topic, DelayLevel: level, Flag: int32(r.Uint32()),
		Properties: map[string]string{"producer": strconv.Itoa(producer), "seq": strconv.Itoa(seq), "level": strconv.Itoa(level)},
	}
	if n := r.IntN(4); n > 0 {
		m.Tags = []string{"red", "größer", "a-tag"}[n-1]
	}
	for range r.IntN(4) {
		m.Keys = append(m.Keys, "order-"+strconv.Itoa(r.IntN(1e6)))
	}
	if r.IntN(4) == 0 {
		m.ShardingKey = "shard " + strconv.Itoa(r.IntN(100))
	}
	for i := range r.IntN(5) {
		m.Properties["p"+strconv.Itoa(i)] = strings.Repeat("a ü ", r.IntN(40)) + "."
	}
	switch n := r.IntN(256); {
	case n == 0: // large
		m.Body = random(r, 32<<10+r.IntN(32<<10))
	case n < 8: // compressed by the client
		m.Body = []byte(strings.Repeat(fmt.Sprintf("%d of %d, ", seq, producer), 600))
	default:
		m.Body = random(r, 1+r.IntN(2000))
	}
	return m, r.IntN(queues)
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		v := r.Uint64()
		for j := i; j < min(i+8, n); j++ {
			b[j] = byte(v)
			v >>= 8
		}
	}
	return b
}

// delayOf is how long a message must wait, in ms.
func delayOf(level int) int64 { return int64(min(level, topLevel)) * 1000 }

// send sends the producer's next message.
func (l *load) send(n int) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	l.mu.Lock()
	seq := len(l.sent[n])
	l.mu.Unlock()
	m, queue := l.message(n, seq)
	s := sent{began: time.Now().UnixMilli()}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	result, err := l.producer.SendTo(ctx, l.queues[queue], m)
	cancel()
	s.ended = time.Now().UnixMilli()
	var be *client.BrokerError
	switch {
	case err == nil:
		s.outcome, s.result = acked, result
		if result.Queue != l.queues[queue] || result.Status != client.SendOK {
			l.t.Errorf("%d/%d was sent to %v: answered %v, %v", n, seq, l.queues[queue], result.Queue, result.Status)
		}
	case errors.As(err, &be):
		s.outcome = refused
		l.checkRefusal(be)
	}
	l.mu.Lock()
	l.sent[n] = append(l.sent[n], s)
	switch s.outcome {
	case acked:
		l.acked[n]++
	case refused:
		l.refused[n]++
	}
	l.mu.Unlock()
	if s.outcome != acked {
		time.Sleep(5 * time.Millisecond) // the broker is away, or has no room
	}
}

// checkRefusal wants code 14 and a text that says why.
func (l *load) checkRefusal(be *client.BrokerError) {
	if be.Code == remoting.ServiceNotAvailable && errors.Is(be, client.ErrBusy) {
		for _, s := range l.refusals {
			if strings.Contains(be.Remark, s) {
				return
			}
		}
	}
	l.t.Errorf("refused with %v, want code 14 and one of %q", be, l.refusals)
}

// books returns what was sent so far and what became of it.
func (l *load) books() [producers][]sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	books := l.sent
	for n := range books {
		books[n] = books[n][:len(books[n]):len(books[n])]
	}
	return books
}

// acks is the number of acknowledged sends.
func (l *load) acks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	for _, n := range l.acked {
		total += n
	}
	return total
}

// leastRefused is how often the producer that was refused least often was.
func (l *load) leastRefused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	least := l.refused[0]
	for _, n := range l.refused {
		least = min(least, n)
	}
	return least
}

// due is when everything acknowledged so far is due, a little rounded up.
func (l *load) due() time.Time {
	latest := int64(0)
	for n, sent := range l.books() {
		for seq := range sent {
			if s := &sent[seq]; s.outcome == acked {
				m, _ := l.message(n, seq)
				latest = max(latest, s.ended+delayOf(m.DelayLevel))
			}
		}
	}
	return time.UnixMilli(latest + 100)
}
