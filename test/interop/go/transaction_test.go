package interop

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// decisions is a transaction listener: a message's key says what becomes of it.
type decisions struct {
	mu    sync.Mutex
	asked []string
}

func (d *decisions) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch m.GetKeys() {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decisions) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, m.GetKeys())
	return primitive.CommitMessageState
}

// TestTransactions checks commit, rollback and the broker's question about a
// transaction whose producer did not know.
func TestTransactions(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, sharedAddr, "transaction", 2)[0].Topic
	in := new(inbox)
	newPush(t, sharedAddr, unique("transaction"), topic, "*", in)
	d := new(decisions)
	p, err := rocketmq.NewTransactionProducer(d, producer.WithNsResolver(resolver(sharedAddr)), producer.WithGroupName(unique("producer")),
		producer.WithInstanceName(instance()), producer.WithRetry(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown() })
	for _, key := range []string{"commit", "rollback", "ask"} {
		if _, err := p.SendMessageInTransaction(context.Background(), newMessage(topic, "", key)); err != nil {
			t.Fatal(err)
		}
	}
	in.awaitCount(t, "what was committed", 2)
	if got := in.keys(""); !slices.Equal(got, []string{"ask", "commit"}) {
		t.Errorf("got %q", got)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.asked, "ask") || slices.Contains(d.asked, "commit") {
		t.Errorf("asked about %q", d.asked)
	}
}
