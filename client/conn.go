package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	// throttleAt is how many bytes may wait on a connection before senders
	// wait too. The Writer's own limit is out of reach: reaching it would cost
	// the connection, and what waits are bodies their senders hold anyway.
	throttleAt    = 8 << 20
	maxQueuedSend = 1 << 30

	// maxServed is how many requests of one broker are worked on at a time;
	// more are answered as busy.
	maxServed = 16
)

// conn is one connection to a broker or name server. Any number of goroutines
// may have requests under way; answers may come in any order and find theirs
// by opaque, which counts per connection. Goroutines: the one in run, which
// reads, the Writer's own, and one per request that the broker makes.
type conn struct {
	addr string
	nc   net.Conn
	w    *remoting.Writer
	log  *slog.Logger
	// serve works on a request of the broker, on a goroutine of its own.
	serve func(*conn, *remoting.Command)
	slots chan struct{} // one per request being served

	// heard is the version of the client's members that the broker was told
	// last; telling holds the right to tell it.
	heard   atomic.Int64
	telling chan struct{}

	mu      sync.Mutex
	opaque  int32
	pending map[int32]*call
	err     error         // why the connection ended
	done    chan struct{} // closed when it ended

	wg sync.WaitGroup // requests being served
}

// call is one request under way.
type call struct {
	conn    *conn
	request int
	opaque  int32
	answer  chan *remoting.Command // takes the one answer
}

func newConn(addr string, nc net.Conn, log *slog.Logger, serve func(*conn, *remoting.Command)) *conn {
	c := &conn{
		addr:    addr,
		nc:      nc,
		w:       remoting.NewWriter(nc, remoting.WriterOptions{MaxQueued: maxQueuedSend, Throttle: throttleAt}),
		log:     log.With("addr", addr),
		serve:   serve,
		slots:   make(chan struct{}, maxServed),
		telling: make(chan struct{}, 1),
		pending: map[int32]*call{},
		done:    make(chan struct{}),
	}
	return c
}

// run hands out what arrives until the connection ends, and returns when every
// goroutine of the connection has.
func (c *conn) run() {
	r := remoting.NewReader(c.nc, 0)
	for {
		cmd, err := r.ReadCommand()
		if err != nil {
			// The Writer may have closed the connection, and then it knows why.
			c.nc.Close()
			if werr := c.w.Close(); errors.Is(werr, remoting.ErrSlowPeer) {
				err = werr
			}
			c.end(connectionError(c.addr, err))
			c.wg.Wait()
			return
		}
		if cmd.IsResponse() {
			c.answered(cmd)
			continue
		}
		select {
		case c.slots <- struct{}{}:
			c.wg.Go(func() {
				defer func() { <-c.slots }()
				c.serve(c, cmd)
			})
		default:
			c.log.Warn("broker makes more requests than are served at a time", "request", cmd.String(), "limit", maxServed)
			c.reply(cmd, cmd.Reply(remoting.SystemBusy, fmt.Sprintf("client works on %d requests already", maxServed)))
		}
	}
}

func (c *conn) answered(cmd *remoting.Command) {
	c.mu.Lock()
	waiting := c.pending[cmd.Opaque]
	delete(c.pending, cmd.Opaque)
	c.mu.Unlock()
	if waiting == nil {
		// Its caller gave up, or the peer answered twice.
		c.log.Debug("answer without a request", "answer", cmd.String())
		return
	}
	waiting.answer <- cmd
}

// reply answers a request of the broker, unless it wants none.
func (c *conn) reply(request, answer *remoting.Command) {
	if request.IsOneway() {
		return
	}
	if err := c.w.Write(answer); err != nil {
		c.log.Debug("answer not sent", "answer", answer.String(), "err", err)
	}
}

// alive reports whether the connection has not ended.
func (c *conn) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// start sends a request. Its body must not change from here on. The caller
// calls wait exactly once.
func (c *conn) start(ctx context.Context, cmd *remoting.Command) (*call, error) {
	if err := c.throttle(ctx); err != nil {
		return nil, err
	}
	k := &call{conn: c, request: cmd.Code, answer: make(chan *remoting.Command, 1)}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	// After 2³¹ requests the count goes on below zero; a number still in use
	// by a long poll of before is passed over.
	for {
		c.opaque++
		if c.pending[c.opaque] == nil {
			break
		}
	}
	k.opaque = c.opaque
	c.pending[k.opaque] = k
	c.mu.Unlock()
	cmd.Opaque = k.opaque
	if err := c.write(cmd); err != nil {
		c.forget(k)
		return nil, err
	}
	return k, nil
}

// oneway sends a request that is not answered.
func (c *conn) oneway(ctx context.Context, cmd *remoting.Command) error {
	if err := c.throttle(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.opaque++
	cmd.Opaque = c.opaque
	c.mu.Unlock()
	cmd.Flag |= remoting.FlagOneway
	return c.write(cmd)
}

func (c *conn) write(cmd *remoting.Command) error {
	err := c.w.Write(cmd)
	if err == nil || errors.Is(err, remoting.ErrEncode) {
		return err
	}
	err = connectionError(c.addr, err)
	c.end(err)
	return err
}

// throttle waits while much is queued, until ctx ends.
func (c *conn) throttle(ctx context.Context) error {
	if c.w.Queued() <= throttleAt {
		return nil
	}
	// The goroutine outlives an impatient caller, but not the Writer, which
	// ends when the peer takes nothing for long.
	room := make(chan struct{})
	go func() {
		defer close(room)
		_ = c.w.Throttle() // an error meets the Write that follows
	}()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return contextError(ctx, "room to send to "+c.addr)
	}
}

func (c *conn) forget(k *call) {
	c.mu.Lock()
	if c.pending[k.opaque] == k {
		delete(c.pending, k.opaque)
	}
	c.mu.Unlock()
}

// wait returns the answer, whatever its code. An answer that comes after ctx
// ended is dropped.
func (k *call) wait(ctx context.Context) (*remoting.Command, error) {
	select {
	case cmd := <-k.answer:
		return cmd, nil
	case <-k.conn.done:
		select { // the answer may have come just before the end
		case cmd := <-k.answer:
			return cmd, nil
		default:
			return nil, k.conn.failure()
		}
	case <-ctx.Done():
		k.conn.forget(k)
		return nil, contextError(ctx, remoting.RequestName(k.request)+" to "+k.conn.addr)
	}
}

func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end closes the connection; calls under way fail with err. Only the first
// reason counts.
func (c *conn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	clear(c.pending)
	close(c.done)
	c.nc.Close()
}

// close writes what is queued – one-way requests may be – for at most a second
// and ends the connection. It does not wait for run.
func (c *conn) close() {
	closed := fmt.Errorf("%w: %s", ErrClosed, c.addr)
	patience := time.AfterFunc(time.Second, func() { c.end(closed) })
	_ = c.w.Close() // what could not be written was never promised
	patience.Stop()
	c.end(closed)
}

// requireText, requireInt64 read fields an answer must have.
func requireText(cmd *remoting.Command, key string) (string, error) {
	v, err := cmd.Fields.Require(key)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	return strings.Clone(v), nil
}

func requireInt64(cmd *remoting.Command, key string) (int64, error) {
	v, err := cmd.Fields.Int64(key)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	return v, nil
}
