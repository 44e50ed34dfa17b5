package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemq/tidemq/cmd/tidemq/internal/demo"
)

// demoCommandIn runs the demo with its folder in dir.
func demoCommandIn(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return cmd
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("the demo left %v behind", left)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := demoCommandIn(dir, "--json")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s%s", err, out.String(), errs.String())
	}
	r := decode[demo.Report](t, out.String())
	if len(r.Broken) > 0 || r.All.Lost != 0 || r.All.Duplicated != 0 || r.All.Early != 0 ||
		r.All.Sent < demo.DefaultMessages || r.All.Delivered != r.All.Sent || r.Records != r.All.Sent {
		t.Errorf("report: %+v", r)
	}
	if r.PendingAtKill < 1000 || r.DueWhileDown < 1 || r.HeldUp.Count < 1 || len(r.Levels) != 5 {
		t.Errorf("%d pending at the kill, %d due while it was down, %d held up, %d levels",
			r.PendingAtKill, r.DueWhileDown, r.HeldUp.Count, len(r.Levels))
	}
	wantAll(t, "what a person sees", errs.String(), "levels   1 = 2s", "late by", "kill -9 ", "started again", "lost", "duplicated", "early",
		"p99", "Nothing lost, nothing duplicated, nothing early.")
	if strings.Contains(errs.String(), "\x1b") {
		t.Error("colours without a terminal")
	}
	wantEmpty(t, dir)
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := demoCommandIn(dir)
	lines := collect(t, cmd)
	lines.await(t, "all answered as stored")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := lines.wait(t); err == nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("interrupted demo: %v, want exit code 1\n%s", err, lines.text())
	}
	wantAll(t, "output", lines.text(), "interrupted")
	wantEmpty(t, dir)
}
