package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"syscall"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

// CheckReport is what Check found in a data directory.
type CheckReport struct {
	// Segments, Records and Bytes are of the commit log; Next is the WAL index
	// that the next record would have, Epoch that of the last record.
	Segments int
	Records  int64
	Bytes    int64
	Next     uint64
	Epoch    uint32
	// Lost counts records that are damaged or missing.
	Lost uint64
	// Pending counts the messages that wait in levels.
	Pending int64
	// Checkpoint is the WAL index that the checkpoint names, 0 when there is
	// none. Queue files are checked as far as it vouches for them: Queues of
	// them, levels included, with Entries in all.
	Checkpoint uint64
	Queues     int
	Entries    int64
	// Problems are what is wrong, in the order it was found, at most
	// maxProblems of them; Omitted counts those beyond.
	Problems []*CorruptionError
	Omitted  int
}

const maxProblems = 100

// Err returns the problems as one error, nil when there are none.
func (r *CheckReport) Err() error {
	errs := make([]error, len(r.Problems), len(r.Problems)+1)
	for i, p := range r.Problems {
		errs[i] = p
	}
	if r.Omitted > 0 {
		errs = append(errs, fmt.Errorf("and %d problems more", r.Omitted))
	}
	return errors.Join(errs...)
}

func (r *CheckReport) problem(file string, offset int64, format string, args ...any) {
	if len(r.Problems) >= maxProblems {
		r.Omitted++
		return
	}
	r.Problems = append(r.Problems, &CorruptionError{File: file, Offset: offset, Reason: fmt.Sprintf(format, args...)})
}

// Check reads a data directory from end to end and reports what is wrong in
// it. It changes nothing, repairs nothing, and shares neither dispatch nor
// recovery with the store, whose work it judges:
//
//   - every record of the log is whole and where its index, address and epoch
//     say; messages keep RocketMQ's layout, checksum and tags code;
//   - numbers in queues and levels are dense, store times and the due times of
//     a level never fall (but for a clock that was set back by more than an
//     hour, over a restart);
//   - a delivery leaves the head of its level, names the entry that stands
//     there, is not early and goes into a topic that exists;
//   - the checkpoint names a record of the log, and says what the log says up
//     to there; each queue file entry it vouches for points at a record of that
//     topic, queue and offset.
//
// A torn tail, which a crash may leave and the next Open cuts off, counts as a
// problem, and so does a hole that an earlier Open has closed. Where records
// are lost, what follows from them is not reported again.
//
// Its memory is about a segment and 24 bytes for each pending message. The
// error is not nil when the directory cannot be checked: ErrLocked, or what the
// file system answered.
func Check(dir string) (*CheckReport, error) { return check(dir, false) }

// check is Check; with mayBeEarly, for tests that deliver as they like, a
// delivery before its time is no problem.
func check(dir string, mayBeEarly bool) (*CheckReport, error) {
	release, err := lockShared(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	c := &checker{
		dir: dir, fs: vfs.OS, mayBeEarly: mayBeEarly,
		segs:  newSegments(vfs.OS, filepath.Join(dir, "commitlog")),
		files: &queueFiles{fs: vfs.OS, files: newFileCache(vfs.OS, os.O_RDONLY, maxOpenChunks)},
		want:  position{index: 1}, tables: newTables(), topics: map[string]map[int32]int64{}, levels: map[int64]*checkedLevel{},
	}
	defer c.segs.files.close()
	defer c.files.files.close()
	c.readCheckpoint()
	if err := c.checkLog(); err != nil {
		return nil, fmt.Errorf("check %s: %w", dir, err)
	}
	if c.saved != nil {
		if err := c.checkQueues(); err != nil {
			return nil, fmt.Errorf("check %s: %w", dir, err)
		}
	}
	for _, l := range c.levels {
		c.report.Pending += int64(len(l.pending))
	}
	return &c.report, nil
}

// lockShared keeps a directory from being opened while it is checked, without
// writing into it. A directory without a lock file was never opened.
func lockShared(dir string) (release func(), err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		holder := holderOf(f)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s%s", ErrLocked, dir, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// checker goes over the log once, keeping what dispatch would have derived as
// bare numbers, and compares with the checkpoint when it comes to the record
// that the checkpoint names.
type checker struct {
	dir        string
	fs         vfs.FS
	report     CheckReport
	mayBeEarly bool
	segs       *segments
	files      *queueFiles

	saved *checkpoint // nil when there is none to go by
	path  string      // of the checkpoint

	want     position // of the next record
	crc      uint32   // of the record before
	epoch    uint32
	lossy    bool // records are lost: gaps follow from that
	compared bool // with the checkpoint

	storeMs   int64  // of the last message
	timeEpoch uint32 // of the last message
	setBack   bool   // the clock was set back: due times may fall, deliveries seem early

	tables *tables
	topics map[string]map[int32]int64 // next queue offset
	levels map[int64]*checkedLevel

	// Of the record in hand.
	file string
	at   int64
	buf  []byte
}

// checkedLevel is a level as the log says.
type checkedLevel struct {
	head, next int64
	pending    []pendingEntry // entries [head, next)
	lastDue    int64
}

type pendingEntry struct {
	address int64 // -1: lost
	dueUs   int64
	n       int64
}

func (c *checker) level(delayMs int64) *checkedLevel {
	l := c.levels[delayMs]
	if l == nil {
		l = &checkedLevel{}
		c.levels[delayMs] = l
	}
	return l
}

// wrong reports something about the record in hand.
func (c *checker) wrong(format string, args ...any) {
	c.report.problem(c.file, c.at, format, args...)
}

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

// checkLog reads all segments in order.
func (c *checker) checkLog() error {
	ents, err := c.fs.ReadDir(c.segs.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	var list []segment
	for _, e := range ents {
		path := filepath.Join(c.segs.dir, e.Name())
		first, ok := parseSegmentName(e.Name())
		if !ok || !e.Type().IsRegular() {
			c.report.problem(path, 0, "not a segment of the commit log")
			continue
		}
		list = append(list, segment{first: first, path: path})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].first < list[j].first })
	for i := range list {
		limit := uint64(math.MaxUint64)
		if i+1 < len(list) {
			limit = list[i+1].first
		}
		if err := c.checkSegment(&list[i], limit); err != nil {
			return err
		}
	}
	c.segs.set(list)
	c.compareAtEnd()
	c.report.Segments, c.report.Bytes, c.report.Next, c.report.Epoch = len(list), c.want.address, c.want.index, c.epoch
	epochs := epochFile{fs: c.fs, path: filepath.Join(c.dir, "epoch")}
	if e := epochs.read(); e < c.epoch {
		c.report.problem(epochs.path, 0, "epoch is %d, the log's last record has %d", e, c.epoch)
	}
	return nil
}

// checkSegment goes over the records below index limit, where the next segment
// begins, and sets seg.base.
func (c *checker) checkSegment(seg *segment, limit uint64) error {
	b, err := readFile(c.fs, seg.path, c.buf)
	if err != nil {
		return err
	}
	c.buf, c.file, c.at = b, seg.path, 0
	if seg.first != c.want.index {
		c.lose(seg.first-c.want.index, "records %d to %d are missing before this segment", c.want.index, seg.first-1)
	}
	seg.base = c.want.address
	h, start, ok := findWhole(b, 0, func(h *header, start int64) bool { return h.index >= seg.first && h.address >= start })
	if ok && h.address-start != seg.base {
		seg.base = h.address - start
		if !c.lossy {
			c.wrong("begins at address %d, the segment before ends at %d", seg.base, c.want.address)
		}
	}
	c.want = position{seg.first, seg.base}
	for c.at < int64(len(b)) && c.want.index < limit {
		h, payload, n, err := decodeEntry(b[c.at:])
		if err == nil && h.index == c.want.index && h.address == seg.base+c.at && h.epoch >= c.epoch {
			c.record(&h, payload)
			c.at += int64(n)
			c.want = position{h.index + 1, seg.base + c.at}
			c.crc, c.epoch = h.crc, h.epoch
			continue
		}
		if err == nil {
			err = fmt.Errorf("index %d, address %d, epoch %d where index %d, address %d and an epoch from %d on were expected",
				h.index, h.address, h.epoch, c.want.index, seg.base+c.at, c.epoch)
		}
		h, start, ok := findWhole(b, int(c.at)+1, func(h *header, start int64) bool {
			return start > c.at && h.address == seg.base+start && h.index > c.want.index && h.index < limit && h.epoch >= c.epoch
		})
		switch {
		case ok:
			c.lose(h.index-c.want.index, "%v; %d records lost, the next whole one is at %d", err, h.index-c.want.index, start)
			c.at = start
			c.want = position{h.index, h.address}
		case limit == math.MaxUint64:
			c.wrong("%v; no whole record follows in the %d bytes to the end of the log", err, int64(len(b))-c.at)
			return nil
		default:
			c.lose(limit-c.want.index, "%v; %d records lost to the end of the segment", err, limit-c.want.index)
			c.want = position{limit, seg.base + int64(len(b))}
			return nil
		}
	}
	return nil
}

func (c *checker) lose(n uint64, format string, args ...any) {
	c.wrong(format, args...)
	c.report.Lost += n
	c.lossy = true
}

// record checks one whole record and notes what it changes.
func (c *checker) record(h *header, payload []byte) {
	c.report.Records++
	c.compare(h.index, h.address)
	switch h.kind {
	case kindMessage, kindStep:
		c.message(h, payload)
	case kindOffsets:
		d, err := decodeOffsets(payload)
		if err != nil {
			c.wrong("%v", err)
		}
		for k, v := range d {
			if v < 0 || k.queueID < 0 || k.group == "" || k.topic == "" {
				c.wrong("offset %d of group %q, topic %q, queue %d cannot be", v, k.group, k.topic, k.queueID)
			}
		}
	case kindTable:
		c.table(h, payload)
	case kindHole:
	default:
		c.wrong("a %v, which this version does not know", h.kind)
	}
}

func (c *checker) table(h *header, payload []byte) {
	var t tableChange
	if err := json.Unmarshal(payload, &t); err != nil {
		c.wrong("table record: %v", err)
		return
	}
	set := 0
	for _, is := range []bool{t.PutTopic != nil, t.DeleteTopic != "", t.PutGroup != nil, t.DeleteGroup != ""} {
		if is {
			set++
		}
	}
	if set != 1 {
		c.wrong("table record with %d changes, 1 expected", set)
	}
	c.tables.apply(&t, h.index, h.address)
	delete(c.topics, t.DeleteTopic)
}

// message checks a message or step.
func (c *checker) message(h *header, payload []byte) {
	var pend *pendingEntry
	if h.kind == kindStep {
		pend = c.step(h)
		if h.flags&flagNoMessage != 0 {
			return
		}
	}
	m, n, err := message.DecodeRecord(payload)
	if err == nil && n != len(payload) {
		err = fmt.Errorf("%w: %d bytes behind the message", message.ErrMalformed, len(payload)-n)
	}
	if err == nil {
		err = m.VerifyBody()
	}
	if err != nil {
		c.wrong("message: %v", err)
		return
	}
	if m.PhysicalOffset != h.address {
		c.wrong("message says physical offset %d, its record is at %d", m.PhysicalOffset, h.address)
	}
	c.time(h, m.StoreTime)
	if pend != nil && pend.address >= 0 && !c.setBack && !c.mayBeEarly && m.StoreTime*1000+999 < pend.dueUs {
		c.wrong("delivered at %d ms, due at %d µs: early", m.StoreTime, pend.dueUs)
	}
	if h.kind == kindMessage && h.delayMs > 0 {
		c.pending(h, &m)
		return
	}
	tags, _ := m.Property(message.PropertyTags)
	if want := message.TagsCode(tags); h.tagsCode != want {
		c.wrong("tags code %d, tag %q has %d", h.tagsCode, tags, want)
	}
	t, ok := c.tables.topic(m.Topic)
	switch {
	case c.lossy: // the topic's record may be among what is lost
	case !ok:
		c.wrong("message in topic %q, which does not exist", m.Topic)
	case h.kind == kindStep && h.identity < t.Created && m.Topic != message.UndeliverableTopic:
		c.wrong("delivered into topic %q, created at %d, after its message was stored at %d", m.Topic, t.Created, h.identity)
	}
	queues := c.topics[m.Topic]
	if queues == nil {
		queues = map[int32]int64{}
		c.topics[m.Topic] = queues
	}
	queues[m.QueueID] = c.number(fmt.Sprintf("%s/%d: queue offset", m.Topic, m.QueueID), m.QueueOffset, queues[m.QueueID])
}

// number checks that n is the next number of its row, and returns the one that
// follows.
func (c *checker) number(what string, n, next int64) int64 {
	if n != next && !(c.lossy && n > next) {
		c.wrong("%s %d where %d was expected", what, n, next)
	}
	return max(n+1, next)
}

// time checks that store times do not fall. The clock starts at the greatest
// store time in the log, unless that is more than maxAhead ahead of it.
func (c *checker) time(h *header, storeMs int64) {
	if storeMs < c.storeMs {
		if h.epoch > c.timeEpoch && c.storeMs-storeMs > maxAhead.Milliseconds() {
			c.setBack = true
			for _, l := range c.levels {
				l.lastDue = 0
			}
		} else {
			c.wrong("store time %d after %d", storeMs, c.storeMs)
		}
	}
	c.storeMs, c.timeEpoch = storeMs, h.epoch
}

// pending checks a message that waits in a level.
func (c *checker) pending(h *header, m *message.Message) {
	l := c.level(h.delayMs)
	what := fmt.Sprintf("level %dms", h.delayMs)
	if m.Topic != message.ScheduleTopic {
		c.wrong("%s: a message of topic %q", what, m.Topic)
	}
	if m.QueueOffset != h.entry {
		c.wrong("%s: entry %d, the message says queue offset %d", what, h.entry, m.QueueOffset)
	}
	if from := m.StoreTime*1000 + h.delayMs*1000; h.dueUs < from || h.dueUs > from+1000 {
		c.wrong("%s: due at %d µs, stored at %d ms", what, h.dueUs, m.StoreTime)
	}
	if h.dueUs < l.lastDue {
		c.wrong("%s: entry %d is due at %d µs, the one before at %d", what, h.entry, h.dueUs, l.lastDue)
	}
	l.lastDue = h.dueUs
	next := c.number(what+": entry", h.entry, l.next)
	if l.next == 0 && h.entry > 0 { // the level's beginning is lost
		l.head = max(l.head, h.entry)
		l.next = h.entry
	}
	for n := l.next; n < h.entry; n++ {
		l.pending = append(l.pending, pendingEntry{address: -1, n: n})
	}
	if h.entry >= l.next && h.entry >= l.head {
		l.pending = append(l.pending, pendingEntry{address: h.address, dueUs: h.dueUs, n: h.entry})
	}
	l.next = next
}

// step checks that a step leaves the head of its level, and returns the entry.
func (c *checker) step(h *header) *pendingEntry {
	l := c.level(h.delayMs)
	what := fmt.Sprintf("level %dms", h.delayMs)
	if h.entry != h.head || h.entry != l.head && !(c.lossy && h.entry > l.head) {
		c.wrong("%s: a step from head %d leaves entry %d where the head was %d", what, h.head, h.entry, l.head)
	}
	if h.entry >= l.next && !c.lossy {
		c.wrong("%s: a step leaves entry %d of %d", what, h.entry, l.next)
	}
	var left *pendingEntry
	for len(l.pending) > 0 && l.pending[0].n <= h.entry {
		if p := l.pending[0]; p.n == h.entry {
			left = &p
		}
		l.pending = l.pending[1:]
	}
	l.head = max(l.head, h.entry+1)
	if left != nil && left.address >= 0 && (left.address != h.identity || left.dueUs != h.dueUs) {
		c.wrong("%s: a step leaves entry %d at address %d, due %d µs, and says %d, %d", what, h.entry, left.address, left.dueUs, h.identity, h.dueUs)
	}
	return left
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
	if s.CRC != c.crc {
		bad("the record before index %d has checksum %08x, it says %08x", s.Index, c.crc, s.CRC)
	}
	if s.StoreMs < c.storeMs && !c.setBack {
		bad("greatest store time %d, the log has %d", s.StoreMs, c.storeMs)
	}
	compareLists(bad, "topics", s.Topics, c.tables.allTopics())
	compareLists(bad, "groups", s.Groups, c.tables.allGroups())
	next := map[savedQueue]int64{}
	for topic, queues := range c.topics {
		for id, n := range queues {
			next[savedQueue{Topic: topic, ID: id}] = n
		}
	}
	for _, q := range s.Queues {
		k := savedQueue{Topic: q.Topic, ID: q.ID}
		if n := next[k]; q.Min != 0 || q.Next != n {
			bad("queue %s/%d: offsets %d to %d, the log has 0 to %d", q.Topic, q.ID, q.Min, q.Next, n)
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
		if l.Min != 0 || l.Head != want.head || l.Next != want.next {
			bad("level %dms: first %d, head %d, next %d; the log has 0, %d, %d", l.DelayMs, l.Min, l.Head, l.Next, want.head, want.next)
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
			if h.kind == kindMessage && h.delayMs > 0 || m.Topic != s.Topic || m.QueueID != s.ID || m.QueueOffset != n {
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
			if h.kind != kindMessage || h.delayMs != s.DelayMs || h.entry != n {
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
			if e.lost() {
				if !c.lossy {
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
	if err == nil && (h.kind != kindMessage && h.kind != kindStep || h.flags&flagNoMessage != 0) {
		err = fmt.Errorf("a %v, no message", h.kind)
	}
	return h, rec, err
}
