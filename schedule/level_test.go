package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseLevels(t *testing.T) {
	good := []struct {
		table string
		want  []time.Duration
	}{
		{"1s", []time.Duration{time.Second}},
		{" 1s  2m\t3h 4d ", []time.Duration{time.Second, 2 * time.Minute, 3 * time.Hour, 96 * time.Hour}},
		{"10s 1s 10s", []time.Duration{10 * time.Second, time.Second, 10 * time.Second}},
		{strings.TrimSpace(strings.Repeat("1s ", MaxLevels)), nil},
	}
	for _, c := range good {
		l, err := ParseLevels(c.table)
		if err != nil {
			t.Errorf("%.40q: %v", c.table, err)
		}
		for i, d := range c.want {
			if l[i] != d {
				t.Errorf("%.40q: level %d is %v, want %v", c.table, i+1, l[i], d)
			}
		}
	}
	bad := []struct{ table, names string }{
		{"", "empty"}, {"  ", "empty"}, {"1", `"1"`}, {"s", `"s"`}, {"0s", `"0s"`}, {"-1s", `"-1s"`}, {"+1s", `"+1s"`}, {"1.5s", `"1.5s"`}, {"1s 5x", `"5x"`},
		{"1ms", `"1ms"`}, {"1s,5s", `"1s,5s"`}, {"4294967296s", `"4294967296s"`}, {"10001d", `"10001d"`}, {"99999999999999999999d", "99999"},
		{strings.Repeat("1s ", MaxLevels+1), "1001"},
	}
	for _, c := range bad {
		l, err := ParseLevels(c.table)
		if !errors.Is(err, ErrBadTable) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%.40q: %v, %v; want ErrBadTable naming %s", c.table, l, err, c.names)
		}
	}
}

func TestDefaultLevels(t *testing.T) {
	l := DefaultLevels()
	if len(l) != 18 || l.String() != DefaultTable || l.Delay(1) != time.Second || l.Delay(18) != 2*time.Hour {
		t.Errorf("default table %v of %d levels", l, len(l))
	}
	for _, c := range []struct{ ask, want int }{{-1 << 31, 0}, {-1, 0}, {0, 0}, {1, 1}, {18, 18}, {19, 18}, {1<<31 - 1, 18}} {
		if got := l.Clamp(c.ask); got != c.want {
			t.Errorf("Clamp(%d) = %d, want %d", c.ask, got, c.want)
		}
	}
	if l.LevelOf(30*time.Second) != 4 || l.LevelOf(31*time.Second) != 0 {
		t.Error("LevelOf")
	}
}

func TestParseDelay(t *testing.T) {
	for value, want := range map[string]int{"-1": -1, "-2147483648": -1 << 31, "0": 0, "3": 3, "19": 19, "2147483647": 1<<31 - 1, "2147483648": 1<<31 - 1, "-99999999999999999999": -1 << 31} {
		if got, err := ParseDelay(value); err != nil || got != want {
			t.Errorf("ParseDelay(%q) = %d, %v; want %d", value, got, err, want)
		}
	}
	for _, value := range []string{"", "3.5", "abc", " 3", "3 ", "0x3", "1e3", "３"} {
		if got, err := ParseDelay(value); !errors.Is(err, ErrBadDelay) {
			t.Errorf("ParseDelay(%q) = %d, %v; want ErrBadDelay", value, got, err)
		}
	}
}
