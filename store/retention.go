package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// Retention says what may be deleted. The zero value keeps everything. Whole
// segments go, from the front of the log alone, never one that a start or the
// tables need; a message that is still pending is carried forward first.
type Retention struct {
	// Age is how long records are kept at least (RocketMQ's fileReservedTime),
	// by their store time on the broker's clock; 0: age deletes nothing.
	Age time.Duration
	// Hours are the hours of the day, by the machine's clock and time zone, in
	// which Age deletes (RocketMQ's deleteWhen); none: at any time.
	Hours []int
	// MaxBytes bounds the commit log; 0: its size deletes nothing. The log is
	// larger by up to half of what is pending, when that is more.
	MaxBytes int64
	// DiskRatio is the part of the file system in use, in per cent, above which
	// Age deletes at any hour (RocketMQ's diskMaxUsedSpaceRatio); 0: none.
	DiskRatio int
	// DiskForceRatio is the part in use, in per cent, above which the oldest
	// segments go whatever their age, as many as it takes (RocketMQ's
	// diskSpaceCleanForciblyRatio); 0: none.
	DiskForceRatio int
	// Every is how often it is looked at; 1 s by default.
	Every time.Duration
	// CarryRate bounds the bytes a second of pending messages that are carried
	// forward; 32 MiB by default.
	CarryRate int64
}

func (r Retention) withDefaults() Retention {
	if r.Every <= 0 {
		r.Every = time.Second
	}
	if r.CarryRate <= 0 {
		r.CarryRate = 32 << 20
	}
	return r
}

func (r *Retention) deletes() bool { return r.Age > 0 || r.MaxBytes > 0 || r.DiskForceRatio > 0 }

// What a segment is deleted by, in the log of the program.
const (
	bySize = "size"
	byDisk = "disk"
	byAge  = "age"
)

// retainer deletes what Retention allows. Its goroutine is retentionLoop.
type retainer struct {
	s    *Store
	opts Retention

	stateFrom  uint64 // the newest complete round of state parts began here
	stateAt    int64  // … and was written when the log ended here
	stateBytes int64  // its size

	times map[uint64]int64 // store time of a segment's first message, by its first index
	buf   []byte

	alive     int64 // pendingBytes, and for which front, limit and end of the log
	aliveFor  [3]int64
	mostAlive bool // said that there is nothing to gain
}

// retentionLoop looks every Retention.Every, until the store closes.
func (s *Store) retentionLoop() {
	r := newRetainer(s)
	tick := time.NewTicker(r.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		if err := r.look(); err != nil && !errors.Is(err, ErrClosed) {
			s.logger.Warn("retention: old segments could not be deleted; it will be tried again", "error", err)
		}
	}
}

func newRetainer(s *Store) *retainer {
	return &retainer{s: s, opts: s.opts.Retention, stateFrom: s.rounds.whole, times: map[uint64]int64{}}
}

// look deletes what is to go now.
func (r *retainer) look() error {
	segs := r.s.segs.snapshot()
	n, why := r.wanted(segs)
	if n == 0 {
		return nil
	}
	n, err := r.allowed(segs, n)
	if err != nil {
		return err
	}
	for i := range n {
		select {
		case <-r.s.stop:
			return nil
		default:
		}
		if gone, err := r.drop(segs[i], segs[i+1], segs[n].base, why); err != nil || !gone {
			return err
		}
	}
	return nil
}

// wanted returns how many segments the bounds want gone, and by which. The
// tail never goes.
func (r *retainer) wanted(segs []segment) (n int, why string) {
	last := len(segs) - 1
	if last < 1 {
		return 0, ""
	}
	end := r.s.visible.Load()
	if b := r.opts.MaxBytes; b > 0 {
		for n < last && end-segs[n].base > b {
			n, why = n+1, bySize
		}
	}
	used, available := int64(0), int64(0)
	if r.opts.DiskRatio > 0 || r.opts.DiskForceRatio > 0 {
		var err error
		if used, available, err = r.s.fs.Usage(r.s.opts.Dir); err != nil {
			used, available = 0, 0
		}
	}
	over := func(ratio int) int64 { // bytes in use above it
		if ratio <= 0 {
			return 0
		}
		return max(used-(used+available)/100*int64(ratio), 0)
	}
	if b := over(r.opts.DiskForceRatio); b > 0 {
		for n < last && segs[n].base-segs[0].base < b {
			n, why = n+1, byDisk
		}
	}
	if r.opts.Age > 0 && (over(r.opts.DiskRatio) > 0 || r.isHour()) {
		before := time.Unix(0, r.s.clock.now()).Add(-r.opts.Age).UnixMilli()
		// All of a segment is that old when the next one begins that early.
		for i := range last {
			ms, ok := r.firstTime(segs[i+1])
			if ok && ms > before {
				break
			}
			if ok && i+1 > n {
				n, why = i+1, byAge
			}
		}
	}
	return n, why
}

func (r *retainer) isHour() bool {
	return len(r.opts.Hours) == 0 || slices.Contains(r.opts.Hours, r.s.opts.Now().Hour())
}

// firstTime is the store time of the first message that was new in a segment.
func (r *retainer) firstTime(seg segment) (ms int64, ok bool) {
	if ms, ok := r.times[seg.first]; ok {
		return ms, true
	}
	end := r.s.visible.Load()
	for at := seg.base; ; {
		h, payload, err := r.s.segs.readEntry(at, end)
		if found, has := r.s.segs.find(at); err != nil || !has || found.first != seg.first {
			return 0, false
		}
		if h.kind.holdsMessage() && h.kind != kindCarry && h.flags&flagNoMessage == 0 {
			ms := message.View(payload).StoreTime()
			r.times[seg.first] = ms
			return ms, true
		}
		at += int64(entryLen(int(h.length)))
	}
}

// allowed reduces n to the segments that neither a start nor the tables need:
// a start begins with the record before the checkpoint; the tables begin with
// the newest complete round of state parts. Both are renewed when they are in
// the way.
func (r *retainer) allowed(segs []segment, n int) (int, error) {
	s := r.s
	begins := segs[n].first
	if r.stateFrom < begins && s.visible.Load()-r.stateAt >= 16*r.stateBytes {
		from, size, err := s.writeState()
		if err != nil {
			return 0, err
		}
		r.stateFrom, r.stateAt, r.stateBytes = from, s.visible.Load(), size
	}
	if s.saved.Load() <= begins {
		if err := s.checkpoint(); err != nil {
			return 0, err
		}
	}
	for n > 0 && (segs[n].first >= s.saved.Load() || segs[n].first > r.stateFrom) {
		n--
	}
	return n, nil
}

// drop deletes the log's first segment, after what waits in it was carried.
// limit is the address up to which the bounds want the log gone. gone is false
// when nothing would be gained.
func (r *retainer) drop(seg, next segment, limit int64, why string) (gone bool, err error) {
	s := r.s
	size := next.base - seg.base
	if r.buf, err = readFile(s.fs, seg.path, r.buf); err != nil {
		return false, err
	}
	b := r.buf[:min(int64(len(r.buf)), size)]
	list, err := s.pendingIn(seg, b)
	if err != nil {
		return false, err
	}
	carried, bytes := 0, int64(0)
	if len(list) > 0 {
		if worth, err := r.worth(seg.base, limit, why); err != nil || !worth {
			return false, err
		}
		if carried, bytes, err = s.carry(list, b, r.opts.CarryRate, s.stop); err != nil {
			return false, err
		}
		if list, err = s.pendingIn(seg, b); err != nil {
			return false, err
		}
		if len(list) > 0 {
			return false, fmt.Errorf("segment %s: %d messages are still pending in it", seg.path, len(list))
		}
	}
	// The copies before the originals; and the records by which others have
	// left their places since.
	if err := s.log.sync(); err != nil {
		return false, err
	}
	if err := s.moveMinimums(next.base); err != nil {
		return false, err
	}
	if err := s.log.dropFront(seg.first); err != nil {
		return false, err
	}
	delete(r.times, seg.first)
	s.logger.Debug("retention: segment deleted", "file", seg.path, "bytes", size, "because_of", why, "carried", carried, "carried_bytes", bytes)
	return true, nil
}

// worth tells whether carrying gains anything: as long as more than a third of
// the whole log is dead. Dead is what is not pending, but for what is too young
// for Age when that is the only bound. A log that is mostly alive is left
// alone, however large.
func (r *retainer) worth(front, limit int64, why string) (bool, error) {
	end := r.s.visible.Load()
	whole := end - front
	if why != byAge {
		limit = end
	}
	moved := max(front-r.aliveFor[0], limit-r.aliveFor[1], end-r.aliveFor[2])
	if r.aliveFor[2] == 0 || moved > whole/16 {
		alive, err := r.s.pendingBytes(limit)
		if err != nil {
			return false, err
		}
		r.alive, r.aliveFor = alive, [3]int64{front, limit, end}
	}
	dead := limit - front - r.alive
	worth := 3*dead > whole
	if !worth && !r.mostAlive {
		r.s.logger.Info("retention: most of what is to go is still pending, nothing is deleted for now", "because_of", why, "log_bytes", whole, "dead_bytes", dead, "pending_bytes", r.alive)
	}
	r.mostAlive = !worth
	return worth, nil
}

// moveMinimums moves the minimums of all queues to their first entries whose
// records are at front or above; of levels to their heads.
func (s *Store) moveMinimums(front int64) error {
	for _, q := range s.queues.all() {
		if q.topic == "" {
			continue
		}
		if err := q.cutBelow(front); err != nil && s.queues.lookup(q.topic, q.id) == q {
			return fmt.Errorf("consume queue %s: %w", q.dir, err)
		}
	}
	for _, l := range s.queues.allLevels() {
		l.q.moveMin(l.headNow())
	}
	return nil
}

// settleFront brings what replay has derived into agreement with a log whose
// front is gone. fromLog: there was no checkpoint to go by.
func (s *Store) settleFront(fromLog bool) error {
	for _, q := range s.queues.all() {
		if err := q.fill(); err != nil {
			return err
		}
	}
	front := s.log.segs.snapshot()[0]
	if front.first <= 1 {
		return nil
	}
	if fromLog && s.rounds.whole == 0 {
		d := Damage{File: front.path, First: 1, Records: front.first - 1, Reason: "the log's front is missing, and the tables with it"}
		s.damages = append([]Damage{d}, s.damages...)
		s.logger.Error("commit log: its front is missing, and no complete state of the tables follows", "first_segment", front.path)
	}
	return s.moveMinimums(front.base)
}
