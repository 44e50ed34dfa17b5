package demo

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tidemq/tidemq/client"
	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	topic  = "demo"
	queues = 4
)

// lengths are the delay levels of the demo's broker, level 1 first.
var lengths = []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second, 10 * time.Second}

// outgoing is one message that was sent. seq is its number, and its key.
type outgoing struct {
	seq   int
	level int // 1-based
	// acked: the broker answered that it is stored; offsetID is where it waits.
	acked    bool
	offsetID string
	// due is when the pending record says that it is due; zero when not acked.
	due time.Time
}

func body(seq int) string {
	return fmt.Sprintf("message %d of the demo, delay level %d", seq, levelOf(seq))
}

// levelOf mixes the levels in the order of sending.
func levelOf(seq int) int { return seq%len(lengths) + 1 }

// send sends messages seq first … first+n-1 over a time, so that each level is
// being delivered for about as long, and returns them when all are answered.
func send(ctx context.Context, p *client.Producer, first, n int, over time.Duration) ([]outgoing, error) {
	sent := make([]outgoing, n)
	var answered sync.WaitGroup
	var mu sync.Mutex
	var failure error
	began := time.Now()
	for i := range sent {
		o := &sent[i]
		o.seq, o.level = first+i, levelOf(first+i)
		m := &client.Message{Topic: topic, Body: []byte(body(o.seq)), Keys: []string{strconv.Itoa(o.seq)}, DelayLevel: o.level}
		answered.Add(1)
		err := p.SendAsync(ctx, m, func(r client.SendResult, err error) {
			defer answered.Done()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
				return
			}
			o.acked, o.offsetID = true, r.OffsetID
		})
		if err != nil {
			answered.Done()
			mu.Lock()
			failure = err
			mu.Unlock()
		}
		if ahead := over*time.Duration(i)/time.Duration(n) - time.Since(began); ahead > time.Millisecond {
			if !sleep(ctx, ahead) {
				break
			}
		}
	}
	answered.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if failure != nil {
		// The broker is there and nothing was killed yet: not what the demo is about.
		return nil, fmt.Errorf("send: %w", failure)
	}
	return sent, nil
}

// lookUpDue asks the broker for the pending records and notes when they are
// due.
func lookUpDue(ctx context.Context, admin *client.Admin, addr string, sent []outgoing) error {
	const workers = 8
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *outgoing)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for o := range next {
				if err := o.lookUp(ctx, admin, addr); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range sent {
		select {
		case next <- &sent[i]:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (o *outgoing) lookUp(ctx context.Context, admin *client.Admin, addr string) error {
	_, offset, err := message.ParseOffsetID(o.offsetID)
	if err != nil {
		return fmt.Errorf("message %d: %w", o.seq, err)
	}
	reply, err := admin.Call(ctx, addr, remoting.ReqViewMessageByID, map[string]string{"offset": strconv.FormatInt(offset, 10)}, nil)
	if err != nil {
		return fmt.Errorf("pending record of message %d: %w", o.seq, err)
	}
	m, _, err := message.DecodeRecord(reply.Body)
	if err != nil {
		return fmt.Errorf("pending record of message %d: %w", o.seq, err)
	}
	if key, _ := message.Property(m.Properties, message.PropertyKeys); m.Topic != message.ScheduleTopic || key != strconv.Itoa(o.seq) {
		return fmt.Errorf("the record at %d is not that of message %d: topic %s, key %q", offset, o.seq, m.Topic, key)
	}
	o.due = time.UnixMilli(m.StoreTime).Add(lengths[o.level-1])
	return nil
}

// seqOf returns the number of a message that was read, -1 if it has none.
func seqOf(m *client.Message) int {
	if len(m.Keys) != 1 {
		return -1
	}
	n, err := strconv.Atoi(m.Keys[0])
	if err != nil || n < 0 {
		return -1
	}
	return n
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
