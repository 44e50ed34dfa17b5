package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
)

func TestAppendAndRead(t *testing.T) {
	for _, mode := range []FlushMode{SyncFlush, AsyncFlush} {
		t.Run(mode.String(), func(t *testing.T) {
			opts := testOptions(t.TempDir())
			opts.Flush = mode
			s := openTest(t, opts)
			mustTopic(t, s, "t", 2)
			want := seq("m", 0, 1000)
			for i, body := range want {
				got := mustPut(t, s, plain(t, "t", 1, body))[0].Appended
				if got.QueueOffset != int64(i) {
					t.Fatalf("queue offset %d, want %d", got.QueueOffset, i)
				}
				rec, err := s.ReadAt(got.Address)
				if err != nil || string(message.View(rec).Body()) != body {
					t.Fatalf("ReadAt(%d): %v", got.Address, err)
				}
				if v := message.View(rec); v.PhysicalOffset() != got.Address || v.StoreTime() != got.StoreMs {
					t.Fatalf("record says address %d, store time %d; answer %d, %d", v.PhysicalOffset(), v.StoreTime(), got.Address, got.StoreMs)
				}
			}
			if diff := cmp.Diff(want, bodies(t, s, "t", 1)); diff != "" {
				t.Fatal(diff)
			}
			if _, err := s.ReadAt(3); !errors.Is(err, ErrNotFound) {
				t.Errorf("ReadAt in the middle of a record: %v, want ErrNotFound", err)
			}
		})
	}
}

func TestReadStatus(t *testing.T) {
	s := openTest(t, testOptions(t.TempDir()))
	mustTopic(t, s, "t", 1)
	mustPut(t, s, plain(t, "t", 0, "a"), plain(t, "t", 0, "b"))
	never := func(int64) bool { return false }
	cases := []struct {
		name   string
		topic  string
		offset int64
		match  func(int64) bool
		status ReadStatus
		next   int64
	}{
		{"unknown queue", "u", 0, nil, NoQueue, 0},
		{"below", "t", -1, nil, OffsetTooSmall, 0},
		{"first", "t", 0, nil, Found, 2},
		{"filtered", "t", 0, never, NoMatch, 2},
		{"end", "t", 2, nil, NoMessageYet, 2},
		{"beyond", "t", 3, nil, OffsetTooLarge, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := s.Read(c.topic, 0, c.offset, 32, 1<<20, c.match)
			if err != nil || r.Status != c.status || r.Next != c.next {
				t.Errorf("status %d next %d err %v; want status %d next %d", r.Status, r.Next, err, c.status, c.next)
			}
		})
	}
}

func TestLevelIsDeliveredInOrderExactlyOnce(t *testing.T) {
	s := openTest(t, testOptions(t.TempDir()))
	mustTopic(t, s, "t", 1)
	const delay = 5 * time.Second
	var last int64
	for i := range 300 {
		got := mustPut(t, s, pending(t, "t", delay, fmt.Sprintf("m%d", i)))[0].Appended
		if got.QueueOffset != int64(i) || got.DueUs < last || got.DueUs < got.StoreMs*1000+delay.Microseconds() {
			t.Fatalf("entry %d due %d after one due %d, stored %d", got.QueueOffset, got.DueUs, last, got.StoreMs)
		}
		last = got.DueUs
	}
	if n := deliver(t, s, delay, "t", 0, 1000); n != 0 {
		t.Fatalf("%d delivered before they were due", n)
	}
	if n := deliver(t, s, delay, "t", farFuture, 120); n != 120 {
		t.Fatalf("%d delivered, want 120", n)
	}
	_, err := put(s, Message{Topic: "t", Record: record(t, "t", 0, "again"), Step: true, Origin: Origin{Delay: delay, Entry: 119}})
	if !errors.Is(err, ErrStale) {
		t.Fatalf("a second delivery of one entry: %v, want ErrStale", err)
	}
	_, err = put(s, Message{Topic: "t", Record: record(t, "t", 0, "skip"), Step: true, Origin: Origin{Delay: delay, Entry: 121}})
	if !errors.Is(err, ErrStale) {
		t.Fatalf("a delivery that leaves one out: %v, want ErrStale", err)
	}
	deliver(t, s, delay, "t", farFuture, 1000)
	if diff := cmp.Diff(seq("m", 0, 300), bodies(t, s, "t", 0)); diff != "" {
		t.Fatal(diff)
	}
	if st := s.Level(delay); st.Head != 300 || st.Next != 300 || st.HeadDueUs != 0 {
		t.Fatalf("level %+v, want head = next = 300", st)
	}
}

func TestDeletedTopic(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, testOptions(dir))
	mustTopic(t, s, "t", 1)
	const delay = time.Second
	mustPut(t, s, plain(t, "t", 0, "old"), pending(t, "t", delay, "late"))
	s.CommitOffset("g", "t", 0, 1)
	if err := s.DeleteTopic("t"); err != nil {
		t.Fatal(err)
	}
	if _, err := put(s, plain(t, "t", 0, "x")); !errors.Is(err, ErrTopicNotFound) {
		t.Fatalf("append to a deleted topic: %v", err)
	}
	mustTopic(t, s, "t", 1)
	var b DueBatch
	if err := s.ReadDue(delay, 0, farFuture, 1<<20, &b); err != nil || len(b.Items) != 1 {
		t.Fatalf("ReadDue: %v, %d items", err, len(b.Items))
	}
	d := b.Items[0]
	step := Message{Topic: "t", Record: record(t, "t", 0, "late"), Step: true, Origin: Origin{Delay: delay, Entry: d.Entry, Identity: d.Address, DueUs: d.DueUs}}
	if _, err := put(s, step); !errors.Is(err, ErrTopicNotFound) {
		t.Fatalf("delivery into a later topic of the same name: %v", err)
	}
	mustPut(t, s, plain(t, "t", 0, "new"))
	check := func(s *Store) {
		t.Helper()
		if got := bodies(t, s, "t", 0); len(got) != 1 || got[0] != "new" {
			t.Fatalf("recreated topic holds %q", got)
		}
		if v, ok := s.Offset("g", "t", 0); ok {
			t.Fatalf("offset %d survived its topic", v)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	removeDerived(t, dir)
	check(openTest(t, testOptions(dir)))
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	holder := fmt.Sprintf("process %d", os.Getpid())
	refused := func(when string) {
		t.Helper()
		_, err := Open(testOptions(dir))
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), holder) {
			t.Errorf("%s: second Open: %v, want ErrLocked naming %s and %s", when, err, dir, holder)
		}
	}
	s := openTest(t, testOptions(dir))
	refused("by Open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	lock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	refused("by LockDir")
	opts := testOptions(dir)
	opts.Lock = lock
	s = openTest(t, opts)
	refused("by LockDir, then Open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	// An Open that fails releases the lock it was given.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if opts.Lock, err = LockDir(dir); err != nil {
		t.Fatal(err)
	}
	opts.Dir = file
	if _, err := Open(opts); err == nil {
		t.Fatal("a store was opened in a file")
	}
	openTest(t, testOptions(dir))
}

func TestOffsetByTime(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	opts := testOptions(t.TempDir())
	opts.Now = func() time.Time { return now }
	s := openTest(t, opts)
	mustTopic(t, s, "t", 1)
	at := func(ms int64, n int) {
		now = time.UnixMilli(ms)
		for range n {
			mustPut(t, s, plain(t, "t", 0, "x"))
		}
	}
	at(1_000_010, 3)
	at(1_000_020, 10)
	at(1_000_030, 2)
	cases := []struct {
		ms    int64
		upper bool
		want  int64
	}{
		{0, false, 0}, {1_000_010, false, 0}, {1_000_011, false, 3}, {1_000_020, false, 3}, {1_000_030, false, 13},
		{1_000_031, false, 15}, {9e15, false, 15},
		{0, true, 0}, {1_000_020, true, 12}, {1_000_025, true, 12}, {9e15, true, 14},
	}
	for _, c := range cases {
		got, err := s.OffsetByTime("t", 0, c.ms, c.upper)
		if err != nil || got != c.want {
			t.Errorf("OffsetByTime(%d, upper %v) = %d, %v; want %d", c.ms, c.upper, got, err, c.want)
		}
	}
	if ms, err := s.EarliestStoreTime("t", 0); ms != 1_000_010 || err != nil {
		t.Errorf("EarliestStoreTime = %d, %v", ms, err)
	}
	if ms, err := s.EarliestStoreTime("t", 7); ms != -1 || err != nil {
		t.Errorf("EarliestStoreTime of an unknown queue = %d, %v", ms, err)
	}
}

func TestClosedStore(t *testing.T) {
	s := openTest(t, testOptions(t.TempDir()))
	mustTopic(t, s, "t", 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := put(s, plain(t, "t", 0, "x")); !errors.Is(err, ErrClosed) {
		t.Fatalf("append after Close: %v", err)
	}
	if err := s.Healthy(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Healthy after Close: %v", err)
	}
}
