package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultTable is the delay level table when none is configured, RocketMQ's
// messageDelayLevel.
const DefaultTable = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// Limits of a level table.
const (
	// MaxLevels is how many levels a table may have.
	MaxLevels = 1000
	// MaxDelay is the longest level.
	MaxDelay = 10_000 * 24 * time.Hour
)

// ErrBadTable is what every error of ParseLevels wraps.
var ErrBadTable = errors.New("bad delay level table")

// Levels is a delay level table: level N, counted from 1, stands for the
// length Levels[N-1]. Two levels of one length share one queue.
type Levels []time.Duration

// DefaultLevels returns the table of 18 levels, 1s … 2h.
func DefaultLevels() Levels {
	l, err := ParseLevels(DefaultTable)
	if err != nil {
		panic(err) // a constant
	}
	return l
}

// ParseLevels reads a table such as "1s 5s 10m 2h 1d": words of a whole number
// and a unit (s, m, h or d), separated by blanks, as RocketMQ's
// messageDelayLevel. Errors wrap ErrBadTable and name the word and what is
// allowed.
func ParseLevels(table string) (Levels, error) {
	words := strings.Fields(table)
	if len(words) == 0 {
		return nil, fmt.Errorf("%w: it is empty; 1 to %d words such as 30s, 5m, 2h or 1d are expected", ErrBadTable, MaxLevels)
	}
	if len(words) > MaxLevels {
		return nil, fmt.Errorf("%w: %d levels, at most %d are allowed", ErrBadTable, len(words), MaxLevels)
	}
	levels := make(Levels, len(words))
	for i, w := range words {
		d, err := parseLength(w)
		if err != nil {
			return nil, fmt.Errorf("%w: level %d: %w", ErrBadTable, i+1, err)
		}
		levels[i] = d
	}
	return levels, nil
}

var units = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

func parseLength(word string) (time.Duration, error) {
	unit := units[word[len(word)-1]]
	n, err := strconv.ParseUint(word[:len(word)-1], 10, 32)
	if unit == 0 || err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a length: a whole number above 0 and one of s, m, h, d is expected", word)
	}
	if time.Duration(n) > MaxDelay/unit {
		return 0, fmt.Errorf("%q is too long, at most %dd is allowed", word, MaxDelay/(24*time.Hour))
	}
	return time.Duration(n) * unit, nil
}

// String writes the table as ParseLevels reads it.
func (l Levels) String() string {
	words := make([]string, len(l))
	for i, d := range l {
		words[i] = FormatLength(d)
	}
	return strings.Join(words, " ")
}

// FormatLength writes a level's length in the largest unit that gives a whole
// number: 90s, 2h, 1d.
func FormatLength(d time.Duration) string {
	for _, u := range []byte{'d', 'h', 'm', 's'} {
		if d > 0 && d%units[u] == 0 {
			return strconv.FormatInt(int64(d/units[u]), 10) + string(u)
		}
	}
	return d.String()
}

// Clamp returns the level that a sender's value selects: 0 (at once) for 0 and
// below, the last level for anything above the table, as RocketMQ does.
func (l Levels) Clamp(level int) int { return max(0, min(level, len(l))) }

// Delay returns the length of a level, which must be one of the table (1 …
// len).
func (l Levels) Delay(level int) time.Duration { return l[level-1] }

// QueueID returns the queue of SCHEDULE_TOPIC_XXXX that a level is shown as.
func QueueID(level int) int32 { return int32(level - 1) }

// LevelOf returns the lowest level of a length, 0 when the table has none:
// what is pending there drains on.
func (l Levels) LevelOf(d time.Duration) int {
	for i, v := range l {
		if v == d {
			return i + 1
		}
	}
	return 0
}
