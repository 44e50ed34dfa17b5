// Package storetest opens a store for a test and gives its verdict on what the
// test has left behind: [Open] closes the store when the test ends and runs
// [store.Check] on its directory. When anything is wrong, or the test failed,
// the directory is kept and its path printed.
package storetest

import (
	"log/slog"
	"os"
	"testing"

	"github.com/tidemq/tidemq/internal/vfs"
	"github.com/tidemq/tidemq/store"
)

// Options returns the options that Open begins with: a directory of the
// test's, small segments, no syncs (tests never lose power), no watch on the
// free space, warnings in the test's log.
func Options(t testing.TB) store.Options {
	return store.Options{
		Dir:          t.TempDir(),
		SegmentBytes: 64 << 10,
		MinFreeBytes: -1,
		FS:           vfs.NoSync{FS: vfs.OS},
		Logger:       slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// Open opens a store with Options changed by tune, which may be nil. It is
// closed when the test ends, unless the test did, and checked then.
func Open(t testing.TB, tune func(*store.Options)) *store.Store {
	t.Helper()
	opts := Options(t)
	if tune != nil {
		tune(&opts)
	}
	s, err := store.Open(opts)
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
		r := Check(t, opts.Dir)
		if r.Next > 1 && r.Checkpoint != r.Next {
			t.Errorf("the closed store's checkpoint is at index %d, its log ends before %d", r.Checkpoint, r.Next)
		}
	})
	return s
}

// Check runs store.Check on a directory that is closed, and reports what it
// finds as the test's failure. A directory of a test that failed, by this or
// before, is kept.
func Check(t testing.TB, dir string) *store.CheckReport {
	t.Helper()
	r, err := store.Check(dir)
	if err != nil {
		t.Errorf("check the store: %v", err)
		r = &store.CheckReport{}
	}
	if err := r.Err(); err != nil {
		t.Errorf("the store is not in order:\n%v", err)
	}
	if t.Failed() {
		keep(t, dir)
	}
	return r
}

// keep copies dir to where the end of the test does not remove it.
func keep(t testing.TB, dir string) {
	t.Helper()
	to, err := os.MkdirTemp("", "tidemq-kept-")
	if err == nil {
		err = os.CopyFS(to, os.DirFS(dir))
	}
	if err != nil {
		t.Logf("data directory cannot be kept: %v", err)
		return
	}
	t.Logf("data directory kept: %s", to)
}
