package storetest_test

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
	"github.com/tidemq/tidemq/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeT is a test that a test watches: it notes failures and runs its own
// cleanups when told to.
type fakeT struct {
	testing.TB
	failed   bool
	said     strings.Builder
	cleanups []func()
}

func (f *fakeT) Helper()                 {}
func (f *fakeT) Failed() bool            { return f.failed }
func (f *fakeT) Cleanup(c func())        { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Output() io.Writer       { return io.Discard }
func (f *fakeT) Logf(s string, a ...any) { fmt.Fprintf(&f.said, s+"\n", a...) }
func (f *fakeT) Errorf(s string, a ...any) {
	f.failed = true
	f.Logf(s, a...)
}

func (f *fakeT) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
}

// kept returns the directory that was kept, "" when none was; it is removed
// when the test ends.
func (f *fakeT) kept() string {
	_, path, ok := strings.Cut(f.said.String(), "data directory kept: ")
	if !ok {
		return ""
	}
	path = strings.TrimSpace(path)
	f.TB.Cleanup(func() { os.RemoveAll(path) })
	return path
}

func put(t *testing.T, s *store.Store, body string) {
	t.Helper()
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	rec, err := message.AppendRecord(nil, &message.Message{Topic: "t", BornHost: host, StoreHost: host, Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	s.Append(&store.Batch{Messages: []store.Message{{Topic: "t", Record: rec}}, Done: func(_ *store.Batch, err error) { done <- err }})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, f *fakeT) (s *store.Store, dir string) {
	t.Helper()
	s = storetest.Open(f, func(o *store.Options) { dir = o.Dir })
	if err := s.PutTopic(store.Topic{Name: "t", ReadQueues: 1, WriteQueues: 1, Perm: 6}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "one")
	put(t, s, "two")
	return s, dir
}

func TestOpenIsSatisfied(t *testing.T) {
	f := &fakeT{TB: t}
	s, dir := open(t, f)
	f.end()
	if f.failed || f.kept() != "" {
		t.Errorf("a store in order fails its test: %s", f.said.String())
	}
	if err := s.Healthy(); err == nil {
		t.Error("the store is open after its test")
	}
	if r := storetest.Check(t, dir); r.Records != 3 || r.Queues != 1 || r.Entries != 2 {
		t.Errorf("report %+v, want 3 records, 1 queue, 2 entries", r)
	}
}

func TestOpenFindsDamageAndKeepsIt(t *testing.T) {
	f := &fakeT{TB: t}
	s, dir := open(t, f)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	queue := filepath.Join(dir, "consumequeue", "t", "0", fmt.Sprintf("%020d", 0))
	b, err := os.ReadFile(queue)
	if err != nil {
		t.Fatal(err)
	}
	b[19]++
	if err := os.WriteFile(queue, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f.end()
	said := f.said.String()
	if !f.failed || !strings.Contains(said, queue+" at 0: entry 0: points at address") || !strings.Contains(said, "tags code 1") {
		t.Errorf("failed is %v, said %q; want the damaged entry", f.failed, said)
	}
	kept := f.kept()
	got, err := os.ReadFile(filepath.Join(kept, "consumequeue", "t", "0", fmt.Sprintf("%020d", 0)))
	if err != nil || string(got) != string(b) {
		t.Errorf("the damaged directory was not kept in %q: %v", kept, err)
	}
}

func TestDirectoryOfAFailedTestIsKept(t *testing.T) {
	f := &fakeT{TB: t}
	_, _ = open(t, f)
	f.Errorf("something of the test's own")
	f.end()
	kept := f.kept()
	if kept == "" {
		t.Fatalf("no directory was kept: %s", f.said.String())
	}
	if r := storetest.Check(t, kept); r.Records != 3 {
		t.Errorf("%d records in the kept directory, want 3", r.Records)
	}
}

func TestCheckOfADirectoryInUse(t *testing.T) {
	f := &fakeT{TB: t}
	var dir string
	storetest.Open(t, func(o *store.Options) { dir = o.Dir })
	storetest.Check(f, dir)
	if !f.failed || !strings.Contains(f.said.String(), store.ErrLocked.Error()) {
		t.Errorf("said %q, want ErrLocked", f.said.String())
	}
	f.kept()
}
