package interop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// levels is how many levels the table in conf has; level n is due after n
// seconds.
const levels = 8

const conf = `messageDelayLevel=1s 2s 3s 4s 5s 6s 7s 8s
brokerName=broker-a
defaultTopicQueueNums=8
transactionTimeOut=1000
transactionCheckInterval=1000
`

// foreign names the broker that runs already, if there is one; its name
// server's address. Such a broker is not ours to stop.
var foreign = os.Getenv("TIDEMQ_INTEROP_ADDR")

// broker is a `tidemq serve` of our own.
type broker struct {
	addr string // HOST:PORT of broker and name server; stays over restarts
	dir  string
	cmd  *exec.Cmd
	done chan error // the process's end, once
}

// ownBroker starts a broker for t alone, which t may stop and kill. It is
// stopped behind t and must then end with 0.
func ownBroker(t *testing.T) *broker {
	t.Helper()
	if foreign != "" {
		t.Skip("the broker at TIDEMQ_INTEROP_ADDR is not ours to stop")
	}
	b, err := newBroker(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd != nil {
			b.terminate(t)
		}
	})
	return b
}

func newBroker(dir string) (*broker, error) {
	if os.Getenv("TIDEMQ_BIN") == "" {
		return nil, errors.New("TIDEMQ_BIN names the tidemq binary, or TIDEMQ_INTEROP_ADDR a running broker")
	}
	b := &broker{addr: "127.0.0.1:0", dir: dir}
	if err := os.WriteFile(filepath.Join(dir, "broker.conf"), []byte(conf), 0o644); err != nil {
		return nil, err
	}
	return b, b.start()
}

// start returns when the broker says that it is ready.
func (b *broker) start() error {
	log, err := os.OpenFile(filepath.Join(b.dir, "broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(os.Getenv("TIDEMQ_BIN"), "serve", "--data", filepath.Join(b.dir, "data"), "--listen", b.addr,
		"--config", filepath.Join(b.dir, "broker.conf"))
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ready := make(chan string, 1)
	b.cmd, b.done = cmd, make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "tidemq ready on "); ok {
				ready <- addr
			}
		}
		b.done <- cmd.Wait()
	}()
	select {
	case b.addr = <-ready:
		return nil
	case err := <-b.done:
		b.cmd = nil
		return fmt.Errorf("the broker ended before it was ready: %v\n%s", err, b.logTail())
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		b.cmd = nil
		return fmt.Errorf("the broker was not ready within a minute\n%s", b.logTail())
	}
}

// end sends s and waits for the process to be gone.
func (b *broker) end(s os.Signal) error {
	cmd := b.cmd
	b.cmd = nil
	if err := cmd.Process.Signal(s); err != nil {
		return err
	}
	select {
	case err := <-b.done:
		return err
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		return fmt.Errorf("the broker did not end within a minute of %v\n%s", s, b.logTail())
	}
}

// terminate stops the broker by SIGTERM; it must end with 0.
func (b *broker) terminate(t *testing.T) {
	t.Helper()
	if err := b.end(syscall.SIGTERM); err != nil {
		t.Fatalf("broker after SIGTERM: %v\n%s", err, b.logTail())
	}
}

// kill stops the broker by SIGKILL.
func (b *broker) kill(t *testing.T) {
	t.Helper()
	var exit *exec.ExitError
	if err := b.end(syscall.SIGKILL); !errors.As(err, &exit) {
		t.Fatalf("broker after SIGKILL: %v", err)
	}
}

func (b *broker) restart(t *testing.T) {
	t.Helper()
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) logTail() string {
	log, err := os.ReadFile(filepath.Join(b.dir, "broker.log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.SplitAfter(log, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-20):], nil))
}
