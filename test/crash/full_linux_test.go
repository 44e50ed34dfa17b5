package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFullDisk takes the room to write away from a running broker, by a limit
// on the size of its files: a write of the commit log's segments ends short in
// the middle of a group, the next one with an error, which the store takes for
// a full disk. The limit is lifted without a restart. What it must show: sends
// are refused with code 14 and the reason, what is there can be read, what
// comes due is late but delivered when there is room again, by the same
// process, and what was acknowledged is there exactly once; what was refused
// is not. At last the broker is killed while the disk is full, and starts and
// can be read while it still is.
func TestFullDisk(t *testing.T) {
	seed := newSeed(t)
	for i, flush := range []string{"sync", "async"} {
		t.Run(flush, func(t *testing.T) {
			t.Parallel()
			testFullDisk(t, seed+uint64(i), flush)
		})
	}
}

// sizeLimit bounds the files of the running broker to n bytes each; the hard
// limit stays, so that it may be lifted. It returns the limit before.
func (b *broker) sizeLimit(n uint64) uint64 {
	b.t.Helper()
	var old unix.Rlimit
	pid := b.cmd.Process.Pid
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
		b.t.Fatalf("limit of process %d: %v", pid, err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: min(n, old.Max), Max: old.Max}, nil); err != nil {
		b.t.Fatalf("limit of process %d: %v", pid, err)
	}
	return old.Cur
}

// tailSize is the size of the commit log's last segment.
func (b *broker) tailSize() int64 {
	b.t.Helper()
	segments, err := filepath.Glob(filepath.Join(b.dir, "data", "commitlog", "*"))
	if err != nil || len(segments) == 0 {
		b.t.Fatalf("segments %q, %v", segments, err)
	}
	st, err := os.Stat(segments[len(segments)-1])
	if err != nil {
		b.t.Fatal(err)
	}
	return st.Size()
}

func testFullDisk(t *testing.T, seed uint64, flush string) {
	rng := rand.New(rand.NewPCG(seed, 0))
	b := newBroker(t, rng, flush)
	b.start()
	pid := b.cmd.Process.Pid
	l := startLoad(t, seed, b.addr, "disk is full", "broker is starting")
	w := startWatch(t, b.addr)
	a := newAccount(t, b.addr, l)
	a.read() // its group is known from here on

	sends := func(n int) {
		t.Helper()
		n += l.acks()
		until(t, "sends are acknowledged", func() bool { return l.acks() >= n })
	}
	// fill leaves no more than room in the log's last segment, which is less
	// than a segment may have, and waits until every producer has been refused.
	fill := func(room int64) (before uint64) {
		t.Helper()
		const belowRoll = 3 << 20
		before = b.sizeLimit(uint64(min(b.tailSize()+room, belowRoll)))
		n := l.leastRefused() + 3
		until(t, "every producer is refused", func() bool { return l.leastRefused() >= n })
		return before
	}
	// outage is a full disk until all that was acknowledged is due. It returns
	// how many messages had to wait for room.
	outage := func(fill func() uint64) int {
		t.Helper()
		sends(300)
		before := fill()
		l.pause()
		time.Sleep(time.Until(l.due()))
		during := a.anew()
		during.read()
		held, there := during.missing()
		w.await(during.records())
		t.Logf("full: %d records can be read, %d messages are due and wait", there, held)
		b.sizeLimit(before)
		l.resume()
		sends(300) // it takes sends again, by itself
		l.pause()
		a.await()
		l.resume()
		return held
	}

	// A write that ends short, in the middle of the segment.
	for held := 0; held == 0; {
		held = outage(func() uint64 { return fill(rng.Int64N(128 << 10)) })
	}
	// No byte can be written: the log cannot even be brought back.
	for held := 0; held == 0; {
		held = outage(func() uint64 {
			before := b.sizeLimit(0)
			n := l.leastRefused() + 3
			until(t, "every producer is refused", func() bool { return l.leastRefused() >= n })
			return before
		})
	}
	if !b.running() || b.starts != 1 || b.cmd.Process.Pid != pid {
		t.Fatalf("the broker was started %d times, process %d was %d", b.starts, b.cmd.Process.Pid, pid)
	}

	sends(300)
	before := fill(rng.Int64N(128 << 10))
	b.kill()
	// Full still when it starts: the shell's limit is in blocks of 512 bytes.
	b.start("sh", "-c", `ulimit -S -f "$0" && exec "$@"`, strconv.FormatInt(b.tailSize()/512+1, 10))
	n := l.leastRefused() + 3
	until(t, "every producer is refused again", func() bool { return l.leastRefused() >= n })
	seen, during := w.all(), a.anew()
	during.read()
	w.compare(seen, during.records())
	b.sizeLimit(before)
	sends(300)
	l.stop()
	a.await()
	a.verdict()
	w.await(a.records())
	w.close()
	a.read()
	w.compare(w.all(), a.records())
	b.stop()
	if b.checkLog("commit log failed: reopening it", "commit log cannot be reopened yet", "due messages cannot be stored") == 0 {
		t.Error("the broker's log says nothing of a full disk")
	}
	t.Log(w)
}
