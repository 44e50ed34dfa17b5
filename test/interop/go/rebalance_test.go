package interop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// sendRound sends n messages, in turn to each queue, and returns their keys.
func sendRound(t *testing.T, p rocketmq.Producer, queues []*primitive.MessageQueue, prefix string, n int) []string {
	t.Helper()
	var keys []string
	for i := range n {
		m := newMessage(queues[0].Topic, "Tag", fmt.Sprint(prefix, i))
		m.Queue = queues[i%len(queues)]
		if i%3 == 0 && n > len(queues) {
			m.WithDelayTimeLevel(1)
		}
		send(t, p, m)
		keys = append(keys, m.GetKeys())
	}
	slices.Sort(keys)
	return keys
}

// places returns key → place of what begins with prefix.
func (in *inbox) places(prefix string) map[string]string {
	got := map[string]string{}
	for _, d := range in.all() {
		if strings.HasPrefix(d.key, prefix) {
			got[d.key] = d.place()
		}
	}
	return got
}

// holds sends one message to each queue, again and again, until the members
// consume them from as many queues each as want says, no queue at two of them.
// This client does not tell which queues it holds.
func holds(t *testing.T, p rocketmq.Producer, queues []*primitive.MessageQueue, want []int, members ...func(prefix string) map[string]string) {
	t.Helper()
	var shares [][]string
	await(t, fmt.Sprintf("members holding %d queues", want), func() bool {
		prefix := unique("probe") + "-"
		sendRound(t, p, queues, prefix, len(queues))
		// A round that nobody finishes is followed by another one.
		for range 100 {
			shares = nil
			total, split := 0, true
			for i, m := range members {
				share := queuesOf(m(prefix))
				total += len(share)
				split = split && len(share) == want[i]
				shares = append(shares, share)
			}
			if total > len(queues) {
				return false
			}
			if total == len(queues) {
				return split
			}
			time.Sleep(20 * time.Millisecond)
		}
		return false
	}, func() string { return fmt.Sprint("the last round went to queues ", shares) })
}

func awaitKeys(t *testing.T, prefix string, want []string, members ...func(prefix string) map[string]string) {
	t.Helper()
	union := func() []string {
		all := map[string]string{}
		for _, m := range members {
			maps.Copy(all, m(prefix))
		}
		return slices.Sorted(maps.Keys(all))
	}
	await(t, "the messages "+prefix, func() bool { return slices.Equal(union(), want) },
		func() string { return fmt.Sprintf("got %v", union()) })
}

// TestRebalanceShareAndLeave: two members have four of eight queues each and see
// each message once; all go to one when the other leaves.
func TestRebalanceShareAndLeave(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "share", 8)
	group, p := unique("share"), newProducer(t, sharedAddr)
	var a, b inbox
	newPush(t, sharedAddr, group, queues[0].Topic, "*", &a)
	leaver := newPush(t, sharedAddr, group, queues[0].Topic, "*", &b)
	holds(t, p, queues, []int{4, 4}, a.places, b.places)

	awaitKeys(t, "shared-", sendRound(t, p, queues, "shared-", 160), a.places, b.places)
	if na, nb := len(a.keys("shared-")), len(b.keys("shared-")); na != 80 || nb != 80 {
		t.Errorf("of 160 messages one member got %d and the other %d, want 80 each", na, nb)
	}
	if err := leaver.Shutdown(); err != nil {
		t.Fatal(err)
	}
	holds(t, p, queues, []int{8}, a.places)
	awaitKeys(t, "alone-", sendRound(t, p, queues, "alone-", 80), a.places)
	if n := len(a.keys("alone-")); n != 80 {
		t.Errorf("the one that is left got %d messages of 80", n)
	}
}

// TestRebalanceDeath: a member that is killed says nothing; the broker sees its
// connection end, and the others take over. The dead one is of this client or
// of Java's; both divide the queues alike.
func TestRebalanceDeath(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, string, string) *member{"go": goMember, "java": javaMember} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queues := newTopic(t, sharedAddr, "dies_"+name, 8)
			group, p := unique("dies_"+name), newProducer(t, sharedAddr)
			var in inbox
			newPush(t, sharedAddr, group, queues[0].Topic, "*", &in)
			other := start(t, group, queues[0].Topic)
			holds(t, p, queues, []int{4, 4}, in.places, other.got)

			awaitKeys(t, "shared-", sendRound(t, p, queues, "shared-", 80), in.places, other.got)
			if na, nb := len(in.keys("shared-")), len(other.got("shared-")); na != 40 || nb != 40 || len(other.twice) > 0 {
				t.Errorf("of 80 messages one member got %d and the other %d, want 40 each; twice: %v", na, nb, other.twice)
			}
			before := other.got("shared-")
			other.kill()
			holds(t, p, queues, []int{8}, in.places)
			awaitKeys(t, "alone-", sendRound(t, p, queues, "alone-", 80), in.places)

			// What the dead one had not committed is read again: the same
			// records, reported apart.
			again := 0
			for key, place := range in.places("shared-") {
				if was, ok := before[key]; ok {
					again++
					if was != place {
						t.Errorf("%s was at %s and is at %s: a second record", key, was, place)
					}
				}
			}
			t.Logf("the death of one member made %d of its %d messages be read again", again, len(before))
		})
	}
}

// TestBroadcast: every member gets everything.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "broadcast", 8)
	group, p := unique("broadcast"), newProducer(t, sharedAddr)
	inboxes := []*inbox{{}, {}}
	for _, in := range inboxes {
		newPush(t, sharedAddr, group, queues[0].Topic, "*", in, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	want := sendRound(t, p, queues, "all-", 80)
	for i, in := range inboxes {
		in.awaitCount(t, "all messages at each member", len(want))
		if got := in.keys("all-"); !slices.Equal(got, want) {
			t.Errorf("member %d got %v", i, got)
		}
	}
}

// TestOrderly: one handler for a queue at a time, in the order of sending, with
// the queues locked for one member each, and on when one of them leaves.
func TestOrderly(t *testing.T) {
	t.Parallel()
	const n = 200
	queues := newTopic(t, sharedAddr, "orderly", 4)
	topic, group, p := queues[0].Topic, unique("orderly"), newProducer(t, sharedAddr)
	var (
		mu       sync.Mutex
		busy     = map[int]int{}
		consumed = map[int][]int64{}
		total    int
		tooMany  int
	)
	handle := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		q := messages[0].Queue.QueueId
		mu.Lock()
		busy[q]++
		if busy[q] > 1 {
			tooMany++
		}
		for _, m := range messages {
			consumed[q] = append(consumed[q], m.QueueOffset)
			total++
		}
		mu.Unlock()
		time.Sleep(time.Millisecond) // so that a second handler would be seen
		mu.Lock()
		busy[q]--
		mu.Unlock()
		return consumer.ConsumeSuccess, nil
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return total
	}
	// By default this client renews locks every 20 s. A queue that it gives to
	// the second member it does not unlock, so that the second member has it when
	// the lock has expired, more than a minute later, with Apache's broker too.
	inOrder := []consumer.Option{consumer.WithConsumerOrder(true), consumer.WithRebalanceLockInterval(time.Second)}
	newPushFunc(t, sharedAddr, group, topic, "*", handle, inOrder...)
	leaver := newPushFunc(t, sharedAddr, group, topic, "*", handle, inOrder...)
	sendRound(t, p, queues, "first-", n)
	await(t, "the first messages", func() bool { return count() >= n }, func() string { return fmt.Sprint("got ", count()) })
	if err := leaver.Shutdown(); err != nil {
		t.Fatal(err)
	}
	sendRound(t, p, queues, "second-", n)
	await(t, "the second messages", func() bool { return count() >= 2*n }, func() string { return fmt.Sprint("got ", count()) })

	mu.Lock()
	defer mu.Unlock()
	if tooMany > 0 {
		t.Errorf("%d times two handlers worked on one queue", tooMany)
	}
	for q, offsets := range consumed {
		// A queue that changed its owner may be read again from its last commit,
		// but never with something left out.
		next := int64(0)
		for _, o := range offsets {
			if o > next {
				t.Errorf("queue %d: offset %d came when %d was next", q, o, next)
			}
			next = max(next, o+1)
		}
		if next != 2*n/4 {
			t.Errorf("queue %d ends at %d, want %d", q, next, 2*n/4)
		}
	}
}
