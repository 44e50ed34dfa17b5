package broker

import (
	"fmt"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func TestSendAndPull(t *testing.T) {
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		t.Run(fmt.Sprint("header ", header), func(t *testing.T) {
			b := startBroker(t, nil)
			c := dial(t, b)
			c.headerType = header
			for i := range 10 {
				resp := c.send("orders", 1, props("KEYS", "k1", "TAGS", "red", "UNIQ_KEY", fmt.Sprint("u", i)), fmt.Sprint("body ", i))
				if got := number64(t, resp, "queueOffset"); got != int64(i) {
					t.Errorf("message %d: queue offset %d", i, got)
				}
				if got := resp.Fields.Value("transactionId"); got != fmt.Sprint("u", i) {
					t.Errorf("message %d: transactionId %q", i, got)
				}
				host, _, err := message.ParseOffsetID(resp.Fields.Value("msgId"))
				if err != nil || host.String() != b.Addr() {
					t.Errorf("message %d: id names %v, %v; want %s", i, host, err, b.Addr())
				}
			}
			got := c.pullAll("g", "orders", 1, 10)
			for i, m := range got {
				if string(m.Body) != fmt.Sprint("body ", i) || m.QueueOffset != int64(i) || m.Topic != "orders" || m.QueueID != 1 {
					t.Errorf("message %d: %+v", i, m)
				}
				if want := props("KEYS", "k1", "TAGS", "red", "UNIQ_KEY", fmt.Sprint("u", i)); m.Properties != want {
					t.Errorf("message %d: properties %q, want %q", i, m.Properties, want)
				}
				if m.StoreHost.String() != b.Addr() || m.BornTime != 1700000000000 {
					t.Errorf("message %d: store host %v, born %d", i, m.StoreHost, m.BornTime)
				}
			}
		})
	}
}

func TestDelayedSend(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DelayLevels = shortLevels })
	c := dial(t, b)
	resp := c.send("orders", 2, props("DELAY", "1", "TAGS", "red", "own", "x"), "later")
	sent := c.ok(remoting.ReqViewMessageByID, fields("offset", offsetOf(t, resp)), nil)
	pending := records(t, sent)[0]
	if pending.Topic != message.ScheduleTopic || pending.QueueID != 0 {
		t.Errorf("pending in %s queue %d", pending.Topic, pending.QueueID)
	}
	m := c.pullAll("g", "orders", 2, 1)[0]
	if m.StoreTime < pending.StoreTime+1000 {
		t.Errorf("delivered %d ms after it was stored, want 1000 or more", m.StoreTime-pending.StoreTime)
	}
	if string(m.Body) != "later" || m.Properties != props("TAGS", "red", "own", "x") {
		t.Errorf("got %+v", m)
	}
}

func offsetOf(t *testing.T, resp *remoting.Command) int64 {
	t.Helper()
	_, offset, err := message.ParseOffsetID(resp.Fields.Value("msgId"))
	if err != nil {
		t.Fatal(err)
	}
	return offset
}
