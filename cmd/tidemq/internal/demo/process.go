package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 10 * time.Second
	stopLimit  = 10 * time.Second
	readyWords = "tidemq ready on "
)

// process is a broker that runs as a process of its own.
type process struct {
	cmd    *exec.Cmd
	addr   string
	exited chan struct{} // closed when the process is gone
	err    error         // of Wait; read after exited
}

// start runs "BINARY serve" on addr and waits until it is ready. Its log goes
// to logFile.
func start(ctx context.Context, binary, dir, config, addr string, logFile *os.File) (*process, error) {
	cmd := exec.Command(binary, "serve", "--data", dir, "--config", config, "--listen", addr)
	cmd.Stderr = logFile
	cmd.SysProcAttr = sysProcAttr()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	ready := make(chan string, 1)
	go func() { // ends with the process
		s := bufio.NewScanner(out)
		for s.Scan() {
			if a, ok := strings.CutPrefix(s.Text(), readyWords); ok {
				select {
				case ready <- a:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, out)
		p.err = cmd.Wait()
		close(p.exited)
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case p.addr = <-ready:
		return p, nil
	case <-p.exited:
		err = fmt.Errorf("it ended before it was ready: %v", p.err)
	case <-limit.C:
		err = fmt.Errorf("it was not ready after %v", startLimit)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.kill()
	return nil, fmt.Errorf("start the broker: %w", err)
}

// kill ends the process with SIGKILL and waits until it is gone. It may be gone
// already.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.exited
}

// stop ends the process with SIGTERM. It must answer that with exit code 0.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		p.kill()
		return fmt.Errorf("the broker did not stop within %v of SIGTERM", stopLimit)
	}
	if p.err != nil {
		return fmt.Errorf("the broker did not stop cleanly: %w", p.err)
	}
	return nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }
