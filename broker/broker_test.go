package broker

import (
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// TestWhileStarting: until the store is loaded everything is answered with 14,
// never with "no offset".
func TestWhileStarting(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, func(o *Options) { o.Dir = dir })
	c := dial(t, b)
	c.sendMany("t", 0, 5)
	c.ok(remoting.ReqUpdateConsumerOffset, commitFields("g", "t", 0, 3), nil)
	c.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	loading, goOn := make(chan *Broker), make(chan struct{})
	var starting *Broker
	started := make(chan struct{})
	go func() {
		defer close(started)
		startBrokerIn(t, &starting, func(o *Options) {
			o.Dir = dir
			o.tuneStore = func(*store.Options) {
				loading <- starting
				<-goOn
			}
		})
	}()
	c = dialAddr(t, (<-loading).Addr())
	for code, f := range map[int]remoting.Fields{
		remoting.ReqQueryConsumerOffset:  fields("consumerGroup", "g", "topic", "t", "queueId", 0),
		remoting.ReqUpdateConsumerOffset: commitFields("g", "t", 0, 0),
		remoting.ReqPullMessage:          pullFields("g", "t", 0, 0, 1000),
		remoting.ReqSendMessageV2:        sendFields("t", 0, ""),
		remoting.ReqGetRouteInfoByTopic:  fields("topic", "t"),
		remoting.ReqHeartBeat:            nil,
	} {
		if resp := c.want(remoting.ServiceNotAvailable, code, f, nil); !strings.Contains(resp.Remark, "starting") {
			t.Errorf("remark %q", resp.Remark)
		}
	}
	close(goOn)
	<-started
	if got := committed(t, c, "g", "t", 0); got != 3 {
		t.Errorf("offset %d, want 3", got)
	}
}
