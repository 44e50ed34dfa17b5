package broker

import (
	"testing"
	"testing/synctest"
	"time"
)

// Windows by a clock of the test's: a minute, an hour and a day slide over what
// came, and idle numbers go.
func TestFlowWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s statistics
		s.init(time.Now())
		f := flowOf(&s, s.topics, "t")
		tick := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				time.Sleep(housekeeping)
				s.sample(time.Now())
			}
		}
		f.add(60, 6000)
		check := func(minute, hour, day int64) {
			t.Helper()
			now := time.Now()
			if m, h, d := f.within(time.Minute, now).messages, f.within(time.Hour, now).messages, f.within(24*time.Hour, now).messages; m != minute || h != hour || d != day {
				t.Errorf("minute %d, hour %d, day %d; want %d, %d, %d", m, h, d, minute, hour, day)
			}
		}
		check(60, 60, 60)
		tick(30 * time.Second)
		if w := f.within(time.Minute, time.Now()); w.seconds != 30 {
			t.Errorf("the window of a young flow is %g s", w.seconds)
		}
		tick(time.Minute)
		check(0, 60, 60)
		f.add(5, 1)
		check(5, 65, 65)
		tick(80 * time.Minute)
		check(0, 0, 65)
		if s.lookUp(topicPut, groupTopic{topic: "t"}) == nil {
			t.Error("forgotten too early")
		}
		tick(27 * time.Hour)
		check(0, 0, 0)
		if s.lookUp(topicPut, groupTopic{topic: "t"}) != nil {
			t.Error("an idle flow is kept")
		}
		if len(f.minute.samples) > 61 || len(f.hour.samples) > 7 || len(f.day.samples) > 25 {
			t.Error("samples pile up")
		}
		// Two midnights have passed.
		s.put.add(7, 0)
		tick(24 * time.Hour)
		s.put.add(2, 0)
		tick(24 * time.Hour)
		if d := &s.days; d.putYesterday != 7 || d.putToday != 9 {
			t.Errorf("totals of the last midnights: %d, %d", d.putYesterday, d.putToday)
		}
	})
}

func TestLatency(t *testing.T) {
	var l latency
	if q := l.quantile(0.99); q != 0 {
		t.Errorf("quantile of nothing %g", q)
	}
	for range 98 {
		l.add(300 * time.Microsecond)
	}
	l.add(30 * time.Millisecond)
	l.add(20 * time.Second)
	if p50, p99, p999 := l.quantile(0.5), l.quantile(0.99), l.quantile(0.999); p50 != 0.5 || p99 != 50 || p999 != 20000 {
		t.Errorf("quantiles %g, %g, %g", p50, p99, p999)
	}
	if got, want := l.distribution(), "[<=0ms]:98 [0~10ms]:0 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "; got != want {
		t.Errorf("distribution %q, want %q", got, want)
	}
}
