// Package vfs is the file system as the store sees it: the few calls it uses,
// an implementation on the operating system, and one for tests that records
// and fails them. The commit log's own files are written by the WAL library,
// outside this package; everything else goes through it, the syncs of the
// commit log included.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the file's bytes and size durable.
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// FS opens, names and removes files. Its methods may be called concurrently.
type FS interface {
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenFile opens with flags of package os.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	MkdirAll(dir string, perm fs.FileMode) error
	ReadDir(dir string) ([]fs.DirEntry, error)
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(dir string) error
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Free returns the bytes that may still be written to the file system
	// that holds dir.
	Free(dir string) (int64, error)
	// Usage returns the bytes in use on that file system, and those that may
	// still be written, as df shows them.
	Usage(dir string) (used, available int64, err error)
}

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Open(name string) (File, error) { return wrap(os.Open(name)) }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return wrap(os.OpenFile(name, flag, perm))
}

// wrap keeps a nil *os.File from becoming a non-nil File.
func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) MkdirAll(dir string, perm fs.FileMode) error { return os.MkdirAll(dir, perm) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error)   { return os.ReadDir(dir) }
func (osFS) Rename(from, to string) error                { return os.Rename(from, to) }
func (osFS) Remove(name string) error                    { return os.Remove(name) }
func (osFS) RemoveAll(dir string) error                  { return os.RemoveAll(dir) }
func (osFS) Stat(name string) (fs.FileInfo, error)       { return os.Stat(name) }

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Space returns the bytes of the operating system's file system that holds
// dir: those that may still be written, and all.
func Space(dir string) (free, total int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

func (o osFS) Free(dir string) (int64, error) {
	_, available, err := o.Usage(dir)
	return available, err
}

func (osFS) Usage(dir string) (used, available int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, err
	}
	size := int64(st.Bsize)
	return int64(st.Blocks-st.Bfree) * size, int64(st.Bavail) * size, nil
}
