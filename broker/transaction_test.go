package broker

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

const (
	decideCommit   = message.TransactionCommit
	decideRollback = message.TransactionRollback
)

// prepared sends a half message and returns the header that ends it.
func (c *rawClient) prepared(topic string, body string, more ...string) remoting.Fields {
	c.t.Helper()
	p := props(append([]string{"TRAN_MSG", "true", "PGROUP", "shop", "UNIQ_KEY", "id-" + body, "TAGS", "red"}, more...)...)
	resp := c.ok(remoting.ReqSendMessageV2, sendFields(topic, 0, p, "f", message.TransactionPrepared), []byte(body))
	if got := resp.Fields.Value("transactionId"); got != "id-"+body {
		c.t.Errorf("transactionId %q", got)
	}
	return fields("topic", topic, "producerGroup", "shop", "tranStateTableOffset", number64(c.t, resp, "queueOffset"),
		"commitLogOffset", offsetOf(c.t, resp), "msgId", "id-"+body, "transactionId", "id-"+body)
}

// end is the header with a decision.
func end(f remoting.Fields, decision int32, more ...any) remoting.Fields {
	f = append(append(remoting.Fields{}, f...), fields("commitOrRollback", decision)...)
	for _, field := range fields(more...) {
		f.Set(field.Key, field.Value)
	}
	return f
}

func (b *Broker) entries(topic string, queue int32) int64 {
	_, next, _ := b.store.Offsets(topic, queue)
	return next
}

// TestTransaction: nothing is seen before a commit, one message after it,
// nothing after a rollback, and neither can be done twice.
func TestTransaction(t *testing.T) {
	b := startBroker(t, nil)
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		t.Run(fmt.Sprint("header ", header), func(t *testing.T) {
			c := dial(t, b)
			c.headerType = header
			topic := fmt.Sprint("t", header)
			c.createTopic(topic, 2)
			yes, no := c.prepared(topic, "yes", "own", "x"), c.prepared(topic, "no")
			if n := b.entries(topic, 0); n != 0 {
				t.Fatalf("%d entries before the commit", n)
			}
			for _, bad := range []struct {
				f    remoting.Fields
				code int
				want string
			}{
				{end(yes, decideCommit, "producerGroup", "other"), remoting.SystemError, "producer group wrong"},
				{end(yes, decideCommit, "tranStateTableOffset", 999), remoting.SystemError, "state table offset wrong"},
				{end(yes, decideCommit, "commitLogOffset", 1), remoting.SystemError, "Find prepared transaction message failed"},
				{end(yes, 7), remoting.InvalidParameter, "commitOrRollback is 7"},
				{end(yes, decideCommit, "producerGroup", ""), remoting.InvalidParameter, "producerGroup"},
			} {
				if resp := c.want(bad.code, remoting.ReqEndTransaction, bad.f, nil); !strings.Contains(resp.Remark, bad.want) {
					t.Errorf("remark %q, want %q", resp.Remark, bad.want)
				}
			}
			c.ok(remoting.ReqEndTransaction, end(yes, message.TransactionNone), nil) // does not know yet
			c.ok(remoting.ReqEndTransaction, end(yes, decideCommit), nil)
			c.ok(remoting.ReqEndTransaction, end(no, decideRollback), nil)
			for _, f := range []remoting.Fields{end(yes, decideCommit), end(yes, decideRollback), end(no, decideCommit)} {
				c.want(remoting.SystemError, remoting.ReqEndTransaction, f, nil)
			}
			got := c.pullAll("g", topic, 0, 1)[0]
			if string(got.Body) != "yes" || message.TransactionType(got.SysFlag) != message.TransactionCommit || got.PreparedTransactionOffset != number64(t, &remoting.Command{Fields: yes}, "commitLogOffset") {
				t.Errorf("committed %+v", got)
			}
			if want := props("TRAN_MSG", "true", "PGROUP", "shop", "UNIQ_KEY", "id-yes", "TAGS", "red", "own", "x", "__transactionId__", "id-yes"); got.Properties != want {
				t.Errorf("properties %q, want %q", got.Properties, want)
			}
			if n := b.entries(topic, 0); n != 1 || len(b.store.Halves()) != 0 {
				t.Errorf("%d entries, %d open", n, len(b.store.Halves()))
			}
			// By tag, as any message.
			c.ok(remoting.ReqPullMessage, pullFields("g", topic, 0, 0, 0, "subscription", "red"), nil)
		})
	}
	c := dial(t, b)
	body, err := message.AppendBatch(nil, &message.BatchMessage{Body: []byte("x"), Properties: props("TRAN_MSG", "true", "PGROUP", "shop")})
	if err != nil {
		t.Fatal(err)
	}
	if resp := c.want(remoting.MessageIllegal, remoting.ReqSendBatchMessage, sendFields("t1", 0, "", "m", "true"), body); !strings.Contains(resp.Remark, "batch") {
		t.Errorf("remark %q", resp.Remark)
	}
}

// TestTransactionWithDelay is field case F15: a delay begins at the commit, and
// nothing stays in internal queues.
func TestTransactionWithDelay(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = "1s 1h" })
	c := dial(t, b)
	c.createTopic("t", 1)
	late := c.prepared("t", "late", "DELAY", "1")
	gone := c.prepared("t", "gone", "DELAY", "1")
	for _, l := range levelsOf(t, c) {
		if l.MaxOffset != 0 {
			t.Fatalf("pending before the commit: %+v", l)
		}
	}
	c.ok(remoting.ReqEndTransaction, end(gone, decideRollback), nil)
	before := time.Now()
	c.ok(remoting.ReqEndTransaction, end(late, decideCommit), nil)
	if l := levelsOf(t, c)[0]; l.MaxOffset != 1 || l.Pending != 1 || l.NextDueUs < before.Add(time.Second).UnixMicro() {
		t.Errorf("after the commit: %+v", l)
	}
	got := c.pullAll("g", "t", 0, 1)[0]
	if string(got.Body) != "late" || got.StoreTime < before.Add(time.Second).UnixMilli() {
		t.Errorf("delivered %+v, committed at %v", got, before)
	}
	if _, ok := got.Property("DELAY"); ok || b.entries("t", 0) != 1 {
		t.Errorf("properties %q, %d entries", got.Properties, b.entries("t", 0))
	}
	eventually(t, "an empty level", func() bool { return levelsOf(t, c)[0].Pending == 0 })
	if n := len(b.store.Halves()); n != 0 {
		t.Errorf("%d open", n)
	}
}

// TestTransactionSurvives: what is on the disk is the transaction, whenever the
// process ends.
func TestTransactionSurvives(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir, o.DelayLevels = dir, "1s 1h" })
	c := dial(t, b)
	c.createTopic("t", 1)
	open, done, rolled, delayed := c.prepared("t", "open"), c.prepared("t", "done"), c.prepared("t", "rolled"), c.prepared("t", "delayed", "DELAY", "2")
	c.ok(remoting.ReqEndTransaction, end(done, decideCommit), nil)
	c.ok(remoting.ReqEndTransaction, end(rolled, decideRollback), nil)
	c.ok(remoting.ReqEndTransaction, end(delayed, decideCommit), nil)
	// The files as they are now, as a kill -9 would leave them; and after a stop.
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{killed, dir} {
		b := startBroker(t, func(o *Options) { o.Dir, o.DelayLevels = d, "1s 1h" })
		c := dial(t, b)
		for _, f := range []remoting.Fields{done, rolled, delayed} {
			c.want(remoting.SystemError, remoting.ReqEndTransaction, end(f, decideCommit), nil)
		}
		if l := levelsOf(t, c)[1]; l.Pending != 1 || b.entries("t", 0) != 1 {
			t.Errorf("level %+v, %d entries", l, b.entries("t", 0))
		}
		c.ok(remoting.ReqEndTransaction, end(open, decideCommit), nil)
		if got := c.pullAll("g", "t", 0, 2); string(got[0].Body) != "done" || string(got[1].Body) != "open" {
			t.Errorf("got %v", got)
		}
	}
}

// beatProducer sends a heartbeat of one producer.
func (c *rawClient) beatProducer(clientID, group string) {
	c.t.Helper()
	c.ok(remoting.ReqHeartBeat, nil, fmt.Appendf(nil, `{"clientID":%q,"producerDataSet":[{"groupName":%q}],"consumerDataSet":[]}`, clientID, group))
}

// TestCheckBack: a producer that does not end its transaction is asked, so
// often and no more.
func TestCheckBack(t *testing.T) {
	dir := t.TempDir()
	tune := func(o *Options) {
		o.Dir, o.TransactionTimeout, o.TransactionInterval, o.TransactionChecks = dir, 30*time.Millisecond, 20*time.Millisecond, 3
	}
	b := startBroker(t, tune)
	c := dial(t, b)
	c.createTopic("t", 1)
	p := dial(t, b)
	p.beatProducer("p1", "shop")

	began := time.Now()
	f := c.prepared("t", "asked", "KEYS", "k")
	ask := p.notice(remoting.ReqCheckTransactionState)
	if since := time.Since(began); since < 30*time.Millisecond {
		t.Errorf("asked after %v", since)
	}
	m, _, err := message.DecodeRecord(ask.Body)
	if err != nil || m.VerifyBody() != nil || m.Topic != "t" || string(m.Body) != "asked" || !ask.IsOneway() {
		t.Fatalf("asked with %v, %+v, %v", ask, m, err)
	}
	for _, key := range []string{"tranStateTableOffset", "commitLogOffset", "msgId", "transactionId"} {
		if ask.Fields.Value(key) != f.Value(key) {
			t.Errorf("field %s is %q, want %q", key, ask.Fields.Value(key), f.Value(key))
		}
	}
	if group, _ := m.Property("PGROUP"); group != "shop" {
		t.Errorf("properties %q", m.Properties)
	}
	if times, _ := m.Property("TRANSACTION_CHECK_TIMES"); times != "1" {
		t.Errorf("asked for the time %s", times)
	}
	c.ok(remoting.ReqEndTransaction, end(f, decideCommit, "fromTransactionCheck", "true"), nil)
	c.pullAll("g", "t", 0, 1)

	// Never answered: asked three times, then it is kept where it can be read.
	c.prepared("t", "unknown")
	for range 3 {
		if m, _, err := message.DecodeRecord(p.notice(remoting.ReqCheckTransactionState).Body); err != nil || string(m.Body) != "unknown" {
			t.Errorf("asked about %q, %v", m.Body, err)
		}
	}
	eventually(t, "the message that was given up", func() bool { return b.entries(message.TransCheckMaxTopic, 0) == 1 })
	given := c.pullAll("g", message.TransCheckMaxTopic, 0, 1)[0]
	if real, _ := given.Property("REAL_TOPIC"); string(given.Body) != "unknown" || real != "t" {
		t.Errorf("given up %+v", given)
	}
	// Nobody there to ask: given up all the same.
	p.close()
	c.prepared("t", "nobody")
	if given = c.pullAll("g", message.TransCheckMaxTopic, 0, 2)[1]; string(given.Body) != "nobody" {
		t.Errorf("given up %+v", given)
	}
	if n := len(b.store.Halves()); n != 0 {
		t.Errorf("%d open", n)
	}

	// One that was stored before a restart is asked after it.
	c.prepared("t", "restart")
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = startBroker(t, tune)
	p = dial(t, b)
	p.beatProducer("p2", "shop")
	open := len(b.store.Halves())
	eventually(t, "no open transaction", func() bool { return len(b.store.Halves()) == 0 })
	t.Logf("%d were open after the restart", open)
}

// TestTransactionImmunity: a producer that says for how long it is not to be
// asked has to end its transaction by then, or when it is asked.
func TestTransactionImmunity(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	c.ok(remoting.ReqEndTransaction, end(c.prepared("t", "immune", "CHECK_IMMUNITY_TIME_IN_SECONDS", "3600"), decideCommit), nil)
	f := c.prepared("t", "late", "CHECK_IMMUNITY_TIME_IN_SECONDS", "0")
	stored := b.store.Halves()[0].StoreMs
	eventually(t, "the end of the immunity", func() bool { return b.store.Now().UnixMilli() > stored+1 })
	c.want(remoting.IllegalOperation, remoting.ReqEndTransaction, end(f, decideCommit), nil)
	c.ok(remoting.ReqEndTransaction, end(f, decideCommit, "fromTransactionCheck", "true"), nil)
	if n := b.entries("t", 0); n != 2 {
		t.Errorf("%d entries", n)
	}
}
