package broker

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	// defaultInFlight bounds the requests of one connection that are in hand,
	// maxInFlightBytes their bodies: beyond, the connection is not read on.
	defaultInFlight  = 4096
	maxInFlightBytes = 32 << 20
	// frameTimeout closes a connection that began a frame and does not end it.
	frameTimeout = 30 * time.Second
	// keepScratch is the largest body whose memory a connection keeps for its
	// next request.
	keepScratch = 256 << 10
	// maxArrived bounds what is still read of a connection when the broker
	// closes, so that a client that goes on sending does not hold it up.
	maxArrived = 4 << 20
)

// conn is one client's connection. Its goroutines: serve, which reads requests
// and runs those that need not wait; the Writer's; one per request that waits
// for the disk (apart); sendLane's while sends or commits wait. serve returns
// when all have ended.
type conn struct {
	b      *Broker
	nc     net.Conn
	reader *remoting.Reader
	in     *timedReader
	writer *remoting.Writer
	// scratch is the memory of the request in hand; a request that outlives
	// its handler takes it along (keep).
	scratch *remoting.Scratch

	remote netip.AddrPort
	// host is what offset message ids and routes name: the advertised address,
	// else the one the client came in by. hostText is its written form.
	host     netip.AddrPort
	hostText string

	gate gate
	lane sendLane
	work sync.WaitGroup
	// opaque numbers the requests that the broker sends.
	opaque atomic.Int32
	asks   asks

	// Pulls held for this connection; guarded by the holder's mutex.
	pulls        []*heldPull
	pullsDropped bool

	// ended is closed when no more is read of the connection.
	ended chan struct{}
	// left: the connection ended; guarded by the registry's mutex.
	left bool
}

func newConn(b *Broker, nc net.Conn) *conn {
	c := &conn{b: b, nc: nc, scratch: new(remoting.Scratch), ended: make(chan struct{})}
	c.remote = addrPort(nc.RemoteAddr())
	c.host = b.advertise
	if c.hostText = b.opts.Advertise; !c.host.IsValid() {
		c.host = addrPort(nc.LocalAddr())
		c.hostText = c.host.String()
	}
	c.in = &timedReader{nc: nc, idle: b.opts.IdleTimeout}
	c.reader = remoting.NewReader(c.in, 0)
	c.writer = remoting.NewWriter(nc, remoting.WriterOptions{})
	c.gate.init(b.opts.maxInFlight, maxInFlightBytes)
	return c
}

// addrPort returns a TCP address with an IPv4 address in its short form and
// without a zone, as records and ids have room for.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// serve reads requests until the connection ends or the broker closes, then
// waits for what is in hand, writes the answers that wait and closes.
func (c *conn) serve() {
	err := c.read()
	if !quietEnd(err) {
		c.b.log.Warn("connection closed", "remote", c.remote, "error", err)
	}
	close(c.ended)
	c.b.hold.drop(c)
	c.asks.end()
	c.b.notify(c.b.registry.gone(c))
	if !errors.Is(err, io.EOF) && !errors.Is(err, errClosing) {
		// Nobody reads the answers any more, but those written already may
		// still be on their way: closing the Writer first sends them.
		c.writer.Close()
		c.nc.Close()
	}
	c.gate.wait()
	c.work.Wait()
	c.writer.Close()
	c.nc.Close()
}

// read serves requests; it returns why it ended.
func (c *conn) read() error {
	for {
		// A peer that does not read its answers is not read either. What one
		// that is gone sent before still counts.
		if err := c.writer.Throttle(); err != nil && !remoting.PeerGone(err) {
			return err
		}
		c.gate.room()
		c.in.begin(c.reader.Buffered() > 0)
		req, err := c.reader.ReadInto(c.scratch)
		if err != nil {
			if c.in.closing.Load() {
				return errClosing
			}
			return err
		}
		if req.IsResponse() {
			c.keep()
			if !c.asks.answered(req) {
				c.b.log.Debug("answer nobody waits for", "remote", c.remote, "command", req)
			}
			continue
		}
		large := cap(req.Body) > keepScratch
		c.b.dispatch(c, req)
		if large {
			c.scratch = new(remoting.Scratch)
		}
	}
}

// keep lets the request in hand outlive its handler.
func (c *conn) keep() { c.scratch = new(remoting.Scratch) }

// stopReading makes serve end after the requests that have arrived: a client
// that committed and hung up waits for no answer and tells nobody again.
func (c *conn) stopReading() {
	c.in.closing.Store(true)
	c.nc.SetReadDeadline(time.Unix(1, 0))
}

// reply writes an answer to req, unless req wants none.
func (c *conn) reply(req, resp *remoting.Command) {
	if !req.IsOneway() {
		c.write(resp)
	} else if resp.Done != nil {
		resp.Done()
	}
}

// write queues a command. A command that cannot be encoded is answered as an
// error; the writer's own errors end the connection, which serve notices.
func (c *conn) write(cmd *remoting.Command) {
	err := c.writer.Write(cmd)
	if err == nil || !errors.Is(err, remoting.ErrEncode) {
		return
	}
	c.b.log.Error("answer cannot be encoded", "remote", c.remote, "command", cmd, "error", err)
	if cmd.IsResponse() {
		c.writer.Write(&remoting.Command{
			Code: remoting.SystemError, Language: cmd.Language, Version: cmd.Version, Opaque: cmd.Opaque,
			Flag: remoting.FlagResponse, Remark: err.Error(), HeaderType: remoting.HeaderJSON,
		})
	}
}

// tell sends a one-way request to the client.
func (c *conn) tell(cmd *remoting.Command) {
	cmd.Opaque = c.opaque.Add(1)
	cmd.Flag = remoting.FlagOneway
	c.write(cmd)
}

// errClosing is how serve's reading ends when the broker closes.
var errClosing = errors.New("broker is closing")

// quietEnd reports whether a connection ended as connections do.
func quietEnd(err error) bool {
	var frame *remoting.FrameError
	if errors.As(err, &frame) {
		return false
	}
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, errClosing) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, errFrameTimeout) || errors.As(err, &netErr)
}

// gate counts what a connection has in hand.
type gate struct {
	mu       sync.Mutex
	change   sync.Cond
	n, maxN  int
	bytes    int
	maxBytes int
}

func (g *gate) init(maxN, maxBytes int) {
	g.change.L = &g.mu
	g.maxN, g.maxBytes = maxN, maxBytes
}

// room waits until one more request may come in.
func (g *gate) room() {
	g.mu.Lock()
	for g.n >= g.maxN || g.bytes >= g.maxBytes {
		g.change.Wait()
	}
	g.mu.Unlock()
}

func (g *gate) enter(bytes int) {
	g.mu.Lock()
	g.n++
	g.bytes += bytes
	g.mu.Unlock()
}

func (g *gate) leave(bytes int) {
	g.mu.Lock()
	full := g.n >= g.maxN || g.bytes >= g.maxBytes
	g.n--
	g.bytes -= bytes
	if full || g.n == 0 {
		g.change.Broadcast()
	}
	g.mu.Unlock()
}

// wait waits until nothing is in hand.
func (g *gate) wait() {
	g.mu.Lock()
	for g.n > 0 {
		g.change.Wait()
	}
	g.mu.Unlock()
}

// budget bounds what all connections have in hand together. It costs two
// atomic operations while it is not used up.
type budget struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32

	mu     sync.Mutex
	change sync.Cond
}

func (g *budget) init(limit int64) {
	g.limit = limit
	g.change.L = &g.mu
}

// room waits until less than the limit is in use.
func (g *budget) room() {
	if g.used.Load() < g.limit {
		return
	}
	g.mu.Lock()
	g.waiting.Add(1)
	// Whoever leaves after this look sees waiting.
	for g.used.Load() >= g.limit {
		g.change.Wait()
	}
	g.waiting.Add(-1)
	g.mu.Unlock()
}

func (g *budget) enter(n int64) { g.used.Add(n) }

func (g *budget) leave(n int64) {
	if g.used.Add(-n) < g.limit && g.waiting.Load() > 0 {
		g.mu.Lock()
		g.change.Broadcast()
		g.mu.Unlock()
	}
}

// errFrameTimeout: a frame was begun and not ended in time.
var errFrameTimeout = errors.New("frame not ended in time")

// timedReader puts deadlines on a connection's reads: idle for the first byte
// of a frame, frameTimeout from there to its last, so that bytes that trickle
// do not keep half a frame alive. Once closing is set it reads what has arrived
// and then ends with errClosing.
type timedReader struct {
	nc      net.Conn
	idle    time.Duration
	closing atomic.Bool

	inFrame bool
	frameBy time.Time // when the frame must be complete
	set     time.Time // deadline in force
	arrived int       // bytes read since closing
}

// begin says that a frame is awaited, whose first bytes may be at hand.
func (t *timedReader) begin(buffered bool) {
	t.inFrame = buffered
	if buffered {
		t.frameBy = time.Time{}
	}
}

func (t *timedReader) Read(p []byte) (int, error) {
	now := time.Now()
	want := now.Add(t.idle)
	if t.inFrame {
		if t.frameBy.IsZero() {
			t.frameBy = now.Add(min(frameTimeout, t.idle))
		}
		want = t.frameBy
	}
	// Moving a deadline costs a timer: it may be earlier by an eighth.
	if want.Before(t.set) || want.Sub(t.set) > t.idle/8 {
		if err := t.nc.SetReadDeadline(want); err != nil {
			return 0, err
		}
		t.set = want
	}
	if t.closing.Load() { // after the deadline was moved, or stopReading's would be lost
		return t.readArrived(p)
	}
	n, err := t.nc.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && t.closing.Load() {
		return t.readArrived(p)
	}
	if n > 0 && !t.inFrame {
		t.inFrame = true
		t.frameBy = time.Time{}
	}
	var netErr net.Error
	if err != nil && t.inFrame && errors.As(err, &netErr) && netErr.Timeout() {
		err = errFrameTimeout
	}
	return n, err
}

// readArrived reads what the connection has received, and never waits. It asks
// the descriptor itself, as a deadline in the past, which is what ends a wait,
// keeps the connection's Read from looking.
func (t *timedReader) readArrived(p []byte) (n int, err error) {
	tcp, ok := t.nc.(syscall.Conn)
	if !ok || t.arrived >= maxArrived {
		return 0, errClosing
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	err = raw.Control(func(fd uintptr) {
		for {
			n, readErr = syscall.Read(int(fd), p)
			if readErr != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case readErr != nil || n <= 0: // nothing there, the peer hung up, or the connection is broken
		return 0, errClosing
	}
	t.arrived += n
	return n, nil
}
