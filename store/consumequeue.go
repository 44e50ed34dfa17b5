package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidemq/tidemq/internal/vfs"
)

// A consume queue is a row of fixed-size entries, as RocketMQ's ConsumeQueue:
//
//	0  address   i64  log address of the message's record
//	8  size      i32  bytes of the stored message
//	12 tagsCode  i64  hash of the tag; in a level queue the due time in µs
//
// Entry N stands in the chunk file named by the chunk's first entry, at a
// fixed place, so that replay writes the same again. An entry of zeros marks a
// number whose record was lost to damage. The newest entries wait in memory
// until there are flushTail bytes of them or a checkpoint comes: the log is
// what survives, the files only shorten the way to it.
const (
	entrySize    = 20
	chunkEntries = 1 << 18
	chunkBytes   = chunkEntries * entrySize
	flushTail    = 8 << 10
)

// entry is one entry of a consume queue.
type entry struct {
	address int64
	size    int32
	tags    int64
}

func (e entry) lost() bool { return e.size == 0 }

func appendEntry(b []byte, e entry) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.address))
	b = binary.BigEndian.AppendUint32(b, uint32(e.size))
	return binary.BigEndian.AppendUint64(b, uint64(e.tags))
}

func decodeQueueEntry(b []byte) entry {
	return entry{
		address: int64(binary.BigEndian.Uint64(b)),
		size:    int32(binary.BigEndian.Uint32(b[8:])),
		tags:    int64(binary.BigEndian.Uint64(b[12:])),
	}
}

// queueFiles is what all queues share: the file system, open chunk files, and
// how much waits in memory.
type queueFiles struct {
	fs      vfs.FS
	files   *fileCache
	waiting atomic.Int64 // bytes of tails not written yet
}

const maxOpenChunks = 128

func newQueueFiles(fs vfs.FS) *queueFiles {
	return &queueFiles{fs: fs, files: newFileCache(fs, os.O_RDWR|os.O_CREATE, maxOpenChunks)}
}

// queue is one consume queue. The store's dispatch puts, anyone reads.
type queue struct {
	files *queueFiles
	dir   string
	topic string // "" for a level's queue
	id    int32

	// assigned is the next number the writer gives out; its goroutine only.
	assigned int64

	mu      sync.RWMutex
	min     int64  // first entry that exists
	next    int64  // one past the last visible entry
	flushed int64  // entries below are in the chunk files
	tail    []byte // entries [flushed, next)
	// Entries below next that were put again and are not in the files as such.
	fixes  map[int64]entry
	fixed  int  // how often a flush began or ended to write fixes
	sparse bool // the files have gaps where fixes are to come

	flushMu sync.Mutex     // one flush at a time, taken before mu
	gone    bool           // the topic was deleted: write no more
	chunks  map[int64]bool // chunks written since the last syncChunks
	isNew   bool           // the directory's name is not synced yet
	dropped int64          // chunks below are gone

	cut cutMark // retention's own
}

func newQueue(files *queueFiles, dir, topic string, id int32) *queue {
	return &queue{files: files, dir: dir, topic: topic, id: id, chunks: map[int64]bool{}, isNew: true}
}

// bounds returns the minimum and the next queue offset.
func (q *queue) bounds() (min, next int64) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.min, q.next
}

// put makes e the queue's entry n. Putting the same again changes nothing; a
// gap before n is filled with lost entries. It returns whether n is new.
func (q *queue) put(n int64, e entry) bool {
	q.mu.Lock()
	if n < q.next {
		q.mu.Unlock()
		return false
	}
	before := len(q.tail)
	if q.next == 0 && n > 0 {
		// The queue's beginning is not in the log (any more).
		q.min, q.next, q.flushed = n, n, n
	}
	for q.next < n {
		q.tail = appendEntry(q.tail, entry{})
		q.next++
	}
	q.tail = appendEntry(q.tail, e)
	q.next++
	size := len(q.tail)
	q.mu.Unlock()
	q.files.waiting.Add(int64(size - before))
	if size >= flushTail {
		// A failure leaves the entries in memory, and the next checkpoint
		// tries again and reports it.
		_ = q.flush()
	}
	return true
}

// flush writes the entries that wait in memory to the chunk files.
func (q *queue) flush() error {
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	q.mu.Lock()
	from, b := q.flushed, q.tail
	fixes := q.takeFixesLocked()
	q.mu.Unlock()
	if q.gone || len(b) == 0 && len(fixes) == 0 {
		return nil
	}
	if q.isNew {
		if err := q.files.fs.MkdirAll(q.dir, 0o750); err != nil {
			return err
		}
	}
	done := int64(0)
	for rest := b; len(rest) > 0; {
		n := from + done
		chunk := n - n%chunkEntries
		part := rest[:min(len(rest), int(chunk+chunkEntries-n)*entrySize)]
		f, err := q.files.files.get(q.chunkPath(chunk))
		if err != nil {
			return err
		}
		_, err = f.WriteAt(part, (n-chunk)*entrySize)
		q.files.files.put(f)
		if err != nil {
			return err
		}
		q.chunks[chunk] = true
		done += int64(len(part) / entrySize)
		rest = rest[len(part):]
	}
	if err := q.writeFixes(fixes); err != nil {
		return err
	}
	q.mu.Lock()
	q.flushed += done
	q.dropFixesLocked(fixes)
	q.tail = append(q.tail[:0], q.tail[len(b):]...)
	if len(q.tail) == 0 && cap(q.tail) > flushTail {
		q.tail = nil
	}
	q.mu.Unlock()
	q.files.waiting.Add(int64(-len(b)))
	return nil
}

// syncChunks makes everything flushed so far durable.
func (q *queue) syncChunks() error {
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	if q.gone {
		return nil
	}
	newNames := false
	for chunk := range q.chunks {
		f, err := q.files.files.get(q.chunkPath(chunk))
		if err != nil {
			return err
		}
		err = f.Sync()
		q.files.files.put(f)
		if err != nil {
			return err
		}
		delete(q.chunks, chunk)
		newNames = true
	}
	if newNames || q.isNew {
		if err := q.syncNames(); err != nil {
			return err
		}
	}
	return nil
}

// syncNames makes the names of the chunk files durable, and for a new queue
// those of its directories.
func (q *queue) syncNames() error {
	if err := q.files.fs.SyncDir(q.dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // nothing was ever flushed
			return nil
		}
		return err
	}
	if !q.isNew {
		return nil
	}
	topic := filepath.Dir(q.dir)
	if err := errors.Join(q.files.fs.SyncDir(topic), q.files.fs.SyncDir(filepath.Dir(topic))); err != nil {
		return err
	}
	q.isNew = false
	return nil
}

// isDirty tells whether entries are not in the files, or not durable there.
func (q *queue) isDirty() bool {
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	q.mu.RLock()
	defer q.mu.RUnlock()
	return !q.gone && (len(q.tail) > 0 || len(q.fixes) > 0 || len(q.chunks) > 0)
}

// synced notes that all that was flushed is durable, names included.
func (q *queue) synced() {
	q.flushMu.Lock()
	clear(q.chunks)
	q.isNew = false
	q.flushMu.Unlock()
}

// release gives back the memory of an idle queue.
func (q *queue) release() {
	q.mu.Lock()
	if len(q.tail) == 0 {
		q.tail = nil
	}
	q.mu.Unlock()
}

// remove deletes the queue's files; what waits in memory is dropped.
func (q *queue) remove() error {
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	q.gone = true
	q.mu.Lock()
	q.files.waiting.Add(int64(-len(q.tail) - len(q.fixes)*fixBytes))
	first, last := q.min, q.next
	q.min, q.tail, q.fixes = q.next, nil, nil
	q.flushed = q.next
	q.mu.Unlock()
	for chunk := first - first%chunkEntries; chunk < last; chunk += chunkEntries {
		q.files.files.forget(q.chunkPath(chunk))
	}
	return q.files.fs.RemoveAll(q.dir)
}

// read appends entries [from, from+max) that exist to dst.
func (q *queue) read(dst []entry, from int64, limit int) ([]entry, error) {
	for at := len(dst); ; {
		out, again, err := q.readOnce(dst[:at], from, limit)
		if !again {
			return out, err
		}
		dst = out
	}
}

// readOnce is one attempt to read: again tells that entries were written anew,
// or left the queue's front, while it read the files.
func (q *queue) readOnce(dst []entry, from int64, limit int) (out []entry, again bool, err error) {
	q.mu.RLock()
	from = max(from, q.min)
	to := min(q.next, from+int64(limit))
	flushed, fixed := q.flushed, q.fixed
	var mem []byte
	if to > flushed {
		start := max(from, flushed)
		if start < to {
			mem = append(mem, q.tail[(start-flushed)*entrySize:(to-flushed)*entrySize]...)
		}
	}
	fixes := q.fixesLocked(from, to)
	q.mu.RUnlock()
	at, first := len(dst), from
	for from < min(to, flushed) {
		chunk := from - from%chunkEntries
		n := min(to, flushed, chunk+chunkEntries) - from
		b := getBuf(int(n) * entrySize)
		err := q.readChunk(b.b, chunk, from)
		if err != nil || q.changed(fixed, first) {
			putBuf(b)
			return dst, q.changed(fixed, first), err
		}
		for i := 0; i < len(b.b); i += entrySize {
			dst = append(dst, decodeQueueEntry(b.b[i:]))
		}
		putBuf(b)
		from += n
	}
	for ; len(mem) > 0; mem = mem[entrySize:] {
		dst = append(dst, decodeQueueEntry(mem))
	}
	for _, f := range fixes {
		dst[at+int(f.n-first)] = f.entry
	}
	return dst, false, nil
}

func (q *queue) readChunk(b []byte, chunk, from int64) error {
	path := q.chunkPath(chunk)
	f, err := q.files.files.get(path)
	if err != nil {
		return err
	}
	defer q.files.files.put(f)
	n, err := f.ReadAt(b, (from-chunk)*entrySize)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return &CorruptionError{File: path, Offset: (from - chunk) * entrySize, Reason: "consume queue file is too short"}
	}
	return err
}

func (q *queue) chunkPath(chunk int64) string {
	return filepath.Join(q.dir, fmt.Sprintf("%020d", chunk))
}

// restore sets the queue to what a checkpoint says and verifies that the
// files hold that much.
func (q *queue) restore(minimum, next int64) error {
	q.min, q.next, q.flushed, q.assigned, q.isNew = minimum, next, next, next, false
	if minimum == next { // nothing is left in it, perhaps no file either
		q.isNew = true
		return nil
	}
	for chunk := minimum - minimum%chunkEntries; chunk < next; chunk += chunkEntries {
		path := q.chunkPath(chunk)
		st, err := q.files.fs.Stat(path)
		if err != nil {
			return err
		}
		if want := min(next-chunk, chunkEntries) * entrySize; st.Size() < want {
			return &CorruptionError{File: path, Offset: st.Size(), Reason: fmt.Sprintf("consume queue file is too short, %d bytes expected", want)}
		}
	}
	return nil
}
