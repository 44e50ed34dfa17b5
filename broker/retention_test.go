package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// TestRetention: what the log no longer holds is answered as RocketMQ answers
// it. A pull before the first message gets 21 with where to go on, and so do
// Java's and our clients, which follow it (the client's test of
// PullOffsetMoved).
func TestRetention(t *testing.T) {
	clock := newTestClock()
	b := startBroker(t, func(o *Options) {
		o.Now, o.SegmentBytes, o.Retention = clock.now, 64<<10, Retention{Age: time.Hour}
		o.tuneStore = func(s *store.Options) { s.Retention.Every = 5 * time.Millisecond }
	})
	c := dial(t, b)
	c.createTopic("t", 1)
	body := strings.Repeat("x", 8<<10)
	pending := c.send("t", 0, props("DELAY", "18"), "pending") // 2 h
	const old, all = 30, 40
	for i := range all {
		if i == old {
			clock.step(time.Hour + time.Minute)
		}
		c.send("t", 0, "", fmt.Sprint(i, " ", body))
	}
	minimum := int64(0)
	eventually(t, "the old messages to be deleted", func() bool {
		minimum = number64(t, c.ok(remoting.ReqGetMinOffset, fields("topic", "t", "queueId", 0), nil), "offset")
		return minimum > old-8
	})
	if minimum > old {
		t.Fatalf("the queue begins at %d: messages younger than an hour are gone", minimum)
	}

	moved := c.want(remoting.PullOffsetMoved, remoting.ReqPullMessage, pullFields("g", "t", 0, minimum-1, 0), nil)
	if next, lo, hi := number64(t, moved, "nextBeginOffset"), number64(t, moved, "minOffset"), number64(t, moved, "maxOffset"); next != minimum || lo != minimum || hi != all {
		t.Errorf("a pull before the first message is sent to %d, min %d, max %d; want %d, %d, %d", next, lo, hi, minimum, minimum, all)
	}
	got := records(t, c.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, minimum, 0), nil))
	if len(got) == 0 || got[0].QueueOffset != minimum || !strings.HasPrefix(string(got[0].Body), fmt.Sprint(minimum, " ")) {
		t.Errorf("the first message left is not number %d", minimum)
	}
	first := got[0].StoreTime
	if ms := number64(t, c.ok(remoting.ReqGetEarliestMsgStoreTime, fields("topic", "t", "queueId", 0), nil), "timestamp"); ms != first {
		t.Errorf("earliest store time %d, want %d", ms, first)
	}
	for _, s := range []struct{ ms, want int64 }{{0, minimum}, {first, minimum}, {clock.now().UnixMilli(), old}} {
		if at := number64(t, c.ok(remoting.ReqSearchOffsetByTimestamp, fields("topic", "t", "queueId", 0, "timestamp", s.ms), nil), "offset"); at != s.want {
			t.Errorf("the offset at %d is %d, want %d", s.ms, at, s.want)
		}
	}
	// A group that stands before the beginning is not ahead of it.
	b.store.CommitOffset("late", "t", 0, 1)
	if at := number64(t, c.ok(remoting.ReqQueryConsumerOffset, fields("consumerGroup", "late", "topic", "t", "queueId", 0), nil), "offset"); at != 1 {
		t.Errorf("committed offset %d, want 1", at)
	}
	if l := b.store.Level(2 * time.Hour); l.Next-l.Head != 1 {
		t.Errorf("level %+v, want one pending message: %v", l, pending)
	}
	// The one that waited was carried; it is delivered when it is due.
	clock.step(time.Hour)
	c.send("t", 0, props("DELAY", "1"), "wakes the scheduler, which cannot see this clock")
	eventually(t, "the pending message", func() bool {
		return number64(t, c.ok(remoting.ReqGetMaxOffset, fields("topic", "t", "queueId", 0), nil), "offset") == all+1
	})
}
