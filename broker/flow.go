package broker

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// flow counts messages, their bytes, and the calls they came by, and keeps
// samples of the three, so that a minute, an hour and a day can be told, as
// RocketMQ `StatsItem`.
type flow struct {
	messages, bytes, calls atomic.Int64

	mu                sync.Mutex
	minute, hour, day ring
	// changed is when a sample first saw the present numbers.
	changed time.Time
}

func (f *flow) init(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.minute = newRing(10*time.Second, 61, now) // ten minutes, of which a minute is a part
	f.hour = newRing(10*time.Minute, 7, now)
	f.day = newRing(time.Hour, 25, now)
	f.changed = now
}

// add counts one call.
func (f *flow) add(messages, bytes int64) {
	f.messages.Add(messages)
	f.bytes.Add(bytes)
	f.calls.Add(1)
}

func (f *flow) now(at time.Time) sample {
	return sample{at: at, messages: f.messages.Load(), bytes: f.bytes.Load(), calls: f.calls.Load()}
}

// sample takes the samples that are due.
func (f *flow) sample(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.now(now)
	if s.messages != f.minute.last().messages {
		f.changed = now
	}
	for _, r := range []*ring{&f.minute, &f.hour, &f.day} {
		r.take(s)
	}
}

// span is what came within a window: sums, and per second.
type span struct {
	messages, bytes, calls int64
	seconds                float64
}

// within returns what came in the last window, a minute, hour or day; younger
// numbers are counted as if their first sample interval were over.
func (f *flow) within(window time.Duration, now time.Time) span {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.minute
	switch {
	case window > time.Hour:
		r = &f.day
	case window > 10*time.Minute:
		r = &f.hour
	}
	from, to := r.since(now.Add(-window)), f.now(now)
	return span{
		messages: to.messages - from.messages, bytes: to.bytes - from.bytes, calls: to.calls - from.calls,
		seconds: max(now.Sub(from.at), r.every).Seconds(),
	}
}

// perSecond writes rates over the last 10 s, minute and 10 minutes, as
// RocketMQ does, summed over flows.
func perSecond(now time.Time, count func(span) int64, flows ...*flow) string {
	var parts []string
	for _, window := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute} {
		rate := 0.0
		for _, f := range flows {
			w := f.within(window, now)
			rate += float64(count(w)) / w.seconds
		}
		parts = append(parts, fmt.Sprint(rate))
	}
	return strings.Join(parts, " ")
}

func messagesOf(s span) int64 { return s.messages }

func callsOf(s span) int64 { return s.calls }

// sample is the state of a flow at one time.
type sample struct {
	at                     time.Time
	messages, bytes, calls int64
}

// ring keeps the latest samples, oldest first.
type ring struct {
	every   time.Duration
	limit   int
	samples []sample
}

func newRing(every time.Duration, limit int, now time.Time) ring {
	return ring{every: every, limit: limit, samples: []sample{{at: now}}}
}

func (r *ring) last() sample { return r.samples[len(r.samples)-1] }

// take keeps a sample unless the last one is younger than the interval, less
// what a ticker may be early.
func (r *ring) take(s sample) {
	if s.at.Sub(r.last().at) < r.every*9/10 {
		return
	}
	if len(r.samples) == r.limit {
		copy(r.samples, r.samples[1:])
		r.samples = r.samples[:r.limit-1]
	}
	r.samples = append(r.samples, s)
}

// since returns the newest sample that is at least as old as at, else the
// oldest.
func (r *ring) since(at time.Time) sample {
	for i := len(r.samples) - 1; i > 0; i-- {
		if !r.samples[i].at.After(at) {
			return r.samples[i]
		}
	}
	return r.samples[0]
}

// latencyBounds are the upper bounds of a latency's buckets; the last bucket
// has none. Those of RocketMQ `StoreStatsService` are among them.
var latencyBounds = [...]time.Duration{
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second, 10 * time.Second,
}

// latency counts durations by bucket.
type latency struct {
	buckets [len(latencyBounds) + 1]atomic.Int64
	max     atomic.Int64 // ns
}

func (l *latency) add(d time.Duration) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	l.buckets[i].Add(1)
	for old := l.max.Load(); int64(d) > old && !l.max.CompareAndSwap(old, int64(d)); old = l.max.Load() {
	}
}

// quantile returns the upper bound of the bucket that q of the durations do
// not pass, in ms; the longest one where there is no bound.
func (l *latency) quantile(q float64) float64 {
	var total int64
	for i := range l.buckets {
		total += l.buckets[i].Load()
	}
	longest := time.Duration(l.max.Load())
	var seen int64
	for i := range latencyBounds {
		if seen += l.buckets[i].Load(); float64(seen) >= q*float64(total) {
			return float64(min(latencyBounds[i], longest).Microseconds()) / 1000
		}
	}
	return float64(longest.Microseconds()) / 1000
}

// distribution writes RocketMQ's putMessageDistributeTime.
func (l *latency) distribution() string {
	var out strings.Builder
	i := 0
	for _, b := range []struct {
		name string
		upTo time.Duration
	}{
		{"<=0ms", time.Millisecond}, {"0~10ms", 10 * time.Millisecond}, {"10~50ms", 50 * time.Millisecond}, {"50~100ms", 100 * time.Millisecond},
		{"100~200ms", 200 * time.Millisecond}, {"200~500ms", 500 * time.Millisecond}, {"500ms~1s", time.Second}, {"1~2s", 2 * time.Second},
		{"2~3s", 3 * time.Second}, {"3~4s", 4 * time.Second}, {"4~5s", 5 * time.Second}, {"5~10s", 10 * time.Second}, {"10s~", 0},
	} {
		var n int64
		for ; i < len(l.buckets) && (b.upTo == 0 || i < len(latencyBounds) && latencyBounds[i] <= b.upTo); i++ {
			n += l.buckets[i].Load()
		}
		fmt.Fprintf(&out, "[%s]:%d ", b.name, n)
	}
	return out.String()
}
