package broker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
	"github.com/tidemq/tidemq/store"
)

// TestAnswers: every error has its code, and its text is kept.
func TestAnswers(t *testing.T) {
	_, missing := remoting.Fields(nil).Int32("queueId")
	for _, test := range []struct {
		err  error
		code int
	}{
		{refuse(remoting.NoPermission, "no"), remoting.NoPermission},
		{missing, remoting.InvalidParameter},
		{store.ErrDiskFull, remoting.ServiceNotAvailable},
		{store.ErrUnavailable, remoting.ServiceNotAvailable},
		{store.ErrClosed, remoting.ServiceNotAvailable},
		{store.ErrBusy, remoting.SystemBusy},
		{store.ErrTopicNotFound, remoting.TopicNotExist},
		{store.ErrTooLarge, remoting.MessageIllegal},
		{message.ErrMalformed, remoting.MessageIllegal},
		{message.ErrInvalidTopic, remoting.InvalidParameter},
		{schedule.ErrBadDelay, remoting.MessageIllegal},
		{schedule.ErrPropertiesTooLong, remoting.MessageIllegal},
		{store.ErrUnknown, remoting.SystemError},
		{errors.New("anything else"), remoting.SystemError},
	} {
		code, remark := answerTo(fmt.Errorf("topic[t]: %w", test.err))
		if code != test.code || remark == "" {
			t.Errorf("%v: got %d %q, want %d", test.err, code, remark, test.code)
		}
	}
}

// TestGate: a connection is read on only while it has room.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.init(2, 100)
		passed := make(chan string, 10)
		wait := func(what string, f func()) {
			go func() { f(); passed <- what }()
			synctest.Wait()
		}
		want := func(what string) {
			t.Helper()
			synctest.Wait()
			got := ""
			select {
			case got = <-passed:
			default:
			}
			if got != what {
				t.Errorf("passed %q, want %q", got, what)
			}
		}
		wait("empty", g.room)
		want("empty")
		g.enter(10)
		g.enter(10)
		wait("two", g.room)
		want("")
		g.leave(10)
		want("two")
		g.enter(105) // one request may be larger than the limit
		g.leave(10)
		wait("bytes", g.room)
		wait("idle", g.wait)
		want("")
		g.leave(105)
		for range 2 {
			synctest.Wait()
			<-passed
		}

		var b budget
		b.init(100)
		wait("budget", b.room)
		want("budget")
		b.enter(100)
		wait("used up", b.room)
		want("")
		b.leave(1)
		want("used up")
		b.leave(99)
	})
}

// TestBackPressure: a connection that has too much in hand is not read on, and
// loses nothing.
func TestBackPressure(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.maxInFlight = 4 })
	c := dial(t, b)
	c.createTopic("t", 1)
	c.sendMany("t", 0, 2000)
	if got := c.pullAll("g", "t", 0, 2000); len(got) != 2000 {
		t.Errorf("got %d", len(got))
	}
}
