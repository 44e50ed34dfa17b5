package broker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/internal/vfs"
	"github.com/tidemq/tidemq/store"
)

// syncGate is a file system whose syncs of the commit log can be held up. It
// knows how much of each segment is durable.
type syncGate struct {
	vfs.Hooked
	// slow is how long each sync takes longer than the disk needs.
	slow time.Duration

	mu      sync.Mutex
	pass    int              // syncs that still pass before the gate shuts
	shut    chan struct{}    // closed to let syncs pass; nil while they do
	held    chan string      // the segment whose sync is held up
	begun   map[string]int64 // segment → its bytes when its last sync began
	durable map[string]int64 // segment → bytes that a sync covers
}

func newSyncGate() *syncGate {
	g := &syncGate{held: make(chan string, 1), begun: map[string]int64{}, durable: map[string]int64{}}
	g.FS = vfs.OS
	ours := func(op vfs.Op, name string) bool {
		return op == vfs.OpSync && filepath.Base(filepath.Dir(name)) == "commitlog"
	}
	g.Hook = func(op vfs.Op, name string) error {
		if !ours(op, name) {
			return nil
		}
		g.mu.Lock()
		if st, err := os.Stat(name); err == nil {
			g.begun[name] = st.Size()
		}
		shut := g.shut
		if shut != nil && g.pass > 0 {
			g.pass--
			shut = nil
		}
		g.mu.Unlock()
		if shut != nil {
			select {
			case g.held <- name:
			default:
			}
			<-shut
		}
		return nil
	}
	g.After = func(op vfs.Op, name string, err error) {
		if !ours(op, name) || err != nil {
			return
		}
		time.Sleep(g.slow)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.durable[name] = max(g.durable[name], g.begun[name])
	}
	return g
}

// close holds up the syncs that begin from now on, all but the first so many.
func (g *syncGate) close(pass int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.pass = make(chan struct{}), pass
}

// open lets them go on; more than once is no harm.
func (g *syncGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// await returns the segment whose sync is held up.
func (g *syncGate) await(t *testing.T) string {
	t.Helper()
	select {
	case name := <-g.held:
		return name
	case <-time.After(answerLimit):
		t.Fatal("no sync of the commit log began")
	}
	return ""
}

// startGated runs a broker on g, which is open when the broker closes.
func startGated(t *testing.T, g *syncGate, flush FlushMode) *Broker {
	t.Helper()
	b := startBroker(t, func(o *Options) {
		o.Flush, o.FlushInterval, o.DelayLevels = flush, time.Millisecond, shortLevels
		o.tuneStore = func(s *store.Options) { s.FS, s.SegmentBytes = g, 64<<20 }
	})
	t.Cleanup(g.open)
	return b
}

// none fails when an answer is there.
func none(t *testing.T, what string, answers ...chan *remoting.Command) {
	t.Helper()
	for _, ch := range answers {
		select {
		case cmd := <-ch:
			t.Fatalf("%s answered before the sync that covers it: %v", what, cmd)
		default:
		}
	}
}

// invisible shows that the broker answers both connections while a sync is
// held up, and that it does not show queue 0 of topic t to anybody. What was
// written to these connections before has arrived when it returns.
func invisible(t *testing.T, cs ...*rawClient) {
	t.Helper()
	for _, c := range cs {
		if n := number64(t, c.ok(remoting.ReqGetMaxOffset, fields("topic", "t", "queueId", 0), nil), "offset"); n != 0 {
			t.Fatalf("maximum offset %d before the sync", n)
		}
		resp := c.call(remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0), nil)
		if resp.Code == remoting.Success || len(resp.Body) > 0 {
			t.Fatalf("a pull found something before the sync: %v", resp)
		}
	}
}

// TestSyncBeforeAnswer holds up one sync: in SyncFlush neither the producer's
// answer nor the held pull of a consumer comes before it ends, for a message
// that is delivered at once and for one that a delay level delivers. In
// AsyncFlush both come, so that it is the sync that held them up.
func TestSyncBeforeAnswer(t *testing.T) {
	const body = "covered by one sync"
	written := func(t *testing.T, segment string, times int) {
		t.Helper()
		b, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte(body)); n != times {
			t.Fatalf("the log holds the body %d times when the sync begins, want %d", n, times)
		}
	}
	delivered := func(t *testing.T, pull chan *remoting.Command) {
		t.Helper()
		resp := await(t, pull)
		if got := records(t, resp); len(got) != 1 || string(got[0].Body) != body {
			t.Fatalf("held pull: %v", resp)
		}
	}
	start := func(t *testing.T, flush FlushMode) (g *syncGate, producer, consumer *rawClient, pull chan *remoting.Command) {
		t.Helper()
		g = newSyncGate()
		b := startGated(t, g, flush)
		producer, consumer = dial(t, b), dial(t, b)
		producer.createTopic("t", 1)
		pull = consumer.start(remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 60000), nil)
		eventually(t, "the pull is held", func() bool { return b.hold.count.Load() == 1 })
		return g, producer, consumer, pull
	}

	t.Run("send", func(t *testing.T) {
		g, producer, consumer, pull := start(t, SyncFlush)
		g.close(0)
		answer := producer.start(remoting.ReqSendMessageV2, sendFields("t", 0, ""), []byte(body))
		written(t, g.await(t), 1)
		invisible(t, producer, consumer)
		none(t, "send", answer)
		none(t, "held pull", pull)
		g.open()
		if resp := await(t, answer); resp.Code != remoting.Success {
			t.Fatalf("send: %v", resp)
		}
		delivered(t, pull)
	})
	t.Run("delivery of a level", func(t *testing.T) {
		g, producer, consumer, pull := start(t, SyncFlush)
		g.close(1) // the send's own sync passes, the delivery's does not
		producer.send("t", 0, props("DELAY", "1"), body)
		written(t, g.await(t), 2) // it is due, and its record of the real topic is written
		invisible(t, producer, consumer)
		none(t, "held pull", pull)
		g.open()
		delivered(t, pull)
	})
	t.Run("async", func(t *testing.T) {
		g, producer, _, pull := start(t, AsyncFlush)
		g.close(0)
		producer.send("t", 0, "", body)
		delivered(t, pull)
		written(t, g.await(t), 1)
	})
}

// TestSyncsCoverAnswers sends and consumes on many connections at once, at
// once and by a delay level: whenever an answer or a delivery comes out of the
// socket, a sync that covers its record has ended.
func TestSyncsCoverAnswers(t *testing.T) {
	const producers, each = 4, 100
	g := newSyncGate()
	g.slow = time.Millisecond // so that what comes too early comes noticeably too early
	b := startGated(t, g, SyncFlush)
	dial(t, b).createTopic("t", producers)
	segment := filepath.Join(b.opts.Dir, "commitlog", fmt.Sprintf("%020d", 1)) // the only one: an address is a place in it
	covered := func(what string, address int64, size int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if d := g.durable[segment]; d < address+int64(size) {
			t.Errorf("%s of the record at %d before a sync that covers it: %d bytes are durable", what, address, d)
		}
	}
	body := strings.Repeat("x", 200)
	var work sync.WaitGroup
	for q := range producers {
		producer, consumer := dial(t, b), dial(t, b)
		work.Go(func() {
			for i := range each {
				properties := ""
				if i%2 == 0 {
					properties = props("DELAY", "1")
				}
				resp, ok := <-producer.start(remoting.ReqSendMessageV2, sendFields("t", q, properties), []byte(body))
				if !ok || resp.Code != remoting.Success {
					t.Errorf("send: %v", resp)
					return
				}
				_, address, err := message.ParseOffsetID(resp.Fields.Value("msgId"))
				if err != nil {
					t.Error(err)
					return
				}
				covered("answer", address, len(body))
			}
		})
		work.Go(func() {
			for next := int64(0); next < each; {
				resp, ok := <-consumer.start(remoting.ReqPullMessage, pullFields("g", "t", q, next, 15000), nil)
				if !ok || resp.Code != remoting.Success && resp.Code != remoting.PullNotFound {
					t.Errorf("pull: %v", resp)
					return
				}
				for rest := resp.Body; len(rest) > 0; {
					m, n, err := message.DecodeRecord(rest)
					if err != nil {
						t.Error(err)
						return
					}
					covered("delivery", m.PhysicalOffset, int(m.Size))
					rest, next = rest[n:], m.QueueOffset+1
				}
			}
		})
	}
	work.Wait()
}
