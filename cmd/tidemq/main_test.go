package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds everything that a test waits for; nothing is decided by it
// on a machine that works.
const patience = 60 * time.Second

// binary is the program that the tests run.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tidemq-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "tidemq")
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
		os.Setenv("GORACE", "atexit_sleep_ms=10 "+os.Getenv("GORACE")) // a second by default, for every process
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is what one run of the program did.
type result struct {
	stdout, stderr string
	code           int
}

// tidemq runs the program with a broker's address in its environment ("" for
// none) and waits for its end.
func tidemq(t *testing.T, addr string, args ...string) result {
	t.Helper()
	return tidemqWith(t, addr, "", args...)
}

// tidemqWith gives it standard input too.
func tidemqWith(t *testing.T, addr, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	cmd.Env = append(os.Environ(), "TIDEMQ_ADDR="+addr)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("tidemq %q: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs the program, which must end with exit code 0, and returns standard
// output.
func must(t *testing.T, addr string, args ...string) string {
	t.Helper()
	r := tidemq(t, addr, args...)
	if r.code != exitOK {
		t.Fatalf("tidemq %q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// decode reads one JSON value, strictly.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("JSON %q: %v", text, err)
	}
	return v
}

// decodeLines reads one JSON value per line.
func decodeLines[T any](t *testing.T, text string) []T {
	t.Helper()
	var list []T
	for line := range strings.Lines(text) {
		list = append(list, decode[T](t, line))
	}
	return list
}

// server is a broker that runs as a process.
type server struct {
	cmd    *exec.Cmd
	addrs  []string
	exited chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// Write collects standard error.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *server) logText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// startServe runs "serve" until it is ready on n addresses. It is killed at the
// test's end if it still runs.
func startServe(t *testing.T, n int, args ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(binary, append([]string{"serve"}, args...)...), exited: make(chan struct{})}
	s.cmd.Stderr = s
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			lines <- scan.Text()
		}
		close(lines)
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		s.cmd.Process.Signal(syscall.SIGKILL)
		<-s.exited
		if t.Failed() {
			t.Logf("log of serve %q:\n%s", args, s.logText())
		}
	})
	limit := time.After(patience)
	for len(s.addrs) < n {
		select {
		case line, ok := <-lines:
			addr, ready := strings.CutPrefix(line, "tidemq ready on ")
			if !ok || !ready {
				t.Fatalf("serve %q printed %q (open %v), want a ready line\n%s", args, line, ok, s.logText())
			}
			s.addrs = append(s.addrs, addr)
		case <-limit:
			t.Fatalf("serve %q is not ready on %d addresses\n%s", args, n, s.logText())
		}
	}
	return s
}

// end sends a signal and returns the exit code, -1 for one ended by the signal.
func (s *server) end(t *testing.T, sig syscall.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("signal: %v", err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatalf("serve goes on after signal %v\n%s", sig, s.logText())
	}
	return s.cmd.ProcessState.ExitCode()
}

// broker starts a broker in a folder of its own, with a short level table, and
// returns its address.
func testBroker(t *testing.T) string {
	t.Helper()
	conf := writeFile(t, "broker.conf", "messageDelayLevel=1s 2s 1h\nbrokerName=b1\n")
	return startServe(t, 1, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--config", conf).addrs[0]
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantAll(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s is\n%s\nwant it to say %q", what, text, p)
		}
	}
}
