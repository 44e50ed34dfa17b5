package store

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testHost = netip.MustParseAddrPort("127.0.0.1:10911")

// quiet drops log lines of expected trouble.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func testOptions(dir string) Options {
	return Options{Dir: dir, Logger: quiet(), SegmentBytes: 64 << 10, MinFreeBytes: -1, FS: vfs.NoSync{FS: vfs.OS}}
}

// openTest opens a store that is closed and checked when the test ends, as
// storetest.Open does for the tests of other packages.
func openTest(t *testing.T, opts Options) *Store {
	t.Helper()
	s := openUnchecked(t, opts)
	t.Cleanup(func() {
		_ = s.Close() // openUnchecked tells what it answers
		r, err := check(opts.Dir, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Err(); err != nil && len(s.Damages()) == 0 {
			t.Errorf("the closed store is not in order:\n%v", err)
		}
		if r.Next > 1 && r.Checkpoint != r.Next {
			t.Errorf("the closed store's checkpoint is at index %d, its log ends before %d", r.Checkpoint, r.Next)
		}
	})
	return s
}

// openUnchecked is openTest for a store whose files the test has damaged.
func openUnchecked(t *testing.T, opts Options) *Store {
	t.Helper()
	s, err := Open(opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func record(t testing.TB, topic string, queueID int32, body string) []byte {
	t.Helper()
	b, err := message.AppendRecord(nil, &message.Message{
		Topic: topic, QueueID: queueID, BornTime: 1, BornHost: testHost, StoreHost: testHost, Body: []byte(body),
		Properties: "TAGS\x01a\x02",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func plain(t testing.TB, topic string, queueID int32, body string) Message {
	return Message{Topic: topic, QueueID: queueID, Record: record(t, topic, queueID, body), TagsCode: message.TagsCode("a")}
}

func pending(t testing.TB, topic string, delay time.Duration, body string) Message {
	return Message{Topic: topic, Record: record(t, message.ScheduleTopic, 0, body), Delay: delay}
}

// put appends messages in one batch and waits.
func put(s *Store, ms ...Message) ([]Message, error) {
	done := make(chan error, 1)
	b := &Batch{Messages: ms, Done: func(_ *Batch, err error) { done <- err }}
	s.Append(b)
	err := <-done
	for i := range b.Messages {
		err = errors.Join(err, b.Messages[i].Err)
	}
	return b.Messages, err
}

func mustPut(t testing.TB, s *Store, ms ...Message) []Message {
	t.Helper()
	out, err := put(s, ms...)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return out
}

func mustTopic(t testing.TB, s *Store, name string, queues int32) {
	t.Helper()
	if err := s.PutTopic(Topic{Name: name, ReadQueues: queues, WriteQueues: queues, Perm: 6}); err != nil {
		t.Fatal(err)
	}
}

// bodies reads a whole queue and checks that offsets are dense.
func bodies(t testing.TB, s *Store, topic string, queueID int32) []string {
	t.Helper()
	var out []string
	for at := int64(0); ; {
		r, err := s.Read(topic, queueID, at, 100, 1<<20, nil)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		if r.Status == OffsetTooSmall {
			at = r.Next
			continue
		}
		if r.Status != Found && r.Status != NoMatch {
			return out
		}
		for i, rec := range r.Records {
			v := message.View(rec)
			if err := v.Valid(); err != nil {
				t.Fatalf("record at %d: %v", at+int64(i), err)
			}
			if r.Skipped == 0 && v.QueueOffset() != at+int64(i) {
				t.Fatalf("%s/%d: offset %d where %d was expected", topic, queueID, v.QueueOffset(), at+int64(i))
			}
			if v.Topic() != topic || v.QueueID() != queueID {
				t.Fatalf("%s/%d holds a record of %s/%d", topic, queueID, v.Topic(), v.QueueID())
			}
			out = append(out, string(v.Body()))
		}
		at = r.Next
		r.Release()
	}
}

// deliver steps up to n entries of a level that are due at nowUs.
func deliver(t testing.TB, s *Store, delay time.Duration, topic string, nowUs int64, n int) int {
	t.Helper()
	var b DueBatch
	done := 0
	for done < n {
		head := s.Level(delay).Head
		if err := s.ReadDue(delay, head, nowUs, 64<<10, &b); err != nil {
			t.Fatal(err)
		}
		if len(b.Items) == 0 {
			break
		}
		var ms []Message
		for _, d := range b.Items[:min(len(b.Items), n-done)] {
			m := Message{Topic: topic, Step: true, Origin: Origin{Delay: delay, Entry: d.Entry, Identity: d.Address, DueUs: d.DueUs}}
			if d.Err == nil {
				m.Record, m.TagsCode = record(t, topic, 0, string(message.View(d.Record).Body())), message.TagsCode("a")
			} else {
				m.Reason = d.Err.Error()
			}
			ms = append(ms, m)
		}
		mustPut(t, s, ms...)
		done += len(ms)
	}
	return done
}

func removeDerived(t testing.TB, dir string) {
	t.Helper()
	for _, name := range []string{"consumequeue", "checkpoint", "config"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func seq(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

const farFuture = int64(1) << 60

func bodyOf(rec []byte) string { return string(message.View(rec).Body()) }

// trimPad drops the zero bytes that tests pad bodies with.
func trimPad(s string) string { return strings.TrimRight(s, "\x00") }

// mustPutQuick appends without waiting unless told to; appends are in order.
func mustPutQuick(t testing.TB, s *Store, m Message, wait bool) {
	t.Helper()
	if wait {
		mustPut(t, s, m)
		return
	}
	s.Append(&Batch{Messages: []Message{m}, Done: func(b *Batch, err error) {
		if err != nil || b.Messages[0].Err != nil {
			t.Errorf("append: %v, %v", err, b.Messages[0].Err)
		}
	}})
}

// state is everything derived, for comparison.
type state struct {
	Queues  map[string][2]int64
	Levels  []LevelState
	Topics  []Topic
	Groups  []Group
	Offsets map[string]map[int32]int64
	Halves  []Half
}

func summary(t testing.TB, s *Store) state {
	t.Helper()
	st := state{Queues: map[string][2]int64{}, Levels: s.Levels(), Topics: s.Topics(), Groups: s.Groups(), Offsets: s.GroupOffsets("g"), Halves: s.Halves()}
	for _, q := range s.queues.all() {
		if q.topic != "" {
			a, b := q.bounds()
			st.Queues[fmt.Sprintf("%s/%d", q.topic, q.id)] = [2]int64{a, b}
		}
	}
	return st
}
