package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// load sends at levels 0 to 3 until it is stopped and knows what became of each
// message. Every message has a key of its own and one attempt; a send that
// failed may or may not have been stored.
type load struct {
	queues []*primitive.MessageQueue
	addr   string
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu           sync.Mutex
	levels       map[string]int
	acknowledged map[string]*primitive.SendResult
	unanswered   map[string]error
}

func startLoad(t *testing.T, addr string, queues []*primitive.MessageQueue) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{queues: queues, addr: addr, stop: stop, levels: map[string]int{}, acknowledged: map[string]*primitive.SendResult{},
		unanswered: map[string]error{}}
	for n := range 4 {
		p := newProducer(t, addr, producer.WithRetry(0))
		l.wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("p%d-%d", n, i)
				m := newMessage(queues[0].Topic, "Tag", key)
				m.Queue = queues[i%len(queues)]
				m.WithDelayTimeLevel(i % 4)
				// Not ctx: a send that is cut short by it would be one more
				// without an answer.
				r, err := p.SendSync(context.Background(), m)
				l.note(key, i%4, r, err)
				pause := time.Millisecond
				if err != nil {
					pause = 20 * time.Millisecond
				}
				time.Sleep(pause)
			}
		})
	}
	return l
}

func (l *load) note(key string, level int, r *primitive.SendResult, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.levels[key] = level
	if err == nil && r.Status != primitive.SendOK {
		err = fmt.Errorf("status %d", r.Status)
	}
	if err != nil {
		l.unanswered[key] = err
		return
	}
	l.acknowledged[key] = r
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// more returns once so many more sends were acknowledged.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	want := l.count() + n
	await(t, fmt.Sprint(n, " more acknowledged sends"), func() bool { return l.count() >= want }, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		last := errors.Join(slices.Collect(maps.Values(l.unanswered))...)
		return fmt.Sprintf("%d acknowledged, %d not: %v", len(l.acknowledged), len(l.unanswered), last)
	})
}

// finish stops and sends one more message at each level. Each level delivers in
// order, so that when these are in their topic, whatever was stored of the
// others is there too.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stop()
	l.wg.Wait()
	p := newProducer(t, l.addr)
	for level := range 4 {
		m := newMessage(l.queues[0].Topic, "Tag", fmt.Sprint("last-", level))
		m.Queue = l.queues[0]
		m.WithDelayTimeLevel(level)
		l.note(m.GetKeys(), level, send(t, p, m), nil)
	}
}

// exactlyOnce counts the topic's records: one of each acknowledged message, at
// most one of each unanswered one, nothing else, nothing early.
func (l *load) exactlyOnce(t *testing.T) {
	t.Helper()
	count := map[string]int{}
	unanswered := 0
	for _, m := range records(t, l.addr, l.queues) {
		key := m.GetKeys()
		if count[key]++; count[key] > 1 {
			t.Errorf("%d records of %s", count[key], key)
		}
		if string(m.Body) != "body of "+key {
			t.Errorf("the body of %s is %q", key, m.Body)
		}
		level, ok := l.levels[key]
		if !ok {
			t.Errorf("a record of %s, which nobody sent", key)
		}
		if m.StoreTimestamp < m.BornTimestamp+int64(level)*1000 {
			t.Errorf("%s is early: born %d, in its topic %d", key, m.BornTimestamp, m.StoreTimestamp)
		}
		if r := l.acknowledged[key]; r == nil {
			unanswered++
		} else if m.MsgId != r.MsgID || m.Queue.QueueId != r.MessageQueue.QueueId {
			t.Errorf("%s is %s in queue %d, the answer was %v", key, m.MsgId, m.Queue.QueueId, r)
		}
	}
	for key := range l.acknowledged {
		if count[key] == 0 {
			t.Errorf("%s was acknowledged and has no record", key)
		}
	}
	t.Logf("%d acknowledged, each once; %d unanswered, of them %d stored", len(l.acknowledged), len(l.unanswered), unanswered)
}

// TestRestartOffsetsGoOnExactly: a group that left goes on behind the restart
// where it was; nothing again, nothing left out.
//
// What the client leaves when it shuts down is what its handlers have returned
// from and it has noted, by one-way requests; what a handler still works on it
// leaves to the next one.
func TestRestartOffsetsGoOnExactly(t *testing.T) {
	t.Parallel()
	b := ownBroker(t)
	queues := newTopic(t, b.addr, "offsets", 4)
	topic, group, p := queues[0].Topic, unique("offsets"), newProducer(t, b.addr)
	var before inbox
	left := make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	defer leave()
	first := newPushFunc(t, b.addr, group, topic, "*", func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if strings.HasPrefix(messages[0].GetKeys(), "second-") {
			<-left // due before the shutdown, if that is slow in coming
			return consumer.ConsumeSuccess, nil
		}
		return before.handle(ctx, messages...)
	})
	sent := sendRound(t, p, queues, "first-", 300)
	before.awaitCount(t, "what was sent first", 300)
	// A handler's return and the client's note of it are two moments, and its
	// Shutdown does not wait for the second.
	await(t, "the client's offsets at the queues' ends", func() bool { return first.GetOffsetDiffMap()[topic] == 0 },
		func() string { return fmt.Sprint(first.GetOffsetDiffMap()) })
	var rest []string
	for i := range 100 {
		m := newMessage(topic, "Tag", fmt.Sprint("second-", i))
		m.Queue = queues[i%4]
		m.WithDelayTimeLevel(4)
		send(t, p, m)
		rest = append(rest, m.GetKeys())
	}
	slices.Sort(rest)
	if err := first.Shutdown(); err != nil { // commits, with the delayed ones on the way
		t.Fatal(err)
	}
	// The broker reads what the client left before it sees the client go.
	var at standing
	await(t, "the member being gone", func() bool { at = b.standing(t, group, topic); return at.members == 0 },
		func() string { return fmt.Sprint(at) })
	want := standing{committed: [4]int64{75, 75, 75, 75}}
	if at != want {
		t.Errorf("the group left %v, want %v", at, want)
	}
	leave()
	b.terminate(t)
	b.restart(t)
	if at := b.standing(t, group, topic); at != want {
		t.Errorf("the group is at %v after the restart, want %v", at, want)
	}
	var after inbox
	newPush(t, b.addr, group, topic, "*", &after)
	after.awaitCount(t, "the rest", len(rest))
	if got := before.keys(""); !slices.Equal(got, sent) {
		t.Errorf("before the restart came %v, want each that was sent first once", got)
	}
	if got := after.keys(""); !slices.Equal(got, rest) {
		t.Errorf("after the restart came %v, want each that was sent second once", got)
	}
}

// standing is what a broker knows of a group.
type standing struct {
	committed [4]int64 // by queue
	members   int
}

// standing asks the broker about a group and a topic of four queues.
func (b *broker) standing(t *testing.T, group, topic string) (s standing) {
	t.Helper()
	cmd := exec.Command(os.Getenv("TIDEMQ_BIN"), "offsets", "show", "--addr", b.addr, "--group", group, "--topic", topic, "--json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var answer struct {
		Members []any
		Topics  []struct{ Queues [4]struct{ Committed int64 } }
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Topics) != 1 {
		t.Fatalf("%v: %v in %s", cmd.Args, err, out)
	}
	for i, q := range answer.Topics[0].Queues {
		s.committed[i] = q.Committed
	}
	s.members = len(answer.Members)
	return s
}

// TestRestartUnderLoad stops and kills the broker while producers send and a
// consumer reads; all of them live through it.
func TestRestartUnderLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		blow  func(*broker, *testing.T)
		times int
	}{"terminated": {(*broker).terminate, 2}, "killed": {(*broker).kill, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := ownBroker(t)
			queues := newTopic(t, b.addr, name, 4)
			var in inbox
			newPush(t, b.addr, unique(name), queues[0].Topic, "*", &in)
			l := startLoad(t, b.addr, queues)
			t.Cleanup(func() { l.stop(); l.wg.Wait() }) // also when the case ends early
			for range c.times {
				l.more(t, 400)
				c.blow(b, t)
				b.restart(t)
			}
			l.more(t, 400)
			l.finish(t)
			missing := func() (n int) {
				got := in.places("")
				for key := range l.acknowledged {
					if _, ok := got[key]; !ok {
						n++
					}
				}
				return n
			}
			await(t, "the consumer having seen everything", func() bool { return missing() == 0 },
				func() string { return fmt.Sprintf("%d of %d are missing", missing(), len(l.acknowledged)) })
			l.exactlyOnce(t)

			places := map[string]string{}
			again := 0
			for _, d := range in.all() {
				if before, ok := places[d.key]; ok {
					again++
					if before != d.place() {
						t.Errorf("%s was consumed at %s and at %s", d.key, before, d.place())
					}
				}
				places[d.key] = d.place()
			}
			t.Logf("%s %d times, the consumer read %d of %d again", name, c.times, again, len(places))
		})
	}
}
