package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"syscall"

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
// it. It changes nothing and repairs nothing; of dispatch and recovery, which
// it judges, it uses the decoders and the topic table alone:
//
//   - every record of the log is whole and where its index, address and epoch
//     say; messages keep RocketMQ's layout, checksum and tags code;
//   - numbers in queues and levels are dense, store times and the due times of
//     a level never fall (but for a clock that was set back by more than an
//     hour, over a restart);
//   - a delivery leaves the head of its level, names the entry that stands
//     there, is not early and goes into a topic that exists;
//   - a transaction ends once, after its half message;
//   - the checkpoint names a record of the log, and says what the log says up
//     to there; each queue file entry it vouches for points at a record of that
//     topic, queue and offset;
//   - a log whose front was deleted holds a complete state of the tables, state
//     parts agree with what else the log says, and each message that is still
//     pending has a record.
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
		want:  position{index: 1}, tables: newTables(), halves: newHalfTable(), topics: map[string]map[int32]int64{}, firsts: map[savedQueue]int64{}, levels: map[int64]*checkedLevel{},
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

	want  position // of the next record
	crc   uint32   // of the record before
	epoch uint32
	lossy bool // records are lost: gaps follow from that
	// partial: the log's front was deleted, and the state parts that tell what
	// was there are not complete yet.
	partial bool
	rounds  stateRounds
	front   int64 // log address of the first record
	// frontSegment is the first one, when it is not the log's beginning.
	frontSegment segment
	compared     bool // with the checkpoint

	storeMs   int64  // of the last message
	timeEpoch uint32 // of the last message
	setBack   bool   // the clock was set back: due times may fall, deliveries seem early

	tables *tables
	halves *halfTable
	topics map[string]map[int32]int64 // next queue offset
	firsts map[savedQueue]int64       // first queue offset seen
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
	// seen holds, while the log is partial and head and next are not known,
	// what was seen of entries.
	seen map[int64]pendingEntry
}

// pendingEntry is one pending message: lost, not seen yet, or at an address.
type pendingEntry struct {
	identity int64 // address of its first copy, or lost, unseen
	address  int64 // of its newest copy
	dueUs    int64
	n        int64
}

const (
	lost   = -1
	unseen = -2 // its record was in the front that was deleted, or comes as a carry
)

func (c *checker) level(delayMs int64) *checkedLevel {
	l := c.levels[delayMs]
	if l == nil {
		l = &checkedLevel{}
		if c.partial {
			l.seen = map[int64]pendingEntry{}
		}
		c.levels[delayMs] = l
	}
	return l
}

// wrong reports something about the record in hand.
func (c *checker) wrong(format string, args ...any) {
	c.report.problem(c.file, c.at, format, args...)
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
	c.completeAtEnd()
	c.compareAtEnd()
	c.report.Segments, c.report.Bytes, c.report.Next, c.report.Epoch = len(list), c.want.address-c.front, c.want.index, c.epoch
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
	isFront := c.report.Records == 0 && !c.lossy && c.want.index == 1 && seg.first > 1
	if isFront {
		c.partial, c.frontSegment = true, *seg
	} else if seg.first != c.want.index {
		c.lose(seg.first-c.want.index, "records %d to %d are missing before this segment", c.want.index, seg.first-1)
	}
	seg.base = c.want.address
	h, start, ok := findWhole(b, 0, func(h *header, start int64) bool { return h.index >= seg.first && h.address >= start })
	if ok && h.address-start != seg.base {
		seg.base = h.address - start
		if isFront {
			c.front = seg.base
		} else if !c.lossy {
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
