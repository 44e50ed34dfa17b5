package broker

import (
	"testing"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// answer answers a request of the broker's.
func (c *rawClient) answer(req *remoting.Command, code int) {
	c.t.Helper()
	resp := req.Reply(code, "")
	resp.HeaderType = req.HeaderType
	c.put(resp)
}

// TestRequestReply: a reply is handed to the client that asked, and the one who
// replied is told whether it took it.
func TestRequestReply(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.ClusterName, o.DisableAutoCreateTopic = "east", true })
	asker, replier := dial(t, b), dial(t, b)
	asker.createTopic("t", 1)
	asker.beatProducer("asker-1", "p")
	asker.send("t", 0, props("REPLY_TO_CLIENT", "asker-1", "CORRELATION_ID", "7", "TTL", "3000"), "question")
	asker.send("t", 0, props("a", "b"), "no question")
	got := replier.pullAll("g", "t", 0, 2)
	if cluster, _ := got[0].Property(message.PropertyCluster); cluster != "east" {
		t.Errorf("a request without its cluster: %q", got[0].Properties)
	}
	if got[1].Properties != props("a", "b") {
		t.Errorf("properties of another message: %q", got[1].Properties)
	}

	// The reply topic has a route, and is there, by its first use.
	const topic = "east_REPLY_TOPIC"
	replier.ok(remoting.ReqGetRouteInfoByTopic, fields("topic", topic), nil)
	reply := sendFields(topic, 0, props("REPLY_TO_CLIENT", "asker-1", "CORRELATION_ID", "7", "MSG_TYPE", "reply"), "h", 9)
	for i, code := range []int{remoting.ReqSendReplyMessageV2, remoting.ReqSendReplyMessage} {
		answer := replier.start(code, reply, []byte("reply"))
		push := asker.notice(remoting.ReqPushReplyMessageToClient)
		if string(push.Body) != "reply" || push.Fields.Value("topic") != topic || push.Fields.Value("flag") != "9" || push.IsOneway() {
			t.Errorf("pushed %v %q", push, push.Body)
		}
		pushed := push.Fields.Value("properties")
		if id, _ := message.Property(pushed, "CORRELATION_ID"); id != "7" {
			t.Errorf("pushed properties %q", pushed)
		}
		if _, ok := message.Property(pushed, message.PropertyPushReplyTime); !ok {
			t.Errorf("pushed properties %q", pushed)
		}
		asker.answer(push, 0)
		if resp := await(t, answer); resp.Code != 0 || number64(t, resp, "queueOffset") != int64(i) {
			t.Errorf("reply: %v", resp)
		}
	}

	// Refused, and not stored: the client did not take it, or is not there.
	answer := replier.start(remoting.ReqSendReplyMessageV2, reply, []byte("reply"))
	asker.answer(asker.notice(remoting.ReqPushReplyMessageToClient), remoting.SystemError)
	if resp := await(t, answer); resp.Code != remoting.SystemError {
		t.Errorf("reply: %v", resp)
	}
	replier.want(remoting.SystemError, remoting.ReqSendReplyMessageV2, sendFields(topic, 0, props("REPLY_TO_CLIENT", "nobody")), []byte("reply"))
	replier.want(remoting.MessageIllegal, remoting.ReqSendReplyMessageV2, sendFields(topic, 0, ""), []byte("reply"))
	if n := b.entries(topic, 0); n != 2 {
		t.Errorf("%d replies stored", n)
	}
}

// TestBuiltinTopics: topics that clients count upon exist by their first use,
// also where users' topics do not.
func TestBuiltinTopics(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.DisableAutoCreateTopic = true })
	c := dial(t, b)
	for _, topic := range []string{message.TraceTopic, "DefaultCluster_REPLY_TOPIC"} {
		c.ok(remoting.ReqGetRouteInfoByTopic, fields("topic", topic), nil)
		c.send(topic, 0, "", "x")
		if n := queuesOf(t, c, topic); n != 1 {
			t.Errorf("%s has %d queues", topic, n)
		}
		c.pullAll("g", topic, 0, 1)
	}
	c.want(remoting.TopicNotExist, remoting.ReqGetRouteInfoByTopic, fields("topic", "t"), nil)
	c.want(remoting.TopicNotExist, remoting.ReqSendMessageV2, sendFields("t", 0, ""), []byte("x"))
}

// TestAuthenticationIsIgnored: what a client with an access key adds does not
// matter while nothing checks it.
func TestAuthenticationIsIgnored(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		c.headerType = header
		key := []any{"AccessKey", "user", "Signature", "c2lnbmF0dXJl", "SecurityToken", "token", "OnsChannel", "ALIYUN"}
		c.ok(remoting.ReqSendMessageV2, sendFields("t", 0, props("a", "b"), key...), []byte("x"))
		m := records(t, c.ok(remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, key...), nil))[0]
		if m.Properties != props("a", "b") {
			t.Errorf("properties %q", m.Properties)
		}
	}
}
