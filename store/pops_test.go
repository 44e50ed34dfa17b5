package store

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// popped is what is known of a queue that a group pops from.
func popped(s *Store) string {
	q := s.LookupPopQueue("g", "t", 0)
	if q == nil {
		return "none"
	}
	q.Lock()
	defer q.Unlock()
	return fmt.Sprint(q.next, q.low, q.flights)
}

// TestPops: what a group has popped, and what of it comes again, over a restart
// by the checkpoint or by the log alone.
func TestPops(t *testing.T) {
	for _, checkpoint := range []bool{true, false} {
		t.Run(fmt.Sprint("checkpoint ", checkpoint), func(t *testing.T) {
			dir := t.TempDir()
			s := openTest(t, testOptions(dir))
			mustTopic(t, s, "t", 1)
			q := s.PopQueue("g", "t", 0)
			q.Lock()
			if q.Next() != -1 || q.Low() != -1 {
				t.Errorf("before the first pop: %d, %d", q.Next(), q.Low())
			}
			q.Begin(10)
			for n := int64(10); n < 16; n++ {
				q.Set(n, Pop{PopMs: 1000, UntilMs: 2000 + n})
			}
			q.Advance(20) // 16 to 19 were not wanted
			if q.Low() != 10 || q.Flying() != 6 {
				t.Errorf("low %d, %d flying", q.Low(), q.Flying())
			}
			q.Ack(11)
			q.Ack(10)
			if q.Low() != 12 {
				t.Errorf("low %d after two acknowledgements", q.Low())
			}
			q.Unlock()
			s.savePops()
			q.Lock()
			q.Ack(13)
			if due, next := q.Due(2000, 10); due != nil || next > 2012 {
				t.Errorf("too early: %v, next %d", due, next)
			}
			if due, next := q.Due(2014, 10); !cmp.Equal(due, []int64{12, 14}) || next != 2015 {
				t.Errorf("due %v, next %d", due, next)
			}
			if due, next := q.Due(3000, 2); !cmp.Equal(due, []int64{12, 14}) || next != 3000 {
				t.Errorf("due %v, next %d", due, next)
			}
			q.Set(12, Pop{PopMs: 3000, UntilMs: 9000, Times: 1})
			q.Unlock()
			before := popped(s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !checkpoint {
				removeDerived(t, dir)
			}
			s = openTest(t, testOptions(dir))
			if after := popped(s); after != before {
				t.Errorf("after a restart %s, before %s", after, before)
			}
			q = s.PopQueue("g", "t", 0)
			q.Lock()
			q.Ack(12)
			q.Ack(14)
			q.Ack(15)
			if q.Low() != 20 || q.Flying() != 0 {
				t.Errorf("low %d, %d flying", q.Low(), q.Flying())
			}
			if due, next := q.Due(1<<40, 10); due != nil || next != 0 {
				t.Errorf("due %v, next %d", due, next)
			}
			q.Begin(3)
			q.Unlock()
			if err := s.DeleteTopic("t"); err != nil {
				t.Fatal(err)
			}
			q.Lock()
			q.Advance(9) // a pop that began before
			q.Unlock()
			if got := popped(s); got != "none" {
				t.Errorf("of a deleted topic: %s", got)
			}
		})
	}
}

func FuzzDecodePops(f *testing.F) {
	f.Add(goldenPops())
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodePops(b)
		if err != nil {
			return
		}
		for _, q := range list {
			if len(q.flights) > len(b) {
				t.Fatalf("%d entries from %d bytes", len(q.flights), len(b))
			}
		}
	})
}
