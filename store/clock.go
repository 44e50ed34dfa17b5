package store

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// clock is the broker's time: it starts at the wall clock or the greatest
// store time in the log, whichever is later (unless that is more than maxAhead
// ahead: a start under a wrong date must not poison what follows), then runs
// monotonic and follows the wall forward. It never goes back in a process.
type clock struct {
	wall func() time.Time

	greatestMs int64 // store time seen in replay
	started    bool
	last       atomic.Int64 // ns since the epoch, the latest time given out

	base      time.Time // wall reading at start, with its monotonic part
	startedAt int64     // ns that base stands for
}

const maxAhead = time.Hour

// seen notes a store time found in the log, before start.
func (c *clock) seen(storeMs int64) { c.greatestMs = max(c.greatestMs, storeMs) }

func (c *clock) start(logger *slog.Logger) {
	c.base = c.wall()
	ns := c.base.UnixNano()
	if ahead := time.Duration(c.greatestMs*int64(time.Millisecond) - ns); ahead > maxAhead {
		logger.Warn("the log holds store times far ahead of the clock: going by the clock", "ahead", ahead.Round(time.Second))
	} else if ahead > 0 {
		logger.Warn("the log holds store times ahead of the clock: going on from them", "ahead", ahead)
		ns += int64(ahead)
	}
	c.startedAt = ns
	c.last.Store(ns)
	c.started = true
}

// now returns the time in ns since the epoch.
func (c *clock) now() int64 {
	t := c.wall()
	ns := max(c.startedAt+int64(t.Sub(c.base)), t.UnixNano())
	for {
		last := c.last.Load()
		if ns <= last {
			return last
		}
		if c.last.CompareAndSwap(last, ns) {
			return ns
		}
	}
}

// Now is the broker's clock, which store times and due times are on: never
// runs backwards within a process, follows steps of the wall clock forward.
func (s *Store) Now() time.Time { return time.Unix(0, s.clock.now()) }
