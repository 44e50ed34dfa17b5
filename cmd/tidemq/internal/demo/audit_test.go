package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var zero = time.UnixMilli(1_800_000_000_000)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

// tenSent are ten messages, seq 0 … 9, two at each level, due at their
// level's length plus their number in ms.
func tenSent() map[int]*outgoing {
	sent := map[int]*outgoing{}
	for seq := range 10 {
		level := levelOf(seq)
		sent[seq] = &outgoing{seq: seq, level: level, acked: true, due: zero.Add(lengths[level-1]).Add(time.Duration(seq) * time.Millisecond)}
	}
	return sent
}

// delivered are their records, each late by a millisecond, in one queue.
func delivered(sent map[int]*outgoing) []record {
	var list []record
	for seq := range len(sent) {
		list = append(list, record{seq: seq, offset: int64(seq), stored: sent[seq].due.Add(time.Millisecond), body: body(seq)})
	}
	return list
}

func TestCount(t *testing.T) {
	cases := []struct {
		name    string
		change  func(records []record) []record
		down    outage
		want    LevelReport // of all
		broken  string      // part of the first one, "" for none
		heldUp  int
		whileUp int
	}{
		{"all well", func(r []record) []record { return r }, outage{},
			LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 1, 1}}, "", 0, 10},
		{"the last one lost", func(r []record) []record { return r[:9] }, outage{},
			LevelReport{Sent: 10, Delivered: 9, Lost: 1, LateBy: Lateness{9, 1, 1, 1}}, "1 lost", 0, 9},
		{"nothing there", func([]record) []record { return nil }, outage{},
			LevelReport{Sent: 10, Lost: 10}, "10 lost", 0, 0},
		{"one twice", func(r []record) []record {
			again := r[3]
			again.offset = 10
			return append(r, again)
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, Duplicated: 1, LateBy: Lateness{10, 1, 1, 1}}, "1 duplicated", 0, 10},
		{"one early", func(r []record) []record {
			r[4].stored = r[4].stored.Add(-2 * time.Millisecond)
			return r
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, Early: 1, LateBy: Lateness{10, 1, 1, 1}}, "1 early", 0, 10},
		{"exactly on time is not early", func(r []record) []record {
			r[4].stored = r[4].stored.Add(-time.Millisecond)
			return r
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 1, 1}}, "", 0, 10},
		{"a gap in the offsets", func(r []record) []record {
			r[9].offset = 12
			return r
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 1, 1}}, "queue 0 has offset 12 after 8", 0, 10},
		{"a queue that does not begin at 0", func(r []record) []record {
			r[9].queue, r[9].offset = 1, 1
			return r
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 1, 1}}, "queue 1 has offset 1 after -1", 0, 10},
		{"another body", func(r []record) []record {
			r[2].body = "else"
			return r
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 1, 1}}, "message 2 arrived changed", 0, 10},
		{"never sent", func(r []record) []record {
			return append(r, record{seq: 77, offset: 10, body: "stray"})
		}, outage{}, LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 1, 1}}, "never sent", 0, 10},
		{"an outage", func(r []record) []record {
			for _, seq := range []int{1, 6} { // level 2 is due at 4001 and 4006
				r[seq].stored = at(5000)
			}
			return r
		}, outage{at(4001), at(4990)}, LevelReport{Sent: 10, Delivered: 10, LateBy: Lateness{10, 1, 999, 999}}, "", 2, 8},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sent := tenSent()
			r := count(sent, c.change(delivered(sent)), c.down)
			r.judge()
			if diff := cmp.Diff(c.want, r.All); diff != "" {
				t.Errorf("all levels (-want +got):\n%s", diff)
			}
			if (len(r.Broken) > 0) != (c.broken != "") || c.broken != "" && !strings.Contains(r.Broken[0], c.broken) {
				t.Errorf("broken is %q, want %q", r.Broken, c.broken)
			}
			if r.HeldUp.Count != c.heldUp || r.WhileUp.Count != c.whileUp {
				t.Errorf("%d held up and %d not, want %d and %d", r.HeldUp.Count, r.WhileUp.Count, c.heldUp, c.whileUp)
			}
		})
	}
}

func TestCountDueWhileDown(t *testing.T) {
	sent := tenSent()
	// Due at 4001 and 4006: one before the broker was gone, one after.
	if got := count(sent, delivered(sent), outage{at(4002), at(4010)}).DueWhileDown; got != 1 {
		t.Errorf("%d came due while it was down, want 1", got)
	}
}

func TestBrokenIsBounded(t *testing.T) {
	sent := tenSent()
	var records []record
	for i := range 100 {
		records = append(records, record{seq: 1000 + i, offset: int64(i)})
	}
	r := count(sent, records, outage{})
	r.judge()
	if n := len(r.Broken); n != maxBroken+2 || r.Broken[n-1] != "and 80 more" {
		t.Errorf("%d broken, the last is %q; want %d and \"and 80 more\"", n, r.Broken[n-1], maxBroken+2)
	}
}

func TestSummarize(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	cases := []struct {
		late []time.Duration
		want Lateness
	}{
		{nil, Lateness{}},
		{[]time.Duration{7 * time.Millisecond}, Lateness{1, 7, 7, 7}},
		{[]time.Duration{3 * time.Millisecond, time.Millisecond}, Lateness{2, 1, 3, 3}},
		{hundred, Lateness{100, 50, 99, 100}},
	}
	for _, c := range cases {
		n := len(c.late)
		if diff := cmp.Diff(c.want, summarize(c.late)); diff != "" {
			t.Errorf("summarize of %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestBatches(t *testing.T) {
	sent := tenSent()
	down := outage{at(4001), at(4990)}
	got := batches([]arrival{
		{5, at(2006)}, {0, at(2001)}, {1, at(5000)}, {6, at(5000)}, {2, at(6002)}, {99, at(1)},
	}, sent, down)
	var lines []string
	for _, b := range got {
		lines = append(lines, fmt.Sprintf("level %d: %d, due %d to %d, held up %v", b.level, b.n, b.first.Sub(zero).Milliseconds(), b.last.Sub(zero).Milliseconds(), b.heldUp))
	}
	want := []string{
		"level 1: 2, due 2000 to 2005, held up false",
		"level 2: 2, due 4001 to 4006, held up true",
		"level 3: 1, due 6002 to 6002, held up false",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

func TestScreen(t *testing.T) {
	var plain, colored strings.Builder
	sent := tenSent()
	broken := count(sent, delivered(sent)[:9], outage{})
	broken.judge()
	whole := count(sent, delivered(sent), outage{})
	whole.judge()
	for _, out := range []struct {
		screen screen
		text   *strings.Builder
	}{{screen{out: &plain, zero: zero}, &plain}, {screen{out: &colored, color: true, zero: zero}, &colored}} {
		out.screen.report(&broken)
		out.screen.report(&whole)
		for _, part := range []string{"PROMISE BROKEN", "1 lost", "Nothing lost, nothing duplicated, nothing early."} {
			if !strings.Contains(out.text.String(), part) {
				t.Errorf("%q is not in\n%s", part, out.text)
			}
		}
	}
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(colored.String(), "\x1b[31mPROMISE BROKEN") {
		t.Error("colours are not where they were asked for, or where they were not")
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1 000", 1234567: "1 234 567", -999: "-999", -1000: "-1 000"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestRunRefusesOddNumbers(t *testing.T) {
	for _, n := range []int{0, MinMessages - 1, MaxMessages + 1} {
		if _, err := Run(t.Context(), Options{Messages: n}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(n)) {
			t.Errorf("Run with %d messages: %v, want an error that names the number", n, err)
		}
	}
}
