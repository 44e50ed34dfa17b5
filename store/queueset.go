package store

import (
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
)

// queueSet holds every consume queue, those of topics and those of levels.
// Dispatch adds and removes, anyone looks up.
type queueSet struct {
	files *queueFiles
	dir   string

	mu     sync.RWMutex
	topics map[string]map[int32]*queue
	levels map[int64]*level // by length in ms
}

// level is the queue of messages that wait for one length.
type level struct {
	delayMs int64
	q       *queue

	// assigned is the head as the writer has already given it out; its own.
	assigned int64

	mu   sync.RWMutex
	head int64 // first entry not delivered: this table is what the log says
}

func newQueueSet(files *queueFiles, dir string) *queueSet {
	return &queueSet{files: files, dir: dir, topics: map[string]map[int32]*queue{}, levels: map[int64]*level{}}
}

func (s *queueSet) queueDir(topic string, id int32) string {
	return filepath.Join(s.dir, topic, strconv.Itoa(int(id)))
}

// lookup returns a queue, or nil.
func (s *queueSet) lookup(topic string, id int32) *queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.topics[topic][id]
}

// get returns a queue, made when missing.
func (s *queueSet) get(topic string, id int32) *queue {
	if q := s.lookup(topic, id); q != nil {
		return q
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	topic = strings.Clone(topic) // it may borrow from a record
	queues := s.topics[topic]
	if queues == nil {
		queues = map[int32]*queue{}
		s.topics[topic] = queues
	}
	q := queues[id]
	if q == nil {
		q = newQueue(s.files, s.queueDir(topic, id), topic, id)
		queues[id] = q
	}
	return q
}

// level returns the level of a length, made when missing.
func (s *queueSet) level(delayMs int64) *level {
	if l := s.lookupLevel(delayMs); l != nil {
		return l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.levels[delayMs]
	if l == nil {
		dir := filepath.Join(s.dir, message.ScheduleTopic, strconv.FormatInt(delayMs, 10)+"ms")
		l = &level{delayMs: delayMs, q: newQueue(s.files, dir, "", 0)}
		s.levels[delayMs] = l
	}
	return l
}

func (s *queueSet) lookupLevel(delayMs int64) *level {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.levels[delayMs]
}

// dropTopic removes a topic's queues and their files.
func (s *queueSet) dropTopic(topic string) error {
	s.mu.Lock()
	queues := s.topics[topic]
	delete(s.topics, topic)
	s.mu.Unlock()
	var first error
	for _, q := range queues {
		if err := q.remove(); err != nil && first == nil {
			first = err
		}
	}
	if err := s.files.fs.RemoveAll(filepath.Join(s.dir, topic)); err != nil && first == nil {
		first = err
	}
	return first
}

// all returns every queue, levels included.
func (s *queueSet) all() []*queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*queue
	for _, queues := range s.topics {
		for _, q := range queues {
			out = append(out, q)
		}
	}
	for _, l := range s.levels {
		out = append(out, l.q)
	}
	return out
}

func (s *queueSet) allLevels() []*level {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*level, 0, len(s.levels))
	for _, l := range s.levels {
		out = append(out, l)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].delayMs < out[j].delayMs })
	return out
}

// advance moves the head past what a step left; it never goes back.
func (l *level) advance(head int64) {
	l.mu.Lock()
	l.head = max(l.head, head)
	l.mu.Unlock()
}

// headNow returns the head, never below the queue's first entry.
func (l *level) headNow() int64 {
	minimum, _ := l.q.bounds()
	l.mu.RLock()
	defer l.mu.RUnlock()
	return max(l.head, minimum)
}

// changed tells whether entry n is not e any more: it was carried, or left the
// queue. Retention lets it point elsewhere before its segment goes.
func (l *level) changed(n int64, e entry) bool {
	var buf [1]entry
	es, err := l.q.read(buf[:0], n, 1)
	return err == nil && (n < l.headNow() || len(es) != 1 || es[0] != e)
}

func (l *level) delay() time.Duration { return time.Duration(l.delayMs) * time.Millisecond }

// state reads head, end and the head's due time.
func (l *level) state() LevelState {
	head := l.headNow()
	_, next := l.q.bounds()
	st := LevelState{Delay: l.delay(), Head: head, Next: next}
	for n := head; n < next; n++ {
		es, err := l.q.read(nil, n, 1)
		if err != nil || len(es) == 0 {
			break
		}
		if !es[0].lost() { // else: look at the next one for a due time
			st.HeadDueUs = es[0].tags
			break
		}
		st.HeadDueUs = 1 // only lost entries: to be stepped over at once
	}
	return st
}

// Levels returns the state of every level queue that was ever used, by length.
func (s *Store) Levels() []LevelState {
	levels := s.queues.allLevels()
	out := make([]LevelState, len(levels))
	for i, l := range levels {
		out[i] = l.state()
	}
	return out
}

// Level returns one level's state, all zero but Delay when nothing was ever
// stored in it.
func (s *Store) Level(delay time.Duration) LevelState {
	l := s.queues.lookupLevel(delay.Milliseconds())
	if l == nil {
		return LevelState{Delay: delay}
	}
	return l.state()
}
