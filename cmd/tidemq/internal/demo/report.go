package demo

import (
	"fmt"
	"slices"
	"time"
)

// Report is the outcome of a demo, counted from the real topic's records.
type Report struct {
	// Records is how many records the real topic has.
	Records int `json:"records"`
	// All sums up the Levels, whose order is that of the levels.
	All    LevelReport   `json:"all"`
	Levels []LevelReport `json:"levels"`
	// WhileUp is about the messages that no outage held up, HeldUp about those
	// that were overdue when the broker came back.
	WhileUp Lateness `json:"whileUp"`
	HeldUp  Lateness `json:"heldUp"`
	// PendingAtKill counts the messages that were pending when the broker was
	// killed, DueWhileDown those that came due before it was back.
	PendingAtKill int64 `json:"pendingAtKill"`
	DueWhileDown  int   `json:"dueWhileDown"`
	// DownMs is from the kill to the moment all was served again, StartMs the
	// part of it from the start of the new process; ms.
	DownMs  int64 `json:"downMs"`
	StartMs int64 `json:"startMs"`
	// TookMs is the whole run's length, ms.
	TookMs int64 `json:"tookMs"`
	// Broken names every promise that was broken; empty when all were kept.
	Broken []string `json:"broken"`

	more int // broken promises that Broken has no room for
}

// LevelReport counts the messages of one delay level, or of all.
type LevelReport struct {
	Level int    `json:"level,omitempty"`
	Delay string `json:"delay,omitempty"`
	// Sent counts the sends that were answered as stored. Delivered counts
	// those of them that are in the real topic, Lost those that are not.
	Sent      int `json:"sent"`
	Delivered int `json:"delivered"`
	Lost      int `json:"lost"`
	// Duplicated counts the records beyond the first of one send, Early those
	// stored before they were due.
	Duplicated int      `json:"duplicated"`
	Early      int      `json:"early"`
	LateBy     Lateness `json:"lateBy"`
}

// Lateness tells how long after their due time messages were in the real topic,
// in ms.
type Lateness struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50Ms"`
	P99   int64 `json:"p99Ms"`
	Max   int64 `json:"maxMs"`
}

// summarize sorts late.
func summarize(late []time.Duration) Lateness {
	if len(late) == 0 {
		return Lateness{}
	}
	slices.Sort(late)
	at := func(share float64) int64 {
		// The smallest value that at least this share does not exceed.
		i := int(share*float64(len(late)) + 0.9999999)
		return late[min(max(i, 1), len(late))-1].Milliseconds()
	}
	return Lateness{Count: len(late), P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// maxBroken bounds the list of what went wrong.
const maxBroken = 20

func (r *Report) broken(format string, args ...any) {
	if len(r.Broken) >= maxBroken {
		r.more++
		return
	}
	r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
}

// judge adds what the counts themselves break.
func (r *Report) judge() {
	found := r.Broken
	r.Broken = []string{}
	for _, c := range []struct {
		n    int
		what string
	}{{r.All.Lost, "lost"}, {r.All.Duplicated, "duplicated"}, {r.All.Early, "early"}} {
		if c.n > 0 {
			r.Broken = append(r.Broken, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	r.Broken = append(r.Broken, found...)
	if r.more > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("and %d more", r.more))
	}
}
