package client

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

func resetRequest(topic string, offsets map[Queue]int64) func() *remoting.Command {
	return func() *remoting.Command {
		r := remoting.NewRequest(remoting.ReqResetConsumerClientOffset,
			remoting.Field{Key: "topic", Value: topic}, remoting.Field{Key: "group", Value: "g"})
		r.Flag |= remoting.FlagOneway
		r.Body = append(r.Body, `{"offsetTable":`...)
		r.Body = appendQueueMap(r.Body, offsets, func(b []byte, v int64) []byte { return fmt.Append(b, v) })
		r.Body = append(r.Body, '}')
		return r
	}
}

// A reset (220) takes effect at once, what is in hand does not undo it, and it
// is committed.
func TestResetOfOffsets(t *testing.T) {
	for _, orderly := range []bool{false, true} {
		t.Run(fmt.Sprintf("orderly=%v", orderly), func(t *testing.T) {
			pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
				b := pt.c.brokers[0]
				pt.c.createTopic("t", 2)
				pt.put(0, 20, 2)
				stuck, release := make(chan struct{}), make(chan struct{})
				var held atomic.Bool
				in := inbox{result: func(m *Message) Result {
					if string(m.Body) == "020" && !held.Swap(true) {
						close(stuck)
						<-release
					}
					if held.Load() { // slower than the commit of the reset
						time.Sleep(2 * time.Second)
					}
					return Success
				}}
				opts := []ConsumerOption{WithConsumeFromFirst()}
				if orderly {
					opts = append(opts, WithOrderly())
				}
				pt.consume(pt.client("a"), in.handle, opts...)
				settle(6 * time.Second)
				b.put("t", 0, "020", "")
				<-stuck
				q0 := Queue{"t", "b0", 0}
				b.toMembers("g", resetRequest("t", map[Queue]int64{q0: 4, {"t", "b0", 9}: 1, {"u", "b0", 0}: 1}))
				settle(time.Second)
				if got := b.committed("g", "t", 0); got != 4 {
					t.Errorf("committed %d after the reset, want 4", got)
				}
				again := []string{"008", "010", "012", "014", "016", "018", "020"}
				if orderly { // the handler in hand comes first
					wantBodies(t, "while a handler is in hand", in.sorted(), numbers(0, 21))
				}
				close(release)
				settle(20 * time.Second)
				wantBodies(t, "received", in.sorted(), slices.Sorted(slices.Values(append(numbers(0, 21), again...))))
				if got := b.committed("g", "t", 0); got != 11 {
					t.Errorf("committed %d at the end, want 11", got)
				}
			})
		})
	}
}

// RocketMQ 5 tells of a reset by answering a pull with 21.
func TestResetByPullAnswer(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 5, 1)
		var in inbox
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst())
		settle(6 * time.Second)
		ofTopic := func(req *remoting.Command) bool { return req.Fields.Value("topic") == "t" }
		b.nextWhere(remoting.ReqPullMessage, ofTopic, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
			a := req.Reply(remoting.PullOffsetMoved, "OFFSET_RESET")
			a.Fields = remoting.Fields{{Key: "nextBeginOffset", Value: "3"}, {Key: "minOffset", Value: "0"}, {Key: "maxOffset", Value: "5"}}
			return a
		})
		settle(16 * time.Second)
		wantBodies(t, "received", in.sorted(), []string{"000", "001", "002", "003", "003", "004", "004"})
		if got := b.committed("g", "t", 0); got != 5 {
			t.Errorf("committed %d, want 5", got)
		}
	})
}

// A reset to where the next pull begins anyway drops what is in hand.
func TestResetToTheEnd(t *testing.T) {
	pushBubble(t, 1, func(t *testing.T, pt *pushTest) {
		b := pt.c.brokers[0]
		pt.c.createTopic("t", 1)
		pt.put(0, 20, 1)
		in := inbox{result: func(*Message) Result { time.Sleep(12 * time.Second); return Success }}
		ofTopic := func(req *remoting.Command) bool {
			offset, _ := req.Fields.Int64("queueOffset")
			return req.Fields.Value("topic") == "t" && offset == 20
		}
		b.nextWhere(remoting.ReqPullMessage, ofTopic, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
			time.Sleep(10 * time.Second)
			a := req.Reply(remoting.PullOffsetMoved, "OFFSET_RESET")
			a.Fields = remoting.Fields{{Key: "nextBeginOffset", Value: "20"}, {Key: "minOffset", Value: "0"}, {Key: "maxOffset", Value: "20"}}
			return a
		})
		pt.consume(pt.client("a"), in.handle, WithConsumeFromFirst(), WithConcurrency(4))
		settle(time.Minute)
		wantBodies(t, "handled before the reset", in.sorted(), numbers(0, 4))
		if got := b.committed("g", "t", 0); got != 20 {
			t.Errorf("committed %d, want 20", got)
		}
	})
}
