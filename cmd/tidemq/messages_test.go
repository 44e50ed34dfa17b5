package main

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemq/tidemq/internal/remoting"
)

func TestProduceAndConsume(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	out := must(t, addr, "produce", "--topic", "orders", "--tag", "paid", "--key", "A,17", "--key", "B", "--property", "shop=1=2,3", "--json", `{"id":17}`)
	first := decode[sent](t, out)
	if diff := cmp.Diff(sent{Topic: "orders", Broker: "b1", Status: "ok"}, first,
		cmpopts.IgnoreFields(sent{}, "MessageID", "OffsetID", "QueueID")); diff != "" {
		t.Errorf("produce --json (-want +got):\n%s", diff)
	}
	if len(first.MessageID) != 32 || len(first.OffsetID) != 32 {
		t.Errorf("ids are %q and %q, want 32 digits each", first.MessageID, first.OffsetID)
	}
	before := time.Now()
	delayed := decode[sent](t, must(t, addr, "produce", "--topic", "orders", "--delay", "1s", "--json", "later"))
	if delayed.DelayLevel != 1 {
		t.Errorf("--delay 1s selects level %d, want 1", delayed.DelayLevel)
	}

	list := decodeLines[received](t, must(t, addr, "consume", "--topic", "orders", "--count", "2", "--timeout", patience.String(), "--json"))
	if len(list) != 2 {
		t.Fatalf("consume printed %d messages, want 2", len(list))
	}
	slices.SortFunc(list, func(a, b received) int { return a.StoreTime.Compare(b.StoreTime) })
	want := []received{
		{Topic: "orders", Broker: "b1", QueueID: first.QueueID, MessageID: first.MessageID, OffsetID: first.OffsetID, Tags: "paid",
			Keys: []string{"A,17", "B"}, Properties: map[string]string{"shop": "1=2,3"}, Body: `{"id":17}`},
		{Topic: "orders", Broker: "b1", QueueID: delayed.QueueID, MessageID: delayed.MessageID, Body: "later"},
	}
	ignore := cmpopts.IgnoreFields(received{}, "BornTime", "StoreTime", "WaitedMs", "QueueOffset")
	if diff := cmp.Diff(want[0], list[0], ignore); diff != "" {
		t.Errorf("first message (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[1], list[1], ignore, cmpopts.IgnoreFields(received{}, "OffsetID")); diff != "" {
		t.Errorf("delayed message (-want +got):\n%s", diff)
	}
	if early := before.Truncate(time.Millisecond).Add(time.Second); list[1].StoreTime.Before(early) || list[1].WaitedMs < 1000 {
		t.Errorf("the delayed message was stored at %v, before %v", list[1].StoreTime, early)
	}

	// A person's view, tags, and looking does not take anything.
	text := must(t, addr, "consume", "--topic", "orders", "--tags", "paid || sent", "--count", "1", "--timeout", patience.String())
	wantAll(t, "consume", text, "tag paid", "keys A,17 B", `{"id":17}`)
	if strings.Contains(text, "waited") {
		t.Errorf("a message without a delay is said to have waited: %s", text)
	}
}

func TestProduceSources(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	blob := string([]byte{0, 1, 2, 0xff, '\n'})
	if r := tidemqWith(t, addr, "one\n\ntwo\nthree", "produce", "--topic", "lines"); r.code != exitOK || strings.Count(r.stdout, "\n") != 3 {
		t.Errorf("lines: exit code %d, output %q, want three lines", r.code, r.stdout)
	}
	must(t, addr, "produce", "--topic", "file", "--file", writeFile(t, "blob", blob))
	if r := tidemqWith(t, addr, "a\nb\n", "produce", "--topic", "whole", "--file", "-", "--quiet"); r.code != exitOK || r.stdout != "" {
		t.Errorf("standard input as a whole, quietly: exit code %d, output %q", r.code, r.stdout)
	}
	must(t, addr, "produce", "--topic", "many", "--count", "300", "--quiet", "same")
	must(t, addr, "produce", "--topic", "help", "--", "help") // a body, not a command

	bodies := func(topic string, n int) []string {
		t.Helper()
		var list []string
		for _, m := range decodeLines[received](t, must(t, addr, "consume", "--topic", topic, "--count", fmt.Sprint(n), "--timeout", patience.String(), "--json")) {
			if m.BodyBase64 != "" {
				b, err := base64.StdEncoding.DecodeString(m.BodyBase64)
				if err != nil {
					t.Fatal(err)
				}
				m.Body = string(b)
			}
			list = append(list, m.Body)
		}
		slices.Sort(list)
		return list
	}
	for topic, want := range map[string][]string{
		"lines": {"one", "three", "two"},
		"file":  {blob},
		"whole": {"a\nb\n"},
		"many":  slices.Repeat([]string{"same"}, 300),
		"help":  {"help"},
	} {
		if diff := cmp.Diff(want, bodies(topic, len(want))); diff != "" {
			t.Errorf("bodies in %s (-want +got):\n%s", topic, diff)
		}
	}
}

func TestProduceRefusals(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	cases := []struct {
		name  string
		args  []string
		code  int
		parts []string
	}{
		{"no topic", []string{"x"}, exitUsage, []string{"--topic is missing"}},
		{"bad topic", []string{"--topic", "a b", "x"}, exitUsage, []string{`"a b"`}},
		{"long topic", []string{"--topic", strings.Repeat("t", 128), "x"}, exitUsage, []string{"128 bytes long, at most 127"}},
		{"empty body", []string{"--topic", "t", ""}, exitUsage, []string{"body is empty"}},
		{"two bodies", []string{"--topic", "t", "x", "y"}, exitUsage, []string{"2 bodies"}},
		{"flag after the body", []string{"--topic", "t", "x", "--level", "3"}, exitUsage, []string{"flags before it"}},
		{"level and delay", []string{"--topic", "t", "--level", "1", "--delay", "1s", "x"}, exitUsage, []string{"--level and --delay"}},
		{"negative level", []string{"--topic", "t", "--level", "-1", "x"}, exitUsage, []string{"--level is -1"}},
		{"no level of that length", []string{"--topic", "t", "--delay", "7s", "x"}, exitFailed, []string{`"7s"`, "1s 2s 1h"}},
		{"no length", []string{"--topic", "t", "--delay", "soon", "x"}, exitUsage, []string{`"soon"`}},
		{"property", []string{"--topic", "t", "-p", "novalue", "x"}, exitUsage, []string{`"novalue"`, "NAME=VALUE"}},
		{"count", []string{"--topic", "t", "--count", "0", "x"}, exitUsage, []string{"--count is 0"}},
		{"retries", []string{"--topic", "t", "--retries", "101", "x"}, exitUsage, []string{"--retries is 101", "0 to 100"}},
		{"no file", []string{"--topic", "t", "--file", "/does/not/exist"}, exitFailed, []string{"/does/not/exist"}},
		{"timer", []string{"--topic", "t", "-p", "TIMER_DELAY_MS=5000", "x"}, exitFailed, []string{"TIMER_DELAY_MS"}},
		{"system topic", []string{"--topic", "SCHEDULE_TOPIC_XXXX", "x"}, exitFailed, []string{"SCHEDULE_TOPIC_XXXX"}},
		{"address", []string{"--addr", "nowhere", "--topic", "t", "x"}, exitUsage, []string{`"nowhere"`, "HOST:PORT"}},
		{"nobody there", []string{"--addr", "127.0.0.1:1", "--topic", "t", "--retries", "0", "x"}, exitFailed, []string{"127.0.0.1:1", "refused", "tidemq serve"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := tidemq(t, addr, append([]string{"produce"}, c.args...)...)
			if r.code != c.code || r.stdout != "" {
				t.Errorf("exit code %d, standard output %q; want %d and nothing\n%s", r.code, r.stdout, c.code, r.stderr)
			}
			wantAll(t, "standard error", r.stderr, c.parts...)
		})
	}
}

func TestConsumeAsGroup(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	must(t, addr, "produce", "--topic", "t", "--count", "10", "--quiet", "x")
	take := func(n int) []received {
		t.Helper()
		return decodeLines[received](t, must(t, addr, "consume", "--topic", "t", "--group", "g", "--count", fmt.Sprint(n), "--timeout", patience.String(), "--json"))
	}
	// What one run printed the next does not, and nothing is left out.
	seen := map[string]bool{}
	for _, n := range []int{3, 1, 6} {
		list := take(n)
		if len(list) != n {
			t.Fatalf("consume --count %d printed %d messages", n, len(list))
		}
		for _, m := range list {
			if seen[m.MessageID] {
				t.Errorf("message %s was printed twice", m.MessageID)
			}
			seen[m.MessageID] = true
		}
	}
	r := tidemq(t, addr, "consume", "--topic", "t", "--group", "g", "--count", "1", "--timeout", "300ms")
	if r.code != exitFailed {
		t.Errorf("--count not reached gives exit code %d, want 1", r.code)
	}
	wantAll(t, "standard error", r.stderr, "0 of 1 messages")
	if r := tidemq(t, addr, "consume", "--topic", "t", "--group", "g", "--timeout", "300ms"); r.code != exitOK || r.stdout != "" {
		t.Errorf("without --count: exit code %d, output %q, want 0 and nothing", r.code, r.stdout)
	}
}

func TestConsumeFrom(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	must(t, addr, "produce", "--topic", "t", "old")
	old := decodeLines[received](t, must(t, addr, "consume", "--topic", "t", "--count", "1", "--timeout", patience.String(), "--json"))[0]
	// The next store time is a later one.
	for time.Now().UnixMilli() <= old.StoreTime.UnixMilli() {
		time.Sleep(time.Millisecond)
	}
	must(t, addr, "produce", "--topic", "t", "new")
	since := fmt.Sprint(old.StoreTime.UnixMilli() + 1)
	for _, args := range [][]string{{"--from", since}, {"--from", since, "--group", "g"}} {
		out := must(t, addr, append([]string{"consume", "--topic", "t", "--count", "1", "--timeout", patience.String(), "--json"}, args...)...)
		if m := decode[received](t, out); m.Body != "new" {
			t.Errorf("consume %q printed %q first, want the message stored later", args, m.Body)
		}
	}
	for _, args := range [][]string{{}, {"--group", "g2"}} {
		if out := must(t, addr, append([]string{"consume", "--topic", "t", "--from", "last", "--timeout", "300ms"}, args...)...); out != "" {
			t.Errorf("--from last %q printed %q", args, out)
		}
	}
	// A group that has been somewhere goes on there.
	out := must(t, addr, "consume", "--topic", "t", "--group", "g", "--from", "first", "--timeout", "300ms")
	if out != "" {
		t.Errorf("a group at the end printed %q with --from first", out)
	}
}

// A consumer that waits for its topic, for its messages, through a restart of
// the broker, and ends in good order.
func TestConsumeFollows(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "g"} {
		t.Run("group "+group, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := startServe(t, 1, "--data", dir, "--listen", "127.0.0.1:0")
			args := []string{"consume", "--addr", s.addrs[0], "--topic", "t"}
			if group != "" {
				args = append(args, "--group", group)
			}
			cmd := exec.Command(binary, args...)
			lines := collect(t, cmd)
			lines.await(t, "does not exist yet")
			must(t, s.addrs[0], "produce", "--topic", "t", "first")
			lines.await(t, "first")
			s.end(t, syscall.SIGKILL)
			s = startServe(t, 1, "--data", dir, "--listen", s.addrs[0])
			must(t, s.addrs[0], "produce", "--topic", "t", "second")
			lines.await(t, "second")
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := lines.wait(t); err != nil {
				t.Errorf("after SIGINT: %v, want exit code 0\n%s", err, lines.text())
			}
		})
	}
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	must(t, addr, "produce", "--topic", "t", "--count", "40", "--quiet", "x")
	must(t, addr, "consume", "--topic", "t", "--group", "g", "--count", "40", "--timeout", patience.String())

	show := func() remoting.TopicOffsets {
		t.Helper()
		body := decode[remoting.OffsetsBody](t, must(t, addr, "offsets", "show", "--group", "g", "--topic", "t", "--json"))
		if body.Group != "g" || len(body.Topics) != 1 {
			t.Fatalf("offsets show: %+v", body)
		}
		return body.Topics[0]
	}
	if got := show(); got.Lag != 0 || len(got.Queues) == 0 {
		t.Errorf("after all was read: %+v, want no lag", got)
	}
	wantAll(t, "offsets show", must(t, addr, "offsets", "show", "--group", "g"), "TOPIC", "COMMITTED", "group g: lag 0, 0 on-line")

	reset := func(args ...string) remoting.ResetBody {
		t.Helper()
		return decode[remoting.ResetBody](t, must(t, addr, append([]string{"offsets", "reset", "--group", "g", "--topic", "t", "--json"}, args...)...))
	}
	dry := reset("--to-earliest", "--dry-run")
	for _, q := range dry.Queues {
		if q.To != q.Min || q.From != q.Max {
			t.Errorf("dry run: %+v, want from the end to the beginning", q)
		}
	}
	if !dry.DryRun || show().Lag != 0 {
		t.Errorf("a dry run moved the group: %+v, lag %d", dry, show().Lag)
	}
	cases := []struct {
		args []string
		lag  int64
	}{
		{[]string{"--to-earliest"}, 40},
		{[]string{"--to-latest"}, 0},
		{[]string{"--to-offset", "3"}, 40 - 3*int64(len(dry.Queues))},
		{[]string{"--to-offset", "1000000"}, 0},
		{[]string{"--to-time", "-1h"}, 40},
		{[]string{"--to-time", "now"}, 0},
		{[]string{"--to-time", "2020-01-01"}, 40},
		{[]string{"--to-latest"}, 0},
		{[]string{"--to-earliest", "--queue", "0"}, dry.Queues[0].Max},
	}
	for _, c := range cases {
		reset(c.args...)
		if lag := show().Lag; lag != c.lag {
			t.Errorf("after offsets reset %q the lag is %d, want %d", c.args, lag, c.lag)
		}
	}

	// The group has its past again.
	reset("--to-earliest")
	must(t, addr, "consume", "--topic", "t", "--group", "g", "--count", "40", "--timeout", patience.String())
	wantAll(t, "offsets reset", must(t, addr, "offsets", "reset", "--group", "g", "--topic", "t", "--to-earliest"), "FROM", "group g moved in topic t")
	wantAll(t, "a dry run", must(t, addr, "offsets", "reset", "--group", "g", "--topic", "t", "--to-latest", "--dry-run"), "nothing was changed")
}

// A member on-line is told, and gets the past again without a restart.
func TestOffsetsResetWithMemberOnline(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	must(t, addr, "produce", "--topic", "t", "once more")
	cmd := exec.Command(binary, "consume", "--addr", addr, "--topic", "t", "--group", "g")
	lines := collect(t, cmd)
	lines.await(t, "once more")
	body := decode[remoting.ResetBody](t, must(t, addr, "offsets", "reset", "--group", "g", "--topic", "t", "--to-earliest", "--json"))
	if body.Told != 1 {
		t.Errorf("%d members were told, want 1", body.Told)
	}
	lines.await(t, "once more")
	shown := decode[remoting.OffsetsBody](t, must(t, addr, "offsets", "show", "--group", "g", "--json"))
	if len(shown.Members) != 1 || shown.Members[0].ClientID == "" {
		t.Errorf("members are %+v, want one", shown.Members)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	must(t, addr, "produce", "--topic", "t", "--level", "3", "--count", "5", "--quiet", "x")
	must(t, addr, "produce", "--topic", "t", "--level", "99", "above the table")
	body := decode[remoting.LevelsBody](t, must(t, addr, "levels", "--json"))
	if len(body.Levels) != 3 {
		t.Fatalf("%d levels, want 3: %+v", len(body.Levels), body.Levels)
	}
	l := body.Levels[2]
	if l.Level != 3 || l.QueueID != 2 || l.Delay != "1h" || l.DelayMs != 3_600_000 || l.Pending != 6 || l.Offset != 0 || l.LateByUs != 0 {
		t.Errorf("level 3 is %+v", l)
	}
	if due := time.UnixMicro(l.NextDueUs); due.Before(time.Now()) || due.After(time.Now().Add(time.Hour)) {
		t.Errorf("next due is %v, want within the hour", due)
	}
	text := must(t, addr, "levels", "--pending")
	wantAll(t, "levels", text, "LEVEL", "NEXT DUE", "LATE BY", "1h", "(in ", "6 pending")
	if strings.Count(text, "\n") != 3 {
		t.Errorf("levels --pending printed\n%s\nwant head, one level and the sum", text)
	}
}
