package crash

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// table is the level table of every broker here: levels 1, 2, 3.
const table = "1s 2s 3s"

// broker is one `tidemq serve` after the other on the same data and address.
type broker struct {
	t     *testing.T
	bin   string
	dir   string
	addr  string
	flush string
	log   *os.File // standard error of all of them

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd is gone
	starts int
}

// newBroker prepares a broker that is not started. When the test ends it is
// killed, if it runs; of a failed test the data directory is kept.
func newBroker(t *testing.T, rng *rand.Rand, flush string) *broker {
	t.Helper()
	b := &broker{t: t, dir: t.TempDir(), addr: freeAddr(t, rng), flush: flush}
	var err error
	if b.bin, err = binary(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "broker.conf"), []byte("messageDelayLevel="+table+"\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if b.log, err = os.Create(filepath.Join(b.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd != nil {
			_ = b.cmd.Process.Kill()
			<-b.exited
		}
		b.log.Close()
		if t.Failed() {
			b.keep()
		}
	})
	return b
}

// freeAddr returns a port that nothing listens on, below those that the system
// gives to outgoing connections: none of them may take it while the broker is
// down.
func freeAddr(t *testing.T, rng *rand.Rand) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rng.IntN(18000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// keep moves the directory to where it survives the test, and shows the end of
// the broker's log.
func (b *broker) keep() {
	b.t.Logf("the broker's log ends with:\n%s", b.tail())
	to, err := os.MkdirTemp("", "tidemq-crash-failed-")
	if err == nil {
		err = os.Rename(b.dir, filepath.Join(to, b.flush))
	}
	if err != nil {
		b.t.Logf("data not kept: %v", err)
		return
	}
	b.t.Logf("data and log kept in %s", filepath.Join(to, b.flush))
}

func (b *broker) tail() string {
	text, _ := os.ReadFile(b.log.Name())
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "")
}

// launch starts the process, by means of the words before it if there are any.
// The channel gives the line that it prints when it serves.
func (b *broker) launch(before ...string) <-chan string {
	b.t.Helper()
	words := append(before, b.bin, "serve", "--data", filepath.Join(b.dir, "data"), "--listen", b.addr, "--flush", b.flush,
		"--config", filepath.Join(b.dir, "broker.conf"))
	b.cmd = exec.Command(words[0], words[1:]...)
	// Not the file itself: a limit on the size of files is no limit on a pipe.
	b.cmd.Stderr = struct{ io.Writer }{b.log}
	b.cmd.SysProcAttr = sysProcAttr()
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.starts++
	ready, cmd, exited := make(chan string, 1), b.cmd, make(chan struct{})
	b.exited = exited
	go func() { // ends with the process
		line, _ := bufio.NewReader(out).ReadString('\n')
		ready <- line
		_ = cmd.Wait()
		close(exited)
	}()
	return ready
}

// start starts the process, as launch does, and waits until it serves.
func (b *broker) start(before ...string) {
	b.t.Helper()
	select {
	case line := <-b.launch(before...):
		if line != "tidemq ready on "+b.addr+"\n" {
			b.t.Fatalf("start %d: the broker prints %q:\n%s", b.starts, line, b.tail())
		}
	case <-time.After(limit):
		b.t.Fatalf("start %d: not ready within %v:\n%s", b.starts, limit, b.tail())
	}
}

// kill ends the process with SIGKILL. It must have run until then.
func (b *broker) kill() {
	b.t.Helper()
	_ = b.cmd.Process.Kill()
	<-b.exited
	if ws, ok := b.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		b.t.Errorf("start %d: the broker had ended by itself: %v", b.starts, b.cmd.ProcessState)
	}
}

// stop ends the process with SIGTERM, which it answers with exit code 0.
func (b *broker) stop() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Error(err)
	}
	select {
	case <-b.exited:
	case <-time.After(limit):
		b.t.Fatalf("no end within %v of SIGTERM", limit)
	}
	if !b.cmd.ProcessState.Success() {
		b.t.Errorf("stopped with %v", b.cmd.ProcessState)
	}
}

// running tells that the process has not ended.
func (b *broker) running() bool {
	select {
	case <-b.exited:
		return false
	default:
		return true
	}
}

// removeDerived deletes everything but the commit log and its epoch.
func (b *broker) removeDerived() {
	b.t.Helper()
	for _, name := range []string{"consumequeue", "checkpoint", "config"} {
		if err := os.RemoveAll(filepath.Join(b.dir, "data", name)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// checkLog fails on errors in the logs of all processes, but those that hold
// one of the expected texts, and returns how many lines hold one.
func (b *broker) checkLog(expected ...string) (found int) {
	b.t.Helper()
	text, err := os.ReadFile(b.log.Name())
	if err != nil {
		b.t.Fatal(err)
	}
	bad := 0
lines:
	for line := range strings.Lines(string(text)) {
		for _, s := range expected {
			if strings.Contains(line, s) {
				found++
				continue lines
			}
		}
		for _, s := range []string{"level=ERROR", "DATA RACE", "panic:", "fatal error:"} {
			if strings.Contains(line, s) {
				if bad++; bad <= 5 {
					b.t.Errorf("in the broker's log: %s", line)
				}
				break
			}
		}
	}
	return found
}
