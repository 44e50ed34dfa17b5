package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/tidemq/tidemq/internal/vfs"
)

// epochFile holds the log's epoch: a number that is raised, and synced, each
// time the log is opened or reopened. After a cut the same WAL index and log
// address are given out again; by the epoch a leftover of before is told from
// a record of now. Two slots are written in turn, in place, so that a torn
// write leaves the other one and a full disk does not matter.
//
//	0 epoch u32 | 4 crc32c u32 … | 512 the same again
type epochFile struct {
	fs   vfs.FS
	dir  string
	path string
}

const epochSlot = 512

// read returns the greatest whole epoch in the file, 0 when there is none.
func (e *epochFile) read() uint32 {
	b, err := readFile(e.fs, e.path, nil)
	if err != nil {
		return 0
	}
	var epoch uint32
	for at := 0; at+8 <= len(b); at += epochSlot {
		v := binary.BigEndian.Uint32(b[at:])
		if crc32.Checksum(b[at:at+4], castagnoli) == binary.BigEndian.Uint32(b[at+4:]) {
			epoch = max(epoch, v)
		}
	}
	return epoch
}

// raise stores and returns an epoch above both the file's and seen.
func (e *epochFile) raise(seen uint32) (uint32, error) {
	epoch := max(e.read(), seen) + 1
	if epoch == 0 {
		return 0, fmt.Errorf("epoch %d cannot be raised further", seen)
	}
	f, err := e.fs.OpenFile(e.path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	fresh := st.Size() < 2*epochSlot
	if fresh {
		if _, err := f.WriteAt(make([]byte, 2*epochSlot), 0); err != nil {
			return 0, err
		}
	}
	slot := make([]byte, 8)
	binary.BigEndian.PutUint32(slot, epoch)
	binary.BigEndian.PutUint32(slot[4:], crc32.Checksum(slot[:4], castagnoli))
	if _, err := f.WriteAt(slot, int64(epoch%2)*epochSlot); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if fresh {
		return epoch, e.fs.SyncDir(e.dir)
	}
	return epoch, nil
}
