package broker

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// clientInfo is one client's membership on one connection.
type clientInfo struct {
	id       string
	conn     *conn
	language byte
	version  int
	seen     time.Time
}

// consumerGroup is a group with members on-line, as RocketMQ
// `ConsumerGroupInfo`. Its configuration is in the store, by name.
type consumerGroup struct {
	// What the latest heartbeat said, in RocketMQ's words.
	consumeType  string // CONSUME_PASSIVELY, CONSUME_ACTIVELY
	messageModel string // CLUSTERING, BROADCASTING
	fromWhere    string

	clients map[*conn]*clientInfo
	subs    map[string]*subscription
	// since is the end of the log when a member first subscribed a topic:
	// what has a higher address came afterwards.
	since map[string]int64
}

const (
	broadcasting = "BROADCASTING"
	clustering   = "CLUSTERING"
)

// registry knows which clients are on-line in which groups. In memory only:
// clients tell by heartbeats. A connection has at most one client per group.
//
// A connection that ended joins nothing any more (conn.left).
//
// Its methods return whom to tell that a group's members changed; the caller
// does, outside the registry's mutex.
type registry struct {
	mu        sync.RWMutex
	consumers map[string]*consumerGroup
	producers map[string]map[*conn]*clientInfo
}

// membersChanged is a group whose members or topics changed and the
// connections to tell.
type membersChanged struct {
	group string
	conns []*conn
}

// joinConsumer notes a heartbeat of a consumer, at that end of the log. subs is
// nil when the heartbeat left them out.
func (r *registry) joinConsumer(group, consumeType, model, fromWhere string, info *clientInfo, subs []*subscription, end int64) (membersChanged, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if info.conn.left {
		return membersChanged{}, false
	}
	g := r.consumers[group]
	if g == nil {
		g = &consumerGroup{clients: make(map[*conn]*clientInfo), subs: make(map[string]*subscription), since: make(map[string]int64)}
		if r.consumers == nil {
			r.consumers = make(map[string]*consumerGroup)
		}
		r.consumers[strings.Clone(group)] = g
	}
	if g.consumeType != consumeType || g.messageModel != model || g.fromWhere != fromWhere {
		g.consumeType, g.messageModel, g.fromWhere = strings.Clone(consumeType), strings.Clone(model), strings.Clone(fromWhere)
	}
	old := g.clients[info.conn]
	changed := old == nil || old.id != info.id
	g.clients[info.conn] = info
	if subs != nil && g.subscribe(subs, end) {
		changed = true
	}
	if !changed || model == broadcasting {
		return membersChanged{}, false
	}
	return g.notice(group), true
}

// subscribe takes over a heartbeat's subscriptions and reports whether topics
// came or went. A newer version replaces an older one, as RocketMQ
// `ConsumerGroupInfo.updateSubscription`.
func (g *consumerGroup) subscribe(subs []*subscription, end int64) bool {
	changed := false
	wanted := make(map[string]bool, len(subs))
	for _, s := range subs {
		wanted[s.topic] = true
		old := g.subs[s.topic]
		if old == nil {
			changed = true
			g.since[s.topic] = end
		}
		if old == nil || s.version > old.version {
			g.subs[s.topic] = s
		}
	}
	for topic := range g.subs {
		if !wanted[topic] {
			delete(g.subs, topic)
			delete(g.since, topic)
			changed = true
		}
	}
	return changed
}

func (g *consumerGroup) notice(group string) membersChanged {
	n := membersChanged{group: strings.Clone(group), conns: make([]*conn, 0, len(g.clients))}
	for c := range g.clients {
		n.conns = append(n.conns, c)
	}
	return n
}

// joinProducer notes a heartbeat of a producer.
func (r *registry) joinProducer(group string, info *clientInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if info.conn.left {
		return
	}
	m := r.producers[group]
	if m == nil {
		m = make(map[*conn]*clientInfo)
		if r.producers == nil {
			r.producers = make(map[string]map[*conn]*clientInfo)
		}
		r.producers[strings.Clone(group)] = m
	}
	m[info.conn] = info
}

// leave takes a connection out of a consumer and a producer group; either may
// be "".
func (r *registry) leave(c *conn, consumerGroup, producerGroup string) (membersChanged, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveProducerLocked(c, producerGroup)
	return r.leaveConsumerLocked(c, consumerGroup)
}

func (r *registry) leaveProducerLocked(c *conn, group string) {
	if m := r.producers[group]; m != nil {
		delete(m, c)
		if len(m) == 0 {
			delete(r.producers, group)
		}
	}
}

func (r *registry) leaveConsumerLocked(c *conn, group string) (membersChanged, bool) {
	g := r.consumers[group]
	if g == nil || g.clients[c] == nil {
		return membersChanged{}, false
	}
	delete(g.clients, c)
	if len(g.clients) == 0 {
		delete(r.consumers, group)
		return membersChanged{}, false
	}
	if g.messageModel == broadcasting {
		return membersChanged{}, false
	}
	return g.notice(group), true
}

// gone takes a closed connection out of every group.
func (r *registry) gone(c *conn) []membersChanged {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.left = true
	var changed []membersChanged
	for group := range r.producers {
		r.leaveProducerLocked(c, group)
	}
	for group := range r.consumers {
		if n, ok := r.leaveConsumerLocked(c, group); ok {
			changed = append(changed, n)
		}
	}
	return changed
}

// silent returns the connections of clients without a heartbeat since then.
func (r *registry) silent(since time.Time) []*conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var conns []*conn
	see := func(m map[*conn]*clientInfo) {
		for c, info := range m {
			if info.seen.Before(since) && !slices.Contains(conns, c) {
				conns = append(conns, c)
			}
		}
	}
	for _, g := range r.consumers {
		see(g.clients)
	}
	for _, m := range r.producers {
		see(m)
	}
	return conns
}

// clientIDs returns the ids of a group's members, sorted, each once: a client
// that reconnects may be here twice until its old connection ends, and must
// not be given queues twice.
func (r *registry) clientIDs(group string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.consumers[group]
	if g == nil {
		return nil
	}
	ids := make([]string, 0, len(g.clients))
	for _, info := range g.clients {
		ids = append(ids, info.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// subscriptionOf returns what a group wants of a topic, and whether the group
// has members on-line.
func (r *registry) subscriptionOf(group, topic string) (sub *subscription, model string, online bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.consumers[group]
	if g == nil {
		return nil, "", false
	}
	return g.subs[topic], g.messageModel, true
}

// subscribedSince returns the end of the log when the members on-line began to
// subscribe a topic.
func (r *registry) subscribedSince(group, topic string) (end int64, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.consumers[group]
	if g == nil {
		return 0, false
	}
	end, ok = g.since[topic]
	return end, ok
}

// groupView is a copy of a group's state.
type groupView struct {
	consumeType, messageModel, fromWhere string
	clients                              []*clientInfo // by id and address
	subs                                 []*subscription
}

// consumerGroup returns a group with members on-line.
func (r *registry) consumerGroup(group string) (groupView, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.consumers[group]
	if g == nil {
		return groupView{}, false
	}
	v := groupView{consumeType: g.consumeType, messageModel: g.messageModel, fromWhere: g.fromWhere, clients: sortedClients(g.clients)}
	for _, s := range g.subs {
		v.subs = append(v.subs, s)
	}
	slices.SortFunc(v.subs, func(a, b *subscription) int { return strings.Compare(a.topic, b.topic) })
	return v, true
}

// producerGroup returns the clients of a producer group.
func (r *registry) producerGroup(group string) []*clientInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sortedClients(r.producers[group])
}

// producer returns the connection of the producer with a client id, nil when
// there is none.
func (r *registry) producer(clientID string) *conn {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.producers {
		for c, info := range m {
			if info.id == clientID {
				return c
			}
		}
	}
	return nil
}

func sortedClients(m map[*conn]*clientInfo) []*clientInfo {
	list := make([]*clientInfo, 0, len(m))
	for _, info := range m {
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b *clientInfo) int {
		if n := strings.Compare(a.id, b.id); n != 0 {
			return n
		}
		return a.conn.remote.Compare(b.conn.remote)
	})
	return list
}

// producerGroups returns the names of all producer groups, sorted.
func (r *registry) producerGroups() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.producers))
}

// subscribers returns the groups on-line that subscribe to a topic, sorted.
func (r *registry) subscribers(topic string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var groups []string
	for name, g := range r.consumers {
		if g.subs[topic] != nil {
			groups = append(groups, name)
		}
	}
	slices.Sort(groups)
	return groups
}
