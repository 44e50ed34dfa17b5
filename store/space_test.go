package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/vfs"
)

// roomFS is a file system with as much free space as a test says.
type roomFS struct {
	vfs.FS
	free  atomic.Int64
	looks atomic.Int64
}

func (r *roomFS) Free(string) (int64, error) {
	r.looks.Add(1)
	return r.free.Load(), nil
}

// TestNoRoomAtOpen: a store that opens on a nearly full disk refuses the very
// first send and says why, while reads and deliveries go on; with room again
// it takes sends, without being opened anew.
func TestNoRoomAtOpen(t *testing.T) {
	const need, delay = 1 << 20, time.Second
	room := &roomFS{FS: vfs.NoSync{FS: vfs.OS}}
	room.free.Store(need)
	opts := Options{Dir: t.TempDir(), Logger: quiet(), FS: room, MinFreeBytes: need}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustTopic(t, s, "t", 1)
	mustTopic(t, s, "d", 1)
	mustPut(t, s, plain(t, "t", 0, "before"))
	mustPut(t, s, pending(t, "d", delay, "waiting"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	room.free.Store(need - 1)
	room.looks.Store(0)
	s = openTest(t, opts)
	if room.looks.Load() == 0 {
		t.Fatal("open without a look at the free space")
	}
	_, err = put(s, plain(t, "t", 0, "refused"))
	if !errors.Is(err, ErrDiskFull) || !errors.Is(s.Healthy(), ErrDiskFull) {
		t.Fatalf("first send: %v, health: %v; want ErrDiskFull", err, s.Healthy())
	}
	if want := "1048575 bytes free, sends need 1048576"; !strings.Contains(err.Error(), want) {
		t.Errorf("refused with %q, want %q in it", err, want)
	}
	if n := deliver(t, s, delay, "d", farFuture, 1); n != 1 {
		t.Errorf("%d delivered while the disk is nearly full, want 1", n)
	}
	if got := strings.Join(bodies(t, s, "t", 0), " "); got != "before" {
		t.Errorf("queue holds %q", got)
	}

	room.free.Store(need)
	waitFor(t, "room", func() bool { return s.Healthy() == nil })
	mustPut(t, s, plain(t, "t", 0, "after"))
	if got := strings.Join(bodies(t, s, "t", 0), " "); got != "before after" {
		t.Errorf("queue holds %q", got)
	}
}
