package broker

import (
	"fmt"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// TestTagFilter: pulls get what their tags ask for, by the code Java reckons.
func TestTagFilter(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	tags := []string{"red", "größe", "标签", "🌊", "", "Aa", "BB"} // Aa and BB share a code
	for _, tag := range tags {
		p := ""
		if tag != "" {
			p = props("TAGS", tag)
		}
		c.send("t", 0, p, tag)
	}
	for _, test := range []struct {
		expression string
		want       []string
	}{
		{"*", tags},
		{"", tags},
		{"red", []string{"red"}},
		{"größe", []string{"größe"}},
		{"标签 || 🌊", []string{"标签", "🌊"}},
		{" red ||größe|| ", []string{"red", "größe"}},
		{"Aa", []string{"Aa", "BB"}}, // the client compares the tag itself
		{"||", nil},
		{"green", nil},
	} {
		code := remoting.Success
		if test.want == nil {
			code = remoting.PullRetryImmediately
		}
		resp := c.want(code, remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, "subscription", test.expression), nil)
		var got []string
		for _, m := range records(t, resp) {
			got = append(got, string(m.Body))
		}
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%q: got %v, want %v", test.expression, got, test.want)
		}
		if next := number64(t, resp, "nextBeginOffset"); next != int64(len(tags)) {
			t.Errorf("%q: next %d", test.expression, next)
		}
	}
}

// TestLevels: the state of the levels, also of one that left the table.
func TestLevels(t *testing.T) {
	dir := t.TempDir()
	clock := newTestClock()
	b := startBroker(t, func(o *Options) { o.Dir, o.Now, o.DelayLevels = dir, clock.now, "1h 2h 90m" })
	c := dial(t, b)
	for range 3 {
		c.send("t", 0, props("DELAY", "2"), "x")
	}
	c.send("t", 0, props("DELAY", "3"), "x")
	got := levelsOf(t, c)
	if len(got) != 3 || got[0].Pending != 0 || got[0].NextDueUs != 0 || got[0].Delay != "1h" || got[2].Delay != "90m" {
		t.Fatalf("levels %+v", got)
	}
	two := got[1]
	due := clock.now().UnixMicro() + 2*3600*1_000_000
	if two.Level != 2 || two.QueueID != 1 || two.Pending != 3 || two.Offset != 0 || two.MaxOffset != 3 || two.DelayMs != 7200_000 || two.LateByUs != 0 ||
		two.NextDueUs > due+1_000_000 || two.NextDueUs < due-1_000_000 {
		t.Errorf("level 2 %+v, due about %d", two, due)
	}
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, func(o *Options) { o.Dir, o.Now, o.DelayLevels = dir, clock.now, "2h 5h" })
	got = levelsOf(t, dial(t, b))
	if len(got) != 3 || got[0].Pending != 3 || got[0].Level != 1 || got[2].Level != 0 || got[2].QueueID != -1 || got[2].Pending != 1 || got[2].Delay != "90m" {
		t.Errorf("with another table %+v", got)
	}
}

// TestViewMessage: an offset id names its message before and after delivery.
func TestViewMessage(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s" })
	c := dial(t, b)
	sent := c.send("t", 0, props("DELAY", "1", "KEYS", "k1"), "x")
	for range 2 {
		m := records(t, c.ok(remoting.ReqViewMessageByID, fields("topic", "t", "offset", offsetOf(t, sent)), nil))[0]
		if m.Topic != message.ScheduleTopic || string(m.Body) != "x" || m.PhysicalOffset != offsetOf(t, sent) {
			t.Errorf("got %+v", m)
		}
		c.pullAll("g", "t", 0, 1) // wait for the delivery
	}
	c.want(remoting.SystemError, remoting.ReqViewMessageByID, fields("offset", offsetOf(t, sent)+1), nil)
}
