package interop

import (
	"fmt"
	"slices"
	"testing"
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
