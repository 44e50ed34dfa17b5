package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// DirLock is the lock on a data directory, which one process at a time holds.
// It is the kernel's lock on the file "lock" and goes with the process, so that
// a kill leaves nothing behind. The file's text, the holder's process id in
// decimal, is only for whoever is refused; nothing depends on it.
type DirLock struct {
	f    *os.File
	once sync.Once
	err  error
}

// LockDir locks a data directory, creating it when missing. Options.Lock hands
// the lock to Open; whoever has something to do before Open (listen on its
// ports) is refused early this way. ErrLocked names the directory and the
// process that holds it, as far as that is known.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := holderOf(f)
		f.Close()
		if abs, aerr := filepath.Abs(dir); aerr == nil {
			dir = abs
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s%s", ErrLocked, dir, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// A full disk must not keep the store from opening: the text is not needed.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	}
	return &DirLock{f: f}, nil
}

// holderOf reads who holds a lock, as text to append; "" when it is not known.
func holderOf(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// Close releases the directory. Idempotent.
func (l *DirLock) Close() error {
	l.once.Do(func() {
		_ = l.f.Truncate(0) // while it is still ours
		l.err = l.f.Close()
	})
	return l.err
}
