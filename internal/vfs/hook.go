package vfs

import (
	"io/fs"
)

// Op names a call that a Hook sees.
type Op string

// Calls that change or sync something, and those that open or read.
const (
	OpOpen     Op = "open"
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpTruncate Op = "truncate"
	OpRename   Op = "rename"
	OpRemove   Op = "remove"
	OpSyncDir  Op = "syncdir"
)

// Hooked passes every call through to FS and asks Hook first: an error from it
// is the call's answer, and the call is not made. After, when not nil, is told
// of each call that was made and what it answered. For tests.
type Hooked struct {
	FS
	Hook  func(op Op, name string) error
	After func(op Op, name string, err error)
}

func (h *Hooked) do(op Op, name string, f func() error) error {
	if h.Hook != nil {
		if err := h.Hook(op, name); err != nil {
			return &fs.PathError{Op: string(op), Path: name, Err: err}
		}
	}
	err := f()
	if h.After != nil {
		h.After(op, name, err)
	}
	return err
}

func (h *Hooked) wrap(name string, open func() (File, error)) (File, error) {
	var f File
	err := h.do(OpOpen, name, func() (err error) {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &hookedFile{File: f, h: h, name: name}, nil
}

// Open implements FS.
func (h *Hooked) Open(name string) (File, error) {
	return h.wrap(name, func() (File, error) { return h.FS.Open(name) })
}

// OpenFile implements FS.
func (h *Hooked) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return h.wrap(name, func() (File, error) { return h.FS.OpenFile(name, flag, perm) })
}

// Rename implements FS; the hook is given the new name.
func (h *Hooked) Rename(from, to string) error {
	return h.do(OpRename, to, func() error { return h.FS.Rename(from, to) })
}

// Remove implements FS.
func (h *Hooked) Remove(name string) error {
	return h.do(OpRemove, name, func() error { return h.FS.Remove(name) })
}

// SyncDir implements FS.
func (h *Hooked) SyncDir(dir string) error {
	return h.do(OpSyncDir, dir, func() error { return h.FS.SyncDir(dir) })
}

type hookedFile struct {
	File
	h    *Hooked
	name string
}

func (f *hookedFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.h.do(OpRead, f.name, func() (err error) {
		n, err = f.File.ReadAt(b, off)
		return err
	})
	return n, err
}

func (f *hookedFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.h.do(OpWrite, f.name, func() (err error) {
		n, err = f.File.WriteAt(b, off)
		return err
	})
	return n, err
}

func (f *hookedFile) Sync() error {
	return f.h.do(OpSync, f.name, f.File.Sync)
}

func (f *hookedFile) Truncate(size int64) error {
	return f.h.do(OpTruncate, f.name, func() error { return f.File.Truncate(size) })
}
