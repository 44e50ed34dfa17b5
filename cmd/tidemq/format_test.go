package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("here", 2*3600)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, zone)
	good := map[string]time.Time{
		"now":                       now,
		"-90m":                      now.Add(-90 * time.Minute),
		"1772352000000":             time.UnixMilli(1772352000000),
		"2026-03-01T08:00:00Z":      time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC),
		"2026-03-01T08:00:00.25Z":   time.Date(2026, 3, 1, 8, 0, 0, 250e6, time.UTC),
		"2026-03-01T08:00:00+05:00": time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC),
		"2026-03-01 08:00:00":       time.Date(2026, 3, 1, 8, 0, 0, 0, zone),
		"2026-03-01 08:00:00.125":   time.Date(2026, 3, 1, 8, 0, 0, 125e6, zone),
		"2026-03-01T08:00":          time.Date(2026, 3, 1, 8, 0, 0, 0, zone),
		"2026-03-01":                time.Date(2026, 3, 1, 0, 0, 0, 0, zone),
		"2026-03-01#08:00:00:500":   time.Date(2026, 3, 1, 8, 0, 0, 500e6, zone),
	}
	for text, want := range good {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "noon", "2026", "1772352000", "1772352000000000", "-5", "10m", "--5m", "2026-02-30", "1960-01-01", "2026-03-01T25:00:00Z"} {
		if got, err := parseTime(text, now); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("parseTime(%q) = %v, %v; want an error that says what is expected", text, got, err)
		}
	}
}

func TestShortDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0µs", 999 * time.Microsecond: "999µs", 1500 * time.Microsecond: "1.5ms", 250 * time.Millisecond: "250ms",
		9950 * time.Millisecond: "9.9s", -1500 * time.Millisecond: "-1.5s", 3 * time.Minute: "3m0s", 26 * time.Hour: "26h0m0s",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("shortDuration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, body, want string
	}{
		{"text", `{"a": "größe"}`, `{"a": "größe"}`},
		{"lines", "a\nb", `"a\nb"`},
		{"terminal commands", "\x1b[2J", `"\x1b[2J"`},
		{"bytes", "\x00\xff", `"\x00\xff"`},
		{"long", strings.Repeat("x", 30), strings.Repeat("x", 20) + "… (30 bytes)"},
		{"cut between letters", strings.Repeat("x", 19) + "ößä", strings.Repeat("x", 19) + "… (25 bytes)"},
		{"empty", "", ""},
	}
	for _, c := range cases {
		if got := printable([]byte(c.body), 20); got != c.want {
			t.Errorf("%s: printable(%q) = %q, want %q", c.name, c.body, got, c.want)
		}
	}
}
