package main

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output collects what a program prints, line by line.
type output struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	read  int           // up to here await has looked
	wrote chan struct{} // poked by Write
	ended chan error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

// collect starts cmd, which is killed at the test's end, and collects both of
// its outputs.
func collect(t *testing.T, cmd *exec.Cmd) *output {
	t.Helper()
	o := &output{wrote: make(chan struct{}, 1), ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = o, o
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		o.ended <- cmd.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGKILL)
		<-gone
	})
	return o
}

// await waits for text behind what earlier calls waited for.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(patience)
	for {
		o.mu.Lock()
		at := bytes.Index(o.buf.Bytes()[o.read:], []byte(text))
		if at >= 0 {
			o.read += at + len(text)
		}
		o.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-o.wrote:
		case <-limit:
			t.Fatalf("%q was not printed; all that was:\n%s", text, o.text())
		}
	}
}

func (o *output) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-o.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the program does not end; it printed\n%s", o.text())
		return nil
	}
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	commands := [][]string{
		{"serve"}, {"produce"}, {"consume"}, {"levels"}, {"offsets"}, {"offsets", "show"}, {"offsets", "reset"}, {"demo"},
	}
	root := must(t, "", "--help")
	wantAll(t, "help", root, "Exit codes", "tidemq demo", "version")
	for _, c := range commands {
		wantAll(t, "help", root, c[0])
		text := must(t, "", append(c, "--help")...)
		wantAll(t, "help of "+strings.Join(c, " "), text, "tidemq "+strings.Join(c, " "), "Examples:", "USAGE")
		for line := range strings.Lines(text) {
			if strings.Contains(line, "default: false") {
				t.Errorf("help of %q has %q", c, line)
			}
		}
	}
	for _, args := range [][]string{{}, {"help"}, {"help", "serve"}, {"-h"}} {
		if out := must(t, "", args...); !strings.Contains(out, "USAGE") {
			t.Errorf("tidemq %q printed %q, want help", args, out)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		args  []string
		parts []string
	}{
		{[]string{"srve"}, []string{`no command "srve"`, `Did you mean "serve"?`}},
		{[]string{"x"}, []string{`no command "x"`}},
		{[]string{"--verbose"}, []string{"-verbose"}},
		{[]string{"serve", "--dat", "x"}, []string{"serve: ", "-dat"}},
		{[]string{"serve", "--data"}, []string{"serve: ", "-data"}},
		{[]string{"produce", "--level", "three", "--topic", "t", "x"}, []string{"produce: ", `"three"`}},
		{[]string{"consume"}, []string{"consume: --topic is missing"}},
		{[]string{"consume", "--topic", "t", "--count", "0"}, []string{"--count is 0"}},
		{[]string{"consume", "--topic", "t", "--timeout", "-1s"}, []string{"--timeout is -1s"}},
		{[]string{"consume", "--topic", "t", "--from", "noon"}, []string{`"noon"`, "first and last"}},
		{[]string{"consume", "--topic", "t", "--group", "a b"}, []string{`"a b"`}},
		{[]string{"consume", "--topic", "t", "--group", ""}, []string{"--group is missing"}},
		{[]string{"consume", "--topic", "t", "extra"}, []string{`"extra" is not expected`}},
		{[]string{"levels", "--addr", "host"}, []string{`"host"`, "HOST:PORT"}},
		{[]string{"levels", "--addr", "127.0.0.1:0"}, []string{"1 to 65535"}},
		{[]string{"offsets", "list"}, []string{`offsets: there is no command "list"`}},
		{[]string{"offsets", "show"}, []string{"offsets show: --group is missing"}},
		{[]string{"offsets", "reset", "--group", "g", "--topic", "t"}, []string{"0 of --to-time", "exactly one"}},
		{[]string{"offsets", "reset", "--group", "g", "--topic", "t", "--to-earliest", "--to-latest"}, []string{"2 of --to-time"}},
		{[]string{"offsets", "reset", "--group", "g", "--topic", "t", "--to-offset", "-1"}, []string{"--to-offset is -1"}},
		{[]string{"offsets", "reset", "--group", "g", "--topic", "t", "--to-time", "yesterday"}, []string{`"yesterday"`, "is expected"}},
		{[]string{"offsets", "reset", "--group", "g", "--to-latest"}, []string{"--topic is missing"}},
		{[]string{"offsets", "reset", "--group", "g", "--topic", "t", "--to-latest", "--queue", "-1"}, []string{"--queue is -1"}},
		{[]string{"demo", "--messages", "10"}, []string{"--messages is 10", "2500 to 50000"}},
		{[]string{"version", "now"}, []string{`"now"`}},
	}
	for _, c := range cases {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			r := tidemq(t, "127.0.0.1:1", c.args...)
			if r.code != exitUsage || r.stdout != "" {
				t.Errorf("exit code %d, standard output %q; want 2 and nothing\n%s", r.code, r.stdout, r.stderr)
			}
			wantAll(t, "standard error", r.stderr, c.parts...)
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	addr := testBroker(t)
	must(t, addr, "produce", "--topic", "t", "x")
	cases := []struct {
		name, addr string
		args       []string
		parts      []string
	}{
		{"nobody listens", "127.0.0.1:1", []string{"levels"}, []string{"127.0.0.1:1", "refused", "Is a broker running there?"}},
		{"no such group", addr, []string{"offsets", "show", "--group", "nobody"}, []string{"SUBSCRIPTION_GROUP_NOT_EXIST", "nobody"}},
		{"no such topic", addr, []string{"offsets", "reset", "--group", "g", "--topic", "none", "--to-latest"}, []string{"TOPIC_NOT_EXIST", "none"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := tidemq(t, c.addr, c.args...)
			if r.code != exitFailed || r.stdout != "" {
				t.Errorf("exit code %d, standard output %q; want 1 and nothing\n%s", r.code, r.stdout, r.stderr)
			}
			wantAll(t, "standard error", r.stderr, c.parts...)
		})
	}
	// One that answers is enough, and the environment is only a default.
	must(t, "127.0.0.1:1", "levels", "--addr", "127.0.0.1:1,"+addr)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	wantAll(t, "version", must(t, "", "version"), "tidemq ", "go1.")
	wantAll(t, "--version", must(t, "", "--version"), "tidemq version ")
	if b := decode[buildInfo](t, must(t, "", "version", "--json")); b.Version == "" || b.Go == "" || !strings.Contains(b.Platform, "/") {
		t.Errorf("version --json gives %+v", b)
	}
}
