package schedule

import (
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
)

// endless is a store whose level always has due entries and takes every step
// at once.
type endless struct {
	topic   store.Topic
	items   []store.Due
	stepped int64
}

const benchBatch = 128 // entries that one round reads

func newEndless(tb testing.TB, body int) *endless {
	tb.Helper()
	m, err := DefaultLevels().Pending(nil, &message.Message{
		Topic: "orders", QueueID: 2, Body: make([]byte, body), BornHost: host, StoreHost: host,
		Properties: "UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02WAIT\x01true\x02TAGS\x01TagA\x02",
	}, 3)
	if err != nil {
		tb.Fatal(err)
	}
	e := &endless{topic: store.Topic{Name: "orders", WriteQueues: 4}, items: make([]store.Due, benchBatch)}
	for i := range e.items {
		e.items[i] = store.Due{Record: m.Record, DueUs: 1}
	}
	return e
}

func (e *endless) Now() time.Time                         { return time.Unix(1, 0) }
func (e *endless) Levels() []store.LevelState             { return nil }
func (e *endless) Level(d time.Duration) store.LevelState { return store.LevelState{Delay: d} }
func (e *endless) Topic(name string) (store.Topic, bool)  { return e.topic, name == e.topic.Name }
func (e *endless) PutTopic(store.Topic) error             { return nil }
func (e *endless) Append(b *store.Batch) {
	e.stepped += int64(len(b.Messages))
	b.Done(b, nil)
}

func (e *endless) ReadDue(_ time.Duration, from, _ int64, _ int, b *store.DueBatch) error {
	b.Items, b.NextDueUs, b.More = e.items, 0, true
	for i := range b.Items {
		b.Items[i].Entry = from + int64(i)
	}
	return nil
}

// BenchmarkStep takes one due message an operation from its level to the
// writer: rounds of the scheduler without its sleep.
func BenchmarkStep(b *testing.B) {
	e := newEndless(b, 1024)
	s := New(Options{Logger: quiet()})
	s.store = e
	s.startLevel(store.LevelState{Delay: 10 * time.Second, Head: 0, Next: 1}, 1)
	now := s.nowUs()
	b.ReportAllocs()
	for e.stepped < int64(b.N) {
		l := s.ready[0]
		s.ready = append(s.ready[:0], s.ready[1:]...)
		l.where = idle
		s.serve(l, now)
		s.collect()
	}
	if got := s.Stats(); got.Delivered != e.stepped || got.Skipped+got.Undelivered != 0 {
		b.Fatalf("%d steps, %+v", e.stepped, got)
	}
}

// BenchmarkRewrite makes the record of the real topic from a pending one.
func BenchmarkRewrite(b *testing.B) {
	e := newEndless(b, 1024)
	s := New(Options{Logger: quiet()})
	s.store = e
	var arena []byte
	b.ReportAllocs()
	for b.Loop() {
		m, grown, err := s.rewrite(arena[:0], 10*time.Second, &e.items[0], nil)
		if err != nil || m.Topic != "orders" {
			b.Fatal(err, m.Topic)
		}
		arena = grown
	}
}

// BenchmarkPending makes the pending record of a message.
func BenchmarkPending(b *testing.B) {
	m := &message.Message{Topic: "orders", QueueID: 2, Body: make([]byte, 1024), BornHost: host, StoreHost: host, Properties: "DELAY\x013\x02TAGS\x01TagA\x02"}
	levels := DefaultLevels()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		p, err := levels.Pending(buf[:0], m, 3)
		if err != nil {
			b.Fatal(err)
		}
		buf = p.Record
	}
}
