package client

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// fakeCluster is a name server and brokers in memory, with as much behaviour
// as the client meets, and a script of faults. Delay levels are ignored: what
// is sent back is in the retry topic at once.
type fakeCluster struct {
	brokers []*fakeBroker

	mu     sync.Mutex
	topics map[string]int // queues per broker
	auto   bool           // sends create topics
}

type fakeBroker struct {
	c    *fakeCluster
	name string
	addr string
	wg   sync.WaitGroup
	stop chan struct{}
	l    net.Listener

	mu      sync.Mutex
	down    bool // new connections are refused
	conns   map[*fakeConn]bool
	queues  map[Queue][]message.Message
	min     map[Queue]int64
	arrived map[Queue]chan struct{}
	offsets map[string]map[Queue]int64 // by group
	members map[string]map[string]*fakeConn
	locks   map[Queue]string // client id
	script  map[int][]scripted
	got     []*remoting.Command
}

type fakeConn struct {
	b  *fakeBroker
	nc net.Conn
	w  *remoting.Writer
	id string // client id of the last heartbeat
}

// fault answers a request instead of the broker; nil means no answer at all.
// It may do something to the connection.
type fault func(*fakeConn, *remoting.Command) *remoting.Command

// scripted is a fault for the first request that when, if not nil, picks.
type scripted struct {
	when  func(*remoting.Command) bool
	fault fault
}

// newFakeCluster starts n brokers, "b0" …, on 127.0.0.1 with a port of their
// own each, for the length of a test.
func newFakeCluster(t testing.TB, n int) *fakeCluster {
	t.Helper()
	c, err := startFakeCluster(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func startFakeCluster(n int) (*fakeCluster, error) {
	c := &fakeCluster{topics: map[string]int{}}
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.close()
			return nil, err
		}
		b := c.addBroker(l.Addr().String())
		b.l = l
		b.wg.Go(func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				if !b.accept(nc) {
					nc.Close()
				}
			}
		})
	}
	return c, nil
}

// newPipeCluster is a cluster without a network, for synctest bubbles: dial
// connects to it.
func newPipeCluster(n int) (c *fakeCluster, dial Dialer) {
	c = &fakeCluster{topics: map[string]int{}}
	for i := range n {
		c.addBroker(fmt.Sprintf("127.0.0.1:%d", 1+i))
	}
	return c, func(_ context.Context, _, addr string) (net.Conn, error) {
		for _, b := range c.brokers {
			if b.addr == addr {
				here, there := net.Pipe()
				if b.accept(there) {
					return here, nil
				}
				here.Close()
			}
		}
		return nil, fmt.Errorf("dial %s: refused", addr)
	}
}

func (c *fakeCluster) addBroker(addr string) *fakeBroker {
	b := &fakeBroker{
		c: c, name: fmt.Sprintf("b%d", len(c.brokers)), addr: addr,
		stop: make(chan struct{}), conns: map[*fakeConn]bool{},
		queues: map[Queue][]message.Message{}, min: map[Queue]int64{}, arrived: map[Queue]chan struct{}{},
		offsets: map[string]map[Queue]int64{}, members: map[string]map[string]*fakeConn{},
		locks: map[Queue]string{}, script: map[int][]scripted{},
	}
	c.brokers = append(c.brokers, b)
	return b
}

func (c *fakeCluster) addrs() []string {
	var out []string
	for _, b := range c.brokers {
		out = append(out, b.addr)
	}
	return out
}

func (c *fakeCluster) createTopic(name string, queues int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[name] = queues
}

func (c *fakeCluster) deleteTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
}

func (c *fakeCluster) close() {
	for _, b := range c.brokers {
		b.shutdown()
	}
}

// accept serves a connection. It reports false when the broker is down.
func (b *fakeBroker) accept(nc net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return false
	}
	fc := &fakeConn{b: b, nc: nc, w: remoting.NewWriter(nc, remoting.WriterOptions{})}
	b.conns[fc] = true
	b.wg.Go(func() { b.serve(fc) })
	return true
}

// cut closes all connections, and refuses new ones until up.
func (b *fakeBroker) cut(down bool) {
	b.mu.Lock()
	b.down = down
	conns := slices.Collect(maps.Keys(b.conns))
	b.mu.Unlock()
	for _, fc := range conns {
		fc.nc.Close()
	}
}

func (b *fakeBroker) shutdown() {
	if b.l != nil {
		b.l.Close()
	}
	close(b.stop)
	b.cut(true)
	b.wg.Wait()
}

// next scripts the answer to the next request with this code; called again, to
// the one after.
func (b *fakeBroker) next(code int, f fault) { b.nextWhere(code, nil, f) }

// nextWhere scripts the answer to the next request with this code that when
// picks.
func (b *fakeBroker) nextWhere(code int, when func(*remoting.Command) bool, f fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script[code] = append(b.script[code], scripted{when, f})
}

// answer scripts a response code.
func (b *fakeBroker) answer(code, response int, remark string) {
	b.next(code, func(_ *fakeConn, req *remoting.Command) *remoting.Command { return req.Reply(response, remark) })
}

// requests returns the requests received with a code.
func (b *fakeBroker) requests(code int) []*remoting.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*remoting.Command
	for _, r := range b.got {
		if r.Code == code {
			out = append(out, r)
		}
	}
	return out
}

// stored returns what is in a queue.
func (b *fakeBroker) stored(topic string, queue int) []message.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.queues[Queue{topic, b.name, queue}])
}

// committed returns a group's offset, -1 if there is none.
func (b *fakeBroker) committed(group, topic string, queue int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.offsets[group][Queue{topic, b.name, queue}]; ok {
		return o
	}
	return -1
}

func (b *fakeBroker) serve(fc *fakeConn) {
	var held sync.WaitGroup
	defer func() {
		fc.nc.Close()
		_ = fc.w.Close()
		b.forget(fc)
		held.Wait()
	}()
	r := remoting.NewReader(fc.nc, 0)
	for {
		req, err := r.ReadCommand()
		if err != nil {
			return
		}
		if req.IsResponse() {
			b.mu.Lock()
			b.got = append(b.got, req)
			b.mu.Unlock()
			continue
		}
		b.mu.Lock()
		b.got = append(b.got, req)
		var f fault
		s := b.script[req.Code]
		if i := slices.IndexFunc(s, func(s scripted) bool { return s.when == nil || s.when(req) }); i >= 0 {
			f = s[i].fault
			b.script[req.Code] = slices.Delete(s, i, i+1)
		}
		b.mu.Unlock()
		// Pulls wait and faults may; the others are answered in order.
		work := func() {
			var answer *remoting.Command
			if f != nil {
				answer = f(fc, req)
			} else {
				answer = b.handle(fc, req)
			}
			if answer != nil && !req.IsOneway() {
				_ = fc.w.Write(answer)
			}
		}
		if f != nil || req.Code == remoting.ReqPullMessage {
			held.Go(work)
		} else {
			work()
		}
	}
}

// forget takes a connection that ended out of its groups.
func (b *fakeBroker) forget(fc *fakeConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, fc)
	for group, m := range b.members {
		for id, c := range m {
			if c == fc {
				delete(m, id)
				b.notifyLocked(group)
			}
		}
	}
}

// notifyLocked sends code 40 to a group's members.
func (b *fakeBroker) notifyLocked(group string) {
	for _, fc := range b.members[group] {
		n := remoting.NewRequest(remoting.ReqNotifyConsumerIDsChanged, remoting.Field{Key: "consumerGroup", Value: group})
		n.Flag |= remoting.FlagOneway
		_ = fc.w.Write(n)
	}
}

// toMembers sends a request to every member of a group.
func (b *fakeBroker) toMembers(group string, req func() *remoting.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, fc := range b.members[group] {
		_ = fc.w.Write(req())
	}
}
