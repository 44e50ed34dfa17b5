package store

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

const (
	// mergeGap is how many foreign bytes between two records of a queue are
	// read over rather than read apart.
	mergeGap = 4 << 10
	// mergeMax bounds one read of the log.
	mergeMax = 256 << 10
)

// Read returns up to maxRecords records and about maxBytes bytes, but at least
// one record, of a queue from offset on. match, when not nil, is given each
// entry's tags code; entries it turns down are passed over, up to scanMax of
// them in a call. Records damaged in the log are passed over, counted and
// reported. Safe for concurrent use; call Release when done with the records.
//
// The error is not nil only when the log cannot be read right now
// (ErrUnavailable) or a file operation failed.
func (s *Store) Read(topic string, queueID int32, offset int64, maxRecords, maxBytes int, match func(tagsCode int64) bool) (ReadResult, error) {
	for {
		r, err := s.read(topic, queueID, offset, maxRecords, maxBytes, match)
		if err != errGone {
			return r, err
		}
	}
}

// errGone: a record was read of which an entry spoke that retention has
// changed meanwhile. To be looked up again.
var errGone = errors.New("the record's segment was deleted")

func (s *Store) read(topic string, queueID int32, offset int64, maxRecords, maxBytes int, match func(tagsCode int64) bool) (ReadResult, error) {
	q := s.queues.lookup(topic, queueID)
	if q == nil {
		return ReadResult{Status: NoQueue}, nil
	}
	minimum, next := q.bounds()
	r := ReadResult{Min: minimum, Max: next}
	switch {
	case offset < minimum:
		r.Status, r.Next = OffsetTooSmall, minimum
		return r, nil
	case offset > next:
		r.Status, r.Next = OffsetTooLarge, next
		return r, nil
	case offset == next:
		r.Status, r.Next = NoMessageYet, next
		return r, nil
	}
	maxRecords = max(maxRecords, 1)
	pick := entryPool.Get().(*entryBuf)
	defer entryPool.Put(pick)
	pick.taken = pick.taken[:0]
	bytes := 0
	at := offset
scan:
	for at < next && len(pick.taken) < maxRecords && at-offset < scanMax {
		want := min(max(maxRecords-len(pick.taken), 32), scanStep)
		es, err := q.read(pick.read[:0], at, want)
		pick.read = es
		if err != nil {
			return r, fmt.Errorf("consume queue %s/%d at %d: %w", topic, queueID, at, err)
		}
		if len(es) == 0 {
			break
		}
		for _, e := range es {
			if len(pick.taken) >= maxRecords {
				break scan
			}
			switch {
			case e.lost():
				r.Skipped++
			case match != nil && !match(e.tags):
			default:
				if len(pick.taken) > 0 && bytes+int(e.size) > maxBytes {
					break scan
				}
				bytes += int(e.size)
				pick.taken = append(pick.taken, e)
			}
			at++
		}
	}
	if minimum, _ := q.bounds(); minimum > offset {
		return ReadResult{}, errGone // the entries may be later ones
	}
	r.Next = at
	if err := s.readRecords(q, pick.taken, &r); err != nil {
		r.Release()
		return r, err
	}
	r.Status = Found
	if len(r.Records) == 0 {
		r.Status = NoMatch
	}
	return r, nil
}

// scanMax bounds the entries that one Read looks at, scanStep those it takes
// from the queue at once.
const (
	scanMax  = 16 << 10
	scanStep = 1 << 10
)

// readRecords reads and verifies the records of a queue's entries into r,
// neighbours together. errGone when the queue's minimum has left r.Min.
func (s *Store) readRecords(q *queue, es []entry, r *ReadResult) error {
	if len(es) == 0 {
		return nil
	}
	total := 0
	for i := 0; i < len(es); {
		j, n := mergeRun(es, i)
		total += n
		i = j
	}
	r.buf = getBuf(total)
	r.Records = make([][]byte, 0, len(es))
	b := r.buf.b
	for i := 0; i < len(es); {
		j, n := mergeRun(es, i)
		run := b[:n:n]
		b = b[n:]
		err := s.eachInRun(es[i:j], run, func(k int, _ header, rec []byte, err error) error {
			if err == nil {
				r.Records = append(r.Records, rec)
				return nil
			}
			if es[i+k].address < s.segs.front() {
				if minimum, _ := q.bounds(); minimum != r.Min {
					return errGone
				}
			}
			r.Skipped++
			return s.reportUnreadable(es[i+k].address, err)
		})
		if err != nil {
			return err
		}
		i = j
	}
	return nil
}

// mergeRun returns the end of the run of entries from i on that one read
// covers, and the bytes it takes.
func mergeRun(es []entry, i int) (j, n int) {
	start := es[i].address
	end := start + int64(messageEntryLen(es[i].size))
	for j = i + 1; j < len(es); j++ {
		e := es[j]
		if e.lost() || e.address < end || e.address > end+mergeGap {
			break
		}
		next := e.address + int64(messageEntryLen(e.size))
		if next-start > mergeMax {
			break
		}
		end = next
	}
	return j, int(end - start)
}

// eachInRun reads a run of neighbours into b and gives each record to f. A run
// that reaches over the end of a segment is read record by record.
func (s *Store) eachInRun(es []entry, b []byte, f func(i int, h header, rec []byte, err error) error) error {
	start := es[0].address
	whole := s.segs.readAt(b, start) == nil
	for i, e := range es {
		at := e.address - start
		part := b[at : at+int64(messageEntryLen(e.size))]
		var h header
		var rec []byte
		var err error
		if !whole {
			err = s.segs.readAt(part, e.address)
		}
		if err == nil {
			h, rec, err = s.segs.checkMessage(part, e.address, e.size)
		}
		if err != nil && whole {
			// A file that was replaced meanwhile: look it up again.
			if err = s.segs.readAt(part, e.address); err == nil {
				h, rec, err = s.segs.checkMessage(part, e.address, e.size)
			}
		}
		if err := f(i, h, rec, err); err != nil {
			return err
		}
	}
	return nil
}

// reportUnreadable decides about a record that could not be read: damage is
// passed over and reported once; anything else is the reader's error. What is
// not synced yet is never called damaged: the writer holds it in memory and
// puts it right when its sync fails.
func (s *Store) reportUnreadable(address int64, err error) error {
	if s.segs.unstable.Load() || address >= s.log.syncedAddress() {
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	var c *CorruptionError
	if !errors.As(err, &c) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrNotFound) {
		return err
	}
	if s.damage.first(err.Error()) {
		s.logger.Error("a record cannot be read and is passed over", "error", err)
	}
	return nil
}

// Release gives the buffers of r back. Records must not be used afterwards.
func (r *ReadResult) Release() {
	putBuf(r.buf)
	r.buf, r.Records = nil, nil
}

// ReadAt returns a copy of the stored message whose record begins at a log
// address; of a half message that was carried forward, its newest copy.
// ErrNotFound when none does, whatever stands there.
func (s *Store) ReadAt(address int64) ([]byte, error) {
	if half, open := s.halves.get(address); open {
		address = half.at()
	}
	h, payload, err := s.segs.readEntry(address, s.visible.Load())
	if err != nil {
		return nil, err
	}
	if !h.kind.holdsMessage() || h.flags&flagNoMessage != 0 {
		return nil, ErrNotFound
	}
	return payload, nil
}

// End returns the log address up to which records are visible: what becomes
// visible later has this address or a higher one.
func (s *Store) End() int64 { return s.visible.Load() }

// Offsets returns a queue's minimum and next offset; ok is false when it never
// had an entry.
func (s *Store) Offsets(topic string, queueID int32) (minimum, next int64, ok bool) {
	q := s.queues.lookup(topic, queueID)
	if q == nil {
		return 0, 0, false
	}
	minimum, next = q.bounds()
	return minimum, next, true
}

// OffsetByTime returns the first offset whose store time is at or after ms,
// the queue's end when there is none. With upper it returns the last offset
// whose store time is at or before ms, the minimum when there is none: the
// boundary types of RocketMQ's getOffsetInQueueByTime.
func (s *Store) OffsetByTime(topic string, queueID int32, ms int64, upper bool) (int64, error) {
	q := s.queues.lookup(topic, queueID)
	if q == nil {
		return 0, nil
	}
	if upper {
		ms++
	}
	for {
		at, err := s.offsetByTime(q, ms, upper)
		if err != errGone {
			return at, err
		}
	}
}

func (s *Store) offsetByTime(q *queue, ms int64, upper bool) (int64, error) {
	minimum, next := q.bounds()
	var failed error
	n := sort.Search(int(next-minimum), func(i int) bool {
		t, err := s.storeTimeFrom(q, minimum+int64(i), next)
		if err != nil {
			failed = err
		}
		return t >= ms
	})
	if failed != nil {
		return 0, failed
	}
	at := minimum + int64(n)
	if upper && at > minimum {
		at--
	}
	return at, nil
}

// EarliestStoreTime returns the store time (ms) of a queue's first message, -1
// when it has none.
func (s *Store) EarliestStoreTime(topic string, queueID int32) (int64, error) {
	q := s.queues.lookup(topic, queueID)
	if q == nil {
		return -1, nil
	}
	for {
		minimum, next := q.bounds()
		if minimum == next {
			return -1, nil
		}
		t, err := s.storeTimeFrom(q, minimum, next)
		if err == errGone {
			continue
		}
		if t == maxTime {
			return -1, err
		}
		return t, err
	}
}

const maxTime = int64(1<<63 - 1)

// storeTimeFrom is the store time of the first readable message in [at, next),
// maxTime when there is none.
func (s *Store) storeTimeFrom(q *queue, at, next int64) (int64, error) {
	for ; at < next; at++ {
		es, err := q.read(nil, at, 1)
		if err != nil || len(es) == 0 {
			return maxTime, err
		}
		if es[0].lost() {
			continue
		}
		minimum, _ := q.bounds()
		if minimum > at {
			return maxTime, errGone
		}
		r := ReadResult{Min: minimum}
		if err := s.readRecords(q, es, &r); err != nil {
			return maxTime, err
		}
		t := maxTime
		if len(r.Records) > 0 {
			t = message.View(r.Records[0]).StoreTime()
		}
		r.Release()
		if t != maxTime {
			return t, nil
		}
	}
	return maxTime, nil
}

// ReadDue fills b with the entries of a level from entry from on that are due
// at nowUs, up to about maxBytes of records (at least one) and dueMax entries.
// An entry whose record is damaged comes with its Err; an error of the file
// system that may pass ends the batch and is returned when nothing came before
// it.
func (s *Store) ReadDue(delay time.Duration, from int64, nowUs int64, maxBytes int, b *DueBatch) error {
	for {
		if err := s.readDue(delay, from, nowUs, maxBytes, b); err != errGone {
			return err
		}
	}
}

func (s *Store) readDue(delay time.Duration, from int64, nowUs int64, maxBytes int, b *DueBatch) error {
	b.release()
	l := s.queues.lookupLevel(delay.Milliseconds())
	if l == nil {
		return nil
	}
	from = max(from, l.headNow())
	_, next := l.q.bounds()
	es, err := l.q.read(b.entries[:0], from, dueMax+1)
	b.entries = es
	if err != nil {
		return fmt.Errorf("level %v at %d: %w", delay, from, err)
	}
	if minimum, _ := l.q.bounds(); minimum > from {
		return errGone // the entries may be later ones
	}
	n, bytes := 0, 0
	for n < len(es) && n < dueMax {
		e := es[n]
		if !e.lost() {
			if e.tags > nowUs {
				b.NextDueUs = e.tags
				break
			}
			if n > 0 && bytes+int(e.size) > maxBytes {
				break
			}
			bytes += int(e.size)
		}
		n++
	}
	b.More = b.NextDueUs == 0 && from+int64(n) < next
	es = es[:n]
	for i := 0; i < n; {
		if es[i].lost() {
			b.Items = append(b.Items, Due{Entry: from + int64(i), DueUs: nowUs, Err: fmt.Errorf("level %v, entry %d: its record was lost to damage", delay, from+int64(i))})
			i++
			continue
		}
		j, size := mergeRun(es, i)
		buf := getBuf(size)
		b.bufs = append(b.bufs, buf)
		err := s.eachInRun(es[i:j], buf.b, func(k int, h header, rec []byte, err error) error {
			e := es[i+k]
			d := Due{Entry: from + int64(i+k), Address: h.identityOf(), DueUs: e.tags, Record: rec}
			if err != nil {
				if e.address < s.segs.front() && l.changed(from+int64(i+k), e) {
					return errGone
				}
				d.Address = e.address
				if perr := s.reportUnreadable(e.address, err); perr != nil {
					return perr
				}
				d.Record, d.Err = nil, err
			}
			b.Items = append(b.Items, d)
			return nil
		})
		if err != nil {
			if len(b.Items) == 0 || err == errGone {
				return err
			}
			b.More, b.NextDueUs = true, 0
			return nil
		}
		i = j
	}
	return nil
}

// dueMax bounds the entries of one ReadDue.
const dueMax = 512

// release gives the batch's buffers back.
func (b *DueBatch) release() {
	for i, r := range b.bufs {
		putBuf(r)
		b.bufs[i] = nil
	}
	clear(b.Items)
	b.Items, b.bufs, b.NextDueUs, b.More = b.Items[:0], b.bufs[:0], 0, false
}
