package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemq/tidemq/client"
)

// record is one record of the real topic.
type record struct {
	seq    int
	queue  int
	offset int64
	stored time.Time
	body   string
}

// readAll reads every record of the queues, from their first to their last
// offset, at a moment when nothing more is due.
func readAll(ctx context.Context, consumer *client.PullConsumer, list []client.Queue) ([]record, error) {
	const batch = 32
	var all []record
	for _, q := range list {
		offset, err := consumer.MinOffset(ctx, q)
		if err != nil {
			return nil, err
		}
		end, err := consumer.MaxOffset(ctx, q)
		if err != nil {
			return nil, err
		}
		for offset < end {
			r, err := consumer.Pull(ctx, q, offset, batch, 0, "*")
			if err != nil {
				return nil, err
			}
			if r.NextOffset <= offset {
				return nil, fmt.Errorf("%s: nothing to read at offset %d of %d: %s", q, offset, end, r.Status)
			}
			for _, m := range r.Messages {
				all = append(all, record{seq: seqOf(m), queue: q.ID, offset: m.QueueOffset, stored: m.StoreTime, body: string(m.Body)})
			}
			offset = r.NextOffset
		}
	}
	return all, nil
}

// outage is the time between the kill and the moment all was served again.
type outage struct{ from, to time.Time }

// during reports whether a message came due while nobody could deliver it.
func (o outage) during(due time.Time) bool {
	return !o.from.IsZero() && !due.Before(o.from) && due.Before(o.to)
}

// heldUp reports whether a message was overdue when the broker came back: due
// before, delivered after. What was due just before the kill counts too.
func (o outage) heldUp(due, stored time.Time) bool {
	// Store times are whole milliseconds.
	return !o.from.IsZero() && due.Before(o.to) && !stored.Before(o.from.Truncate(time.Millisecond))
}

// count compares what was sent with the records of the real topic.
func count(sent map[int]*outgoing, records []record, down outage) Report {
	r := Report{Records: len(records), Levels: make([]LevelReport, len(lengths))}
	late := make([][]time.Duration, len(lengths)+1) // by level, 0 for all
	var up, held []time.Duration
	for i, d := range lengths {
		r.Levels[i] = LevelReport{Level: i + 1, Delay: d.String()}
	}
	first := map[int]bool{}
	next := map[int]int64{}
	for _, rec := range records {
		if rec.offset != next[rec.queue] {
			r.broken("queue %d has offset %d after %d: its offsets have a gap", rec.queue, rec.offset, next[rec.queue]-1)
		}
		next[rec.queue] = rec.offset + 1
		o := sent[rec.seq]
		switch {
		case o == nil:
			r.broken("queue %d offset %d holds a message that was never sent: %.60q", rec.queue, rec.offset, rec.body)
			continue
		case rec.body != body(rec.seq):
			r.broken("message %d arrived changed: %.60q", rec.seq, rec.body)
		}
		level := &r.Levels[o.level-1]
		if first[rec.seq] {
			level.Duplicated++
			continue
		}
		first[rec.seq] = true
		level.Delivered++
		lateBy := rec.stored.Sub(o.due)
		if lateBy < 0 {
			level.Early++
		}
		if down.heldUp(o.due, rec.stored) {
			held = append(held, lateBy)
		} else {
			up = append(up, lateBy)
		}
		late[0] = append(late[0], lateBy)
		late[o.level] = append(late[o.level], lateBy)
	}
	for seq, o := range sent {
		level := &r.Levels[o.level-1]
		level.Sent++
		if !first[seq] {
			level.Lost++
		}
		if down.during(o.due) {
			r.DueWhileDown++
		}
	}
	r.All = LevelReport{LateBy: summarize(late[0])}
	for i := range r.Levels {
		l := &r.Levels[i]
		l.LateBy = summarize(late[l.Level])
		r.All.Sent += l.Sent
		r.All.Delivered += l.Delivered
		r.All.Lost += l.Lost
		r.All.Duplicated += l.Duplicated
		r.All.Early += l.Early
	}
	r.WhileUp, r.HeldUp = summarize(up), summarize(held)
	return r
}
