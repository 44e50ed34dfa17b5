package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// Bits of a topic's permission, as RocketMQ PermName.
const (
	permWrite = 1 << 1
	permRead  = 1 << 2
)

const (
	masterID = 0
	// maxQueues bounds the queues of one topic at one broker, so that an
	// answer cannot make us list billions.
	maxQueues = 1 << 16
	// provisionalFor is how long the route of the default topic stands in for
	// that of a topic which the first send creates.
	provisionalFor = time.Second
	// keepUnused is how many refresh intervals a route is kept fresh after its
	// last use.
	keepUnused = 10
)

// route is what is known about one topic. It is not changed once made.
type route struct {
	topic       string
	queues      []queueData
	brokers     map[string]brokerData
	provisional bool // taken from the default topic
	fetched     time.Time
}

type queueData struct {
	Broker string `json:"brokerName"`
	Read   int    `json:"readQueueNums"`
	Write  int    `json:"writeQueueNums"`
	Perm   int    `json:"perm"`
}

type brokerData struct {
	Cluster string `json:"cluster"`
	Name    string `json:"brokerName"`
	// Addrs by broker id, which fastjson writes without quotes: 0 is the master.
	Addrs map[string]string `json:"brokerAddrs"`
}

// master returns the master's address, "" if there is none.
func (b brokerData) master() string { return b.Addrs[strconv.Itoa(masterID)] }

// reader returns an address to read from: the master's, or the replica with
// the lowest id.
func (b brokerData) reader() string {
	if a := b.master(); a != "" {
		return a
	}
	best := ""
	lowest := int64(-1)
	for id, addr := range b.Addrs {
		n, err := strconv.ParseInt(id, 10, 64)
		if err == nil && addr != "" && (lowest < 0 || n < lowest) {
			best, lowest = addr, n
		}
	}
	return best
}

func parseRoute(topic string, body []byte) (*route, error) {
	var data struct {
		Queues  []queueData  `json:"queueDatas"`
		Brokers []brokerData `json:"brokerDatas"`
	}
	if err := unmarshalLenient(body, &data); err != nil {
		return nil, fmt.Errorf("%w: route of %q: %w", ErrBadAnswer, topic, err)
	}
	r := &route{topic: topic, queues: data.Queues, brokers: map[string]brokerData{}, fetched: time.Now()}
	for _, q := range data.Queues {
		if q.Read < 0 || q.Read > maxQueues || q.Write < 0 || q.Write > maxQueues {
			return nil, fmt.Errorf("%w: route of %q: %d queues to read and %d to write at %q, at most %d",
				ErrBadAnswer, topic, q.Read, q.Write, q.Broker, maxQueues)
		}
	}
	for _, b := range data.Brokers {
		r.brokers[b.Name] = b
	}
	// Every member must see the same order.
	slices.SortFunc(r.queues, func(a, b queueData) int { return compareQueues(Queue{Broker: a.Broker}, Queue{Broker: b.Broker}) })
	return r, nil
}

// writable returns the queues that take messages: of brokers with a master.
func (r *route) writable() []Queue {
	return r.list(func(q queueData) int {
		if q.Perm&permWrite == 0 || r.brokers[q.Broker].master() == "" {
			return 0
		}
		return q.Write
	})
}

// readable returns the queues that may be read.
func (r *route) readable() []Queue {
	return r.list(func(q queueData) int {
		if q.Perm&permRead == 0 {
			return 0
		}
		return q.Read
	})
}

// list returns the queues in order, n of them at each broker.
func (r *route) list(n func(queueData) int) []Queue {
	var out []Queue
	for _, q := range r.queues {
		for id := range n(q) {
			out = append(out, Queue{Topic: r.topic, Broker: q.Broker, ID: id})
		}
	}
	return out
}

// masters returns the addresses of all masters, in the order of their names.
func (r *route) masters() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.brokers)) {
		if a := r.brokers[name].master(); a != "" {
			out = append(out, a)
		}
	}
	return out
}

// asTopic returns the default topic's route as that of a topic the first send
// will create.
func (r *route) asTopic(topic string, queues int) *route {
	p := &route{topic: topic, brokers: r.brokers, provisional: true, fetched: r.fetched}
	for _, q := range r.queues {
		q.Write = min(q.Write, queues)
		q.Read = min(q.Read, queues)
		p.queues = append(p.queues, q)
	}
	return p
}

// routeTable keeps the routes of topics in use.
type routeTable struct {
	mu      sync.Mutex
	byTopic map[string]*routeEntry
	brokers map[string]bool // addresses seen in any route
}

type routeEntry struct {
	route *route
	used  time.Time
	// began and ended count requests; fetching is not nil while one is under
	// way, and closed when it ends.
	began, ended int
	fetching     chan struct{}
	err          error // of the last request
}

func (t *routeTable) init() {
	t.byTopic = map[string]*routeEntry{}
	t.brokers = map[string]bool{}
}

// isBroker reports whether addr is a broker of any route seen.
func (t *routeTable) isBroker(addr string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.brokers[addr]
}

// route returns a topic's route, asking for it only if it is not known.
func (c *Client) route(ctx context.Context, topic string) (*route, error) {
	t := &c.routes
	t.mu.Lock()
	e := t.byTopic[topic]
	if e != nil && e.route != nil && !(e.route.provisional && time.Since(e.route.fetched) > provisionalFor) {
		e.used = time.Now()
		r := e.route
		t.mu.Unlock()
		return r, nil
	}
	t.mu.Unlock()
	return c.fetchRoute(ctx, topic)
}

// fetchRoute asks for a topic's route, known or not.
func (c *Client) fetchRoute(ctx context.Context, topic string) (*route, error) {
	c.routes.mu.Lock()
	defer c.routes.mu.Unlock()
	c.routes.entryLocked(topic).used = time.Now()
	return c.refetchLocked(ctx, topic)
}

func (t *routeTable) entryLocked(topic string) *routeEntry {
	e := t.byTopic[topic]
	if e == nil {
		e = &routeEntry{}
		t.byTopic[topic] = e
	}
	return e
}

// refetchLocked asks for a route without counting as a use of it. The request
// is one that begins after the call, so that it sees what the caller did just
// before; callers at the same time share it. A route known before stays when
// nobody answers, and goes when the topic does not exist any more. The lock is
// given up while it waits.
func (c *Client) refetchLocked(ctx context.Context, topic string) (*route, error) {
	t := &c.routes
	e := t.entryLocked(topic)
	for want := e.began + 1; e.ended < want; {
		if e.fetching == nil {
			c.mu.Lock()
			// A goroutine of the client's, so that no caller's context ends the
			// request for the others.
			ok := c.spawnLocked(func() { c.fetch(topic, e) })
			c.mu.Unlock()
			if !ok {
				return nil, ErrClosed
			}
			e.fetching = make(chan struct{})
			e.began++
		}
		done := e.fetching
		t.mu.Unlock()
		var err error
		select {
		case <-done:
		case <-ctx.Done():
			err = contextError(ctx, "route of "+topic)
		}
		t.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	if e.err != nil {
		return nil, e.err
	}
	return e.route, nil
}

func (c *Client) fetch(topic string, e *routeEntry) {
	r, err := c.askRoute(c.ctx, topic)
	t := &c.routes
	t.mu.Lock()
	defer t.mu.Unlock()
	e.err = err
	switch {
	case err == nil:
		e.route = r
		for _, b := range r.brokers {
			for _, addr := range b.Addrs {
				t.brokers[addr] = true
			}
		}
	case errors.Is(err, ErrTopicNotFound):
		e.route = nil
	}
	close(e.fetching)
	e.fetching = nil
	e.ended++
}

func (c *Client) askRoute(ctx context.Context, topic string) (*route, error) {
	answer, err := c.nameServerRequest(ctx, func() *remoting.Command {
		return remoting.NewRequest(remoting.ReqGetRouteInfoByTopic,
			remoting.Field{Key: "topic", Value: topic},
			remoting.Field{Key: "acceptStandardJsonOnly", Value: "true"})
	})
	if err != nil {
		return nil, fmt.Errorf("route of %q: %w", topic, err)
	}
	return parseRoute(topic, answer.Body)
}

// publishRoute is route for sending: a topic that does not exist gets the
// queues of the default topic, from which the broker creates it at the first
// send, if it may.
func (c *Client) publishRoute(ctx context.Context, topic string) (*route, error) {
	r, err := c.route(ctx, topic)
	if err == nil || !errors.Is(err, ErrTopicNotFound) || topic == message.TBW102 {
		return r, err
	}
	d, derr := c.route(ctx, message.TBW102)
	if errors.Is(derr, ErrTopicNotFound) {
		return nil, err // no topics are created: the first answer is the true one
	}
	if derr != nil {
		return nil, derr
	}
	r = d.asTopic(topic, c.cfg.defaultQueues)
	r.fetched = time.Now()
	t := &c.routes
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byTopic[topic]; e != nil && e.route == nil {
		e.route = r
	}
	return r, nil
}

// refreshRoutes asks again for the routes that were used lately and forgets
// the others.
func (c *Client) refreshRoutes(ctx context.Context) {
	t := &c.routes
	oldest := time.Now().Add(-keepUnused * c.cfg.routeRefresh)
	var topics []string
	t.mu.Lock()
	for topic, e := range t.byTopic {
		switch {
		case e.fetching != nil:
		case e.used.Before(oldest):
			delete(t.byTopic, topic)
		case e.route != nil:
			topics = append(topics, topic)
		}
	}
	t.mu.Unlock()
	for _, topic := range topics {
		t.mu.Lock()
		_, err := c.refetchLocked(ctx, topic)
		t.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			c.cfg.log.Debug("route not refreshed", "topic", topic, "err", err)
		}
	}
}

// brokerAddr returns where a queue's broker is reached. For reading a replica
// will do.
func (c *Client) brokerAddr(ctx context.Context, q Queue, write bool) (string, error) {
	r, err := c.route(ctx, q.Topic)
	if err != nil {
		return "", err
	}
	if a := r.addr(q.Broker, write); a != "" {
		return a, nil
	}
	if r, err = c.fetchRoute(ctx, q.Topic); err != nil {
		return "", err
	}
	if a := r.addr(q.Broker, write); a != "" {
		return a, nil
	}
	return "", fmt.Errorf("%w: topic %q is not at broker %q", ErrNoQueue, q.Topic, q.Broker)
}

func (r *route) addr(broker string, write bool) string {
	b := r.brokers[broker]
	if write {
		return b.master()
	}
	return b.reader()
}
