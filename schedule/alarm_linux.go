package schedule

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// NewAlarm returns the most precise alarm of the machine: on Linux a timerfd
// on the wall clock, which the kernel ends some 40 µs after its time (a timer
// of the Go runtime takes 0.6 ms in an idle process) and at once when the wall
// clock is stepped or the machine wakes from sleep. Its one goroutine ends
// with Close.
func NewAlarm() (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	a := &fdAlarm{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), c: make(chan struct{}, 1)}
	a.done.Go(a.run)
	return a, nil
}

type fdAlarm struct {
	fd   int
	file *os.File // non-blocking: reads wait in the runtime's poller
	c    chan struct{}
	done sync.WaitGroup
}

// run passes wakes on. A read fails with ECANCELED when the clock was stepped,
// and for good when the file is closed.
func (a *fdAlarm) run() {
	var expirations [8]byte
	for {
		_, err := a.file.Read(expirations[:])
		if err != nil && !errors.Is(err, unix.ECANCELED) {
			return
		}
		a.ring()
	}
}

func (a *fdAlarm) ring() {
	select {
	case a.c <- struct{}{}:
	default:
	}
}

func (a *fdAlarm) Set(d time.Duration) {
	at := time.Now().Add(d)
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(at.UnixNano(), 1))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &spec, nil); err != nil {
		// Not possible with a valid time; sleeping on would be worse than
		// looking again.
		time.AfterFunc(min(d, followWall), a.ring)
	}
}

func (a *fdAlarm) C() <-chan struct{} { return a.c }

func (a *fdAlarm) Close() error {
	err := a.file.Close()
	a.done.Wait()
	return err
}
