package crash

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemq/tidemq/client"
	"github.com/tidemq/tidemq/internal/message"
)

// place is where a record stands in the topic.
type place struct {
	queue  int
	offset int64
}

// view is all that a consumer can see of a record.
type view struct {
	physical, born, stored int64
	flag, sysFlag          int32
	reconsumed             int
	bornHost, storeHost    string
	properties             string // sorted
	body                   [32]byte
}

// viewOf is the view of a message that a client read.
func viewOf(m *client.Message) view {
	p := maps.Clone(m.Properties)
	for k, v := range map[string]string{
		message.PropertyTags: m.Tags, message.PropertyKeys: strings.Join(m.Keys, " "),
		message.PropertyShardingKey: m.ShardingKey, message.PropertyUniqueKey: m.ID,
	} {
		if v != "" {
			p[k] = v
		}
	}
	if m.DelayLevel != 0 {
		p[message.PropertyDelay] = strconv.Itoa(m.DelayLevel)
	}
	return view{
		physical: m.PhysicalOffset, born: m.BornTime.UnixMilli(), stored: m.StoreTime.UnixMilli(), flag: m.Flag, sysFlag: m.SysFlag,
		reconsumed: m.ReconsumeTimes, bornHost: m.BornHost.String(), storeHost: m.StoreHost.String(),
		properties: sorted(p), body: sha256.Sum256(m.Body),
	}
}

// sorted writes properties in the order of their keys. WAIT is left out: the
// client keeps it to itself.
func sorted(p map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if k != message.PropertyWaitStoreMsgOK {
			fmt.Fprintf(&b, "%s=%q ", k, p[k])
		}
	}
	return b.String()
}

// The groups that watch.
const (
	readers = "readers" // two members, concurrent
	orderly = "orderly" // one member, queue by queue in order
	tail    = "tail"    // a puller that keeps its place in memory, through every crash
)

// watch is consumers that read while the broker is killed, and what they saw:
// whatever one of them has seen at a place must be there for good, the same
// for all.
type watch struct {
	t       *testing.T
	addr    string
	stop    context.CancelFunc // ends the tail
	wg      sync.WaitGroup
	members []member
	// delivered counts the messages of delay levels that the tail has seen.
	delivered atomic.Int64

	mu     sync.Mutex
	seen   map[place]view
	groups map[string]map[place]int // how often each got it
	last   [queues]int64            // greatest offset that the orderly group has seen
}

// member is one of a group, with a client of its own.
type member struct {
	group  string
	client *client.Client
}

// startWatch begins to consume. The watch is closed when the test ends.
func startWatch(t *testing.T, addr string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{t: t, addr: addr, stop: cancel, seen: map[place]view{}, groups: map[string]map[place]int{readers: {}, orderly: {}, tail: {}}, last: [queues]int64{-1, -1, -1, -1}}
	t.Cleanup(w.close)
	w.join(readers)
	w.join(readers)
	w.join(orderly)
	p, err := newClient(t, addr).NewPullConsumer(tail)
	if err != nil {
		t.Fatal(err)
	}
	qs, err := p.Queues(ctx, topic)
	if err != nil || len(qs) != queues {
		t.Fatalf("queues %v, %v", qs, err)
	}
	for _, q := range qs {
		w.wg.Go(func() { w.follow(ctx, p, q) })
	}
	return w
}

// join starts a member of a group.
func (w *watch) join(group string) {
	w.t.Helper()
	opts := []client.ConsumerOption{
		client.WithSubscription(topic, "*"), client.WithConsumeFromFirst(), client.WithCommitInterval(100 * time.Millisecond),
		client.WithRebalanceInterval(500 * time.Millisecond), client.WithLongPolling(time.Second), client.WithConcurrency(8),
	}
	if group == orderly {
		opts = append(opts, client.WithOrderly())
	}
	c := newClient(w.t, w.addr)
	_, err := c.NewPushConsumer(context.Background(), group, func(_ context.Context, m *client.Message) client.Result {
		w.saw(group, m)
		return client.Success
	}, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.members = append(w.members, member{group, c})
}

// leave ends the second reader and the orderly member while the broker is
// down, so that they cannot commit what they have read since the last time.
// It returns how they come back.
func (w *watch) leave() (back func()) {
	for _, m := range w.members[1:] {
		w.end(m)
	}
	w.members = w.members[:1]
	return func() {
		w.t.Helper()
		w.join(readers)
		w.join(orderly)
	}
}

func (w *watch) end(m member) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = m.client.Close(ctx) // it fails to commit when the broker is down
}

// close leaves the groups. Calling it again does nothing.
func (w *watch) close() {
	w.stop()
	w.wg.Wait()
	for _, m := range w.members {
		w.end(m)
	}
	w.members = nil
}

// follow reads a queue from its beginning on until ctx ends. The place to go
// on from is its own: after a crash it must still be in the queue.
func (w *watch) follow(ctx context.Context, p *client.PullConsumer, q client.Queue) {
	for next := int64(0); ctx.Err() == nil; {
		r, err := p.Pull(ctx, q, next, 32, time.Second, "*")
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the broker is away
			continue
		}
		if r.Status == client.OffsetMoved {
			w.t.Errorf("%v: offset %d, up to which everything was seen, is moved to %d: the queue is from %d to %d now", q, next, r.NextOffset, r.MinOffset, r.MaxOffset)
			return
		}
		for _, m := range r.Messages {
			if m.QueueOffset != next {
				w.t.Errorf("%v: offset %d after %d", q, m.QueueOffset, next-1)
			}
			next = m.QueueOffset + 1
			w.saw(tail, m)
			if m.Properties["level"] != "0" {
				w.delivered.Add(1)
			}
		}
	}
}

// saw notes what a member of a group was handed.
func (w *watch) saw(group string, m *client.Message) {
	at, v := place{m.Queue.ID, m.QueueOffset}, viewOf(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.BodyErr != nil || m.Topic != topic || m.Queue.Topic != topic {
		w.t.Errorf("%s: %v at %d: topic %q, %v", group, m.Queue, m.QueueOffset, m.Topic, m.BodyErr)
	}
	if before, ok := w.seen[at]; !ok {
		w.seen[at] = v
	} else if before != v {
		w.t.Errorf("%s: queue %d holds something else at %d than before:\n%+v\n%+v", group, at.queue, at.offset, before, v)
	}
	w.groups[group][at]++
	if group == orderly {
		// It may go back to its last commit, but never leave one out.
		if at.offset > w.last[at.queue]+1 {
			w.t.Errorf("the orderly group was handed %d after %d of queue %d", at.offset, w.last[at.queue], at.queue)
		}
		w.last[at.queue] = max(w.last[at.queue], at.offset)
	}
}

// await waits until every group has seen every record of the topic.
func (w *watch) await(records map[place]view) {
	w.t.Helper()
	for group := range w.groups {
		until(w.t, fmt.Sprintf("group %s has seen all %d records", group, len(records)), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.groups[group]) >= len(records)
		})
	}
}

// all returns what was seen so far.
func (w *watch) all() map[place]view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.seen)
}

// compare checks what was seen against what was in the topic later: the same
// at every place.
func (w *watch) compare(seen, records map[place]view) {
	w.t.Helper()
	for at, v := range seen {
		if is, ok := records[at]; !ok {
			w.t.Errorf("seen at %d of queue %d, and gone: %+v", at.offset, at.queue, v)
		} else if is != v {
			w.t.Errorf("seen at %d of queue %d:\n%+v\nand now it is\n%+v", at.offset, at.queue, v, is)
		}
	}
}

// String tells how often the groups read something again, which is no fault:
// their offsets were not committed yet when the broker went.
func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, group := range []string{readers, orderly, tail} {
		again := 0
		for _, n := range w.groups[group] {
			again += n - 1
		}
		out = append(out, fmt.Sprintf("%s %d (%d read again)", group, len(w.groups[group]), again))
	}
	return "consumed by " + strings.Join(out, ", ")
}
