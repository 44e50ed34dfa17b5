package schedule

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
	"github.com/tidemq/tidemq/store/storetest"
)

// TestOnTheStore delivers from a real store, over a restart in the middle. The
// store's check at its end tells that none was early, passed over or doubled,
// and that every level and queue is in order.
func TestOnTheStore(t *testing.T) {
	const each = 100
	levels := Levels{time.Millisecond, 20 * time.Millisecond, 7 * time.Millisecond}
	dir := t.TempDir()
	sent, delivered := 0, 0
	for round := range 2 {
		// The first round ends somewhere among its deliveries.
		want := []int{each, 2 * each * len(levels)}[round]
		func() {
			arrived := make(chan int64, 4*each*len(levels))
			s := New(Options{Levels: levels, Logger: quiet(), OffsetFile: filepath.Join(dir, "config", "delayOffset.json")})
			st := storetest.Open(t, func(o *store.Options) {
				o.Dir, o.OnPending = dir, s.Wake
				o.OnArrive = func(as []store.Arrival) {
					for _, a := range as {
						arrived <- a.Next - a.First
					}
				}
			})
			defer st.Close()
			if err := st.PutTopic(store.Topic{Name: "t", ReadQueues: 3, WriteQueues: 3, Perm: 6}); err != nil {
				t.Fatal(err)
			}
			s.Start(st)
			defer s.Close()
			for range each {
				for level := 1; level <= len(levels); level++ {
					pend(t, st, levels, level, fmt.Sprint(sent))
					sent++
				}
			}
			for delivered < want {
				select {
				case n := <-arrived:
					delivered += int(n)
				case <-time.After(time.Minute):
					t.Fatalf("%d delivered, %d expected", delivered, want)
				}
			}
			if err := errors.Join(s.Close(), st.Close()); err != nil {
				t.Fatal(err)
			}
			for len(arrived) > 0 { // while the scheduler was closing
				delivered += int(<-arrived)
			}
		}()
	}
	if delivered != sent {
		t.Errorf("%d delivered of %d", delivered, sent)
	}
	if r := storetest.Check(t, dir); r.Pending != 0 {
		t.Errorf("%d are still pending", r.Pending)
	}
}

// pend appends a pending message for a queue of topic t.
func pend(t *testing.T, st *store.Store, levels Levels, level int, body string) {
	t.Helper()
	m, err := levels.Pending(nil, &message.Message{Topic: "t", QueueID: int32(level - 1), Body: []byte(body), Properties: "TAGS\x01x\x02", BornHost: host, StoreHost: host}, level)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	st.Append(&store.Batch{Messages: []store.Message{m}, Done: func(b *store.Batch, err error) { done <- errors.Join(err, b.Messages[0].Err) }})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
