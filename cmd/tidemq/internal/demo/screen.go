package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// screen writes what a person sees.
type screen struct {
	out   io.Writer
	color bool
	zero  time.Time // times are shown as seconds since then
}

// ANSI colours.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	amber = "33"
)

func (s *screen) paint(style, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (s *screen) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// at is a moment as it is shown in front of a line.
func (s *screen) at(t time.Time) string { return fmt.Sprintf("%6.2f s", t.Sub(s.zero).Seconds()) }

// levelName is a level with its length: "2 (4s)".
func levelName(level int) string { return fmt.Sprintf("%d (%s)", level, lengths[level-1]) }

func milliseconds(ms int64) string { return grouped(ms) + " ms" }

// grouped writes a number with a space between groups of three digits.
func grouped[T int | int64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

func (s *screen) arrivalHeader() {
	s.printf("%s\n", s.paint(dim, fmt.Sprintf("%8s   %-8s %7s   %-19s  %s", "at", "level", "arrived", "due", "late by")))
}

func (s *screen) arrivals(now time.Time, list []batch) {
	for _, b := range list {
		l := summarize(b.late)
		late := milliseconds(l.P50)
		if l.Max > l.P50 {
			late += ", at most " + milliseconds(l.Max)
		}
		if b.heldUp {
			late = s.paint(amber, late+"  – overdue, it was down")
		}
		s.printf("%s   %-8s %7s   %s – %s  %s\n", s.at(now), levelName(b.level), grouped(b.n), s.at(b.first), s.at(b.last), late)
	}
}

// event is a line about the broker.
func (s *screen) event(now time.Time, style, what, detail string) {
	s.printf("%s   %s   %s\n", s.at(now), s.paint(style, fmt.Sprintf("%-16s", what)), detail)
}

// report prints the final table.
func (s *screen) report(r *Report) {
	s.printf("\n%s\n\n", s.paint(bold, fmt.Sprintf("Counted from the %s records of topic %s, queue by queue", grouped(r.Records), topic)))
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 3, ' ', tabwriter.AlignRight)
	// The first column is to the left: all its cells have one width.
	fmt.Fprintf(table, "%-19s\tsent\tdelivered\tlost\tduplicated\tearly\tlate by p50\tp99\t\n", "level")
	row := func(name string, l LevelReport) {
		fmt.Fprintf(table, "%-19s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, grouped(l.Sent), grouped(l.Delivered),
			grouped(l.Lost), grouped(l.Duplicated), grouped(l.Early), milliseconds(l.LateBy.P50), milliseconds(l.LateBy.P99))
	}
	for _, l := range r.Levels {
		row(levelName(l.Level), l)
	}
	row("all", r.All)
	fmt.Fprint(table, "\t\t\t\t\t\t\t\t\n")
	part := func(name string, l Lateness) {
		fmt.Fprintf(table, "%-19s\t\t%s\t\t\t\t%s\t%s\t\n", name, grouped(l.Count), milliseconds(l.P50), milliseconds(l.P99))
	}
	part("while it ran", r.WhileUp)
	part("held up by the kill", r.HeldUp)
	table.Flush()
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, " \n")
		style := ""
		switch word := strings.TrimSpace(line); {
		case strings.HasPrefix(word, "level"):
			style = dim
		case strings.HasPrefix(word, "all "):
			style = bold
		}
		if style != "" {
			line = s.paint(style, line)
		}
		s.printf("%s\n", line)
	}
	s.printf("\nKilled with %s pending; down for %.2f s, ready %s after it was started again; %s came due meanwhile.\n",
		grouped(r.PendingAtKill), float64(r.DownMs)/1000, milliseconds(r.StartMs), grouped(r.DueWhileDown))
	if len(r.Broken) == 0 {
		s.printf("%s %s\n", s.paint(green, "Nothing lost, nothing duplicated, nothing early."), s.paint(dim, fmt.Sprintf("(%.1f s)", float64(r.TookMs)/1000)))
		return
	}
	s.printf("%s\n", s.paint(red, "PROMISE BROKEN:"))
	for _, b := range r.Broken {
		s.printf("   %s\n", b)
	}
}
