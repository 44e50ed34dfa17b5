package schedule

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// fake is a store in memory with the writer's rule: a step must leave the head
// of its level, and its topic must be there.
type fake struct {
	mu      sync.Mutex
	wake    func(time.Duration, int64)
	topics  map[string]store.Topic
	levels  map[time.Duration]*fakeLevel
	stored  []stored
	address int64
	fail    func() error // asked before each append
	skipped []string
}

type fakeLevel struct {
	entries []store.Due
	head    int64
}

type stored struct {
	topic string
	queue int32
	body  string
	props string
	at    time.Time
	due   int64
	delay time.Duration
	entry int64
}

func newFake(topics ...string) *fake {
	f := &fake{topics: map[string]store.Topic{}, levels: map[time.Duration]*fakeLevel{}}
	for _, t := range topics {
		f.topics[t] = store.Topic{Name: t}
	}
	return f
}

func (f *fake) Now() time.Time { return time.Now() }

func (f *fake) Topic(name string) (store.Topic, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, ok := f.topics[name]
	return t, ok
}

func (f *fake) PutTopic(t store.Topic) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.topics[t.Name] = t
	return nil
}

func (f *fake) Levels() []store.LevelState {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []store.LevelState
	for d := range f.levels {
		out = append(out, f.stateLocked(d))
	}
	return out
}

func (f *fake) Level(d time.Duration) store.LevelState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stateLocked(d)
}

func (f *fake) stateLocked(d time.Duration) store.LevelState {
	st := store.LevelState{Delay: d}
	if l := f.levels[d]; l != nil {
		st.Head, st.Next = l.head, int64(len(l.entries))
		if st.Head < st.Next {
			st.HeadDueUs = l.entries[st.Head].DueUs
		}
	}
	return st
}

func (f *fake) ReadDue(d time.Duration, from, nowUs int64, maxBytes int, b *store.DueBatch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.Items, b.NextDueUs, b.More = b.Items[:0], 0, false
	l := f.levels[d]
	if l == nil {
		return nil
	}
	for n := from; n < int64(len(l.entries)); n++ {
		if e := l.entries[n]; e.DueUs > nowUs {
			b.NextDueUs = e.DueUs
			return nil
		} else if len(b.Items) == 7 {
			b.More = true
			return nil
		} else {
			b.Items = append(b.Items, e)
		}
	}
	return nil
}

func (f *fake) Append(b *store.Batch) {
	f.mu.Lock()
	var err error
	if f.fail != nil {
		err = f.fail()
	}
	for i := range b.Messages {
		if err != nil {
			break
		}
		f.stepLocked(&b.Messages[i])
	}
	f.mu.Unlock()
	b.Done(b, err)
}

func (f *fake) stepLocked(m *store.Message) {
	l := f.levels[m.Origin.Delay]
	if m.Origin.Entry != l.head {
		m.Err = store.ErrStale
		return
	}
	if m.Record == nil {
		f.skipped = append(f.skipped, m.Reason)
		l.head++
		return
	}
	if _, ok := f.topics[m.Topic]; !ok {
		m.Err = store.ErrTopicNotFound
		return
	}
	l.head++
	v := message.View(m.Record)
	f.stored = append(f.stored, stored{m.Topic, m.QueueID, string(v.Body()), v.Properties(), time.Now(), m.Origin.DueUs, m.Origin.Delay, m.Origin.Entry})
}

// put stores a pending message as the writer does.
func (f *fake) put(t testing.TB, levels Levels, level int, topic, body, props string) {
	t.Helper()
	m, err := levels.Pending(nil, &message.Message{Topic: topic, QueueID: 2, Body: []byte(body), Properties: props, BornHost: host, StoreHost: host}, level)
	if err != nil {
		t.Fatal(err)
	}
	f.add(m.Delay, store.Due{DueUs: time.Now().Add(m.Delay).UnixMicro(), Record: m.Record})
}

func (f *fake) add(d time.Duration, e store.Due) {
	f.mu.Lock()
	l := f.levels[d]
	if l == nil {
		l = &fakeLevel{}
		f.levels[d] = l
	}
	f.address += 100
	e.Entry, e.Address = int64(len(l.entries)), f.address
	first := l.head == e.Entry
	l.entries = append(l.entries, e)
	wake := f.wake
	f.mu.Unlock()
	if first && wake != nil {
		wake(d, e.DueUs)
	}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start runs a scheduler on f until the returned function is called.
func start(f *fake) (*Scheduler, func()) {
	s := New(Options{Logger: quiet()})
	f.mu.Lock()
	f.wake = s.Wake
	f.mu.Unlock()
	s.Start(f)
	return s, func() { _ = s.Close() }
}

func TestDeliversAtTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t")
		_, stop := start(f)
		defer stop()
		levels := DefaultLevels()
		for level := 1; level <= 18; level++ {
			f.put(t, levels, level, "t", fmt.Sprint(level), "TAGS\x01x\x02DELAY\x013\x02REAL_TOPIC\x01forged\x02KEYS\x01k\x02")
		}
		time.Sleep(2*time.Hour + time.Second)
		synctest.Wait()
		if len(f.stored) != 18 {
			t.Fatalf("%d delivered, want 18", len(f.stored))
		}
		for i, s := range f.stored {
			if s.topic != "t" || s.queue != 2 || s.body != fmt.Sprint(i+1) || s.props != "TAGS\x01x\x02KEYS\x01k\x02" {
				t.Errorf("delivered %+v", s)
			}
			if late := s.at.UnixMicro() - s.due; late < 0 || late > 1000 {
				t.Errorf("level %d late by %d µs of a clock that only the scheduler moves", i+1, late)
			}
		}
	})
}

// TestModel puts at random moments and levels, restarts and makes appends
// fail, and compares with what must have come by then.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake("t")
			failing := 0
			f.fail = func() error {
				if failing > 0 {
					failing--
					return store.ErrUnavailable
				}
				return nil
			}
			levels := Levels{time.Second, 3 * time.Second, time.Second, time.Minute}
			s, stop := start(f)
			defer func() { stop() }()
			sent := 0
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				switch rapid.IntRange(0, 5).Draw(rt, "what") {
				case 0, 1, 2:
					for range rapid.IntRange(1, 20).Draw(rt, "count") {
						f.put(t, levels, rapid.IntRange(1, len(levels)).Draw(rt, "level"), "t", fmt.Sprint(sent), "")
						sent++
					}
				case 3:
					time.Sleep(time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms")) * time.Millisecond)
				case 4:
					stop()
					time.Sleep(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "down")) * time.Millisecond)
					s, stop = start(f)
				case 5:
					f.mu.Lock()
					failing = rapid.IntRange(1, 4).Draw(rt, "failures")
					f.mu.Unlock()
				}
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.stored) != sent {
				t.Fatalf("%d delivered of %d", len(f.stored), sent)
			}
			next := map[time.Duration]int64{}
			seen := map[string]bool{}
			for _, m := range f.stored {
				if m.at.UnixMicro() < m.due {
					t.Fatalf("%s delivered %d µs early", m.body, m.due-m.at.UnixMicro())
				}
				if m.entry != next[m.delay] || seen[m.body] {
					t.Fatalf("entry %d of level %v (%s) where %d was next; seen before: %v", m.entry, m.delay, m.body, next[m.delay], seen[m.body])
				}
				next[m.delay]++
				seen[m.body] = true
			}
			_ = s
		})
	})
}

func TestUndeliverable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t", "gone", "young")
		s, stop := start(f)
		defer stop()
		levels := DefaultLevels()
		f.put(t, levels, 1, "gone", "a", "K\x01v\x02")
		f.put(t, levels, 1, "young", "b", "")
		f.put(t, levels, 1, "t", "c", "")
		f.add(time.Second, store.Due{DueUs: time.Now().Add(time.Second).UnixMicro(), Err: errors.New("bad checksum")})
		f.add(time.Second, store.Due{DueUs: time.Now().Add(time.Second).UnixMicro(), Record: []byte("not a record")})
		f.put(t, levels, 1, "t", "d", "")
		f.mu.Lock()
		delete(f.topics, "gone")
		f.topics["young"] = store.Topic{Name: "young", Created: 1 << 40}
		f.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := []string{message.UndeliverableTopic + "/a", message.UndeliverableTopic + "/b", "t/c", "t/d"}
		var got []string
		for _, m := range f.stored {
			got = append(got, m.topic+"/"+m.body)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(f.skipped) != 2 {
			t.Fatalf("stored %v, %d skipped; want %v, 2", got, len(f.skipped), want)
		}
		p := f.stored[0].props
		for key, want := range map[string]string{"K": "v", message.PropertyRealTopic: "gone", message.PropertyRealQueueID: "2"} {
			if v, _ := message.Property(p, key); v != want {
				t.Errorf("property %s is %q, want %q", key, v, want)
			}
		}
		if v, _ := message.Property(p, PropertyReason); v == "" {
			t.Error("no reason given")
		}
		if st := s.Stats(); st != (Stats{Delivered: 2, Undelivered: 2, Skipped: 2}) {
			t.Errorf("stats %+v", st)
		}
	})
}

// TestClockSetBack starts with entries stored under a clock a year ahead: none
// waits longer than its level's length, the order stays, and what is stored
// from now on is not early.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t")
		levels := Levels{10 * time.Second}
		ahead := 365 * 24 * time.Hour
		begin := time.Now()
		for i := range 5 {
			f.put(t, levels, 1, "t", fmt.Sprint(i), "")
			f.levels[10*time.Second].entries[i].DueUs += (ahead + time.Duration(i)*time.Second).Microseconds()
		}
		_, stop := start(f)
		defer stop()
		time.Sleep(time.Second)
		f.put(t, levels, 1, "t", "5", "")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(f.stored) != 6 {
			t.Fatalf("%d delivered, want 6", len(f.stored))
		}
		for i, m := range f.stored {
			waited := m.at.Sub(begin).Round(time.Millisecond)
			want := 10*time.Second + time.Duration(min(i, 4))*time.Second
			if waited != want {
				t.Errorf("message %d came after %v, want %v", i, waited, want)
			}
		}
	})
}
