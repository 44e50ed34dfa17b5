package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"

	"github.com/tidemq/tidemq/internal/message"
)

func (c *checker) readCheckpoint() {
	c.path = filepath.Join(c.dir, "checkpoint")
	b, err := readFile(c.fs, c.path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		c.saved, err = decodeCheckpoint(b)
	}
	if err != nil {
		c.report.problem(c.path, 0, "checkpoint cannot be read: %v", err)
		return
	}
	c.report.Checkpoint = c.saved.Index
}

// compare holds the checkpoint against what the log says up to the record that
// it names.
func (c *checker) compare(index uint64, address int64) {
	s := c.saved
	if s == nil || c.compared || s.Index > index {
		return
	}
	c.compared = true
	bad := func(format string, args ...any) { c.report.problem(c.path, 0, format, args...) }
	if s.Index != index || s.Address != address {
		if !c.lossy {
			bad("it names index %d, address %d; the log has address %d at index %d", s.Index, s.Address, address, index)
		}
		return
	}
	if c.lossy {
		return // of what is lost the checkpoint may know more
	}
	if c.partial {
		return // and of what is not told yet
	}
	if s.CRC != c.crc {
		bad("the record before index %d has checksum %08x, it says %08x", s.Index, c.crc, s.CRC)
	}
	if s.StoreMs < c.storeMs && !c.setBack {
		bad("greatest store time %d, the log has %d", s.StoreMs, c.storeMs)
	}
	compareLists(bad, "topics", s.Topics, c.tables.allTopics())
	compareLists(bad, "groups", s.Groups, c.tables.allGroups())
	compareLists(bad, "open transactions", s.Halves, c.halves.all())
	compareLists(bad, "configuration values", s.KVs, c.tables.allKVs())
	next := map[savedQueue]int64{}
	for topic, queues := range c.topics {
		for id, n := range queues {
			next[savedQueue{Topic: topic, ID: id}] = n
		}
	}
	for _, q := range s.Queues {
		k := savedQueue{Topic: q.Topic, ID: q.ID}
		first, ok := c.firsts[k]
		n := next[k]
		if !ok {
			first = n
		}
		// What is deleted since may be in the queue still.
		if q.Min < 0 || q.Min > first || c.front == 0 && q.Min != first || q.Next != n {
			bad("queue %s/%d: offsets %d to %d, the log has %d to %d", q.Topic, q.ID, q.Min, q.Next, first, n)
		}
		delete(next, k)
	}
	for k, n := range next {
		bad("queue %s/%d: missing, the log has %d entries", k.Topic, k.ID, n)
	}
	levels := maps.Clone(c.levels)
	for _, l := range s.Levels {
		want := levels[l.DelayMs]
		if want == nil {
			want = &checkedLevel{}
		}
		if l.Min < 0 || l.Min > l.Head || l.Head != want.head || l.Next != want.next {
			bad("level %dms: first %d, head %d, next %d; the log has head %d, next %d", l.DelayMs, l.Min, l.Head, l.Next, want.head, want.next)
		}
		delete(levels, l.DelayMs)
	}
	for d, l := range levels {
		bad("level %dms: missing, the log has %d entries", d, l.next)
	}
}

func compareLists[T any](bad func(string, ...any), what string, saved, logged []T) {
	if len(saved) != len(logged) {
		bad("%d %s, the log has %d", len(saved), what, len(logged))
		return
	}
	for i := range saved {
		if !reflect.DeepEqual(saved[i], logged[i]) {
			bad("%s: %+v, the log has %+v", what, saved[i], logged[i])
		}
	}
}

// compareAtEnd is compare for a checkpoint of the whole log, as a clean stop
// leaves it.
func (c *checker) compareAtEnd() {
	c.compare(c.want.index, c.want.address)
	if c.saved != nil && !c.compared {
		c.report.problem(c.path, 0, "it names index %d, the log ends at %d", c.saved.Index, c.want.index-1)
	}
}

// checkQueues looks up the record of each entry that the checkpoint vouches
// for.
func (c *checker) checkQueues() error {
	dir := filepath.Join(c.dir, "consumequeue")
	set := newQueueSet(c.files, dir)
	for _, s := range c.saved.Queues {
		q := set.get(s.Topic, s.ID)
		err := c.checkQueue(q, s.Min, s.Next, func(n int64, e entry, h *header, m *message.Message) string {
			if h.kind == kindCarry || h.kind != kindStep && h.delayMs > 0 || m.Topic != s.Topic || m.QueueID != s.ID || m.QueueOffset != n {
				return fmt.Sprintf("a %v for %s/%d at %d", h.kind, m.Topic, m.QueueID, m.QueueOffset)
			}
			if e.tags != h.tagsCode {
				return fmt.Sprintf("tags code %d, the record says %d", e.tags, h.tagsCode)
			}
			return ""
		})
		if err != nil {
			return err
		}
	}
	for _, s := range c.saved.Levels {
		due := int64(0)
		err := c.checkQueue(set.level(s.DelayMs).q, s.Min, s.Next, func(n int64, e entry, h *header, m *message.Message) string {
			if h.kind != kindMessage && h.kind != kindEnd && h.kind != kindCarry || h.delayMs != s.DelayMs || h.entry != n {
				return fmt.Sprintf("a %v for level %dms, entry %d", h.kind, h.delayMs, h.entry)
			}
			if e.tags != h.dueUs {
				return fmt.Sprintf("due at %d µs, the record says %d", e.tags, h.dueUs)
			}
			if e.tags < due && !c.setBack {
				return fmt.Sprintf("due at %d µs, the entry before at %d", e.tags, due)
			}
			due = e.tags
			return ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkQueue gives each entry of a queue's files and its record to f, which
// says what is wrong.
func (c *checker) checkQueue(q *queue, minimum, next int64, f func(n int64, e entry, h *header, m *message.Message) string) error {
	c.report.Queues++
	if err := q.restore(minimum, next); err != nil {
		var bad *CorruptionError
		switch {
		case errors.As(err, &bad):
			c.report.problem(bad.File, bad.Offset, "%s", bad.Reason)
		case errors.Is(err, fs.ErrNotExist):
			c.report.problem(q.dir, 0, "%v", err)
		default:
			return err
		}
		return nil
	}
	var es []entry
	var err error
	var buf []byte
	for from := minimum; from < next; from += int64(len(es)) {
		if es, err = q.read(es[:0], from, scanStep); err != nil {
			return err
		}
		if len(es) == 0 {
			return fmt.Errorf("queue %s: nothing to read at entry %d of %d", q.dir, from, next)
		}
		for i, e := range es {
			n := from + int64(i)
			chunk := n - n%chunkEntries
			wrong := func(format string, args ...any) {
				c.report.problem(q.chunkPath(chunk), (n-chunk)*entrySize, "entry %d: %s", n, fmt.Sprintf(format, args...))
			}
			c.report.Entries++
			if !e.lost() && e.address < c.front {
				continue // deleted since, or carried since
			}
			if e.lost() {
				if !c.lossy && c.front == 0 {
					wrong("empty, though no record is lost")
				}
				continue
			}
			if e.size < 0 || int(e.size) > maxRecord {
				wrong("size %d", e.size)
				continue
			}
			size := messageEntryLen(e.size)
			if cap(buf) < size {
				buf = make([]byte, size)
			}
			h, rec, err := c.readMessage(buf[:size], e)
			if err != nil {
				if !c.lossy {
					wrong("points at address %d, size %d: %v", e.address, e.size, err)
				}
				continue
			}
			m, _, err := message.DecodeRecord(rec)
			if err != nil {
				continue // reported where the record stands
			}
			if why := f(n, e, &h, &m); why != "" {
				wrong("points at address %d: %s", e.address, why)
			}
		}
	}
	return nil
}

func (c *checker) readMessage(b []byte, e entry) (header, []byte, error) {
	if err := c.segs.readAt(b, e.address); err != nil {
		return header{}, nil, err
	}
	h, rec, err := c.segs.checkMessage(b, e.address, e.size)
	if err == nil && (!h.kind.holdsMessage() || h.flags&flagNoMessage != 0) {
		err = fmt.Errorf("a %v, no message", h.kind)
	}
	return h, rec, err
}
