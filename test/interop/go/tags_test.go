package interop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
)

// TestTags checks that each subscription gets its tags and no other, sent at
// once or with a delay. "Aa" and "BB" have the same hash.
func TestTags(t *testing.T) {
	t.Parallel()
	tags := []string{"TagA", "TagB", "TagC", "Aa", "BB", "标签", "größe", ""}
	subscriptions := map[string][]string{
		"TagA || TagB": {"TagA", "TagB"},
		"Aa":           {"Aa"},
		"*":            tags,
	}
	if foreign == "" {
		// This client hashes bytes where RocketMQ hashes UTF-16 units, and
		// Apache's broker takes its word for it: nothing would come.
		subscriptions["标签"] = []string{"标签"}
		subscriptions["größe || TagC"] = []string{"größe", "TagC"}
	}
	queues := newTopic(t, sharedAddr, "tags", 2)
	topic := queues[0].Topic
	p := newProducer(t, sharedAddr)
	inboxes := map[string]*inbox{}
	for expression := range subscriptions {
		inboxes[expression] = new(inbox)
		newPush(t, sharedAddr, unique("tags"), topic, expression, inboxes[expression])
	}
	for level := range 2 {
		for _, tag := range tags {
			m := newMessage(topic, tag, fmt.Sprint(level, tag))
			if level > 0 {
				m.WithDelayTimeLevel(level)
			}
			send(t, p, m)
		}
	}
	for expression, want := range subscriptions {
		inboxes[expression].awaitCount(t, "messages for "+expression, 2*len(want))
	}
	for expression, tags := range subscriptions {
		var want []string
		for _, tag := range tags {
			want = append(want, "0"+tag, "1"+tag)
		}
		slices.Sort(want)
		if got := inboxes[expression].keys(""); !slices.Equal(got, want) {
			t.Errorf("the subscription %s got %q, want %q", expression, got, want)
		}
	}
}

// TestSQL checks that an SQL92 expression selects by properties, at once and
// with a delay.
func TestSQL(t *testing.T) {
	t.Parallel()
	queues := newTopic(t, sharedAddr, "sql", 2)
	topic := queues[0].Topic
	p := newProducer(t, sharedAddr)
	in := new(inbox)
	c, err := startSelecting(sharedAddr, unique("sql"), topic, consumer.MessageSelector{Type: consumer.SQL92, Expression: "qty > 5 AND region = 'eu'"}, in.handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Shutdown() })
	for level := range 2 {
		for i, region := range []string{"eu", "us", "eu"} {
			m := newMessage(topic, "", fmt.Sprint(level, i))
			m.WithProperties(map[string]string{"region": region, "qty": fmt.Sprint(9 - 3*i), "KEYS": fmt.Sprint(level, i)})
			if level > 0 {
				m.WithDelayTimeLevel(level)
			}
			send(t, p, m)
		}
	}
	in.awaitCount(t, "the messages that match", 2)
	if got := in.keys(""); !slices.Equal(got, []string{"0 0", "1 0"}) {
		t.Errorf("got %q", got)
	}
}
