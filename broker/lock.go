package broker

import (
	"sync"
	"time"
)

// lockLifetime is how long a queue lock lasts without being renewed, as
// RocketMQ `RebalanceLockManager`. Clients renew every 20 s.
const lockLifetime = 60 * time.Second

// queueName is a queue as clients name it.
type queueName struct {
	Topic      string `json:"topic"`
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
}

// queueLock says which client reads a queue in order.
type queueLock struct {
	clientID string
	renewed  time.Time
}

// queueLocks holds the locks by which the members of a group that consume in
// order keep each other from a queue. They survive a lost connection until
// they expire: a member that comes back must find its queues locked for it. In
// memory only; after a restart members lock anew.
type queueLocks struct {
	mu     sync.Mutex
	groups map[string]map[queueName]queueLock
}

// lock takes or renews the locks a client asks for and returns those it holds
// afterwards.
func (l *queueLocks) lock(group, clientID string, queues []queueName, now time.Time) []queueName {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	if held == nil {
		held = make(map[queueName]queueLock)
		if l.groups == nil {
			l.groups = make(map[string]map[queueName]queueLock)
		}
		l.groups[group] = held
	}
	got := make([]queueName, 0, len(queues))
	for _, q := range queues {
		if old, ok := held[q]; ok && old.clientID != clientID && !old.expired(now) {
			continue
		}
		held[q] = queueLock{clientID: clientID, renewed: now}
		got = append(got, q)
	}
	return got
}

// unlock gives up the locks that the client holds among queues.
func (l *queueLocks) unlock(group, clientID string, queues []queueName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.groups[group]
	for _, q := range queues {
		if held[q].clientID == clientID {
			delete(held, q)
		}
	}
	if len(held) == 0 {
		delete(l.groups, group)
	}
}

// ordered reports whether a member of the group holds a lock now, which tells
// that the group consumes in order.
func (l *queueLocks) ordered(group string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.groups[group] {
		if !k.expired(now) {
			return true
		}
	}
	return false
}

// expire forgets the locks that nobody renewed.
func (l *queueLocks) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for group, held := range l.groups {
		for q, k := range held {
			if k.expired(now) {
				delete(held, q)
			}
		}
		if len(held) == 0 {
			delete(l.groups, group)
		}
	}
}

func (k queueLock) expired(now time.Time) bool { return now.Sub(k.renewed) > lockLifetime }
