package client

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/remoting"
)

func TestAdmin(t *testing.T) {
	c := newFakeCluster(t, 2)
	ctx := testContext(t)
	cl := newTestClient(t, c)
	a := cl.Admin()
	brokers, err := a.Brokers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []Broker{
		{Cluster: "fake", Name: "b0", Addrs: map[int64]string{0: c.brokers[0].addr}},
		{Cluster: "fake", Name: "b1", Addrs: map[int64]string{0: c.brokers[1].addr}},
	}
	if diff := cmp.Diff(want, brokers); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
	if err := a.CreateTopic(ctx, TopicConfig{Name: "t", ReadQueues: 2, WriteQueues: 2}); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.brokers {
		r := b.requests(remoting.ReqUpdateAndCreateTopic)
		if len(r) != 1 || r[0].Fields.Value("perm") != "6" || r[0].Fields.Value("readQueueNums") != "2" {
			t.Errorf("%s was asked %d times to create the topic", b.name, len(r))
		}
	}
	topics, err := a.Topics(ctx)
	if err != nil || !slices.Equal(topics, []string{"t"}) {
		t.Errorf("topics %v, %v", topics, err)
	}
	if queues, err := a.Queues(ctx, "t"); err != nil || len(queues) != 4 {
		t.Errorf("queues %v, %v; want 4", queues, err)
	}
	if ids, err := a.ConsumerIDs(ctx, "g"); err != nil || len(ids) != 0 {
		t.Errorf("members %v, %v; want none", ids, err)
	}
	var in inbox
	if _, err := cl.NewPushConsumer(ctx, "g", in.handle, WithSubscription("t", "*")); err != nil {
		t.Fatal(err)
	}
	if ids, err := a.ConsumerIDs(ctx, "g"); err != nil || !slices.Equal(ids, []string{cl.ClientID()}) {
		t.Errorf("members %v, %v; want %s once, though it is at two brokers", ids, err, cl.ClientID())
	}
	q := Queue{"t", "b1", 1}
	if at, err := a.EarliestStoreTime(ctx, q); err != nil || !at.IsZero() {
		t.Errorf("earliest store time of an empty queue: %v, %v", at, err)
	}
	before := time.Now().Truncate(time.Millisecond)
	c.brokers[1].put("t", 1, "x", "")
	if at, err := a.EarliestStoreTime(ctx, q); err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("earliest store time: %v, %v", at, err)
	}
	if err := a.DeleteTopic(ctx, "t"); err != nil {
		t.Error(err)
	}
	if _, err := a.Queues(ctx, "t"); !errors.Is(err, ErrTopicNotFound) {
		t.Errorf("queues of a deleted topic: %v, want ErrTopicNotFound", err)
	}
	for name, tc := range map[string]TopicConfig{
		"no name":         {},
		"too many queues": {Name: "t", ReadQueues: 65536},
		"no permission":   {Name: "t", ReadOnly: true, WriteOnly: true},
	} {
		if err := a.CreateTopic(ctx, tc); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}

	c.brokers[0].next(900001, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
		r := ok(req, remoting.Field{Key: "echo", Value: req.Fields.Value("k")})
		r.Body = req.Body
		return r
	})
	r, err := a.Call(ctx, c.brokers[0].addr, 900001, map[string]string{"k": "v"}, []byte("body"))
	if err != nil || r.Fields["echo"] != "v" || string(r.Body) != "body" {
		t.Errorf("call: %+v, %v", r, err)
	}
	r, err = a.Call(ctx, c.brokers[0].addr, 900001, nil, nil)
	if !errors.Is(err, ErrNotSupported) || r == nil || r.Code != remoting.RequestCodeNotSupported {
		t.Errorf("call of an unknown code: %+v, %v", r, err)
	}
	if _, err := a.Call(ctx, "nowhere", 1, nil, nil); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("call of no address: %v, want ErrInvalidOption", err)
	}
}

func TestReset(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 2)
	b := c.brokers[0]
	ctx := testContext(t)
	a := newTestClient(t, c).Admin()
	q := []Queue{{"t", "b0", 0}, {"t", "b0", 1}}
	for i := range 10 {
		b.put("t", 0, fmt.Sprint(i), "")
	}
	b.mu.Lock()
	b.min[q[0]] = 2
	b.setOffset("g", q[0], 8)
	for i := range b.queues[q[0]] {
		b.queues[q[0]][i].StoreTime = int64(1000 + i/2*100) // two per time
	}
	b.mu.Unlock()
	offsets, err := a.GroupOffsets(ctx, "g", "t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]GroupOffset{{q[0], 2, 10, 8}, {q[1], 0, 0, -1}}, offsets); diff != "" {
		t.Errorf("offsets (-want +got):\n%s", diff)
	}
	if offsets[0].Lag() != 2 || offsets[1].Lag() != 0 || (GroupOffset{Min: 4, Max: 9, Committed: -1}).Lag() != 5 || (GroupOffset{Max: 9, Committed: 12}).Lag() != 0 {
		t.Errorf("lags %d and %d", offsets[0].Lag(), offsets[1].Lag())
	}
	at := func(ms int64) ResetTarget { return ResetToTime(time.UnixMilli(ms)) }
	for _, tc := range []struct {
		name   string
		target ResetTarget
		want   int64
	}{
		{"earliest", ResetToEarliest(), 2},
		{"latest", ResetToLatest(), 10},
		{"offset", ResetToOffset(5), 5},
		{"offset before the first", ResetToOffset(0), 2},
		{"offset behind the last", ResetToOffset(99), 10},
		{"equal times", at(1300), 6},
		{"between times", at(1301), 8},
		{"before the first", at(1), 2},
		{"in the future", ResetToTime(time.Now().Add(time.Hour)), 10},
	} {
		steps, err := a.PlanReset(ctx, "g", "t", tc.target)
		if err != nil {
			t.Fatal(err)
		}
		want := []ResetStep{{q[0], 2, 10, 8, tc.want}, {q[1], 0, 0, -1, 0}}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if got := b.committed("g", "t", 0); got != 8 {
		t.Errorf("planning changed the offset to %d", got)
	}
	// The fake knows RocketMQ's request only.
	steps, err := a.PlanReset(ctx, "g", "t", ResetToEarliest())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.ApplyReset(ctx, "g", steps); err != nil {
		t.Fatal(err)
	}
	if got := b.committed("g", "t", 0); got != 2 {
		t.Errorf("committed %d after the reset, want 2", got)
	}
	// TideMQ's own is tried first.
	b.next(remoting.ReqTideResetOffsets, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
		if f := req.Fields; f.Value("to") != "offset" || f.Value("value") != "2" || f.Value("queueId") != "0" || f.Value("group") != "g" || f.Value("topic") != "t" {
			t.Errorf("fields %v", f)
		}
		r := ok(req)
		r.Body = []byte(`{"queues":[]}`)
		return r
	})
	if err := a.ApplyReset(ctx, "g", steps[:1]); err != nil {
		t.Error(err)
	}
	if n := len(b.requests(remoting.ReqInvokeBrokerToResetOffset)); n != 2 {
		t.Errorf("%d requests 222, want the 2 of before", n)
	}
	// A broker that resets something else is not believed.
	b.next(remoting.ReqInvokeBrokerToResetOffset, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
		r := ok(req)
		r.Body = []byte(`{"offsetTable":{{"brokerName":"b0","queueId":0,"topic":"t"}:7}}`)
		return r
	})
	if err := a.ApplyReset(ctx, "g", steps[:1]); !errors.Is(err, ErrBadAnswer) {
		t.Errorf("another offset in the answer: %v, want ErrBadAnswer", err)
	}
	b.answer(remoting.ReqTideResetOffsets, remoting.SubscriptionGroupNotExist, "no such group")
	if err := a.ApplyReset(ctx, "x", steps[:1]); !errors.Is(err, ErrGroupNotFound) {
		t.Errorf("unknown group: %v, want ErrGroupNotFound", err)
	}
	if _, err := a.PlanReset(ctx, "g", "t", ResetTarget{}); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("no target: %v, want ErrInvalidOption", err)
	}
	if _, err := a.PlanReset(ctx, "g", "t", ResetToOffset(-1)); !errors.Is(err, ErrInvalidOption) {
		t.Errorf("negative offset: %v, want ErrInvalidOption", err)
	}
	if _, err := a.PlanReset(ctx, "g", "nowhere", ResetToLatest()); !errors.Is(err, ErrTopicNotFound) {
		t.Errorf("unknown topic: %v, want ErrTopicNotFound", err)
	}
}
