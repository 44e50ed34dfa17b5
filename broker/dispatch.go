package broker

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tidemq/tidemq/internal/remoting"
)

// errPending tells the dispatcher that the answer comes later, from whoever
// took the request over; they leave the connection's gate.
var errPending = errors.New("answer comes later")

// serveFunc answers one request. It runs on the goroutine that reads the
// connection and must not wait there: when it would have to, and mayBlock is
// false, it returns errApart and is called again elsewhere with mayBlock true.
// nil says the answer was given, errPending that it will be; any other error
// is answered by answerTo. req is valid until serveFunc returns, unless
// conn.keep was called.
type serveFunc func(b *Broker, c *conn, req *remoting.Command, mayBlock bool) error

// handler is how a request code is served.
type handler struct {
	serve serveFunc
	// apart: always waits for the disk or does much work.
	apart bool
	// borrows: serve copies what it keeps of the request, whose memory the
	// connection then uses for the next one. For what comes most often.
	borrows bool
	// ordered: a send or a commit. Those of one connection reach the store in
	// the order they came, also when an earlier one has to wait: for its topic
	// or group to be created.
	ordered bool
	// late: served while the broker closes too, for as long as what arrived
	// before is read.
	late bool
}

// dispatch serves a request. It returns once the next may be read.
func (b *Broker) dispatch(c *conn, req *remoting.Command) {
	size := len(req.Body)
	c.gate.enter(size)
	h, known := handlerFor(req.Code)
	switch {
	case !known:
		b.finish(c, req, size, b.notSupported(req.Code))
		return
	case !b.serves(h):
		b.finish(c, req, size, b.notRunning())
		return
	case h.ordered:
		b.sends.room()
	case !h.borrows:
		c.keep()
	}
	err := errApart
	if !h.apart && !(h.ordered && c.lane.busy.Load()) {
		err = h.serve(b, c, req, false)
	}
	if err != errApart {
		b.finish(c, req, size, err)
		return
	}
	if h.borrows {
		c.keep()
	}
	if h.ordered {
		c.lane.add(b, c, req)
	} else {
		c.work.Go(func() { b.finish(c, req, size, h.serve(b, c, req, true)) })
	}
}

// serves reports whether requests of a kind are served now.
func (b *Broker) serves(h handler) bool {
	switch b.state.Load() {
	case stateRunning:
		return true
	case stateClosing:
		return h.late && b.tables != nil // nil: it never ran
	}
	return false
}

// finish answers an error and leaves the gate, unless the answer comes later.
func (b *Broker) finish(c *conn, req *remoting.Command, size int, err error) {
	if err == errPending {
		return
	}
	if err != nil {
		c.replyError(req, err)
	}
	c.gate.leave(size)
}

// replyError answers req with what answerTo makes of err.
func (c *conn) replyError(req *remoting.Command, err error) {
	code, remark := answerTo(err)
	resp := req.Reply(code, remark)
	var r *refusal
	if errors.As(err, &r) {
		resp.Fields = r.fields
	} else if code == remoting.SystemError {
		c.b.log.Warn("request failed", "remote", c.remote, "request", req, "error", err)
	}
	c.reply(req, resp)
}

// sendLane serves a connection's sends and commits in order while one of them
// waits. Its goroutine lives as long as they wait.
type sendLane struct {
	// busy: sends must go through the lane. Set by the goroutine that reads
	// the connection, cleared by the lane's when all before it were handed to
	// the store.
	busy atomic.Bool

	mu    sync.Mutex
	queue []*remoting.Command
}

func (l *sendLane) add(b *Broker, c *conn, req *remoting.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, req)
	if l.busy.Swap(true) {
		return
	}
	c.work.Go(func() {
		for {
			l.mu.Lock()
			if len(l.queue) == 0 {
				l.busy.Store(false)
				l.queue = nil
				l.mu.Unlock()
				return
			}
			next := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			h, _ := handlerFor(next.Code)
			b.finish(c, next, len(next.Body), h.serve(b, c, next, true))
		}
	})
}
