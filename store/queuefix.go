package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
)

// A queue's entries stay as they were put, but for two things that retention
// does: an entry of a level is put again when its message is carried forward,
// at its own place, and the queue's front goes. In replay of a log whose front
// is gone, a level's entries come in any order.

// fix is an entry that goes over the one at place n.
type fix struct {
	n int64
	entry
}

const (
	// fixBytes is what a waiting fix counts for, maxFixes how many may wait.
	fixBytes = 64
	maxFixes = 512
	// maxGap is the widest gap that is filled in memory, in entries.
	maxGap = 4096
)

// replace makes e the queue's entry n, whatever stands there, and n an entry
// of the queue when it is none yet.
func (q *queue) replace(n int64, e entry) error {
	q.mu.Lock()
	if q.next == 0 || n >= q.next {
		far := q.next > 0 && n-q.next > maxGap
		q.mu.Unlock()
		if far {
			if err := q.skipTo(n); err != nil {
				return err
			}
		}
		q.put(n, e)
		return nil
	}
	if n < q.min {
		q.min, q.sparse = n, true
	}
	if q.fixes == nil {
		q.fixes = map[int64]entry{}
	}
	before := len(q.fixes)
	q.fixes[n] = e
	many := len(q.fixes)
	q.mu.Unlock()
	q.files.waiting.Add(int64(many-before) * fixBytes)
	if many >= maxFixes {
		// As in put: a failure leaves them in memory.
		_ = q.flush()
	}
	return nil
}

// fixesLocked returns the fixes of entries [from, to).
func (q *queue) fixesLocked(from, to int64) []fix {
	if len(q.fixes) == 0 {
		return nil
	}
	var list []fix
	if to-from < int64(len(q.fixes)) {
		for n := from; n < to; n++ {
			if e, ok := q.fixes[n]; ok {
				list = append(list, fix{n, e})
			}
		}
		return list
	}
	for n, e := range q.fixes {
		if n >= from && n < to {
			list = append(list, fix{n, e})
		}
	}
	return list
}

// takeFixesLocked returns all fixes in order; they stay until dropFixesLocked,
// so that a reader who begins meanwhile goes by them and not by the files.
func (q *queue) takeFixesLocked() []fix {
	if len(q.fixes) == 0 {
		return nil
	}
	q.fixed++
	list := q.fixesLocked(0, math.MaxInt64)
	slices.SortFunc(list, func(a, b fix) int { return int(a.n - b.n) })
	return list
}

// dropFixesLocked forgets fixes that were written and did not change since.
func (q *queue) dropFixesLocked(list []fix) {
	if len(list) == 0 {
		return
	}
	q.fixed++
	before := len(q.fixes)
	for _, f := range list {
		if q.fixes[f.n] == f.entry {
			delete(q.fixes, f.n)
		}
	}
	q.files.waiting.Add(int64(len(q.fixes)-before) * fixBytes)
}

// writeFixes writes fixes into the chunk files, neighbours together. Under
// flushMu.
func (q *queue) writeFixes(list []fix) error {
	minimum, _ := q.bounds()
	for len(list) > 0 {
		first := list[0].n
		chunk := first - first%chunkEntries
		var b []byte
		i := 0
		for ; i < len(list) && list[i].n == first+int64(i) && list[i].n < chunk+chunkEntries; i++ {
			b = appendEntry(b, list[i].entry)
		}
		list = list[i:]
		if first+int64(i) <= minimum { // left the queue meanwhile, its file may be gone
			continue
		}
		f, err := q.files.files.get(q.chunkPath(chunk))
		if err != nil {
			return err
		}
		_, err = f.WriteAt(b, (first-chunk)*entrySize)
		q.files.files.put(f)
		if err != nil {
			return err
		}
		q.chunks[chunk] = true
	}
	return nil
}

// changed tells whether a reader of the files, who began at entry from when
// the count was fixed, may have seen half of a change.
func (q *queue) changed(fixed int, from int64) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.fixed != fixed || from < q.min
}

// skipTo makes n the queue's next entry. Entries between are lost, or come by
// replace. In replay alone.
func (q *queue) skipTo(n int64) error {
	if err := q.flush(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.next == 0:
		q.min, q.next, q.flushed = n, n, n
	case n > q.next:
		q.next, q.flushed, q.sparse = n, n, true
	}
	return nil
}

// fill makes the files as long as the queue is, after a replay that left gaps.
func (q *queue) fill() error {
	if !q.sparse {
		return nil
	}
	if err := q.flush(); err != nil {
		return err
	}
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	if err := q.files.fs.MkdirAll(q.dir, 0o750); err != nil {
		return err
	}
	for chunk := q.min - q.min%chunkEntries; chunk < q.flushed; chunk += chunkEntries {
		f, err := q.files.files.get(q.chunkPath(chunk))
		if err != nil {
			return err
		}
		want := min(q.flushed-chunk, chunkEntries) * entrySize
		st, err := f.Stat()
		if err == nil && st.Size() < want {
			err = f.Truncate(want)
			q.chunks[chunk] = true
		}
		q.files.files.put(f)
		if err != nil {
			return err
		}
	}
	q.sparse = false
	return nil
}

// moveMin makes n the queue's first entry, when it is not beyond it already.
func (q *queue) moveMin(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, q.next)
	if n <= q.min {
		return
	}
	q.min = n
	before := len(q.fixes)
	for k := range q.fixes {
		if k < n {
			delete(q.fixes, k)
		}
	}
	q.files.waiting.Add(int64(len(q.fixes)-before) * fixBytes)
}

// dropChunks deletes the chunk files that lie wholly below entry n.
func (q *queue) dropChunks(n int64) error {
	q.flushMu.Lock()
	defer q.flushMu.Unlock()
	keep := n - n%chunkEntries
	if q.gone || keep <= q.dropped {
		return nil
	}
	ents, err := q.files.fs.ReadDir(q.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	for _, e := range ents {
		var first int64
		if _, err := fmt.Sscanf(e.Name(), "%020d", &first); err != nil || first >= keep {
			continue
		}
		path := q.chunkPath(first)
		q.files.files.forget(path)
		if err := q.files.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(q.chunks, first)
	}
	q.dropped = keep
	return nil
}

// cutMark remembers where a queue's first entry points.
type cutMark struct {
	min     int64
	address int64
}

// cutBelow moves the queue's minimum to its first entry whose record is at
// address or above. Addresses rise along a topic's queue; lost entries have
// none.
func (q *queue) cutBelow(address int64) error {
	minimum, next := q.bounds()
	if minimum == next || q.cut.min == minimum && q.cut.address >= address {
		return nil
	}
	lo, hi := minimum, next // the answer is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		a, at, err := q.addressFrom(mid, hi)
		if err != nil {
			return err
		}
		if a >= address {
			hi = mid
		} else {
			lo = at + 1
		}
	}
	a, _, err := q.addressFrom(lo, next)
	if err != nil {
		return err
	}
	if a < math.MaxInt64 { // else there is none yet
		q.cut = cutMark{lo, a}
	}
	q.moveMin(lo)
	return nil
}

// addressFrom returns the address of the first entry in [n, to) that is not
// lost, and its number; the greatest address when there is none.
func (q *queue) addressFrom(n, to int64) (address, at int64, err error) {
	var buf [64]entry
	for n < to {
		es, err := q.read(buf[:0], n, int(min(int64(len(buf)), to-n)))
		if err != nil {
			return 0, 0, err
		}
		if len(es) == 0 {
			break
		}
		for i, e := range es {
			if !e.lost() {
				return e.address, n + int64(i), nil
			}
		}
		n += int64(len(es))
	}
	return math.MaxInt64, to, nil
}
