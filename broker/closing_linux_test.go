package broker

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemq/tidemq/internal/remoting"
)

// arrived waits until everything written is with the broker's machine:
// acknowledged, though perhaps not read by anybody.
func (c *rawClient) arrived() {
	c.t.Helper()
	raw, err := c.nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "written bytes are acknowledged", func() bool {
		var n int
		var ioctlErr error
		if err := raw.Control(func(fd uintptr) { n, ioctlErr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
			c.t.Fatal(err)
		}
		if ioctlErr != nil {
			c.t.Fatal(ioctlErr)
		}
		return n == 0
	})
}

// TestCloseTakesWhatArrived: consumers leave their last offsets by one-way
// requests and hang up, as RocketMQ's Go client does. A broker that is stopped
// at that moment takes what reached its machine and was not read yet; a send
// among it is refused with an answer.
func TestCloseTakesWhatArrived(t *testing.T) {
	const members, commits = 4, 300
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	c.createTopic("t", members)
	clients := make([]*rawClient, members)
	for q := range clients {
		clients[q] = dial(t, b)
		clients[q].beat("m", "g", "t")
		clients[q].sendMany("t", q, commits)
	}
	eventually(t, "every send has left its gate", func() bool {
		for _, c := range b.server.all() {
			c.gate.mu.Lock()
			n := c.gate.n
			c.gate.mu.Unlock()
			if n > 0 {
				return false
			}
		}
		return true
	})
	conns := b.server.all()
	for _, c := range conns {
		c.gate.enter(maxInFlightBytes) // at most one request more is read
	}
	var sends []chan *remoting.Command
	for q, c := range clients {
		for n := range int64(commits) {
			c.oneway(remoting.ReqUpdateConsumerOffset, commitFields("g", "t", q, n+1), nil)
		}
		if q%2 == 0 {
			sends = append(sends, c.start(remoting.ReqSendMessageV2, sendFields("t", q, ""), []byte("late")))
		}
		c.arrived()
		if q%2 == 1 {
			c.close()
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	for _, c := range conns {
		eventually(t, "the broker reads no more", c.in.closing.Load)
		c.gate.leave(maxInFlightBytes)
	}
	for _, ch := range sends {
		if resp := await(t, ch); resp.Code != remoting.ServiceNotAvailable {
			t.Errorf("a send at the close: %v", resp)
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	c = dial(t, startBroker(t, func(o *Options) { o.Dir = dir }))
	for q := range clients {
		if got := committed(t, c, "g", "t", q); got != commits {
			t.Errorf("queue %d: committed %d, want %d", q, got, commits)
		}
	}
}

// TestCloseIsNotHeldUp: a client that never stops sending does not keep the
// broker from closing.
func TestCloseIsNotHeldUp(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	c.sendMany("t", 0, 1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		frame, err := remoting.AppendCommand(nil, &remoting.Command{Code: remoting.ReqUpdateConsumerOffset, Flag: remoting.FlagOneway,
			Fields: commitFields("g", "t", 0, 1)})
		if err != nil {
			t.Error(err)
			return
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := c.nc.Write(frame); err != nil {
				return
			}
		}
	}()
	conns := b.server.all()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range conns {
		if got := c.in.arrived; got > maxArrived+64<<10 {
			t.Errorf("%d bytes were read after the broker began to close", got)
		}
	}
	close(stop)
	<-stopped
}
