package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

// testClock is a wall clock that tests set.
type testClock struct{ ns atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ns.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local).UnixNano())
	return c
}

func (c *testClock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *testClock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// retain looks once, as retentionLoop does, by a retainer of its own.
func retain(t testing.TB, s *Store, r Retention) {
	t.Helper()
	if err := retainerFor(s, r).look(); err != nil {
		t.Fatalf("retention: %v", err)
	}
}

func retainerFor(s *Store, r Retention) *retainer {
	x := newRetainer(s)
	x.opts = r.withDefaults()
	x.opts.CarryRate = 1 << 40
	return x
}

// front returns the index of the first record that is left.
func front(s *Store) uint64 { return s.segs.snapshot()[0].first }

func logBytes(s *Store) int64 { return s.visible.Load() - s.segs.front() }

func padded(t testing.TB, topic, body string) Message {
	return plain(t, topic, 0, body+string(make([]byte, 1000)))
}

func paddedPending(t testing.TB, topic string, delay time.Duration, body string) Message {
	return pending(t, topic, delay, body+string(make([]byte, 1000)))
}

func TestRetentionByAge(t *testing.T) {
	clk := newTestClock()
	opts := testOptions(t.TempDir())
	opts.Now = clk.now
	s := openTest(t, opts)
	mustTopic(t, s, "t", 1)
	for i := range 150 {
		mustPut(t, s, padded(t, "t", fmt.Sprint("old", i)))
	}
	clk.advance(time.Hour)
	for i := range 150 {
		mustPut(t, s, padded(t, "t", fmt.Sprint("young", i)))
	}
	youngMs := clk.now().UnixMilli()
	clk.advance(30 * time.Minute)

	retain(t, s, Retention{Age: 2 * time.Hour})
	if front(s) != 1 {
		t.Fatal("something was deleted that is not as old as that")
	}
	hour := clk.now().Hour()
	retain(t, s, Retention{Age: time.Hour, Hours: []int{(hour + 1) % 24, (hour + 23) % 24}})
	if front(s) != 1 {
		t.Fatal("something was deleted at another hour")
	}
	retain(t, s, Retention{Age: time.Hour, Hours: []int{(hour + 1) % 24, hour}})
	minimum, next, _ := s.Offsets("t", 0)
	if front(s) == 1 || minimum == 0 || minimum > 150 || next != 300 {
		t.Fatalf("log begins at index %d, queue has %d to %d; want the old records gone", front(s), minimum, next)
	}
	if r, err := s.Read("t", 0, minimum-1, 1, 1, nil); err != nil || r.Status != OffsetTooSmall || r.Next != minimum {
		t.Errorf("reading before the queue's first entry: %+v, %v", r, err)
	}
	all := bodies(t, s, "t", 0)
	if len(all) != int(next-minimum) || trimPad(all[len(all)-1]) != "young149" {
		t.Errorf("%d messages, last %q", len(all), trimPad(all[len(all)-1]))
	}
	for _, at := range []int64{0, youngMs - time.Minute.Milliseconds(), youngMs} {
		got, err := s.OffsetByTime("t", 0, at, false)
		want := map[bool]int64{true: minimum, false: 150}[at == 0]
		if err != nil || got != want {
			t.Errorf("first offset from %d on: %d, %v; want %d", at, got, err, want)
		}
	}
	if ms, err := s.EarliestStoreTime("t", 0); err != nil || ms != message.View(mustRead(t, s, "t", minimum)).StoreTime() {
		t.Errorf("earliest store time %d, %v", ms, err)
	}
	clk.advance(10 * time.Hour)
	retain(t, s, Retention{Age: time.Hour})
	minimum, next, _ = s.Offsets("t", 0)
	if n := len(s.segs.snapshot()); n != 1 || next != 300 || minimum >= next {
		t.Errorf("%d segments are left, queue has %d to %d; want the tail alone", n, minimum, next)
	}
}

func mustRead(t testing.TB, s *Store, topic string, at int64) []byte {
	t.Helper()
	r, err := s.Read(topic, 0, at, 1, 1, nil)
	if err != nil || len(r.Records) != 1 {
		t.Fatalf("read %s at %d: %+v, %v", topic, at, r, err)
	}
	return r.Records[0]
}

// diskFS says how full the file system is.
type diskFS struct {
	vfs.FS
	used, available atomic.Int64
}

func (d *diskFS) Usage(string) (used, available int64, err error) {
	return d.used.Load(), d.available.Load(), nil
}

func TestRetentionByDisk(t *testing.T) {
	clk := newTestClock()
	disk := &diskFS{FS: vfs.NoSync{FS: vfs.OS}}
	opts := testOptions(t.TempDir())
	opts.Now, opts.FS = clk.now, disk
	s := openTest(t, opts)
	mustTopic(t, s, "t", 1)
	for i := range 600 {
		if i == 300 {
			clk.advance(2 * time.Hour)
		}
		mustPut(t, s, padded(t, "t", fmt.Sprint(i)))
	}
	other := []int{(clk.now().Hour() + 1) % 24}
	r := Retention{Age: time.Hour, Hours: other, DiskRatio: 75, DiskForceRatio: 85}
	disk.used.Store(75 << 20)
	disk.available.Store(25 << 20)
	retain(t, s, r)
	if front(s) != 1 {
		t.Fatal("something was deleted below the watermark, at another hour")
	}
	disk.used.Store(76 << 20)
	disk.available.Store(24 << 20)
	retain(t, s, r)
	aged, _, _ := s.Offsets("t", 0)
	if aged == 0 || aged > 300 {
		t.Fatalf("queue begins at %d: above the watermark what is old goes, at any hour, and nothing else", aged)
	}
	// 200 KiB above the other watermark: that much goes, young as it is.
	disk.used.Store(85<<20 + 200<<10)
	disk.available.Store(15<<20 - 200<<10)
	before := s.segs.front()
	retain(t, s, r)
	if gone := s.segs.front() - before; gone < 200<<10 || gone > 300<<10 {
		t.Errorf("%d bytes were deleted, want about 200 KiB", gone)
	}
}

// TestRetentionBySize bounds the log while messages wait in it: they are
// carried, and the log stays within half as much again as what is pending.
func TestRetentionBySize(t *testing.T) {
	const delay, short = time.Hour, time.Second
	clk := newTestClock()
	dir := t.TempDir()
	opts := testOptions(dir)
	opts.Now = clk.now
	s := openTest(t, opts)
	mustTopic(t, s, "t", 1)
	mustTopic(t, s, "d", 1)
	r := retainerFor(s, Retention{MaxBytes: 256 << 10})
	sent := 0
	for round := range 30 {
		for i := range 64 {
			mustPut(t, s, padded(t, "t", fmt.Sprint(round, "/", i)))
			if i%16 == 0 {
				mustPut(t, s, paddedPending(t, "d", delay, fmt.Sprint("p", sent)))
				sent++
			}
		}
		if err := r.look(); err != nil {
			t.Fatal(err)
		}
		alive := int64(sent) * 1300
		if got, most := logBytes(s), max(256<<10, alive*3/2)+3*64<<10; got > most {
			t.Fatalf("round %d: the log has %d bytes, with %d pending at most %d are wanted", round, got, alive, most)
		}
	}
	first := s.Level(delay)
	if first.Head != 0 || first.Next != int64(sent) {
		t.Fatalf("level %+v, %d were sent", first, sent)
	}
	var b DueBatch
	if err := s.ReadDue(delay, 0, farFuture, 1, &b); err != nil || len(b.Items) != 1 || b.Items[0].Address >= s.segs.front() {
		t.Fatalf("first pending: %+v, %v; want its first copy's address, below %d", b.Items, err, s.segs.front())
	}
	if _, err := s.ReadAt(b.Items[0].Address); !errors.Is(err, ErrNotFound) {
		t.Errorf("a record in a deleted segment: %v", err)
	}
	b.release()
	if n := deliver(t, s, delay, "d", farFuture, sent); n != sent {
		t.Fatalf("%d delivered of %d", n, sent)
	}
	for i, body := range bodies(t, s, "d", 0) {
		if want := fmt.Sprint("p", i); trimPad(body) != want {
			t.Fatalf("delivered %q at %d, want %q", trimPad(body), i, want)
		}
	}
}

// TestRetentionLeavesTheLivingAlone: a log that is mostly pending is not
// carried round and round.
func TestRetentionLeavesTheLivingAlone(t *testing.T) {
	s := openTest(t, testOptions(t.TempDir()))
	mustTopic(t, s, "t", 1)
	for i := range 400 {
		mustPut(t, s, paddedPending(t, "t", time.Hour, fmt.Sprint(i)))
	}
	r := retainerFor(s, Retention{MaxBytes: 64 << 10})
	if err := r.look(); err != nil {
		t.Fatal(err)
	}
	end := s.End()
	for range 5 {
		if err := r.look(); err != nil {
			t.Fatal(err)
		}
	}
	if s.End() != end || s.segs.front() != 0 {
		t.Errorf("the log went from %d to %d, its front to %d; want it left alone", end, s.End(), s.segs.front())
	}
}

// TestFromTheLogThatIsLeft: without any derived file, and without the front of
// the log, a start gives the same state.
func TestFromTheLogThatIsLeft(t *testing.T) {
	const delay = time.Hour
	dir := t.TempDir()
	opts := testOptions(dir)
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"t", "u", "gone", "again", message.TransHalfTopic} {
		mustTopic(t, s, topic, 2)
	}
	half := Message{Topic: "t", Half: true, Record: record(t, message.TransHalfTopic, 0, "half"), TagsCode: message.TagsCode("a")}
	halfAt := mustPut(t, s, half)[0].Appended.Address
	if err := s.PutGroup(Group{Name: "g", RetryMaxTimes: 7, Attributes: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutKVConfig("n", "k", "v"); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, plain(t, "u", 1, "the only one of its queue"), plain(t, "gone", 0, "x"), plain(t, "again", 0, "x"))
	s.CommitOffset("g", "u", 1, 1)
	s.CommitOffset("g", "t", 0, 40)
	for i := range 200 {
		mustPut(t, s, paddedPending(t, "t", delay, fmt.Sprint("p", i)), padded(t, "t", fmt.Sprint("m", i)), pending(t, "t", 2*delay, "later"))
	}
	for _, name := range []string{"gone", "again"} {
		if err := s.DeleteTopic(name); err != nil {
			t.Fatal(err)
		}
	}
	mustTopic(t, s, "again", 1)
	deliver(t, s, delay, "t", farFuture, 50)
	waitFor(t, "offsets in the log", func() bool { s.offsets.mu.RLock(); defer s.offsets.mu.RUnlock(); return len(s.offsets.dirty) == 0 })
	r := retainerFor(s, Retention{MaxBytes: 64 << 10})
	for i := range 10 {
		for j := range 100 {
			mustPut(t, s, padded(t, "t", fmt.Sprint("n", i, "/", j)))
		}
		deliver(t, s, delay, "t", farFuture, 3)
		if err := r.look(); err != nil {
			t.Fatal(err)
		}
	}
	if front(s) < 400 {
		t.Fatalf("the log begins at index %d, the case needs a deleted front", front(s))
	}
	if m, err := s.ReadAt(halfAt); err != nil || bodyOf(m) != "half" {
		t.Errorf("half message: %v", err)
	}
	before := summary(t, s)
	halves := s.Halves()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"with a checkpoint", "from the log alone", "after that"} {
		if how == "from the log alone" {
			removeDerived(t, dir)
		}
		s = openTest(t, opts)
		if diff := cmp.Diff(before, summary(t, s)); diff != "" {
			t.Fatalf("%s: state differs: %s", how, diff)
		}
		if diff := cmp.Diff(halves, s.Halves()); diff != "" {
			t.Fatalf("%s: half messages differ: %s", how, diff)
		}
		if len(s.Damages()) > 0 {
			t.Errorf("%s: damages %+v", how, s.Damages())
		}
		if v, ok := s.KVConfig("n", "k"); !ok || v != "v" {
			t.Errorf("%s: configuration value %q, %v", how, v, ok)
		}
		if m, err := s.ReadAt(halfAt); err != nil || bodyOf(m) != "half" {
			t.Errorf("%s: half message: %v", how, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = openTest(t, opts)
	mustPut(t, s, Message{Topic: "t", Ends: true, Origin: Origin{Identity: halfAt}, Record: record(t, "t", 0, "half"), TagsCode: message.TagsCode("a")})
	if n := deliver(t, s, delay, "t", farFuture, 1000); n != 200-50-30 {
		t.Errorf("%d were pending, want 120", n)
	}
	if n := deliver(t, s, 2*delay, "t", farFuture, 1000); n != 200 {
		t.Errorf("%d were pending, want 200", n)
	}
}

// TestChunksGo deletes queue files wholly below the queue's first entry, and
// no start needs them.
func TestChunksGo(t *testing.T) {
	dir := t.TempDir()
	opts := testOptions(dir)
	opts.SegmentBytes, opts.Flush = 1<<20, AsyncFlush
	s := openTest(t, opts)
	mustTopic(t, s, "t", 1)
	rec := record(t, "t", 0, "")
	const n = chunkEntries + 8000
	for i := 0; i < n; i += 500 {
		ms := make([]Message, 500)
		for j := range ms {
			ms[j] = Message{Topic: "t", Record: slices.Clone(rec), TagsCode: message.TagsCode("a")}
		}
		mustPut(t, s, ms...)
	}
	path := filepath.Join(dir, "consumequeue", "t", "0", fmt.Sprintf("%020d", 0))
	r := retainerFor(s, Retention{MaxBytes: 64 << 10})
	if err := r.look(); err != nil {
		t.Fatal(err)
	}
	if err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	minimum, next, _ := s.Offsets("t", 0)
	if minimum < chunkEntries {
		t.Fatalf("the tail segment holds entries from %d on, the case needs fewer", minimum)
	}
	mustPut(t, s, plain(t, "t", 0, "x"))
	if err := s.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the first queue file is still there: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, opts)
	if a, b, _ := s.Offsets("t", 0); a != minimum || b != next+1 {
		t.Errorf("queue has %d to %d after a restart, want %d to %d", a, b, minimum, next+1)
	}
}

// TestRetentionModel sends, delivers, commits, deletes and starts again at
// random, with derived files or without, after a good stop or from a copy as a
// kill leaves it, and compares with what it knows. TIDEMQ_SEED repeats a run.
func TestRetentionModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("TIDEMQ_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 12
	if v := os.Getenv("TIDEMQ_ROUNDS"); v != "" {
		rounds, _ = strconv.Atoi(v)
	}
	for i := range rounds {
		t.Run(fmt.Sprint("seed ", seed+uint64(i)), func(t *testing.T) { retentionModel(t, seed+uint64(i)) })
	}
}

type modelLevel struct {
	waiting []string
	sent    int
}

func retentionModel(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	delays := []time.Duration{time.Second, time.Minute, time.Hour}
	dir := t.TempDir()
	options := func() Options {
		o := testOptions(dir)
		if rng.IntN(2) == 0 {
			o.Flush = AsyncFlush
		}
		return o
	}
	s, err := Open(options())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	levels := make([]modelLevel, len(delays))
	topics := make([]int64, 3) // next offset of t0 … t2, queue 0: delivered is in d
	var delivered []string
	offset := int64(0)
	for i := range topics {
		mustTopic(t, s, fmt.Sprint("t", i), 1)
	}
	mustTopic(t, s, "d", 1)
	bound := Retention{MaxBytes: int64(64+rng.IntN(128)) << 10}
	r := retainerFor(s, bound)
	check := func(what string) {
		t.Helper()
		for i, d := range delays {
			if st := s.Level(d); st.Next-st.Head != int64(len(levels[i].waiting)) || st.Next != int64(levels[i].sent) && levels[i].sent > 0 {
				t.Fatalf("%s: level %+v, %d are pending of %d", what, st, len(levels[i].waiting), levels[i].sent)
			}
		}
		for i, want := range topics {
			minimum, next, _ := s.Offsets(fmt.Sprint("t", i), 0)
			if next != want {
				t.Fatalf("%s: topic t%d ends at %d, want %d", what, i, next, want)
			}
			if got := bodies(t, s, fmt.Sprint("t", i), 0); int64(len(got)) != next-minimum {
				t.Fatalf("%s: topic t%d has %d messages, want %d to %d", what, i, len(got), minimum, next)
			}
		}
		minimum, next, _ := s.Offsets("d", 0)
		got := bodies(t, s, "d", 0)
		if next != int64(len(delivered)) || len(got) != int(next-minimum) {
			t.Fatalf("%s: %d delivered, %d to %d in the topic, %d read", what, len(delivered), minimum, next, len(got))
		}
		for i, body := range got {
			if want := delivered[minimum+int64(i)]; trimPad(body) != want {
				t.Fatalf("%s: delivered %q at %d, want %q", what, trimPad(body), minimum+int64(i), want)
			}
		}
		if v, _ := s.Offset("g", "d", 0); v != offset {
			t.Fatalf("%s: consumer offset %d, want %d", what, v, offset)
		}
		if n := len(s.Topics()); n != 4 {
			t.Fatalf("%s: %d topics", what, n)
		}
	}
	for range 60 {
		switch p := rng.IntN(100); {
		case p < 30: // plain traffic
			i := rng.IntN(len(topics))
			n := 1 + rng.IntN(80)
			for range n {
				mustPut(t, s, padded(t, fmt.Sprint("t", i), "plain"))
			}
			topics[i] += int64(n)
		case p < 50:
			i := rng.IntN(len(delays))
			for range 1 + rng.IntN(30) {
				body := fmt.Sprint(delays[i], levels[i].sent)
				mustPut(t, s, paddedPending(t, "d", delays[i], body))
				levels[i].waiting = append(levels[i].waiting, body)
				levels[i].sent++
			}
		case p < 65:
			i := rng.IntN(len(delays))
			n := deliver(t, s, delays[i], "d", farFuture, rng.IntN(40))
			delivered = append(delivered, levels[i].waiting[:n]...)
			levels[i].waiting = levels[i].waiting[n:]
		case p < 75:
			offset = int64(len(delivered))
			if err := s.ResetOffsets("g", "d", map[int32]int64{0: offset}); err != nil {
				t.Fatal(err)
			}
		case p < 90:
			if err := r.look(); err != nil {
				t.Fatal(err)
			}
		default:
			killed := rng.IntN(2) == 0
			if killed {
				copied := copyDir(t, dir) // every byte written is there
				defer s.Close()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				dir = copied
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			alone := rng.IntN(2) == 0
			if alone {
				removeDerived(t, dir)
			}
			if s, err = Open(options()); err != nil {
				t.Fatal(err)
			}
			if len(s.Damages()) > 0 {
				t.Fatalf("damages %+v", s.Damages())
			}
			r = retainerFor(s, bound)
			check(fmt.Sprintf("killed %v, from the log alone %v", killed, alone))
		}
	}
	check("at the end")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	checkClosed(t, dir)
}

func checkClosed(t testing.TB, dir string) {
	t.Helper()
	r, err := check(dir, true)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		t.Fatalf("the closed store is not in order:\n%v", err)
	}
}
