package client

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func TestPullConsumer(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 2)
	b := c.brokers[0]
	ctx := testContext(t)
	p, err := newTestClient(t, c).NewPullConsumer("g")
	if err != nil {
		t.Fatal(err)
	}
	queues, err := p.Queues(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Queue{{"t", "b0", 0}, {"t", "b0", 1}}, queues); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	q := queues[0]
	for i := range 10 {
		b.put("t", 0, fmt.Sprint(i), []string{"even", "odd"}[i%2])
	}
	b.mu.Lock()
	b.min[q] = 2
	b.mu.Unlock()
	for _, tc := range []struct {
		name   string
		offset int64
		batch  int
		tags   string
		status PullStatus
		bodies string
		next   int64
	}{
		{"some", 2, 3, "", Found, "2 3 4", 5},
		{"the rest", 5, 32, "*", Found, "5 6 7 8 9", 10},
		{"by tag", 2, 32, "odd", Found, "3 5 7 9", 10},
		{"no match", 2, 32, "other", NoMatch, "", 10},
		{"at the end", 10, 32, "", NoNewMessage, "", 10},
		{"before the beginning", 1, 32, "", OffsetMoved, "", 2},
		{"behind the end", 11, 32, "", OffsetMoved, "", 10},
	} {
		r, err := p.Pull(ctx, q, tc.offset, tc.batch, 0, tc.tags)
		var bodies []string
		for _, m := range r.Messages {
			bodies = append(bodies, string(m.Body))
		}
		if err != nil || r.Status != tc.status || strings.Join(bodies, " ") != tc.bodies || r.NextOffset != tc.next || r.MinOffset != 2 || r.MaxOffset != 10 {
			t.Errorf("%s: %v %q next %d of [%d, %d), %v; want %v %q next %d", tc.name,
				r.Status, bodies, r.NextOffset, r.MinOffset, r.MaxOffset, err, tc.status, tc.bodies, tc.next)
		}
	}

	if n, err := p.MaxOffset(ctx, q); err != nil || n != 10 {
		t.Errorf("max offset %d, %v; want 10", n, err)
	}
	if n, err := p.MinOffset(ctx, q); err != nil || n != 2 {
		t.Errorf("min offset %d, %v; want 2", n, err)
	}
	if n, err := p.SearchOffset(ctx, q, time.Now().Add(time.Hour)); err != nil || n != 10 {
		t.Errorf("offset of a time to come %d, %v; want 10", n, err)
	}

	// A long poll is answered when something arrives.
	got := make(chan PullResult, 1)
	go func() {
		r, err := p.Pull(ctx, q, 10, 1, time.Minute, "")
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	for len(b.requests(remoting.ReqPullMessage)) < 8 {
		time.Sleep(time.Millisecond)
	}
	b.put("t", 0, "10", "")
	if r := <-got; len(r.Messages) != 1 || r.NextOffset != 11 {
		t.Errorf("long poll: %d messages, next %d", len(r.Messages), r.NextOffset)
	}

	if _, err := p.Committed(ctx, q); !errors.Is(err, ErrOffsetNotFound) {
		t.Errorf("committed before any commit: %v, want ErrOffsetNotFound", err)
	}
	if err := p.Commit(ctx, q, 7); err != nil {
		t.Error(err)
	}
	if o, err := p.Committed(ctx, q); err != nil || o != 7 {
		t.Errorf("committed %d, %v; want 7", o, err)
	}
	for name, f := range map[string]func() error{
		"negative offset": func() error { _, err := p.Pull(ctx, q, -1, 1, 0, ""); return err },
		"no batch":        func() error { _, err := p.Pull(ctx, q, 0, 0, 0, ""); return err },
		"long wait":       func() error { _, err := p.Pull(ctx, q, 0, 1, time.Hour, ""); return err },
		"tags":            func() error { _, err := p.Pull(ctx, q, 0, 1, 0, "||"); return err },
		"negative commit": func() error { return p.Commit(ctx, q, -1) },
	} {
		if err := f(); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
	if _, err := p.Pull(ctx, Queue{"t", "elsewhere", 0}, 0, 1, 0, ""); !errors.Is(err, ErrNoQueue) {
		t.Errorf("queue of an unknown broker: %v, want ErrNoQueue", err)
	}
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := p.Pull(ctx, q, 0, 1, 0, ""); !errors.Is(err, ErrClosed) {
		t.Errorf("pull after close: %v, want ErrClosed", err)
	}
}

// Answers to a pull that must not get through.
func TestPullBadAnswers(t *testing.T) {
	c := newFakeCluster(t, 1)
	c.createTopic("t", 1)
	b := c.brokers[0]
	p, err := newTestClient(t, c).NewPullConsumer("g")
	if err != nil {
		t.Fatal(err)
	}
	host := netip.MustParseAddrPort("127.0.0.1:1")
	record := func(offset int64) []byte {
		r, err := message.AppendRecord(nil, &message.Message{Topic: "t", Body: []byte("x"), QueueOffset: offset,
			BornHost: host, StoreHost: host})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	fields := func(next string) remoting.Fields {
		return remoting.Fields{{Key: "nextBeginOffset", Value: next}, {Key: "minOffset", Value: "0"}, {Key: "maxOffset", Value: "9"}}
	}
	for name, tc := range map[string]struct {
		fields remoting.Fields
		body   []byte
	}{
		"no fields":               {nil, nil},
		"next offset no number":   {fields("x"), nil},
		"negative next offset":    {fields("-3"), nil},
		"record cut":              {fields("1"), record(0)[:50]},
		"record and rubbish":      {fields("1"), append(record(0), 1, 2, 3)},
		"record behind the next":  {fields("1"), record(1)},
		"records not in order":    {fields("9"), append(record(5), record(4)...)},
		"record that comes twice": {fields("9"), append(record(5), record(5)...)},
	} {
		b.next(remoting.ReqPullMessage, func(_ *fakeConn, req *remoting.Command) *remoting.Command {
			a := ok(req, tc.fields...)
			a.Body = tc.body
			return a
		})
		if r, err := p.Pull(testContext(t), Queue{"t", "b0", 0}, 0, 1, 0, ""); !errors.Is(err, ErrBadAnswer) {
			t.Errorf("%s: %+v, %v; want ErrBadAnswer", name, r, err)
		}
	}
	b.answer(remoting.ReqPullMessage, remoting.SubscriptionGroupNotExist, "no group")
	if _, err := p.Pull(testContext(t), Queue{"t", "b0", 0}, 0, 1, 0, ""); !errors.Is(err, ErrGroupNotFound) {
		t.Errorf("group not found: %v", err)
	}
}
