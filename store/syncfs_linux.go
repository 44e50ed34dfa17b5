package store

import "golang.org/x/sys/unix"

// syncFileSystem makes everything on the data directory's file system durable,
// and reports whether the system can do that.
func (s *Store) syncFileSystem() (able bool, err error) {
	return true, unix.Syncfs(int(s.lock.f.Fd()))
}
