package schedule

import (
	"testing"
	"time"
)

func eachAlarm(t *testing.T, f func(t *testing.T, a Alarm)) {
	for name, newAlarm := range map[string]func() (Alarm, error){
		"machine": NewAlarm,
		"runtime": func() (Alarm, error) { return newRuntimeAlarm(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, err := newAlarm()
			if err != nil {
				t.Fatal(err)
			}
			f(t, a)
			if err := a.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// rings waits for a wake; the limit only ends a test that has failed.
func rings(t *testing.T, a Alarm) {
	t.Helper()
	select {
	case <-a.C():
	case <-time.After(20 * time.Second):
		t.Fatal("the alarm does not ring")
	}
}

func TestAlarmIsNeverEarly(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a Alarm) {
		for _, d := range []time.Duration{0, -time.Hour, time.Nanosecond, 300 * time.Microsecond, 3 * time.Millisecond, 20 * time.Millisecond} {
			start := time.Now()
			a.Set(d)
			rings(t, a)
			if took := time.Since(start); took < d {
				t.Errorf("set to %v, rang after %v", d, took)
			}
		}
	})
}

// TestAlarmReplaced: only the last Set counts, whether it is sooner or later.
func TestAlarmReplaced(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a Alarm) {
		a.Set(time.Hour)
		a.Set(time.Millisecond)
		rings(t, a)

		start := time.Now()
		a.Set(200 * time.Millisecond)
		a.Set(400 * time.Millisecond)
		rings(t, a)
		if took := time.Since(start); took < 400*time.Millisecond {
			t.Errorf("rang after %v, as it was set before", took)
		}
	})
}

// TestAlarmClosedWhileSet ends nothing later and leaks nothing (TestMain looks).
func TestAlarmClosedWhileSet(t *testing.T) {
	eachAlarm(t, func(t *testing.T, a Alarm) { a.Set(time.Hour) })
}
