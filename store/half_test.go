package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
)

// half is a half message for queue 0 of a topic.
func half(t testing.TB, topic, body string) Message {
	m := plain(t, message.TransHalfTopic, 0, body)
	m.Topic, m.Half = topic, true
	return m
}

// ends makes m the end of the transaction at an address.
func ends(m Message, address int64) Message {
	m.Ends, m.Origin.Identity = true, address
	return m
}

// TestTransactions: a half message is in no queue but its own, its transaction
// ends once, and all of it is what the log says.
func TestTransactions(t *testing.T) {
	for _, checkpoint := range []bool{true, false} {
		t.Run(fmt.Sprint("checkpoint ", checkpoint), func(t *testing.T) {
			dir := t.TempDir()
			s := openTest(t, testOptions(dir))
			mustTopic(t, s, message.TransHalfTopic, 1)
			mustTopic(t, s, "t", 1)
			at := make([]int64, 5)
			for i := range at {
				m := half(t, "t", fmt.Sprint("half ", i))
				m.Delay = time.Hour // does not count before the end
				got := mustPut(t, s, m)[0].Appended
				if got.QueueOffset != int64(i) || got.DueUs != 0 {
					t.Fatalf("half %d: %+v", i, got)
				}
				at[i] = got.Address
			}
			if n := len(s.Halves()); n != 5 || len(s.Levels()) != 0 {
				t.Fatalf("%d open, levels %v", n, s.Levels())
			}
			// Committed at once and with a delay, rolled back; each once, in a group
			// of its own or the same.
			mustPut(t, s, ends(plain(t, "t", 0, "committed"), at[0]))
			delayed := mustPut(t, s, ends(pending(t, "t", time.Second, "delayed"), at[1]))[0].Appended
			if l := s.Level(time.Second); l.Next != 1 || delayed.DueUs != l.HeadDueUs || delayed.DueUs == 0 {
				t.Errorf("level %+v, appended %+v", l, delayed)
			}
			ms, _ := put(s, ends(Message{Topic: "t", Reason: "rolled back"}, at[2]), ends(plain(t, "t", 0, "too late"), at[2]))
			if ms[0].Err != nil || !errors.Is(ms[1].Err, ErrTransactionEnded) {
				t.Errorf("two ends in one group: %v, %v", ms[0].Err, ms[1].Err)
			}
			for _, m := range []Message{ends(plain(t, "t", 0, "again"), at[0]), ends(Message{Topic: "t"}, at[1]), ends(plain(t, "t", 0, "none"), 1)} {
				if _, err := put(s, m); !errors.Is(err, ErrTransactionEnded) {
					t.Errorf("ended before: %v", err)
				}
			}
			// A topic that is newer than the half message is another one; what was
			// not accepted leaves the transaction open.
			if err := s.DeleteTopic("t"); err != nil {
				t.Fatal(err)
			}
			mustTopic(t, s, "t", 1)
			if _, err := put(s, ends(plain(t, "t", 0, "lost"), at[3])); !errors.Is(err, ErrTopicNotFound) {
				t.Errorf("into a later topic: %v", err)
			}
			mustTopic(t, s, message.TransCheckMaxTopic, 1)
			mustPut(t, s, ends(plain(t, message.TransCheckMaxTopic, 0, "given up"), at[3]))
			if got := bodies(t, s, "t", 0); len(got) != 0 {
				t.Errorf("the new topic holds %v", got)
			}
			want := []Half{{Address: at[4], QueueOffset: 4, StoreMs: s.Halves()[0].StoreMs}}
			if diff := cmp.Diff(want, s.Halves()); diff != "" {
				t.Error(diff)
			}
			if rec, err := s.ReadAt(at[4]); err != nil || bodyOf(rec) != "half 4" {
				t.Errorf("half message: %v", err)
			}
			before := summary(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !checkpoint {
				removeDerived(t, dir)
			}
			s = openTest(t, testOptions(dir))
			if diff := cmp.Diff(before, summary(t, s)); diff != "" {
				t.Errorf("after a restart: %s", diff)
			}
		})
	}
}
