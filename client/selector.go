package client

import (
	"hash/fnv"
	"math/rand/v2"
	"sync/atomic"
)

// Selector chooses one of a topic's writable queues for a message and returns
// its index. queues is sorted, never empty, and must not be changed. A selector
// is called concurrently.
type Selector func(m *Message, queues []Queue) int

// RoundRobin takes the queues in turn, beginning somewhere.
func RoundRobin() Selector {
	var n atomic.Uint32
	n.Store(rand.Uint32())
	return func(_ *Message, queues []Queue) int {
		return int(n.Add(1) % uint32(len(queues)))
	}
}

// HashBy sends messages for which key returns the same string to the same
// queue, as long as the topic's queues stay the same.
func HashBy(key func(*Message) string) Selector {
	return func(m *Message, queues []Queue) int { return hashIndex(key(m), len(queues)) }
}

func hashIndex(key string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return int(h.Sum32() % uint32(n))
}
