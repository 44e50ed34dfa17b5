package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Route and cluster answers name broker addresses.
const (
	codeRoute   = 105
	codeCluster = 106
)

// proxy passes frames between clients and upstreams and hands each to keep.
// Its goroutines are one per listener and two per connection; Close ends them
// and waits.
type proxy struct {
	keep func(frame []byte, d description)

	mu        sync.Mutex
	listeners map[string]net.Listener // by upstream
	conns     map[net.Conn]struct{}
	closed    bool
	errs      []error

	wg sync.WaitGroup
}

// newProxy listens for each upstream on a free port of 127.0.0.1.
func newProxy(upstreams []string, keep func([]byte, description)) (*proxy, error) {
	p := &proxy{keep: keep, listeners: map[string]net.Listener{}, conns: map[net.Conn]struct{}{}}
	for _, u := range upstreams {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("listen for %s: %w", u, err)
		}
		p.listeners[u] = l
	}
	// Started only now: the table is read by them without the lock.
	for u, l := range p.listeners {
		p.wg.Go(func() { p.accept(u, l) })
	}
	return p, nil
}

// Addr is where clients reach upstream through this proxy.
func (p *proxy) Addr(upstream string) string { return p.listeners[upstream].Addr().String() }

// Close ends all connections and returns what went wrong on them.
func (p *proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, l := range p.listeners {
		l.Close()
	}
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return errors.Join(p.errs...)
}

func (p *proxy) accept(upstream string, l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		broker, err := net.Dial("tcp", upstream)
		if err != nil {
			// The client sees a broker that closes; that is what it would see without us.
			client.Close()
			continue
		}
		if !p.track(client, broker) {
			return
		}
		link := &link{proxy: p, asked: map[bool]map[int]int{true: {}, false: {}}}
		var both sync.WaitGroup
		both.Go(func() { p.note(link.pump(broker, client, true)) })
		both.Go(func() { p.note(link.pump(client, broker, false)) })
		p.wg.Go(func() {
			both.Wait()
			p.untrack(client, broker)
		})
	}
}

func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *proxy) untrack(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *proxy) note(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// link is one client connection and the one to its upstream.
type link struct {
	proxy *proxy

	mu    sync.Mutex
	asked map[bool]map[int]int // whether the client asked → opaque → request code
}

// pump passes frames from src to dst until either ends, then closes both
// directions by closing dst's writing side.
func (l *link) pump(dst, src net.Conn, fromClient bool) error {
	defer dst.Close()
	r := bufio.NewReaderSize(src, 64<<10)
	for {
		frame, err := readFrame(r)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || isReset(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the %s: %w", sender(fromClient), err)
		}
		d, body, err := describe(frame)
		if err != nil {
			return fmt.Errorf("frame from the %s: %w", sender(fromClient), err)
		}
		d.Sender = sender(fromClient)
		d.Request = l.request(d, fromClient)
		l.proxy.keep(frame, d)
		if !fromClient && (d.Request == codeRoute || d.Request == codeCluster) {
			frame = l.proxy.redirect(frame, body)
		}
		if _, err := dst.Write(frame); err != nil {
			return nil // the other side went away; its own pump ends by itself
		}
	}
}

// request remembers what was asked and finds it again for an answer.
func (l *link) request(d description, fromClient bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d.Flag&flagResponse == 0 {
		if d.Flag&flagOneway == 0 {
			l.asked[fromClient][d.Opaque] = d.Code
		}
		return d.Code
	}
	code, ok := l.asked[!fromClient][d.Opaque]
	if !ok {
		return -1
	}
	delete(l.asked[!fromClient], d.Opaque)
	return code
}

// redirect replaces the upstreams' addresses in body by the listeners'.
func (p *proxy) redirect(frame, body []byte) []byte {
	head := frame[:len(frame)-len(body)]
	for upstream, listener := range p.listeners {
		body = bytes.ReplaceAll(body, []byte(`"`+upstream+`"`), []byte(`"`+listener.Addr().String()+`"`))
	}
	changed := append(bytes.Clone(head), body...)
	binary.BigEndian.PutUint32(changed, uint32(len(changed)-4))
	return changed
}

func sender(client bool) string {
	if client {
		return "client"
	}
	return "broker"
}
