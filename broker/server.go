package broker

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// server accepts connections on several addresses and keeps them.
//
// Goroutines: one per listener, one per connection (conn.serve).
type server struct {
	b         *Broker
	listeners []net.Listener
	accepting sync.WaitGroup

	mu      sync.Mutex
	closing bool
	conns   map[*conn]struct{}
	serving sync.WaitGroup
}

// listen binds every address; none when one cannot be bound.
func (s *server) listen(addrs []string) error {
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			s.closeListeners()
			return fmt.Errorf("broker: listen on %s: %w", addr, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// accept starts serving.
func (s *server) accept() {
	s.conns = make(map[*conn]struct{})
	for _, l := range s.listeners {
		s.accepting.Go(func() { s.acceptLoop(l) })
	}
}

func (s *server) acceptLoop(l net.Listener) {
	const slowest = time.Second
	var pause time.Duration
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, or a peer that was gone at once: go on.
			pause = min(max(2*pause, 5*time.Millisecond), slowest)
			s.b.log.Error("accept failed", "addr", l.Addr(), "error", err, "retry", pause)
			time.Sleep(pause)
			continue
		}
		pause = 0
		s.mu.Lock()
		if s.closing {
			s.mu.Unlock()
			nc.Close()
			return
		}
		c := newConn(s.b, nc)
		s.conns[c] = struct{}{}
		s.serving.Go(func() {
			c.serve()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
		s.mu.Unlock()
	}
}

// stopAccepting closes the listeners; connections stay.
func (s *server) stopAccepting() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.closeListeners()
	s.accepting.Wait()
}

func (s *server) closeListeners() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// stopReading makes every connection end after what it has in hand.
func (s *server) stopReading() {
	for _, c := range s.all() {
		c.stopReading()
	}
}

// all returns the connections open now.
func (s *server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// waitFor waits until every connection ended, at most so long. It reports
// whether all did.
func (s *server) waitFor(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// cut closes the connections that are still open without waiting for them.
func (s *server) cut() {
	for _, c := range s.all() {
		c.nc.Close()
	}
}
