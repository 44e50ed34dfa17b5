//go:build !linux

package schedule

// NewAlarm returns the most precise alarm of the machine: here a timer of the
// Go runtime.
func NewAlarm() (Alarm, error) { return newRuntimeAlarm(), nil }
