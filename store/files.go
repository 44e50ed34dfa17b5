package store

import (
	"container/list"
	"os"
	"sync"

	"github.com/tidemq/tidemq/internal/vfs"
)

// fileCache keeps up to max files open, least recently used ones closed first.
// A file in use is closed when its last user is done. Safe for concurrent use.
type fileCache struct {
	fs   vfs.FS
	flag int
	max  int

	mu    sync.Mutex
	open  map[string]*cachedFile
	order list.List // of *cachedFile, most recently used first
}

type cachedFile struct {
	vfs.File
	path string
	refs int // users, and one while cached
	elem *list.Element
}

func newFileCache(fs vfs.FS, flag, max int) *fileCache {
	return &fileCache{fs: fs, flag: flag, max: max, open: map[string]*cachedFile{}}
}

// get opens path or takes it from the cache; the caller must put it back.
func (c *fileCache) get(path string) (*cachedFile, error) {
	c.mu.Lock()
	if f := c.open[path]; f != nil {
		f.refs++
		c.order.MoveToFront(f.elem)
		c.mu.Unlock()
		return f, nil
	}
	c.mu.Unlock()
	file, err := c.fs.OpenFile(path, c.flag, 0o640)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.open[path]; f != nil { // another opened it meanwhile
		f.refs++
		file.Close()
		return f, nil
	}
	f := &cachedFile{File: file, path: path, refs: 2}
	f.elem = c.order.PushFront(f)
	c.open[path] = f
	for c.order.Len() > c.max {
		c.dropLocked(c.order.Back().Value.(*cachedFile))
	}
	return f, nil
}

func (c *fileCache) put(f *cachedFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(f)
}

func (c *fileCache) releaseLocked(f *cachedFile) {
	if f.refs--; f.refs == 0 {
		f.Close()
	}
}

func (c *fileCache) dropLocked(f *cachedFile) {
	c.order.Remove(f.elem)
	delete(c.open, f.path)
	c.releaseLocked(f)
}

// forget closes path's file once nobody uses it; the next get opens anew.
func (c *fileCache) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.open[path]; f != nil {
		c.dropLocked(f)
	}
}

// close forgets every file.
func (c *fileCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.open {
		c.dropLocked(f)
	}
}

// writeFileSync replaces path by data so that a crash leaves the old or the
// new content whole: write temporary, sync, rename, sync directory.
func writeFileSync(fs vfs.FS, dir, path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := fs.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(tmp, path)
	}
	if err != nil {
		_ = fs.Remove(tmp)
		return err
	}
	return fs.SyncDir(dir)
}

// readFile reads a whole file through fs into buf, which grows when too small.
func readFile(fs vfs.FS, path string, buf []byte) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	n := int(st.Size())
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	got, err := f.ReadAt(buf, 0)
	if got == n {
		err = nil
	}
	return buf[:got], err
}
