// Package crash runs a real broker as a process of its own, takes it down or
// takes its disk away under load, again and again, and accounts for every
// message: what was acknowledged is exactly once in its real topic, as it was
// sent, in its queue, in order, never early; and what any consumer has ever
// seen is still there, at the same place, unchanged.
//
// A run prints its seed. It decides what is sent and when the broker is
// killed, in numbers of messages; the machine decides the rest:
//
//	TIDEMQ_CRASH_SEED=N    the plan of that run again
//	TIDEMQ_CRASH_KILLS=N   kills per flush mode, 8 by default (each takes about half a second)
package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	// The broker is built and run as a process; by this import the test counts
	// as changed, and is not answered from the cache, when the broker changes.
	_ "github.com/tidemq/tidemq/broker"
)

var binDir string // holds the broker's binary

func TestMain(m *testing.M) {
	var err error
	if binDir, err = os.MkdirTemp("", "tidemq-crash"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(binDir)
		os.Exit(code)
	}))
}

// binary builds tidemq once, with the race detector when the tests have it.
var binary = sync.OnceValues(func() (string, error) {
	// What the command is made of is an input of this test like its own files.
	for _, pattern := range []string{"../../cmd/tidemq/*.go", "../../cmd/tidemq/internal/conf/*"} {
		files, err := filepath.Glob(pattern)
		if err == nil && len(files) == 0 {
			err = errors.New("no such files")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", pattern, err)
		}
		for _, f := range files {
			if _, err := os.Stat(f); err != nil {
				return "", err
			}
		}
	}
	bin := filepath.Join(binDir, "tidemq")
	args := []string{"build", "-o", bin}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/tidemq/tidemq/cmd/tidemq")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return bin, nil
})

// number reads a number from the environment.
func number(t *testing.T, name string, def uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// newSeed returns the seed of a run, and prints it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := number(t, "TIDEMQ_CRASH_SEED", uint64(time.Now().UnixNano()))
	t.Logf("TIDEMQ_CRASH_SEED=%d", seed)
	return seed
}

// limit bounds every wait. It never decides whether a message is lost: that is
// what is there in the end.
const limit = 60 * time.Second

// until waits until f holds.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
