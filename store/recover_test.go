package store

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// copyDir copies a closed data directory.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// segmentFiles returns the paths of a directory's segments in order.
func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	ents, err := os.ReadDir(filepath.Join(dir, "commitlog"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range ents {
		out = append(out, filepath.Join(dir, "commitlog", e.Name()))
	}
	return out
}

// filled makes a closed data directory with n messages of topic t in queue 0
// and returns the addresses of their records.
func filled(t testing.TB, n, bodySize int) (dir string, addresses []int64) {
	t.Helper()
	dir = t.TempDir()
	opts := testOptions(dir)
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustTopic(t, s, "t", 1)
	pad := string(make([]byte, bodySize))
	for i := range n {
		addresses = append(addresses, mustPut(t, s, plain(t, "t", 0, fmt.Sprintf("m%d%s", i, pad)))[0].Appended.Address)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, addresses
}

// reopenAndCheck opens a damaged directory, wants the first `keep` messages
// back, then that the log goes on where it ends, also over a further restart
// and one without derived files.
func reopenAndCheck(t *testing.T, dir string, keep int) {
	t.Helper()
	s, err := Open(testOptions(dir))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	got := len(bodies(t, s, "t", 0))
	if got != keep {
		t.Fatalf("%d messages after the damage, want %d", got, keep)
	}
	next := mustPut(t, s, plain(t, "t", 0, "after"))[0].Appended.QueueOffset
	if next != int64(keep) {
		t.Fatalf("next queue offset %d, want %d", next, keep)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{"as it is", "log alone"} {
		if again == "log alone" {
			removeDerived(t, dir)
		}
		s, err = Open(testOptions(dir))
		if err != nil {
			t.Fatalf("Open %s: %v", again, err)
		}
		if n := len(s.Damages()); n > 0 {
			t.Errorf("%s: damage is reported again: %+v", again, s.Damages())
		}
		if got := bodies(t, s, "t", 0); len(got) != keep+1 || got[keep] != "after" {
			t.Fatalf("%s: %d messages, last %q", again, len(got), got[len(got)-1])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTornTailAtEveryByte(t *testing.T) {
	dir, addresses := filled(t, 20, 40)
	files := segmentFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("%d segments, the case needs one", len(files))
	}
	st, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for cut := addresses[19]; cut < st.Size(); cut++ {
		d := copyDir(t, dir)
		if err := os.Truncate(segmentFiles(t, d)[0], cut); err != nil {
			t.Fatal(err)
		}
		s, err := Open(testOptions(d))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if got := bodies(t, s, "t", 0); len(got) != 19 {
			t.Fatalf("cut at %d: %d messages, want 19", cut, len(got))
		}
		if n := mustPut(t, s, plain(t, "t", 0, "x"))[0].Appended.QueueOffset; n != 19 {
			t.Fatalf("cut at %d: next offset %d, want 19", cut, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBitFlips flips each bit of a small log in turn: whatever is damaged
// costs itself alone.
func TestBitFlips(t *testing.T) {
	dir, addresses := filled(t, 4, 0)
	whole, err := os.ReadFile(segmentFiles(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	first := int(addresses[0])
	d := copyDir(t, dir)
	removeDerived(t, d)
	// Every seventh bit: each byte, and each bit of a byte in turn.
	for bit := first * 8; bit < len(whole)*8; bit += 7 {
		b := slices.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		removeDerived(t, d)
		if err := os.WriteFile(segmentFiles(t, d)[0], b, 0o640); err != nil {
			t.Fatal(err)
		}
		s, err := Open(testOptions(d))
		if err != nil {
			t.Fatalf("bit %d: %v", bit, err)
		}
		var got []string
		r, err := s.Read("t", 0, 0, 32, 1<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == OffsetTooSmall { // the queue's first entry is the damaged one
			if r, err = s.Read("t", 0, r.Next, 32, 1<<20, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, rec := range r.Records {
			got = append(got, bodyOf(rec))
		}
		r.Release()
		want := seq("m", 0, 4)
		lost := 0
		for i, a := range addresses {
			if int64(bit/8) >= a {
				lost = i
			}
		}
		want = slices.Delete(want, lost, lost+1)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("bit %d (record %d): %s", bit, lost, diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_ = os.RemoveAll(filepath.Join(d, "damaged"))
	}
}

func TestDamage(t *testing.T) {
	const n, size = 200, 1000
	base, addresses := filled(t, n, size)
	if got := len(segmentFiles(t, base)); got < 4 {
		t.Fatalf("%d segments, the cases need at least 4", got)
	}
	last := func(d string) string { f := segmentFiles(t, d); return f[len(f)-1] }
	appendTo := func(t *testing.T, path string, b []byte) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	write := func(t *testing.T, path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	garbage := make([]byte, 5000)
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	cases := []struct {
		name string
		do   func(t *testing.T, d string)
		keep int
	}{
		{"nothing", func(t *testing.T, d string) {}, n},
		{"zero tail", func(t *testing.T, d string) { appendTo(t, last(d), make([]byte, 1024)) }, n},
		{"garbage tail", func(t *testing.T, d string) { appendTo(t, last(d), garbage) }, n},
		{"empty next segment", func(t *testing.T, d string) {
			write(t, filepath.Join(d, "commitlog", segmentName(n+2)), nil)
		}, n},
		{"stray empty segment", func(t *testing.T, d string) {
			write(t, filepath.Join(d, "commitlog", segmentName(n+777)), nil)
		}, n},
		{"stray garbage segment", func(t *testing.T, d string) {
			write(t, filepath.Join(d, "commitlog", segmentName(n+777)), garbage)
		}, n},
		{"stray START", func(t *testing.T, d string) {
			write(t, filepath.Join(d, "commitlog", segmentName(100)+".START"), nil)
		}, n},
		{"stray END", func(t *testing.T, d string) {
			write(t, filepath.Join(d, "commitlog", segmentName(2)+".END"), garbage)
		}, n},
		{"stray temporary and folder", func(t *testing.T, d string) {
			write(t, filepath.Join(d, "commitlog", segmentName(2)+".START.TEMP"), garbage)
			if err := os.Mkdir(filepath.Join(d, "commitlog", segmentName(3)), 0o750); err != nil {
				t.Fatal(err)
			}
		}, n},
		{"checkpoint gone", func(t *testing.T, d string) { os.Remove(filepath.Join(d, "checkpoint")) }, n},
		{"checkpoint empty", func(t *testing.T, d string) { write(t, filepath.Join(d, "checkpoint"), nil) }, n},
		{"checkpoint zeros", func(t *testing.T, d string) { write(t, filepath.Join(d, "checkpoint"), make([]byte, 4096)) }, n},
		{"checkpoint cut", func(t *testing.T, d string) { os.Truncate(filepath.Join(d, "checkpoint"), 50) }, n},
		{"epoch gone", func(t *testing.T, d string) { os.Remove(filepath.Join(d, "epoch")) }, n},
		{"epoch garbage", func(t *testing.T, d string) { write(t, filepath.Join(d, "epoch"), garbage) }, n},
		{"queue file gone", func(t *testing.T, d string) { os.RemoveAll(filepath.Join(d, "consumequeue", "t")) }, n},
		{"queue file cut", func(t *testing.T, d string) {
			os.Truncate(filepath.Join(d, "consumequeue", "t", "0", fmt.Sprintf("%020d", 0)), 33)
		}, n},
		{"last record cut off behind the checkpoint", func(t *testing.T, d string) {
			st, _ := os.Stat(last(d))
			os.Truncate(last(d), st.Size()-10)
		}, n - 1},
		{"last segment gone", func(t *testing.T, d string) { os.Remove(last(d)) }, -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := copyDir(t, base)
			keep := c.keep
			if keep < 0 { // what the other segments hold
				first, _ := parseSegmentName(filepath.Base(last(d)))
				keep = int(first) - 2 // index 1 is the topic
			}
			c.do(t, d)
			reopenAndCheck(t, d, keep)
		})
	}
	_ = addresses
}

// TestHoles damages the middle: what is whole is delivered under its own
// offsets, and the log goes on.
func TestHoles(t *testing.T) {
	const n, size = 200, 1000
	base, addresses := filled(t, n, size)
	files := segmentFiles(t, base)
	firstOf := func(i int) int { f, _ := parseSegmentName(filepath.Base(files[i])); return int(f) - 2 }
	in := func(path string, at int64, b []byte) func(*testing.T, string) {
		return func(t *testing.T, d string) {
			t.Helper()
			f, err := os.OpenFile(filepath.Join(d, "commitlog", filepath.Base(path)), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	lastFirst := firstOf(len(files) - 1)
	lastBase := addresses[lastFirst]
	cases := []struct {
		name     string
		do       func(*testing.T, string)
		from, to int // messages lost
	}{
		{"record in a sealed segment", in(files[1], 0, make([]byte, 50)), firstOf(1), firstOf(1) + 1},
		{"three records in the tail segment", in(files[len(files)-1], addresses[lastFirst+2]-lastBase+5, make([]byte, 2*(addresses[1]-addresses[0]))), lastFirst + 2, lastFirst + 5},
		{"segment gone", func(t *testing.T, d string) {
			if err := os.Remove(filepath.Join(d, "commitlog", filepath.Base(files[1]))); err != nil {
				t.Fatal(err)
			}
		}, firstOf(1), firstOf(2)},
		{"segment cut short", func(t *testing.T, d string) {
			if err := os.Truncate(filepath.Join(d, "commitlog", filepath.Base(files[1])), addresses[firstOf(1)+4]-addresses[firstOf(1)]); err != nil {
				t.Fatal(err)
			}
		}, firstOf(1) + 4, firstOf(2)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := copyDir(t, base)
			removeDerived(t, d)
			c.do(t, d)
			for round := range 3 {
				s, err := Open(testOptions(d))
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				if round == 0 {
					if ds := s.Damages(); len(ds) != 1 || ds[0].Records != uint64(c.to-c.from) {
						t.Errorf("damages %+v, want one of %d records", ds, c.to-c.from)
					}
				}
				want := append(seq("m", 0, c.from), seq("m", c.to, n)...)
				for range round {
					want = append(want, "after")
				}
				var got []string
				for at := int64(0); ; {
					r, err := s.Read("t", 0, at, 32, 1<<20, nil)
					if err != nil {
						t.Fatal(err)
					}
					if r.Status != Found && r.Status != NoMatch {
						break
					}
					for _, rec := range r.Records {
						got = append(got, trimPad(bodyOf(rec)))
					}
					at = r.Next
					r.Release()
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("round %d: %s", round, diff)
				}
				if got := mustPut(t, s, plain(t, "t", 0, "after"))[0].Appended.QueueOffset; got != int64(n+round) {
					t.Fatalf("next offset %d, want %d", got, n+round)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestFromTheLogAlone rebuilds everything from 100 000 records, half of them
// delivered, with committed offsets and a damaged tail.
func TestFromTheLogAlone(t *testing.T) {
	const n = 50_000
	delays := []time.Duration{time.Second, 5 * time.Second, time.Minute}
	dir := t.TempDir()
	opts := testOptions(dir)
	opts.SegmentBytes = 1 << 20
	opts.Flush = AsyncFlush
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustTopic(t, s, "t", 4)
	mustTopic(t, s, "u", 1)
	for i := 0; i < n; i += 500 {
		var ms []Message
		for j := i; j < i+500; j++ {
			if j%5 == 0 {
				ms = append(ms, plain(t, "u", 0, fmt.Sprintf("m%d", j/5)))
			} else {
				ms = append(ms, pending(t, "t", delays[j%3], fmt.Sprintf("m%d", j)))
			}
		}
		mustPut(t, s, ms...)
	}
	delivered := 0
	for _, d := range delays {
		st := s.Level(d)
		delivered += deliver(t, s, d, "t", farFuture, int(st.Next-st.Head)/2)
	}
	for i := range 50_000 {
		mustPutQuick(t, s, plain(t, "u", 0, fmt.Sprintf("x%d", i)), i == 49_999)
	}
	s.CommitOffset("g", "u", 0, 4321)
	s.CommitOffset("g", "t", 0, 99)
	if err := s.PutGroup(Group{Name: "g", RetryMaxTimes: 7}); err != nil {
		t.Fatal(err)
	}
	before := summary(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	removeDerived(t, dir)
	files := segmentFiles(t, dir)
	f, err := os.OpenFile(files[len(files)-1], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("\xb2\x01TMQR torn")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s = openTest(t, opts)
	if diff := cmp.Diff(before, summary(t, s)); diff != "" {
		t.Fatalf("rebuilt state differs: %s", diff)
	}
	if len(s.Damages()) != 1 {
		t.Errorf("damages %+v, want the torn tail", s.Damages())
	}
	for _, d := range delays {
		delivered += deliver(t, s, d, "t", farFuture, n)
	}
	if got := len(bodies(t, s, "t", 0)); got != delivered || delivered != n*4/5 {
		t.Fatalf("%d records in the real topic, %d delivered, %d sent", got, delivered, n*4/5)
	}
}

// TestCheckpointSavesReplay shows that a start goes on from the checkpoint:
// segments before it are not even read.
func TestCheckpointSavesReplay(t *testing.T) {
	dir, _ := filled(t, 300, 1000)
	files := segmentFiles(t, dir)
	if err := os.WriteFile(files[0], make([]byte, 100), 0o640); err != nil {
		t.Fatal(err)
	}
	s := openUnchecked(t, testOptions(dir))
	if len(s.Damages()) != 0 {
		t.Errorf("a start read a segment before the checkpoint: %+v", s.Damages())
	}
	r, err := s.Read("t", 0, 0, 32, 1<<20, nil)
	if err != nil || r.Status != NoMatch || r.Skipped == 0 {
		t.Errorf("reading the damaged segment: status %d, %d skipped, %v; want the records passed over", r.Status, r.Skipped, err)
	}
	r.Release()
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir, _ := filled(t, 3, 0)
	s, err := Open(testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	s.Append(&Batch{Messages: []Message{{Record: []byte("x"), kind: kindMove}}, Done: func(_ *Batch, err error) { done <- err }})
	<-done
	s.Close()
	removeDerived(t, dir)
	before := dirList(t, filepath.Join(dir, "commitlog"))
	if _, err := Open(testOptions(dir)); err == nil {
		t.Fatal("a log with records of a later version was opened")
	}
	if diff := cmp.Diff(before, dirList(t, filepath.Join(dir, "commitlog"))); diff != "" {
		t.Errorf("the refused log was changed: %s", diff)
	}
}

func dirList(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		out[p] = st.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
