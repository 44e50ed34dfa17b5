package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/wal"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

// faultyWAL fails writes after having put a part of them into the file, as a
// full disk does.
type faultyWAL struct {
	walLog
	dir  string
	fail func() error
}

func (w *faultyWAL) WriteBatch(b *wal.Batch) error {
	if err := w.fail(); err != nil {
		ents, _ := os.ReadDir(w.dir)
		f, ferr := os.OpenFile(filepath.Join(w.dir, ents[len(ents)-1].Name()), os.O_WRONLY|os.O_APPEND, 0)
		if ferr == nil {
			_, _ = f.Write([]byte("\x80\x02TMQR a part of what was to be written"))
			f.Close()
		}
		return err
	}
	return w.walLog.WriteBatch(b)
}

// faults is a file system and a WAL that fail by a seeded plan. A failed sync
// of a log segment loses what was written since the last good one, as a page
// cache may.
type faults struct {
	vfs.Hooked
	mu     sync.Mutex
	rng    *rand.Rand
	on     bool
	synced map[string]int64
	writes atomic.Int64
	syncs  atomic.Int64
}

func newFaults(seed uint64) *faults {
	f := &faults{rng: rand.New(rand.NewPCG(seed, 1)), synced: map[string]int64{}}
	f.FS = vfs.OS
	f.Hook = func(op vfs.Op, name string) error {
		if op != vfs.OpSync || !strings.Contains(name, "commitlog") {
			return nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.on || f.rng.IntN(12) != 0 {
			return nil
		}
		f.syncs.Add(1)
		// What was not synced becomes zeros, and the next sync would succeed.
		// Segments before the tail were synced when the WAL left them.
		ents, _ := os.ReadDir(filepath.Dir(name))
		tail := filepath.Base(name) == ents[len(ents)-1].Name()
		if st, err := os.Stat(name); tail && err == nil && st.Size() > f.synced[name] {
			if file, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
				_, _ = file.WriteAt(make([]byte, st.Size()-f.synced[name]), f.synced[name])
				file.Close()
			}
		}
		return syscall.EIO
	}
	f.After = func(op vfs.Op, name string, err error) {
		if op == vfs.OpSync && err == nil && strings.Contains(name, "commitlog") {
			if st, err := os.Stat(name); err == nil {
				f.mu.Lock()
				f.synced[name] = max(f.synced[name], st.Size())
				f.mu.Unlock()
			}
		}
		if op == vfs.OpRename && err == nil { // a fresh segment, synced before
			if st, err := os.Stat(name); err == nil {
				f.mu.Lock()
				f.synced[name] = st.Size()
				f.mu.Unlock()
			}
		}
	}
	return f
}

func (f *faults) open(dir string, segmentBytes int) (walLog, error) {
	w, err := openWAL(dir, segmentBytes)
	if err != nil {
		return nil, err
	}
	return &faultyWAL{walLog: w, dir: dir, fail: func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.on || f.rng.IntN(15) != 0 {
			return nil
		}
		f.writes.Add(1)
		if f.rng.IntN(8) == 0 {
			return syscall.ENOSPC
		}
		return syscall.EIO
	}}, nil
}

// TestFaults sends and delivers while writes and syncs fail at random moments:
// what was acknowledged is stored exactly once, what was refused is not there,
// nothing is delivered twice, and all of it stands after a restart from the
// log alone.
func TestFaults(t *testing.T) {
	for _, mode := range []FlushMode{SyncFlush, AsyncFlush} {
		t.Run(mode.String(), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			f := newFaults(seed)
			dir := t.TempDir()
			opts := Options{Dir: dir, Logger: quiet(), SegmentBytes: 64 << 10, MinFreeBytes: -1, Flush: mode, FlushBytes: 16 << 10, FS: f, openWAL: f.open}
			s, err := Open(opts)
			if err != nil {
				t.Fatal(err)
			}
			mustTopic(t, s, "t", 8)
			mustTopic(t, s, "d", 1)
			f.mu.Lock()
			f.on = true
			f.mu.Unlock()

			enough := func() bool { return f.writes.Load() >= 5 && f.syncs.Load() >= 5 }
			const delay = time.Second
			var wg sync.WaitGroup
			acked, refused := make([]map[string]bool, 8), make([]map[string]bool, 8)
			for p := range 8 {
				acked[p], refused[p] = map[string]bool{}, map[string]bool{}
				wg.Go(func() {
					for i := 0; i < 150 || i < 5_000 && !enough(); i++ {
						body := fmt.Sprintf("p%d-%d", p, i)
						m := plain(t, "t", int32(p), body)
						if i%3 == 0 {
							m = pending(t, "d", delay, body)
						}
						_, err := put(s, m)
						switch {
						case err == nil:
							acked[p][body] = true
						case errors.Is(err, ErrUnknown):
						case errors.Is(err, ErrDiskFull), errors.Is(err, ErrUnavailable):
							refused[p][body] = true
							waitFor(t, "health", func() bool { return s.Healthy() == nil })
						default:
							t.Errorf("append: %v", err)
						}
					}
				})
			}
			stop := make(chan struct{})
			var delivering sync.WaitGroup
			delivering.Go(func() { deliverUntil(t, s, delay, stop) })
			wg.Wait()
			close(stop)
			delivering.Wait()
			if !enough() {
				t.Errorf("only %d writes and %d syncs failed: the plan reached nothing", f.writes.Load(), f.syncs.Load())
			}
			f.mu.Lock()
			f.on = false
			f.mu.Unlock()
			for s.Level(delay).Head < s.Level(delay).Next {
				tryDeliver(t, s, delay)
			}
			t.Logf("%d writes and %d syncs failed", f.writes.Load(), f.syncs.Load())
			check := func(s *Store) {
				t.Helper()
				seen := map[string]int{}
				for q := range int32(8) {
					for _, b := range bodies(t, s, "t", q) {
						seen[b]++
					}
				}
				for _, b := range bodies(t, s, "d", 0) {
					seen[b]++
				}
				for p := range 8 {
					for b := range acked[p] {
						if seen[b] != 1 {
							t.Errorf("%s was acknowledged and is there %d times", b, seen[b])
						}
					}
					for b := range refused[p] {
						if seen[b] != 0 {
							t.Errorf("%s was refused and is there %d times", b, seen[b])
						}
					}
				}
			}
			check(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			removeDerived(t, dir)
			opts.openWAL = nil
			check(openTest(t, opts))
		})
	}
}

// waitFor yields until f holds. A run that never gets there ends with the test
// binary's own limit.
func waitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	for !f() {
		time.Sleep(time.Millisecond)
	}
}

func deliverUntil(t testing.TB, s *Store, delay time.Duration, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			tryDeliver(t, s, delay)
		}
	}
}

// tryDeliver proposes what is pending, whatever comes of it.
func tryDeliver(t testing.TB, s *Store, delay time.Duration) {
	var b DueBatch
	if err := s.ReadDue(delay, s.Level(delay).Head, farFuture, 32<<10, &b); err != nil || len(b.Items) == 0 {
		return
	}
	var ms []Message
	for _, d := range b.Items {
		if d.Err != nil {
			t.Errorf("entry %d: %v", d.Entry, d.Err)
			return
		}
		ms = append(ms, Message{Topic: "d", Step: true, Record: record(t, "d", 0, string(message.View(d.Record).Body())), TagsCode: message.TagsCode("a"),
			Origin: Origin{Delay: delay, Entry: d.Entry, Identity: d.Address, DueUs: d.DueUs}})
	}
	if _, err := put(s, ms...); err != nil {
		t.Log(err)
	}
}

// TestBrokenLogRefusesAndRecovers fails every attempt to reopen for a while:
// sends are refused at once and clearly, reads go on, and the store comes back
// by itself.
func TestBrokenLogRefusesAndRecovers(t *testing.T) {
	var broken atomic.Bool
	dir := t.TempDir()
	hooked := &vfs.Hooked{FS: vfs.OS, Hook: func(op vfs.Op, name string) error {
		if broken.Load() && op == vfs.OpSync && (strings.Contains(name, "commitlog") || strings.Contains(name, "epoch")) {
			return syscall.EIO
		}
		return nil
	}}
	s := openTest(t, Options{Dir: dir, Logger: quiet(), MinFreeBytes: -1, FS: hooked})
	mustTopic(t, s, "t", 1)
	mustPut(t, s, plain(t, "t", 0, "before"))
	broken.Store(true)
	first := make(chan error, 1)
	s.Append(&Batch{Messages: []Message{plain(t, "t", 0, "during")}, Done: func(_ *Batch, err error) { first <- err }})
	waitFor(t, "a refusal", func() bool { return errors.Is(s.Healthy(), ErrUnavailable) })
	if _, err := put(s, plain(t, "t", 0, "refused")); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("send while the log is broken: %v, want ErrUnavailable", err)
	}
	select {
	case err := <-first:
		t.Fatalf("answered %v before its sync", err)
	default:
	}
	if got, _, _ := s.Offsets("t", 0); got != 0 {
		t.Fatal("minimum moved")
	}
	if _, next, _ := s.Offsets("t", 0); next != 1 {
		t.Fatalf("%d visible before the sync, want 1", next)
	}
	broken.Store(false)
	if err := <-first; err != nil {
		t.Fatalf("the send that waited: %v", err)
	}
	waitFor(t, "health", func() bool { return s.Healthy() == nil })
	mustPut(t, s, plain(t, "t", 0, "after"))
	if got := strings.Join(bodies(t, s, "t", 0), " "); got != "before during after" {
		t.Fatalf("queue holds %q", got)
	}
}

// TestCloseOfABrokenLog answers what waits and ends.
func TestCloseOfABrokenLog(t *testing.T) {
	var broken atomic.Bool
	hooked := &vfs.Hooked{FS: vfs.OS, Hook: func(op vfs.Op, name string) error {
		if broken.Load() && op == vfs.OpSync {
			return syscall.EIO
		}
		return nil
	}}
	s, err := Open(Options{Dir: t.TempDir(), Logger: quiet(), MinFreeBytes: -1, FS: hooked})
	if err != nil {
		t.Fatal(err)
	}
	mustTopic(t, s, "t", 1)
	broken.Store(true)
	first := make(chan error, 1)
	s.Append(&Batch{Messages: []Message{plain(t, "t", 0, "x")}, Done: func(_ *Batch, err error) { first <- err }})
	waitFor(t, "a refusal", func() bool { return s.Healthy() != nil })
	_ = s.Close()
	if err := <-first; !errors.Is(err, ErrUnknown) {
		t.Fatalf("the send in hand: %v, want ErrUnknown", err)
	}
}

// TestSyncBeforeAnswer orders syncs against answers and visibility: in
// SyncFlush neither may come before the sync that covers the record.
func TestSyncBeforeAnswer(t *testing.T) {
	var mu sync.Mutex
	durable := map[string]int64{} // segment → bytes known to be on disk
	hooked := &vfs.Hooked{FS: vfs.OS}
	hooked.Hook = func(op vfs.Op, name string) error {
		if op == vfs.OpSync && strings.Contains(name, "commitlog") {
			st, err := os.Stat(name)
			if err == nil {
				mu.Lock()
				durable[name+" started"] = st.Size()
				mu.Unlock()
			}
		}
		return nil
	}
	hooked.After = func(op vfs.Op, name string, err error) {
		if op == vfs.OpSync && err == nil && strings.Contains(name, "commitlog") {
			mu.Lock()
			durable[name] = max(durable[name], durable[name+" started"])
			mu.Unlock()
		}
	}
	var s *Store
	var visible atomic.Int64
	covered := func(what string, address int64, size int) {
		file, off := s.segs.place(address)
		list := s.segs.snapshot()
		if file != list[len(list)-1].path {
			return // the WAL synced it when it left it
		}
		mu.Lock()
		defer mu.Unlock()
		if durable[file] < off+int64(size) {
			t.Errorf("%s of the record at %d before the sync that covers it (%d of %s synced)", what, address, durable[file], filepath.Base(file))
		}
	}
	opts := Options{Dir: t.TempDir(), Logger: quiet(), MinFreeBytes: -1, FS: hooked, SegmentBytes: 64 << 10}
	opened := make(chan struct{})
	opts.OnArrive = func(as []Arrival) {
		<-opened
		for _, a := range as {
			for n := a.First; n < a.Next; n++ {
				es, err := s.queues.lookup(a.Topic, a.QueueID).read(nil, n, 1)
				if err != nil || len(es) != 1 {
					t.Errorf("arrival of an entry that is not there: %v", err)
					continue
				}
				covered("arrival", es[0].address, messageEntryLen(es[0].size))
				visible.Add(1)
			}
		}
	}
	s = openTest(t, opts)
	close(opened)
	mustTopic(t, s, "t", 4)
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for i := range 200 {
				m := plain(t, "t", int32(p), fmt.Sprintf("%d", i))
				size := messageEntryLen(int32(len(m.Record)))
				done := make(chan struct{})
				s.Append(&Batch{Messages: []Message{m}, Done: func(b *Batch, err error) {
					if err != nil {
						t.Error(err)
					}
					covered("answer", b.Messages[0].Appended.Address, size)
					close(done)
				}})
				<-done
			}
		})
	}
	wg.Wait()
	if visible.Load() != 800 {
		t.Errorf("%d arrivals, want 800", visible.Load())
	}
}
