package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// Client is what producers, consumers and Admin share: one connection per
// broker, what is known about topics, and the heartbeat. Its methods may be
// called concurrently.
//
// Goroutines: one for heartbeats and route refresh, those of each connection,
// and those of its producers and consumers.
type Client struct {
	cfg         config
	nameServers []string
	current     atomic.Int32 // index of the name server that answered last
	ids         *message.UniqueIDs

	// ctx ends when Close has closed everything that may still need to talk.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // dials, route requests, heartbeats
	// connections counts those that run, replaced ones that end included. It
	// is added to by dials alone, so it can be waited for after wg.
	connections sync.WaitGroup

	// version counts changes of members; a connection whose broker heard of an
	// older one is told before it is used for a group's requests.
	version atomic.Int64

	routes routeTable

	mu        sync.Mutex
	told      map[string]bool // brokers that heard of this client before
	rejoined  time.Time       // when one of them last had to be told anew
	closed    bool            // Close has begun: no new members
	stopped   bool            // members are closed: no new goroutines and connections
	conns     map[string]*connSlot
	producers map[string]*Producer
	consumers map[string]groupMember
}

// connSlot is a connection being made, made, or failed.
type connSlot struct {
	ready chan struct{} // closed when conn or err is set
	conn  *conn
	err   error
}

// groupMember is a consumer of either kind, as heartbeats and the broker's
// requests see it.
type groupMember interface {
	heartbeat() consumerData
	// membersChanged says that the group must be divided anew.
	membersChanged()
	Close(ctx context.Context) error
}

// New returns a client of the cluster behind addrs: name servers of RocketMQ,
// or TideMQ brokers, each of which answers as a name server too. At least one
// "host:port"; the others are asked when one does not answer. Nothing is
// dialled yet. Errors wrap [ErrInvalidOption].
func New(addrs []string, opts ...Option) (*Client, error) {
	if len(addrs) == 0 {
		return nil, optionError("New", "no address", "at least one host:port")
	}
	cfg := defaultConfig()
	for _, a := range addrs {
		if err := validateAddr(a); err != nil {
			return nil, err
		}
	}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	ip := localIP()
	if cfg.clientID == "" {
		cfg.clientID = fmt.Sprintf("%s@%d#%016x", ip, os.Getpid(), rand.Uint64())
	}
	c := &Client{
		cfg:         cfg,
		nameServers: slices.Clone(addrs),
		ids:         message.NewUniqueIDs(ip),
		conns:       map[string]*connSlot{},
		told:        map[string]bool{},
		producers:   map[string]*Producer{},
		consumers:   map[string]groupMember{},
	}
	c.routes.init()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.background)
	return c, nil
}

// localIP is the address that shows in client and message ids; it tells
// machines apart and is never dialled.
func localIP() netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	best := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		if ip = ip.Unmap(); ok && ip.Is4() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			return ip
		}
	}
	return best
}

// ClientID is the id brokers know this client by.
func (c *Client) ClientID() string { return c.cfg.clientID }

// Close closes the producers and consumers made by this client and then the
// connections. ctx bounds how long it waits for handlers in hand and for
// asynchronous sends; committing and leaving the groups have a short time of
// their own, so a context that ended already gives a quick orderly end. It
// returns the errors of all steps joined. A further call returns nil.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	var members []interface{ Close(context.Context) error }
	for _, m := range c.consumers {
		members = append(members, m)
	}
	for _, p := range c.producers {
		members = append(members, p)
	}
	c.mu.Unlock()

	// Members first, at the same time: each still needs connections, to commit
	// and to leave its group.
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = m.Close(ctx) })
	}
	wg.Wait()

	// Then background work, which would make connections again, and last the
	// connections.
	c.mu.Lock()
	c.stopped = true
	slots := c.conns
	c.conns = map[string]*connSlot{}
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	for _, s := range slots {
		<-s.ready
		if s.conn != nil {
			wg.Go(s.conn.close)
		}
	}
	wg.Wait()
	c.connections.Wait()
	return errors.Join(errs...)
}

// connect returns the connection to addr, making one when there is none. ctx
// bounds the caller's waiting; the dial itself goes on for others.
func (c *Client) connect(ctx context.Context, addr string) (*conn, error) {
	c.mu.Lock()
	s := c.conns[addr]
	if s != nil {
		select {
		case <-s.ready:
			if s.conn != nil && s.conn.alive() {
				c.mu.Unlock()
				return s.conn, nil
			}
			s = nil
		default:
		}
	}
	if s == nil {
		fresh := &connSlot{ready: make(chan struct{})}
		if !c.spawnLocked(func() { c.dial(addr, fresh) }) {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		s = fresh
		c.conns[addr] = s
	}
	c.mu.Unlock()
	select {
	case <-s.ready:
		return s.conn, s.err
	case <-ctx.Done():
		return nil, contextError(ctx, "connection to "+addr)
	}
}

// spawnLocked starts a goroutine that Close waits for, unless it is too late.
func (c *Client) spawnLocked(f func()) bool {
	if c.stopped {
		return false
	}
	c.wg.Go(f)
	return true
}

func (c *Client) dial(addr string, s *connSlot) {
	defer close(s.ready)
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.requestTimeout)
	defer cancel()
	nc, err := c.cfg.dial(ctx, "tcp", addr)
	if err != nil {
		if c.ctx.Err() != nil {
			err = ErrClosed
		}
		s.err = connectionError(addr, err)
		c.cfg.log.Debug("connection failed", "addr", addr, "err", err)
		return
	}
	s.conn = newConn(addr, nc, c.cfg.log, c.serve)
	c.connections.Go(s.conn.run)
	c.cfg.log.Debug("connected", "addr", addr)
}

// roundTrip sends a request to addr and returns the answer, whatever its code.
// It takes at most the request timeout.
func (c *Client) roundTrip(ctx context.Context, addr string, req *remoting.Command) (*remoting.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.requestTimeout)
	defer cancel()
	cn, err := c.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	k, err := cn.start(ctx, req)
	if err != nil {
		return nil, err
	}
	return k.wait(ctx)
}

// request is roundTrip with any answer but success as a *BrokerError.
func (c *Client) request(ctx context.Context, addr string, req *remoting.Command) (*remoting.Command, error) {
	answer, err := c.roundTrip(ctx, addr, req)
	if err != nil {
		return nil, err
	}
	return answer, brokerError(addr, req.Code, answer)
}

// memberRequest is request for a group's business: the broker is told about
// the group first if it was not yet.
func (c *Client) memberRequest(ctx context.Context, addr string, req *remoting.Command) (*remoting.Command, error) {
	if _, err := c.announce(ctx, addr); err != nil {
		return nil, err
	}
	return c.request(ctx, addr, req)
}

// nameServerRequest asks name servers in turn until one answers, beginning with
// the one that answered last. make builds the request anew for each.
func (c *Client) nameServerRequest(ctx context.Context, build func() *remoting.Command) (*remoting.Command, error) {
	first := int(c.current.Load())
	var errs []error
	for i := range c.nameServers {
		at := (first + i) % len(c.nameServers)
		answer, err := c.request(ctx, c.nameServers[at], build())
		var be *BrokerError
		if err == nil || errors.As(err, &be) {
			c.current.Store(int32(at))
			return answer, err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// background sends heartbeats and keeps routes fresh.
func (c *Client) background() {
	beat := time.NewTicker(c.cfg.heartbeat)
	defer beat.Stop()
	refresh := time.NewTicker(c.cfg.routeRefresh)
	defer refresh.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-beat.C:
			c.heartbeatAll(c.ctx)
		case <-refresh.C:
			c.refreshRoutes(c.ctx)
		}
	}
}

// addProducer and addConsumer make a new member known.
func (c *Client) addProducer(p *Producer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if c.producers[p.cfg.group] != nil {
		return fmt.Errorf("%w: producer group %q", ErrGroupInUse, p.cfg.group)
	}
	c.producers[p.cfg.group] = p
	c.version.Add(1)
	return nil
}

func (c *Client) addConsumer(group string, m groupMember) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if c.consumers[group] != nil {
		return fmt.Errorf("%w: consumer group %q", ErrGroupInUse, group)
	}
	c.consumers[group] = m
	c.version.Add(1)
	return nil
}

func (c *Client) consumer(group string) groupMember {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.consumers[group]
}

// leave takes a group off this client and tells every broker connected.
func (c *Client) leave(ctx context.Context, producerGroup, consumerGroup string) error {
	c.mu.Lock()
	if producerGroup != "" {
		delete(c.producers, producerGroup)
	}
	if consumerGroup != "" {
		delete(c.consumers, consumerGroup)
	}
	c.version.Add(1)
	c.mu.Unlock()
	return c.eachBroker(func(cn *conn) error {
		if cn.heard.Load() == 0 {
			return nil
		}
		req := remoting.NewRequest(remoting.ReqUnregisterClient, remoting.Field{Key: "clientID", Value: c.cfg.clientID})
		if producerGroup != "" {
			req.Fields.Set("producerGroup", producerGroup)
		}
		if consumerGroup != "" {
			req.Fields.Set("consumerGroup", consumerGroup)
		}
		_, err := c.request(ctx, cn.addr, req)
		return err
	})
}

// eachBroker calls f for every live connection at the same time and joins the
// errors.
func (c *Client) eachBroker(f func(*conn) error) error {
	c.mu.Lock()
	var conns []*conn
	for _, s := range c.conns {
		select {
		case <-s.ready:
			if s.conn != nil && s.conn.alive() {
				conns = append(conns, s.conn)
			}
		default:
		}
	}
	c.mu.Unlock()
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	for i, cn := range conns {
		wg.Go(func() { errs[i] = f(cn) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func itoa[T int | int32 | int64](v T) string { return strconv.FormatInt(int64(v), 10) }
