package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// Limits of one group: what is written, synced, dispatched and answered
// together.
const (
	groupBytes   = 256 << 10
	groupRecords = 512
	// maxUnsynced is how much may wait for a background sync before the writer
	// waits for it: it is kept in memory.
	maxUnsynced = 16 << 20
)

// writer is the one goroutine that appends to the log, and the only judge of
// what a delivery may do. It takes what waits, decides, writes a group, syncs
// once, dispatches, then answers.
type writer struct {
	s    *Store
	log  *commitLog
	wake chan struct{} // capacity 1; anyone sends, the writer receives

	// Why sends are refused now: the log is being repaired, the disk is full.
	broken atomic.Pointer[refusal]
	full   atomic.Pointer[refusal]

	mu     sync.Mutex
	urgent batchList // deliveries and state, before sends
	sends  batchList
	bytes  int64 // of sends that wait
	calls  []func()
	closed bool

	// The goroutine's own.
	group    []*Batch
	staged   []staged
	touched  []*queue
	heads    []*level
	ended    map[int64]bool // transactions that the group ends
	arrivals []arriving
	told     []Arrival // what OnArrive is given
}

type refusal struct{ err error }

// staged is one record of the group being written.
type staged struct {
	h       header
	payload []byte
	q       *queue
	level   *level
}

// arriving gathers a group's new entries of one queue.
type arriving struct {
	q *queue
	a Arrival
}

type batchList struct{ head, tail *Batch }

func (l *batchList) push(b *Batch) {
	b.next = nil
	if l.tail == nil {
		l.head = b
	} else {
		l.tail.next = b
	}
	l.tail = b
}

func (l *batchList) pop() *Batch {
	b := l.head
	if b != nil {
		if l.head = b.next; l.head == nil {
			l.tail = nil
		}
		b.next = nil
	}
	return b
}

// Append hands b to the writer. Done is always called, exactly once: by the
// writer, or by Append itself when b is refused at once (ErrClosed, ErrBusy,
// ErrDiskFull, ErrUnavailable, ErrTooLarge). Deliveries go before sends.
func (s *Store) Append(b *Batch) {
	if err := s.writer.offer(b); err != nil {
		b.Done(b, err)
	}
}

func (w *writer) offer(b *Batch) error {
	if len(b.Messages) == 0 {
		return errors.New("append of an empty batch")
	}
	b.bytes = 0
	for i := range b.Messages {
		n := len(b.Messages[i].Record)
		if n > maxRecord-headerSize {
			return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, maxRecord-headerSize)
		}
		b.bytes += int64(n + headerSize)
	}
	m := &b.Messages[0]
	urgent := m.Step || m.kind != 0
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	if urgent {
		w.urgent.push(b)
	} else {
		if err := w.refusing(); err != nil {
			w.mu.Unlock()
			return err
		}
		if w.bytes > w.s.opts.QueueBytes {
			w.mu.Unlock()
			return ErrBusy
		}
		w.bytes += b.bytes
		w.sends.push(b)
	}
	w.mu.Unlock()
	w.poke()
	return nil
}

// refusing returns why sends are refused now, or nil.
func (w *writer) refusing() error {
	if r := w.broken.Load(); r != nil {
		return r.err
	}
	if r := w.full.Load(); r != nil {
		return r.err
	}
	return nil
}

func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// call runs f on the writer's goroutine between two groups and waits for it.
func (w *writer) call(f func()) error {
	done := make(chan struct{})
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.calls = append(w.calls, func() { f(); close(done) })
	w.mu.Unlock()
	w.poke()
	<-done
	return nil
}

// run is the writer's goroutine. It ends when the store closes and everything
// accepted is answered.
func (w *writer) run() {
	for {
		calls, more := w.take()
		for _, f := range calls {
			f()
		}
		if len(w.group) > 0 {
			w.write()
			continue
		}
		if _, err := w.log.unsynced(); err != nil && w.log.wal != nil {
			w.repair(&syncError{err}) // a background sync failed
			continue
		}
		if !more && len(calls) == 0 {
			return
		}
		if len(calls) == 0 {
			<-w.wake
		}
	}
}

// close lets the writer end once everything accepted is answered.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.poke()
}

// take moves what the next group is made of from the queues to w.group:
// deliveries first, but no more than three quarters while sends wait too. A
// change of tables ends the group, so that what comes after is judged by it.
// more is false when the store is closing and nothing is left.
func (w *writer) take() (calls []func(), more bool) {
	w.group = w.group[:0]
	w.mu.Lock()
	defer w.mu.Unlock()
	calls, w.calls = w.calls, nil
	bytes, records := int64(0), 0
	fill := func(l *batchList, maxBytes int64, maxRecords int) (barrier bool) {
		for l.head != nil {
			b := l.head
			if len(w.group) > 0 && (bytes+b.bytes > maxBytes || records+len(b.Messages) > maxRecords) {
				return false
			}
			l.pop()
			bytes += b.bytes
			records += len(b.Messages)
			w.group = append(w.group, b)
			if l == &w.sends {
				w.bytes -= b.bytes
			}
			if k := b.Messages[0].kind; k != 0 && k != kindCarry {
				return true
			}
		}
		return false
	}
	share := int64(groupBytes)
	if w.sends.head != nil {
		share = groupBytes * 3 / 4
	}
	if !fill(&w.urgent, share, int(groupRecords*share/groupBytes)) {
		fill(&w.sends, groupBytes, groupRecords)
	}
	return calls, !w.closed || len(w.group) > 0
}

// write puts the group into the log and answers it.
func (w *writer) write() {
	if w.log.wal == nil { // closing, and the log could not be brought back
		w.answer(ErrUnavailable)
		return
	}
	now := w.s.clock.now()
	sync := w.s.opts.Flush == SyncFlush
	w.log.begin()
	for _, b := range w.group {
		for i := range b.Messages {
			m := &b.Messages[i]
			m.Err = nil
			if m.kind != 0 {
				sync = sync || m.durable
			}
			if err := w.stage(m, now); err != nil {
				m.Err = err
			}
		}
	}
	var err error
	if len(w.staged) > 0 {
		err = w.log.commit(sync)
		if err != nil {
			err = w.repair(err)
		}
	}
	if err == nil {
		w.dispatch()
	}
	w.settle(err)
	w.answer(err)
	if err == nil && !sync {
		w.pace()
	}
}

func (w *writer) answer(err error) {
	for i, b := range w.group {
		b.Done(b, err)
		w.group[i] = nil
	}
}

// stage judges one message against the tables and all that was given out
// before it, the same group included, and adds its record to the group.
func (w *writer) stage(m *Message, nowNs int64) error {
	st := staged{payload: m.Record}
	h := &st.h
	nowMs := nowNs / int64(time.Millisecond)
	switch {
	case m.kind == kindCarry:
		h.kind = kindCarry
		if err := w.judgeCarry(m, &st); err != nil {
			return err
		}
	case m.kind != 0:
		h.kind, h.flags = m.kind, m.flags
		if m.kind == kindStatePart {
			h.entry, h.head = m.Origin.Entry, m.Origin.Identity
		}
	case m.Step:
		h.kind = kindStep
		if err := w.judgeStep(m, &st); err != nil {
			return err
		}
	case m.Ends:
		h.kind = kindEnd
		if err := w.judgeEnd(m, &st); err != nil {
			return err
		}
	default:
		h.kind = kindMessage
		if m.Half {
			h.kind = kindHalf
		}
		if _, ok := w.s.tables.topic(m.Topic); !ok {
			return fmt.Errorf("%w: %q", ErrTopicNotFound, m.Topic)
		}
	}
	m.Appended = Appended{StoreMs: nowMs}
	if m.kind == 0 && m.Record != nil {
		h.tagsCode = m.TagsCode
		st.q = w.place(m, &st, nowNs)
		message.SetQueueOffset(m.Record, m.Appended.QueueOffset)
		message.SetPhysicalOffset(m.Record, w.log.staged.address)
		message.SetStoreTime(m.Record, nowMs)
	}
	m.Appended.Address = w.log.stage(h, st.payload)
	w.staged = append(w.staged, st)
	return nil
}

// judgeStep accepts a step only while it leaves the head of its level, and
// only into the topic that the message was sent to.
func (w *writer) judgeStep(m *Message, st *staged) error {
	o := &m.Origin
	l := w.s.queues.level(o.Delay.Milliseconds())
	if head := max(l.assigned, l.headNow()); o.Entry != head || o.Entry >= l.q.assigned {
		return fmt.Errorf("%w: level %v, entry %d, head %d", ErrStale, o.Delay, o.Entry, head)
	}
	if m.Record != nil {
		t, ok := w.s.tables.topic(m.Topic)
		if !ok || o.Identity < t.Created && m.Topic != message.UndeliverableTopic {
			return fmt.Errorf("%w: %q", ErrTopicNotFound, m.Topic)
		}
	} else {
		st.h.flags |= flagNoMessage
		st.payload = []byte(m.Reason)
	}
	st.h.identity, st.h.delayMs, st.h.dueUs = o.Identity, l.delayMs, o.DueUs
	st.h.head, st.h.entry = o.Entry, o.Entry
	st.level = l
	if l.assigned <= l.headNow() {
		w.heads = append(w.heads, l)
	}
	l.assigned = o.Entry + 1
	return nil
}

// place gives a message its number in its queue or level.
func (w *writer) place(m *Message, st *staged, nowNs int64) *queue {
	var q *queue
	if m.Delay > 0 && !m.Step && !m.Half {
		l := w.s.queues.level(m.Delay.Milliseconds())
		q = l.q
		st.level = l
		st.h.delayMs, st.h.entry = l.delayMs, q.assigned
		// Rounded up: never due before the very instant of the send + delay.
		st.h.dueUs = (nowNs+999)/1000 + l.delayMs*1000
		m.Appended.DueUs = st.h.dueUs
	} else if m.Half {
		q = w.s.queues.get(message.TransHalfTopic, 0)
	} else {
		q = w.s.queues.get(m.Topic, m.QueueID)
	}
	if _, next := q.bounds(); q.assigned == next {
		w.touched = append(w.touched, q)
	}
	m.Appended.QueueOffset = q.assigned
	q.assigned++
	return q
}

// dispatch makes the written group visible and tells who waits for it.
func (w *writer) dispatch() {
	type pending struct {
		delay time.Duration
		due   int64
	}
	var woken []pending
	for i := range w.staged {
		st := &w.staged[i]
		first := false
		if st.q != nil && st.h.kind != kindStep && st.level != nil {
			_, next := st.q.bounds()
			first = next == st.level.headNow()
		}
		if err := w.s.dispatch(&st.h, st.payload, st.q); err != nil {
			w.s.logger.Error("a record just written cannot be applied", "index", st.h.index, "kind", st.h.kind.String(), "error", err)
		}
		if first {
			woken = append(woken, pending{st.level.delay(), st.h.dueUs})
		}
		if st.q != nil && (st.level == nil || st.h.kind == kindStep) {
			w.arrive(st)
		}
	}
	w.s.visible.Store(w.log.end.address)
	if len(w.arrivals) > 0 && w.s.opts.OnArrive != nil {
		w.told = w.told[:0]
		for i := range w.arrivals {
			w.told = append(w.told, w.arrivals[i].a)
		}
		w.s.opts.OnArrive(w.told)
	}
	if w.s.opts.OnPending != nil {
		for _, p := range woken {
			w.s.opts.OnPending(p.delay, p.due)
		}
	}
}

// arrive adds a message to what is told of its queue.
func (w *writer) arrive(st *staged) {
	v := message.View(st.payload)
	n := v.QueueOffset()
	for i := len(w.arrivals) - 1; i >= 0; i-- {
		if a := &w.arrivals[i]; a.q == st.q {
			a.a.Next = n + 1
			a.a.Bytes += int64(len(st.payload))
			a.a.TagsCodes = append(a.a.TagsCodes, st.h.tagsCode)
			return
		}
	}
	if len(w.arrivals) < cap(w.arrivals) {
		w.arrivals = w.arrivals[:len(w.arrivals)+1]
	} else {
		w.arrivals = append(w.arrivals, arriving{})
	}
	a := &w.arrivals[len(w.arrivals)-1]
	a.q = st.q
	a.a = Arrival{Topic: st.q.topic, QueueID: st.q.id, First: n, Next: n + 1, Bytes: int64(len(st.payload)), TagsCodes: append(a.a.TagsCodes[:0], st.h.tagsCode)}
}

// settle ends a group: after a failure everything given out for it is taken
// back.
func (w *writer) settle(err error) {
	if err != nil {
		for _, q := range w.touched {
			_, q.assigned = q.bounds()
		}
		for _, l := range w.heads {
			l.assigned = l.headNow()
		}
	}
	w.touched, w.heads = w.touched[:0], w.heads[:0]
	clear(w.ended)
	w.arrivals = w.arrivals[:0]
	clear(w.staged)
	w.staged = w.staged[:0]
}

// pace starts, and when too much is unsynced waits for, the background sync.
func (w *writer) pace() {
	n, _ := w.log.unsynced()
	if n >= w.s.opts.FlushBytes {
		select {
		case w.s.flush <- struct{}{}:
		default:
		}
	}
	if n >= maxUnsynced {
		if err := w.log.sync(); err != nil {
			w.repair(err)
		}
	}
}

// Pauses between attempts to bring the log back.
const (
	repairPauseMin = 10 * time.Millisecond
	repairPauseMax = time.Second
)

// repair brings the log back after a failed write or sync, trying until it
// succeeds or the store closes; sends are refused meanwhile. It returns nil
// when the group is in the log after all, else what its senders are told.
func (w *writer) repair(cause error) error {
	survives := len(w.staged) > 0 && w.log.end == w.log.staged
	refused := ErrUnavailable
	if isDiskFull(cause) {
		refused = ErrDiskFull
	}
	w.s.logger.Error("commit log failed: reopening it", "error", cause)
	refusing := &refusal{fmt.Errorf("%w: %v", refused, cause)}
	w.broken.Store(refusing)
	for pause := repairPauseMin; ; pause = min(2*pause, repairPauseMax) {
		err := w.log.recover(cause)
		if err == nil {
			break
		}
		w.s.logger.Error("commit log cannot be reopened yet", "error", err, "again_in", pause)
		w.refuseWaiting(refusing.err)
		select {
		case <-time.After(pause):
		case <-w.s.stop:
			return fmt.Errorf("%w: %v", ErrUnknown, err)
		}
	}
	w.s.logger.Info("commit log reopened", "epoch", w.log.epoch, "survives", survives)
	if refused == ErrDiskFull {
		w.full.Store(refusing) // until the next look at the free space
	}
	w.broken.Store(nil)
	if survives {
		return nil
	}
	return refusing.err
}

// refuseWaiting answers the sends that wait, as they would be when they came
// now.
func (w *writer) refuseWaiting(err error) {
	w.mu.Lock()
	list := w.sends
	w.sends, w.bytes = batchList{}, 0
	w.mu.Unlock()
	for b := list.pop(); b != nil; b = list.pop() {
		b.Done(b, err)
	}
}

// isDiskFull tells a want of room from other failures. EFBIG is what a limit
// on the size of files answers.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// appendState writes a record of the store's own and waits until it is
// durable.
func (s *Store) appendState(kind Kind, payload []byte) error {
	flags := uint8(0)
	if kind == kindOffsets {
		flags = flagReset
	}
	return s.appendWait(Message{Record: payload, kind: kind, flags: flags, durable: true})
}

// appendCommits writes changed consumer offsets, as durable as the flush mode.
func (s *Store) appendCommits(payload []byte) error {
	return s.appendWait(Message{Record: payload, kind: kindOffsets})
}

func (s *Store) appendWait(m Message) error {
	done := make(chan error, 1)
	b := &Batch{Messages: []Message{m}, Done: func(b *Batch, err error) {
		if err == nil {
			err = b.Messages[0].Err
		}
		done <- err
	}}
	s.Append(b)
	return <-done
}
