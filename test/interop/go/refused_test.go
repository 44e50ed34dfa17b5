package interop

import (
	"strings"
	"testing"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// What TideMQ cannot do yet it refuses with code 13 and the reason, and never
// delivers at once in silence.
const refusal = "CODE: 13, DESC: "

func onlyTideMQ(t *testing.T) {
	t.Helper()
	if foreign != "" {
		t.Skip("Apache RocketMQ supports timers")
	}
}

// onlyPlain checks that nothing but one plain message is in the queue.
func onlyPlain(t *testing.T, p rocketmq.Producer, queues []*primitive.MessageQueue) {
	t.Helper()
	send(t, p, newMessage(queues[0].Topic, "Tag", "plain"))
	all := records(t, sharedAddr, queues)
	if len(all) != 1 || all[0].GetKeys() != "plain" {
		t.Errorf("the topic holds %d records, the first is %v; want the plain one alone", len(all), all[0])
	}
}

func TestTimersAreRefused(t *testing.T) {
	t.Parallel()
	onlyTideMQ(t)
	queues := newTopic(t, sharedAddr, "timer", 1)
	p := newProducer(t, sharedAddr)
	for _, name := range []string{"TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"} {
		m := newMessage(queues[0].Topic, "Tag", "timer")
		m.WithProperty(name, "2000")
		if _, err := p.SendSync(t.Context(), m); err == nil || !strings.Contains(err.Error(), refusal) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want a refusal with code 13 that names it", name, err)
		}
	}
	onlyPlain(t, p, queues)
}
