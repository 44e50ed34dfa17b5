package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// newTable returns a writer of columns divided by tabs, numbers to the right.
// Flush it.
func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 8, 3, ' ', tabwriter.AlignRight)
}

// printJSON prints one value, indented, for programs and people alike.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printJSONLine prints one value on one line.
func printJSONLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// shortDuration shows a duration with as many digits as a person reads.
func shortDuration(d time.Duration) string {
	if d < 0 {
		return "-" + shortDuration(-d)
	}
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + "µs"
	case d < 100*time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + "ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

// timeLayout shows a time of day in ms, with its date.
const timeLayout = "2006-01-02 15:04:05.000"

// timeLayouts are what --to-time and --from take beside numbers and words, in
// the machine's time zone when they name none.
var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
	"2006-01-02#15:04:05.000", // RocketMQ's mqadmin, but for the last colon
}

const timeFormats = `a time such as 2026-03-01T08:00:00Z or "2026-03-01 08:00:00", ms since 1970, "now", or a time ago such as -10m`

// parseTime reads a point in time. The error says what is allowed.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		// A shorter number is a year or seconds, a longer one µs: not guessed at.
		if ms < 1e11 || ms >= 1e14 {
			return time.Time{}, fmt.Errorf("%q is no time in ms since 1970: 12 to 14 digits are expected", text)
		}
		return time.UnixMilli(ms), nil
	}
	if ago, ok := strings.CutPrefix(text, "-"); ok {
		if d, err := time.ParseDuration(ago); err == nil && d >= 0 {
			return now.Add(-d), nil
		}
	}
	layoutText := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && strings.Contains(text, "#") {
		layoutText = text[:i] + "." + text[i+1:]
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, layoutText, now.Location()); err == nil {
			if t.UnixMilli() < 0 {
				break
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: %s is expected", text, timeFormats)
}

// printable shows a body on one line: text as it is, anything else quoted,
// cut at most bytes.
func printable(body []byte, most int) string {
	rest := ""
	if len(body) > most {
		cut := most
		for cut > 0 && cut > most-utf8.UTFMax && !utf8.RuneStart(body[cut]) {
			cut--
		}
		rest = fmt.Sprintf("… (%d bytes)", len(body))
		body = body[:cut]
	}
	if utf8.Valid(body) && strings.IndexFunc(string(body), func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return string(body) + rest
	}
	return strconv.Quote(string(body)) + rest
}
