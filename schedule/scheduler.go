package schedule

import (
	"container/heap"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/store"
)

// Store is what the scheduler uses of the message store.
type Store interface {
	Now() time.Time
	Levels() []store.LevelState
	Level(delay time.Duration) store.LevelState
	ReadDue(delay time.Duration, from, nowUs int64, maxBytes int, b *store.DueBatch) error
	Append(b *store.Batch)
	Topic(name string) (store.Topic, bool)
	PutTopic(t store.Topic) error
}

// Options of New.
type Options struct {
	// Levels is the table in force, for OffsetFile; DefaultLevels when nil.
	Levels Levels
	// OffsetFile is where the offset table is saved for people; "" for nowhere.
	OffsetFile string
	// Alarm makes what wakes the scheduler, which closes it; NewAlarm is the
	// precise one. A timer of the Go runtime when nil, or when it fails.
	Alarm func() (Alarm, error)
	// Logger receives what an operator should know; slog.Default by default.
	Logger *slog.Logger
}

const (
	// batchBytes bounds the records of one round of a level, so that a busy
	// level cannot delay another one.
	batchBytes = 192 << 10
	// maxInFlight is how many batches of one level may be on their way: the
	// next is read and rewritten while the one before is written. The writer
	// refuses the later one when the earlier failed.
	maxInFlight = 2

	backOffMin = 10 * time.Millisecond
	backOffMax = time.Second
)

// Scheduler delivers what is due at the levels. Its goroutines: run, which
// does everything else, and saveLoop, which saves the offset table for people.
type Scheduler struct {
	opts   Options
	logger *slog.Logger
	store  Store

	skipped     atomic.Int64
	undelivered atomic.Int64
	delivered   atomic.Int64

	wake chan struct{} // capacity 1: Wake, batches that are done, Close
	stop chan struct{} // closed by Close
	done sync.WaitGroup
	once sync.Once

	mu      sync.Mutex
	woken   []time.Duration // levels that got a first entry
	ended   []*flight       // batches that are done
	closing bool

	// run's own.
	levels  map[time.Duration]*levelTimer
	timers  timerHeap     // levels whose next entry is due later
	ready   []*levelTimer // levels with due entries, longest unserved first
	flights int
	free    []*flight
	read    store.DueBatch
}

// levelTimer is the timer of one level.
type levelTimer struct {
	delay time.Duration
	next  int64 // the entry to propose next
	dueUs int64 // when it is due
	where place

	flights  int
	failed   bool // wait for all flights, then begin again at the head
	refused  error
	refusedN int64 // entry that the writer refused the target of
	pause    time.Duration

	// After a start with the clock set back by more than the store follows,
	// entries below skewEnd are due skewUs earlier than they say, so that none
	// waits longer than its level's length.
	skewUs  int64
	skewEnd int64

	index int // in timers
}

type place int

const (
	idle place = iota
	inTimers
	inReady
)

// flight is a batch on its way through the writer, with the memory of its
// records.
type flight struct {
	store.Batch
	level *levelTimer
	arena []byte
	err   error
}

// New returns a scheduler that is not started.
func New(opts Options) *Scheduler {
	if opts.Levels == nil {
		opts.Levels = DefaultLevels()
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Scheduler{
		opts: opts, logger: opts.Logger,
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
		levels: map[time.Duration]*levelTimer{},
	}
}

// Start begins to deliver from st, whose Options.OnPending must be Wake.
func (s *Scheduler) Start(st Store) {
	s.store = st
	s.done.Go(s.run)
	if s.opts.OffsetFile != "" {
		s.done.Go(s.saveLoop)
	}
}

// Wake tells that a level got an entry to wait for: the store's OnPending. It
// never blocks, and may be called before Start.
func (s *Scheduler) Wake(delay time.Duration, _ int64) {
	s.mu.Lock()
	s.woken = append(s.woken, delay)
	s.mu.Unlock()
	s.poke()
}

// Close stops delivering and waits for the batches on their way, which are
// stored or not as the writer decides; the store must still be open.
// Idempotent, and without effect before Start.
func (s *Scheduler) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		close(s.stop)
	})
	s.done.Wait()
	return nil
}

// Stats counts since the start.
type Stats struct {
	// Delivered is the number of messages stored in their real topic,
	// Undelivered in TIDEMQ_UNDELIVERABLE, Skipped passed over as unreadable.
	Delivered, Undelivered, Skipped int64
}

// Stats returns the counters.
func (s *Scheduler) Stats() Stats {
	return Stats{Delivered: s.delivered.Load() - s.undelivered.Load(), Undelivered: s.undelivered.Load(), Skipped: s.skipped.Load()}
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Scheduler) nowUs() int64 { return s.store.Now().UnixMicro() }

// run delivers until Close. It sleeps until the earliest head is due, or until
// it is told of a first entry or of a batch that is done.
func (s *Scheduler) run() {
	alarm := s.newAlarm()
	defer alarm.Close()
	now := s.nowUs()
	for _, st := range s.store.Levels() {
		if st.Head < st.Next {
			s.startLevel(st, now)
		}
	}
	for {
		closing := s.collect()
		if closing {
			if s.flights == 0 {
				return
			}
			<-s.wake
			continue
		}
		now := s.nowUs()
		for len(s.timers) > 0 && s.timers[0].dueUs <= now {
			l := heap.Pop(&s.timers).(*levelTimer)
			s.makeReady(l)
		}
		if len(s.ready) > 0 {
			l := s.ready[0]
			s.ready = append(s.ready[:0], s.ready[1:]...)
			l.where = idle
			s.serve(l, now)
			continue
		}
		if len(s.timers) == 0 {
			s.wait(nil)
			continue
		}
		alarm.Set(time.Duration(s.timers[0].dueUs-now) * time.Microsecond)
		s.wait(alarm.C())
	}
}

func (s *Scheduler) newAlarm() Alarm {
	if s.opts.Alarm != nil {
		a, err := s.opts.Alarm()
		if err == nil {
			return a
		}
		s.logger.Warn("no precise alarm on this machine: deliveries may be a millisecond later", "error", err)
	}
	return newRuntimeAlarm()
}

func (s *Scheduler) wait(alarm <-chan struct{}) {
	select {
	case <-alarm:
	case <-s.wake:
	case <-s.stop:
	}
}

// startLevel begins with a level that a start finds pending.
func (s *Scheduler) startLevel(st store.LevelState, nowUs int64) {
	l := s.level(st.Delay)
	l.next = st.Head
	if ahead := st.HeadDueUs - (nowUs + st.Delay.Microseconds()); ahead > 0 {
		l.skewUs, l.skewEnd = ahead, st.Next
		s.logger.Warn("level is due later than its length allows: the clock was set back", "level", FormatLength(st.Delay), "by", time.Duration(ahead)*time.Microsecond)
	}
	s.makeReady(l)
}

func (s *Scheduler) level(delay time.Duration) *levelTimer {
	l := s.levels[delay]
	if l == nil {
		l = &levelTimer{delay: delay, refusedN: -1}
		s.levels[delay] = l
	}
	return l
}

// collect takes what Wake and the batches that are done have left.
func (s *Scheduler) collect() (closing bool) {
	s.mu.Lock()
	woken, ended := s.woken, s.ended
	s.woken, s.ended = nil, nil
	closing = s.closing
	s.mu.Unlock()
	for _, d := range woken {
		l := s.level(d)
		if l.where == idle && l.flights == 0 {
			l.next = s.store.Level(d).Head
			s.makeReady(l)
		}
	}
	for _, f := range ended {
		s.land(f)
	}
	return closing
}

func (s *Scheduler) makeReady(l *levelTimer) {
	if l.where == inTimers {
		heap.Remove(&s.timers, l.index)
	}
	if l.where != inReady {
		l.where = inReady
		s.ready = append(s.ready, l)
	}
}

func (s *Scheduler) sleep(l *levelTimer, dueUs int64) {
	l.dueUs, l.where = dueUs, inTimers
	heap.Push(&s.timers, l)
}

// serve reads one bounded batch of a level and proposes it. When its last
// batch lands, or the next entry is due, the level comes back.
func (s *Scheduler) serve(l *levelTimer, nowUs int64) {
	if l.failed || l.flights >= maxInFlight {
		return // land brings it back
	}
	limit := nowUs
	if l.next < l.skewEnd {
		limit += l.skewUs
	}
	if err := s.store.ReadDue(l.delay, l.next, limit, batchBytes, &s.read); err != nil {
		s.logger.Error("due messages cannot be read; trying again", "level", FormatLength(l.delay), "error", err)
		s.backOff(l)
		return
	}
	items := s.read.Items
	for i := range items { // stored after the clock was set back: no skew
		if items[i].Entry >= l.skewEnd && items[i].DueUs > nowUs {
			s.read.NextDueUs, s.read.More = items[i].DueUs, false
			items = items[:i]
			break
		}
	}
	if len(items) > 0 {
		if err := s.propose(l, items); err != nil {
			s.logger.Error("due messages cannot be rewritten; trying again", "level", FormatLength(l.delay), "error", err)
			s.backOff(l)
			return
		}
	}
	switch {
	case s.read.More:
		s.makeReady(l)
	case s.read.NextDueUs > 0:
		due := s.read.NextDueUs
		if l.next < l.skewEnd {
			due -= l.skewUs
		}
		s.sleep(l, due)
	}
}

// propose rewrites entries of a level and hands them to the writer, those
// before one that cannot be rewritten now.
func (s *Scheduler) propose(l *levelTimer, items []store.Due) (err error) {
	f := s.takeFlight(l)
	for i := range items {
		var refused error
		if items[i].Entry == l.refusedN {
			refused = l.refused
		}
		var m store.Message
		if m, f.arena, err = s.rewrite(f.arena, l.delay, &items[i], refused); err != nil {
			break
		}
		f.Messages = append(f.Messages, m)
		l.next = items[i].Entry + 1
	}
	if len(f.Messages) == 0 {
		s.free = append(s.free, f)
		return err
	}
	l.flights++
	s.flights++
	s.store.Append(&f.Batch)
	return err
}

// maxArena is the largest memory a flight keeps for the next one.
const maxArena = 1 << 20

func (s *Scheduler) takeFlight(l *levelTimer) *flight {
	var f *flight
	if n := len(s.free); n > 0 {
		f, s.free = s.free[n-1], s.free[:n-1]
	} else {
		f = new(flight)
		f.Done = func(_ *store.Batch, err error) {
			f.err = err
			s.mu.Lock()
			s.ended = append(s.ended, f)
			s.mu.Unlock()
			s.poke()
		}
	}
	clear(f.Messages)
	if cap(f.arena) > maxArena {
		f.arena = nil
	}
	f.level, f.Messages, f.arena, f.err = l, f.Messages[:0], f.arena[:0], nil
	return f
}

// land deals with a batch that is done: everything is stored, or the level
// begins again at its head, which the store alone knows.
func (s *Scheduler) land(f *flight) {
	l := f.level
	l.flights--
	s.flights--
	err := f.err
	if err == nil {
		for i := range f.Messages {
			m := &f.Messages[i]
			if m.Err != nil {
				err = m.Err
				if errors.Is(err, store.ErrTopicNotFound) {
					l.refused, l.refusedN = err, m.Origin.Entry
				}
				break
			}
			if m.Record != nil {
				s.delivered.Add(1)
			}
		}
	}
	s.free = append(s.free, f)
	switch {
	case err == nil:
		l.pause = 0
	case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrTopicNotFound):
		l.failed = true
	default:
		l.failed = true
		s.logger.Error("due messages cannot be stored; trying again", "level", FormatLength(l.delay), "error", err)
		l.lengthenPause()
	}
	if l.failed {
		if l.flights > 0 {
			return
		}
		l.failed = false
		l.next = s.store.Level(l.delay).Head
		if l.pause > 0 {
			s.sleepFor(l, l.pause)
			return
		}
	}
	// What came while the level had nothing in its timer was not announced.
	if l.where == idle {
		s.makeReady(l)
	}
}

// backOff tries a level again after a while.
func (s *Scheduler) backOff(l *levelTimer) {
	l.lengthenPause()
	s.sleepFor(l, l.pause)
}

func (l *levelTimer) lengthenPause() { l.pause = min(max(2*l.pause, backOffMin), backOffMax) }

func (s *Scheduler) sleepFor(l *levelTimer, d time.Duration) {
	if l.where == inTimers {
		heap.Remove(&s.timers, l.index)
	}
	s.sleep(l, s.nowUs()+d.Microseconds())
}

// saveLoop saves the offset table for people every saveEvery and at the end.
func (s *Scheduler) saveLoop() {
	file := offsetFile{path: s.opts.OffsetFile}
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for stopping := false; ; {
		if err := file.save(s.opts.Levels, s.store); err != nil {
			s.logger.Warn("offset table cannot be saved; nothing depends on it", "file", file.path, "error", err)
		}
		if stopping {
			return
		}
		select {
		case <-tick.C:
		case <-s.stop:
			stopping = true
		}
	}
}

// timerHeap orders levels by when their next entry is due.
type timerHeap []*levelTimer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].dueUs < h[j].dueUs }
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	l := x.(*levelTimer)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *timerHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.index, l.where = -1, idle
	return l
}
