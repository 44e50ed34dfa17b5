package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// TestLevels sends at every level, at none, at a negative one and one above the
// table: each message arrives once, whole, where it belongs, never early.
func TestLevels(t *testing.T) {
	t.Parallel()
	const perLevel = 10
	queues := newTopic(t, sharedAddr, "levels", 4)
	topic := queues[0].Topic
	p := newProducer(t, sharedAddr)
	var in inbox
	newPush(t, sharedAddr, unique("levels"), topic, "*", &in)

	type sent struct {
		*primitive.Message
		level, i int
		at       time.Time
		id       string
	}
	all := map[string]sent{}
	random := rand.New(rand.NewPCG(5, 5))
	for i := range perLevel {
		for level := -1; level <= levels+1; level++ {
			key := fmt.Sprintf("L%d-%d", level, i)
			m := newMessage(topic, fmt.Sprint("Tag", i%3), key)
			size := 100
			if i == 0 {
				size = 10_000 // above 4 KiB this client compresses
			}
			m.Body = bytes.Repeat([]byte{byte(random.Uint32())}, size)
			m.Flag = int32(1000 + i)
			m.WithProperty("näme", fmt.Sprint("välue ", i))
			if level != 0 {
				m.WithDelayTimeLevel(level)
			}
			m.Queue = queues[i%len(queues)]
			body := bytes.Clone(m.Body)
			at := time.Now()
			r := send(t, p, m)
			m.Body = body
			all[key] = sent{m, level, i, at, r.MsgID}
		}
	}
	in.awaitCount(t, "all levels", len(all))

	got := in.once(t)
	var late []time.Duration
	order := map[string][]delivery{}
	for key, s := range all {
		d, ok := got[key]
		if !ok {
			t.Errorf("%s did not come", key)
			continue
		}
		if d.Topic != topic || d.Queue.QueueId != s.Queue.QueueId {
			t.Errorf("%s came from %s queue %d, want %s queue %d", key, d.Topic, d.Queue.QueueId, topic, s.Queue.QueueId)
		}
		if d.MsgId != s.id {
			t.Errorf("%s: unique id %s, at send %s", key, d.MsgId, s.id)
		}
		if d.GetTags() != s.GetTags() || d.Flag != s.Flag || d.GetProperty("näme") != s.GetProperty("näme") || d.reconsumeTimes != 0 {
			t.Errorf("%s: tags %s flag %d property %q reconsume times %d, sent %v", key, d.GetTags(), d.Flag, d.GetProperty("näme"), d.reconsumeTimes, s.Message)
		}
		if !bytes.Equal(d.Body, s.Body) {
			t.Errorf("%s: a body of %d bytes, sent %d others", key, len(d.Body), len(s.Body))
		}
		delay := time.Duration(min(max(s.level, 0), levels)) * time.Second
		if delay > 0 && foreign == "" { // Apache leaves the last two in
			for _, name := range []string{"DELAY", "REAL_TOPIC", "REAL_QID"} {
				if v := d.GetProperty(name); v != "" {
					t.Errorf("%s: property %s is still %q", key, name, v)
				}
			}
		}
		if d.StoreTimestamp < d.BornTimestamp+delay.Milliseconds() || d.at.Sub(s.at) < delay {
			t.Errorf("%s is early: sent %v, born %d, in its topic %d, here %v", key, s.at, d.BornTimestamp, d.StoreTimestamp, d.at)
		}
		if delay > 0 {
			late = append(late, d.at.Sub(time.UnixMilli(d.BornTimestamp))-delay)
			queue := fmt.Sprintf("level %d queue %d", s.level, d.Queue.QueueId)
			order[queue] = append(order[queue], d)
		}
	}
	for queue, ds := range order {
		slices.SortFunc(ds, func(a, b delivery) int { return int(a.QueueOffset - b.QueueOffset) })
		if !slices.IsSortedFunc(ds, func(a, b delivery) int { return all[a.key].i - all[b.key].i }) {
			t.Errorf("%s: not in the order of sending", queue)
		}
	}
	slices.Sort(late)
	t.Logf("%d delayed messages, received late by p50 %v, max %v (for reading only)", len(late), late[len(late)/2], late[len(late)-1])
}
