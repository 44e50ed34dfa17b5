package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// Damage is one damaged range of the commit log, as found at Open.
type Damage struct {
	// File and Offset are the place, Bytes the length of what is damaged.
	File   string
	Offset int64
	Bytes  int64
	// First is the WAL index of the first lost record, Records their number;
	// Records is 0 for bytes behind the last whole record, which no answer
	// ever vouched for or which were torn by the crash.
	First   uint64
	Records uint64
	Reason  string
}

// scanned is a segment with what a scan found in it.
type scanned struct {
	segment
	size  int64 // bytes of the file
	valid int64 // end of its last whole record
	holes []hole
	any   bool // it holds at least one whole record
}

// hole is a damaged range between two whole records of one segment.
type hole struct {
	from, to int64 // bytes of the file
	records  uint64
}

// recovery is what opening the log's directory needs to know and finds out.
type recovery struct {
	log   *commitLog
	start position // replay from here; zero: from the log's beginning
	crc   uint32   // checksum of the record before start, when start is set
	// apply is called for each whole record from start on, in order; payload
	// is borrowed.
	apply func(h *header, payload []byte) error

	want    position // the next index and address expected
	epoch   uint32   // of the last record
	damages []Damage
	buf     []byte // a segment at a time
}

// errCheckpointMismatch: the log does not hold what the checkpoint was made
// from, so that everything derived must be rebuilt.
var errCheckpointMismatch = errors.New("the commit log does not hold the record the checkpoint names")

// run lists, scans and repairs the segments, applies what must be replayed,
// and leaves the log ready to append. Only what lies behind the last whole
// record is cut; what is bad before it becomes a hole. Tail and directory are
// synced when it returns.
func (r *recovery) run() error {
	c := r.log
	if err := c.fs.MkdirAll(c.dir, 0o750); err != nil {
		return err
	}
	list, err := r.list()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if r.start.index > 0 {
			return errCheckpointMismatch
		}
		return r.finish(nil)
	}
	first := 0
	if r.start.index > 0 {
		// Begin with the segment that holds the checkpoint's record.
		first = sort.Search(len(list), func(i int) bool { return list[i].first >= r.start.index }) - 1
		if first < 0 {
			return errCheckpointMismatch
		}
	}
	var scans []scanned
	for i := first; i < len(list); i++ {
		limit := ^uint64(0)
		if i+1 < len(list) {
			limit = list[i+1].first
		}
		s, err := r.scan(list[i], i == first, limit)
		if err != nil {
			return err
		}
		scans = append(scans, s)
	}
	if r.start.index > 0 && r.want.index < r.start.index {
		return errCheckpointMismatch
	}
	kept, err := r.repairTail(scans)
	if err != nil {
		return err
	}
	return r.finish(append(list[:first:first], kept...))
}

// list returns the segments in order, each with its base as its first record
// says. Whatever else the WAL would take for a segment, or act upon (a stray
// .START or .END deletes its neighbours), is set aside.
func (r *recovery) list() ([]segment, error) {
	c := r.log
	ents, err := c.fs.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var list []segment
	for _, e := range ents {
		path := filepath.Join(c.dir, e.Name())
		first, ok := parseSegmentName(e.Name())
		if !ok || !e.Type().IsRegular() {
			if err := r.setAside(path, "not a segment of the commit log"); err != nil {
				return nil, err
			}
			continue
		}
		list = append(list, segment{first: first, base: -1, path: path})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].first < list[j].first })
	next := int64(0)
	for i := range list {
		st, err := c.fs.Stat(list[i].path)
		if err != nil {
			return nil, err
		}
		base, ok, err := r.readBase(list[i])
		if err != nil {
			return nil, err
		}
		if !ok { // empty, or damaged at its very beginning
			base = next
		}
		list[i].base = base
		next = base + st.Size()
	}
	return list, nil
}

// readBase reads a segment's base from its first record, or, when that is
// damaged, works it out from the first whole one.
func (r *recovery) readBase(s segment) (int64, bool, error) {
	f, err := r.log.fs.Open(s.path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	b := make([]byte, binary.MaxVarintLen32+headerSize)
	n, _ := f.ReadAt(b, 0)
	if _, p := binary.Uvarint(b[:n]); p > 0 {
		h, err := decodeHeader(b[p:n])
		if err == nil && h.index == s.first && h.address >= 0 {
			return h.address, true, nil
		}
	}
	if n == 0 {
		return 0, false, nil
	}
	if r.buf, err = readFile(r.log.fs, s.path, r.buf); err != nil {
		return 0, false, err
	}
	h, start, ok := findWhole(r.buf, 0, func(h *header, start int64) bool {
		return start >= 0 && h.index >= s.first && h.address >= start
	})
	return h.address - start, ok, nil
}

// findWhole finds the first whole record of b, from byte at on, that accept
// takes; it is given the header and the byte where the record's entry begins.
// The checksum is verified last.
func findWhole(b []byte, at int, accept func(h *header, start int64) bool) (h header, start int64, ok bool) {
	for ; ; at++ {
		if at, h, ok = nextMagic(b, at); !ok {
			return header{}, 0, false
		}
		start = int64(at - uvarintLen(uint64(h.length)))
		if !accept(&h, start) {
			continue
		}
		if _, _, _, err := decodeEntry(b[start:]); err == nil {
			return h, start, true
		}
	}
}

// nextMagic finds the next bytes from at on that look like a record's header.
func nextMagic(b []byte, at int) (rec int, h header, ok bool) {
	for at < len(b) {
		i := bytes.Index(b[at:], magicBytes)
		if i < 0 {
			break
		}
		rec = at + i
		if h, err := decodeHeader(b[rec:]); err == nil {
			return rec, h, true
		}
		at = rec + 1
	}
	return 0, h, false
}

var magicBytes = binary.BigEndian.AppendUint32(nil, recordMagic)

// scan reads a segment and applies its records from start on. Records from
// index limit on belong to the next segment.
func (r *recovery) scan(seg segment, isFirst bool, limit uint64) (scanned, error) {
	s := scanned{segment: seg}
	b, err := readFile(r.log.fs, seg.path, r.buf)
	if err != nil {
		return s, err
	}
	r.buf = b
	s.size = int64(len(b))
	before := r.want
	if isFirst || seg.first > r.want.index && len(b) > 0 {
		r.want = position{seg.first, seg.base}
	}
	pos := int64(0)
	for pos < s.size && r.want.index < limit {
		h, payload, n, err := decodeEntry(b[pos:])
		if errors.Is(err, errBadVersion) {
			return s, fmt.Errorf("%w: %s at %d: %v", ErrNewerFormat, seg.path, pos, err)
		}
		if err == nil && h.index == r.want.index && h.address == seg.base+pos && h.epoch >= r.epoch {
			r.missing(&s, before, isFirst)
			if err := r.take(&h, payload); err != nil {
				return s, err
			}
			pos += int64(n)
			r.want = position{h.index + 1, seg.base + pos}
			s.valid, s.any = pos, true
			continue
		}
		reason := "not the record expected here"
		if err != nil {
			reason = err.Error()
		}
		next, found := r.resync(b, pos+1, seg)
		if !found || next.index >= limit {
			s.valid = pos
			r.tailDamage(&s, b[pos:], reason, limit)
			break
		}
		to := next.address - seg.base
		r.missing(&s, before, isFirst)
		s.any = true
		s.holes = append(s.holes, hole{from: pos, to: to, records: next.index - r.want.index})
		r.damage(Damage{File: seg.path, Offset: pos, Bytes: to - pos, First: r.want.index, Records: next.index - r.want.index, Reason: reason})
		pos = to
		r.want = next
	}
	if !s.any && !isFirst {
		r.want = before // it holds nothing: it may be no part of this log
	}
	return s, nil
}

// missing reports, at the first whole record of a segment, records that should
// stand between the segment before and this one.
func (r *recovery) missing(s *scanned, before position, isFirst bool) {
	if n := s.first - before.index; !s.any && !isFirst && s.first > before.index {
		r.damage(Damage{File: s.path, First: before.index, Records: n, Reason: "records before this segment are missing"})
	}
}

// take checks a whole record against the checkpoint, or applies it.
func (r *recovery) take(h *header, payload []byte) error {
	r.epoch, r.log.lastCRC = h.epoch, h.crc
	if h.index+1 == r.start.index && h.crc != r.crc {
		return errCheckpointMismatch
	}
	if h.index < r.start.index {
		return nil
	}
	if r.start.index == h.index && r.start.address != h.address {
		return errCheckpointMismatch
	}
	return r.apply(h, payload)
}

// resync finds the next whole record of this segment from byte pos on: its
// magic, checksum, own address and an index that leaves each missing record
// at least a byte.
func (r *recovery) resync(b []byte, pos int64, seg segment) (position, bool) {
	h, _, ok := findWhole(b, int(pos), func(h *header, start int64) bool {
		return start >= pos && h.address == seg.base+start && h.index > r.want.index && h.epoch >= r.epoch &&
			h.index-r.want.index <= uint64(h.address-r.want.address)
	})
	return position{h.index, h.address}, ok
}

// tailDamage reports bytes behind a segment's last whole record.
func (r *recovery) tailDamage(s *scanned, rest []byte, reason string, limit uint64) {
	d := Damage{File: s.path, Offset: s.valid, Bytes: int64(len(rest)), First: r.want.index, Reason: reason}
	if limit != ^uint64(0) && limit > r.want.index {
		d.Records = limit - r.want.index
	}
	r.damage(d)
}

func (r *recovery) damage(d Damage) {
	r.damages = append(r.damages, d)
	l := r.log.logger.With("file", d.File, "offset", d.Offset, "bytes", d.Bytes, "reason", d.Reason)
	if d.Records == 0 {
		l.Warn("commit log: cutting off what lies behind the last whole record")
		return
	}
	l.Error("commit log: records are damaged and lost", "first_index", d.First, "records", d.Records)
}

// repairTail drops segments behind the last whole record, makes the tail
// segment parse for the WAL, and syncs it.
func (r *recovery) repairTail(scans []scanned) ([]segment, error) {
	c := r.log
	for n := len(scans); n > 0; n-- {
		last := scans[n-1]
		if last.any || (n == 1 && last.size == 0) {
			break
		}
		if last.size == 0 && last.first == r.want.index {
			break // just begun
		}
		if n == 1 {
			break // the only one, all of it bad: emptied below
		}
		if err := r.setAside(last.path, "no whole record in it"); err != nil {
			return nil, err
		}
		scans = scans[:n-1]
	}
	tail := &scans[len(scans)-1]
	if tail.valid < tail.size || len(tail.holes) > 0 {
		r.copyAside(tail.path)
	}
	if err := r.fillHoles(tail); err != nil {
		return nil, err
	}
	if err := c.truncate(tail.path, tail.valid); err != nil {
		return nil, err
	}
	list := make([]segment, len(scans))
	for i := range scans {
		list[i] = scans[i].segment
	}
	return list, nil
}

// fillHoles writes empty WAL entries over the holes of the tail segment, one
// for each lost record, so that the WAL counts as we do.
func (r *recovery) fillHoles(s *scanned) error {
	if len(s.holes) == 0 {
		return nil
	}
	f, err := r.log.fs.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, h := range s.holes {
		b := make([]byte, h.to-h.from)
		// All but the last are entries of no bytes (a zero length prefix); the
		// last one takes up the rest. Its prefix is padded to a fixed length,
		// since not every total can be met by the shortest one.
		last := b[h.records-1:]
		if n := len(last); n > 1 {
			const prefix = binary.MaxVarintLen32
			p := min(prefix, n)
			v := uint64(n - p)
			for i := 0; i < p; i++ {
				last[i] = byte(v&0x7f) | 0x80
				v >>= 7
			}
			last[p-1] &= 0x7f
		}
		if _, err := f.WriteAt(b, h.from); err != nil {
			return err
		}
	}
	return f.Sync()
}

// setAside moves a file out of the log's directory, never deleting it.
func (r *recovery) setAside(path, why string) error {
	to, err := r.asideName(filepath.Base(path))
	if err != nil {
		return err
	}
	r.log.logger.Warn("commit log: file set aside", "file", path, "to", to, "reason", why)
	if err := r.log.fs.Rename(path, to); err != nil {
		return err
	}
	return r.log.fs.SyncDir(r.log.dir)
}

// copyAside keeps a copy of a segment before it is changed, the newest maxAside
// of them: a torn tail is what every crash leaves. A full disk must not keep
// the store from opening, so that it goes on without a copy.
func (r *recovery) copyAside(path string) {
	to, err := r.asideName("copy-" + filepath.Base(path))
	var b []byte
	if err == nil {
		b, err = readFile(r.log.fs, path, nil)
	}
	if err == nil {
		err = writeFileSync(r.log.fs, filepath.Dir(to), to, b)
	}
	if err != nil {
		r.log.logger.Warn("commit log: no copy of the damaged segment could be kept", "file", path, "error", err)
	}
}

const maxAside = 16

// asideName returns a new name in the directory of damaged files.
func (r *recovery) asideName(base string) (string, error) {
	c := r.log
	dir := filepath.Join(filepath.Dir(c.dir), "damaged")
	if err := c.fs.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	ents, err := c.fs.ReadDir(dir)
	if err != nil {
		return "", err
	}
	next := 1
	var copies []string
	for _, e := range ents {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%06d-", &n); err == nil && n >= next {
			next = n + 1
		}
		if len(e.Name()) > 12 && e.Name()[7:12] == "copy-" {
			copies = append(copies, e.Name())
		}
	}
	for len(copies) >= maxAside {
		_ = c.fs.Remove(filepath.Join(dir, copies[0]))
		copies = copies[1:]
	}
	return filepath.Join(dir, fmt.Sprintf("%06d-%s", next, base)), nil
}

// finish opens the WAL on the repaired files.
func (r *recovery) finish(list []segment) error {
	c := r.log
	if len(list) == 0 {
		list = []segment{{first: 1, base: 0, path: filepath.Join(c.dir, segmentName(1))}}
		r.want = position{1, 0}
		if err := c.truncate(list[0].path, 0); err != nil {
			return err
		}
	}
	c.segs.set(list)
	c.end = r.want
	c.epoch = r.epoch
	if err := c.reopenWAL(); err != nil {
		return err
	}
	c.mu.Lock()
	c.synced, c.ended = c.end, c.end
	c.mu.Unlock()
	return nil
}
