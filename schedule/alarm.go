package schedule

import "time"

// Alarm wakes the scheduler when the earliest head is due. One goroutine sets
// it and waits on C; a wake that comes for an earlier Set does no harm.
type Alarm interface {
	// Set has C receive after d, or when the wall clock is stepped, in place of
	// what was set before. 0 or less: at once.
	Set(d time.Duration)
	// C has room for one wake.
	C() <-chan struct{}
	// Close ends what the alarm runs. It is not set any more.
	Close() error
}

// followWall is how long a timer of the runtime may sleep: it does not notice
// that the wall clock was stepped.
const followWall = time.Second

// runtimeAlarm is a timer of the Go runtime. While a process is idle its
// timers are up to a millisecond late, as the runtime waits in whole
// milliseconds; NewAlarm has a better one where there is one.
type runtimeAlarm struct {
	c chan struct{}
	t *time.Timer
}

func newRuntimeAlarm() Alarm {
	a := &runtimeAlarm{c: make(chan struct{}, 1)}
	a.t = time.AfterFunc(time.Hour, a.ring)
	return a
}

func (a *runtimeAlarm) ring() {
	select {
	case a.c <- struct{}{}:
	default:
	}
}

func (a *runtimeAlarm) Set(d time.Duration) { a.t.Reset(min(d, followWall)) }
func (a *runtimeAlarm) C() <-chan struct{}  { return a.c }
func (a *runtimeAlarm) Close() error        { a.t.Stop(); return nil }
