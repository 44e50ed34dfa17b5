package broker

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/store"
)

// statistics count what comes in and goes out, for the tools that ask by the
// names of RocketMQ's `BrokerStatsManager` and `StoreStatsService`. In memory,
// from the start of the broker on.
//
// A topic's numbers count what came into its queues: a delayed message counts
// for SCHEDULE_TOPIC_XXXX when it is accepted and for its topic when it is
// delivered, once each.
type statistics struct {
	// Of the broker as a whole. put are messages that clients sent, get those
	// they were given; found and missed count pulls.
	put, get, found, missed flow
	putFailed               atomic.Int64
	putTimes                latency
	days                    dayTotals
	unsupported             codeCounts

	mu     sync.RWMutex
	topics map[string]*flow     // put into a topic's queues
	groups map[groupTopic]*flow // given to a group
	backs  map[groupTopic]*flow // sent back by a group
}

type groupTopic struct{ group, topic string }

// forgetIdle is how long a topic's or group's numbers stay when nothing
// changes them: beyond the longest window, all of them are 0.
const forgetIdle = 26 * time.Hour

func (s *statistics) init(now time.Time) {
	s.topics = make(map[string]*flow)
	s.groups = make(map[groupTopic]*flow)
	s.backs = make(map[groupTopic]*flow)
	for _, f := range []*flow{&s.put, &s.get, &s.found, &s.missed} {
		f.init(now)
	}
	s.days.roll(now, 0, 0)
}

// arrived counts what became visible in queues. It runs on the store's writer.
func (s *statistics) arrived(arrivals []store.Arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		flowOf(s, s.topics, a.Topic).add(a.Next-a.First, a.Bytes)
	}
}

// sent counts a batch that a client sent and how long the store took for it.
func (s *statistics) sent(messages []store.Message, err error, began time.Time) {
	if err != nil {
		s.putFailed.Add(1)
		return
	}
	var bytes, pending, pendingBytes int64
	for i := range messages {
		n := int64(len(messages[i].Record))
		bytes += n
		if messages[i].Delay > 0 {
			pending++
			pendingBytes += n
		}
	}
	s.put.add(int64(len(messages)), bytes)
	s.putTimes.add(time.Since(began))
	if pending > 0 {
		flowOf(s, s.topics, message.ScheduleTopic).add(pending, pendingBytes)
	}
}

// pulled counts the answer to a pull: the records that a group was given.
func (s *statistics) pulled(group, topic string, records [][]byte) {
	if len(records) == 0 {
		s.missed.add(1, 0)
		return
	}
	var bytes int64
	for _, r := range records {
		bytes += int64(len(r))
	}
	s.found.add(1, 0)
	s.get.add(int64(len(records)), bytes)
	flowOf(s, s.groups, groupTopic{group, topic}).add(int64(len(records)), bytes)
}

// sentBack counts a message that a group gave back.
func (s *statistics) sentBack(group, topic string) {
	flowOf(s, s.backs, groupTopic{group, topic}).add(1, 0)
}

// flowOf returns the numbers of a key, made when they are new. Keys may
// borrow.
func flowOf[K comparable](s *statistics, m map[K]*flow, key K) *flow {
	s.mu.RLock()
	f := m[key]
	s.mu.RUnlock()
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = m[key]; f == nil {
		f = new(flow)
		f.init(time.Now())
		m[cloneKey(key)] = f
	}
	return f
}

func cloneKey[K comparable](key K) K {
	switch k := any(&key).(type) {
	case *string:
		*k = strings.Clone(*k)
	case *groupTopic:
		k.group, k.topic = strings.Clone(k.group), strings.Clone(k.topic)
	}
	return key
}

// lookUp returns the numbers of a topic, or of a group in a topic; nil when
// there are none.
func (s *statistics) lookUp(kind flowKind, k groupTopic) *flow {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch kind {
	case topicPut:
		return s.topics[k.topic]
	case groupGet:
		return s.groups[k]
	}
	return s.backs[k]
}

type flowKind int

const (
	topicPut flowKind = iota
	groupGet
	groupBack
)

// sample takes the samples that are due, and forgets what nothing changes any
// more. Called each 10 s.
func (s *statistics) sample(now time.Time) {
	for _, f := range []*flow{&s.put, &s.get, &s.found, &s.missed} {
		f.sample(now)
	}
	s.days.roll(now, s.put.messages.Load(), s.get.messages.Load())
	s.mu.Lock()
	defer s.mu.Unlock()
	sampleAll(s.topics, now)
	sampleAll(s.groups, now)
	sampleAll(s.backs, now)
}

func sampleAll[K comparable](m map[K]*flow, now time.Time) {
	for k, f := range m {
		if f.sample(now); now.Sub(f.changed) > forgetIdle {
			delete(m, k)
		}
	}
}

// dropTopic forgets the numbers of a topic that was deleted.
func (s *statistics) dropTopic(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.topics, topic)
	for _, m := range []map[groupTopic]*flow{s.groups, s.backs} {
		for k := range m {
			if k.topic == topic {
				delete(m, k)
			}
		}
	}
}

// dropGroup forgets the numbers of a group that was deleted.
func (s *statistics) dropGroup(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []map[groupTopic]*flow{s.groups, s.backs} {
		for k := range m {
			if k.group == group {
				delete(m, k)
			}
		}
	}
}

// dayTotals remember the totals of the last two midnights, by the machine's
// time zone.
type dayTotals struct {
	mu                     sync.Mutex
	day                    int // of the year
	putYesterday, putToday int64
	getYesterday, getToday int64
}

func (d *dayTotals) roll(now time.Time, put, get int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	day := now.YearDay()
	if d.day == day {
		return
	}
	if d.day != 0 {
		d.putYesterday, d.getYesterday = d.putToday, d.getToday
		d.putToday, d.getToday = put, get
	}
	d.day = day
}

// codeCounts count requests by code.
type codeCounts struct {
	mu     sync.Mutex
	counts map[int]int64
	others int64 // of codes beyond maxCodes
}

// maxCodes bounds the codes that are counted each on its own.
const maxCodes = 64

func (c *codeCounts) add(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.counts[code]; !ok && len(c.counts) >= maxCodes {
		c.others++
		return
	}
	if c.counts == nil {
		c.counts = make(map[int]int64)
	}
	c.counts[code]++
}

// each calls f for every code in any order, -1 for those beyond maxCodes, and
// returns the sum.
func (c *codeCounts) each(f func(code int, n int64)) (sum int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for code, n := range c.counts {
		f(code, n)
		sum += n
	}
	if c.others > 0 {
		f(-1, c.others)
	}
	return sum + c.others
}
