package broker

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// ends waits until the peer closed the connection.
func ends(t *testing.T, nc net.Conn) {
	t.Helper()
	nc.SetReadDeadline(time.Now().Add(answerLimit))
	if _, err := io.Copy(io.Discard, nc); err != nil && isTimeout(err) {
		t.Errorf("connection is still open after %v", answerLimit)
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func frame(length, header uint32, rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	b = binary.BigEndian.AppendUint32(b, header)
	return append(b, rest...)
}

// TestBadFrames: bytes that are no frame end the connection, and what follows
// them is never read as another frame.
func TestBadFrames(t *testing.T) {
	b := startBroker(t, nil)
	good, err := remoting.AppendCommand(nil, &remoting.Command{
		Code: remoting.ReqSendMessageV2, Opaque: 1, Fields: sendFields("never", 0, ""), Body: []byte("x"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		bytes []byte
	}{
		{"length 0", frame(0, 0, "")},
		{"length 3", frame(3, 0, "abc")},
		{"length over the limit", frame(16<<20, 20, "")},
		{"length 0x7fffffff", frame(0x7fffffff, 20, "")},
		{"length 0xffffffff", frame(0xffffffff, 20, "")},
		{"header longer than the frame", frame(20, 17, "0123456789abcdef")},
		{"header of 16 MiB in a short frame", frame(20, 0xffffff, "0123456789abcdef")},
		{"unknown header type", frame(20, 2<<24|16, "0123456789abcdef")},
		{"broken JSON", frame(20, 16, `{"code":10,"lan`+"x")},
		{"JSON that is no object", frame(8, 4, `1234`)},
		{"JSON code that is text", frame(4+14, 14, `{"code":"abc"}`)},
		{"binary header too short", frame(8, 1<<24|4, "\x00\x0a\x00\x00")},
		{"binary header with a hostile length", frame(4+21, 1<<24|21, "\x00\x0a\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00")},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")},
		{"zeros", make([]byte, 4096)},
	} {
		t.Run(test.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := nc.Write(append(test.bytes, good...)); err != nil {
				t.Logf("write: %v", err)
			}
			ends(t, nc)
		})
	}
	dial(t, b).want(remoting.TopicNotExist, remoting.ReqGetRouteInfoByTopic, fields("topic", "never"), nil)
}

// TestFrameAtTheLimit: 16 MiB in all is a frame, and its message is refused by
// its own limit; a byte more ends the connection.
func TestFrameAtTheLimit(t *testing.T) {
	b := startBroker(t, nil)
	cmd := &remoting.Command{Code: remoting.ReqSendMessageV2, Opaque: 7, Fields: sendFields("t", 0, "")}
	head, err := remoting.AppendCommand(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Body = make([]byte, remoting.MaxFrame-len(head))
	whole, err := remoting.AppendCommand(nil, cmd)
	if err != nil || len(whole) != remoting.MaxFrame {
		t.Fatalf("frame of %d bytes, %v", len(whole), err)
	}
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(whole); err != nil {
		t.Fatal(err)
	}
	resp, err := remoting.NewReader(nc, 0).ReadCommand()
	if err != nil || resp.Code != remoting.TopicNotExist && resp.Code != remoting.MessageIllegal {
		t.Fatalf("got %v, %v", resp, err)
	}
	binary.BigEndian.PutUint32(whole, remoting.MaxFrame-4+1)
	nc.Write(append(whole, 0))
	ends(t, nc)
}

// TestSplitFrames: a frame may come byte by byte.
func TestSplitFrames(t *testing.T) {
	b := startBroker(t, nil)
	nc, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	frame, err := remoting.AppendCommand(nil, &remoting.Command{Code: remoting.ReqSendMessageV2, Opaque: 3, Fields: sendFields("t", 0, ""), Body: []byte("bytes")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range frame {
		if _, err := nc.Write(frame[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := remoting.NewReader(nc, 0).ReadCommand()
	if err != nil || resp.Code != remoting.Success || resp.Opaque != 3 {
		t.Errorf("got %v, %v", resp, err)
	}
}

// TestHalfSentAndIdle: a connection that does not end its frame, and one that
// says nothing, are closed.
func TestHalfSentAndIdle(t *testing.T) {
	b := startBroker(t, func(o *Options) { o.IdleTimeout = 300 * time.Millisecond })
	for _, test := range []struct{ name, bytes string }{{"idle", ""}, {"half", "\x00\x00\x00\x20\x00"}} {
		t.Run(test.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := io.WriteString(nc, test.bytes); err != nil {
				t.Fatal(err)
			}
			ends(t, nc)
		})
	}
	t.Run("trickle", func(t *testing.T) {
		nc, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		closed := make(chan struct{})
		go func() { defer close(closed); ends(t, nc) }()
		nc.Write([]byte{0, 0, 0x40, 0})
		for {
			select {
			case <-closed:
				return
			case <-time.After(50 * time.Millisecond):
				nc.Write([]byte{0}) // keeps the connection busy, not the frame
			}
		}
	})
}

// TestManyConnections: 1 000 connections that are idle, half-open or announce
// huge frames cost little, and others are served.
func TestManyConnections(t *testing.T) {
	b := startBroker(t, nil)
	before := memory()
	var conns []net.Conn
	defer func() {
		for _, nc := range conns {
			nc.Close()
		}
	}()
	for i := range 1000 {
		nc, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, nc)
		switch i % 3 {
		case 1:
			nc.Write([]byte{0, 0xff, 0xff, 0xf0, 0}) // 16 MiB announced, not sent
		case 2:
			nc.Write(frame(0x7fffffff, 20, ""))
		}
	}
	c := dial(t, b)
	c.send("t", 0, "", "x")
	if got := c.pullAll("g", "t", 0, 1); len(got) != 1 {
		t.Errorf("got %d messages", len(got))
	}
	if used := int64(memory()) - int64(before); used > 64<<20 {
		t.Errorf("%d bytes for 1000 connections", used)
	}
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestUnknownRequest: unknown codes are answered with 3 and the connection
// goes on.
func TestUnknownRequest(t *testing.T) {
	b := startBroker(t, nil)
	for _, header := range []byte{remoting.HeaderJSON, remoting.HeaderRocketMQ} {
		c := dial(t, b)
		c.headerType = header
		for _, code := range []int{0, 12, 103, 9999, 32767} {
			resp := c.want(remoting.RequestCodeNotSupported, code, fields("x", "y"), []byte("z"))
			if !strings.Contains(resp.Remark, "not supported") {
				t.Errorf("code %d: remark %q", code, resp.Remark)
			}
		}
		c.oneway(9999, nil, nil)
		c.createTopic("t", 1)
	}
}

// TestMissingFields: a request without a field it needs is answered with the
// field's name.
func TestMissingFields(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	c.createTopic("t", 1)
	for _, test := range []struct {
		code  int
		f     remoting.Fields
		field string
	}{
		{remoting.ReqSendMessageV2, fields("b", "t"), "queueId"},
		{remoting.ReqSendMessage, fields("queueId", 0), "topic"},
		{remoting.ReqSendMessageV2, fields("b", "t", "e", "many"), "many"},
		{remoting.ReqSendMessageV2, fields("b", "t", "e", 0, "g", "1e9"), "1e9"},
		{remoting.ReqPullMessage, fields("topic", "t"), "consumerGroup"},
		{remoting.ReqPullMessage, fields("consumerGroup", "g", "topic", "t", "queueId", 0, "maxMsgNums", 1, "sysFlag", 0), "queueOffset"},
		{remoting.ReqPullMessage, pullFields("g", "t", 0, 0, 0, "maxMsgNums", 0), "maxMsgNums is 0"},
		{remoting.ReqPullMessage, pullFields("g", "t", 1, 0, 0), "queueId is 1"},
		{remoting.ReqPullMessage, pullFields("g", "t", -1, 0, 0), "queueId is -1"},
		{remoting.ReqUpdateConsumerOffset, fields("consumerGroup", "g", "topic", "t", "queueId", 0), "commitOffset"},
		{remoting.ReqGetMaxOffset, fields("topic", "t"), "queueId"},
		{remoting.ReqGetMaxOffset, fields("topic", "t", "queueId", 99), "queueId is 99"},
		{remoting.ReqSearchOffsetByTimestamp, fields("topic", "t", "queueId", 0), "timestamp"},
		{remoting.ReqSearchOffsetByTimestamp, fields("topic", "t", "queueId", 0, "timestamp", 1, "boundaryType", "MIDDLE"), "MIDDLE"},
		{remoting.ReqConsumerSendMsgBack, fields("group", "g", "delayLevel", 0), "offset"},
		{remoting.ReqGetRouteInfoByTopic, nil, "topic"},
		{remoting.ReqHeartBeat, nil, "JSON"},
		{remoting.ReqLockBatchMQ, nil, "JSON"},
		{remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "readQueueNums", 8193), "readQueueNums is 8193: 1 to 8192"},
		{remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "writeQueueNums", 0), "writeQueueNums is 0"},
		{remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "perm", 8), "perm is 8"},
		{remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "topicFilterType", "NONE"), "NONE"},
		{remoting.ReqUpdateAndCreateTopic, fields("topic", "t", "attributes", "a=b"), "a=b"},
		{remoting.ReqTideResetOffsets, fields("group", "g", "topic", "t", "to", "somewhere"), "somewhere"},
		{remoting.ReqTideResetOffsets, fields("group", "g", "topic", "t", "to", "offset", "value", -1), "value is -1"},
	} {
		resp := c.want(remoting.InvalidParameter, test.code, test.f, nil)
		if !strings.Contains(resp.Remark, test.field) {
			t.Errorf("%s: remark %q, want %q in it", remoting.RequestName(test.code), resp.Remark, test.field)
		}
		if test.code == remoting.ReqPullMessage { // the group exists from its first use on
			continue
		}
	}
}

// TestTopicNames: what is no topic, and what is the broker's, is refused.
func TestTopicNames(t *testing.T) {
	b := startBroker(t, nil)
	c := dial(t, b)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct {
		name                 string
		send, create, delete int
	}{
		{"ok", 0, 0, 0},
		{"", 29, 29, 29},
		{"a b", 29, 29, 29},
		{"ä", 29, 29, 29},
		{"a/b", 29, 29, 29},
		{long(127), 0, 0, 0},
		{long(128), 29, 29, 29},
		{long(255), 29, 29, 29},
		{message.RetryTopic(""), 29, 29, 29},
		{message.DLQTopic(""), 29, 29, 29},
		{message.RetryTopic("g1"), 0, 0, 0},
		{message.RetryTopic(long(120)), 0, 0, 0},
		{message.RetryTopic(long(248)), 0, 0, 0},
		{message.RetryTopic(long(249)), 29, 29, 29},
		{message.DLQTopic(long(250)), 0, 0, 0},
		{message.DLQTopic(long(251)), 29, 29, 29},
		{message.ScheduleTopic, 16, 29, 29},
		{message.TransHalfTopic, 16, 29, 29},
		{message.TransOpHalfTopic, 16, 29, 29},
		{"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", 16, 29, 29},
		{message.TransCheckMaxTopic, 16, 29, 29},
		{message.SelfTestTopic, 16, 29, 29},
		{message.OffsetMovedEvent, 16, 29, 29},
		{message.UndeliverableTopic, 16, 29, 29},
		{message.TimerTopic, 16, 29, 29},
		{message.TraceTopic, 0, 29, 29},
		{message.TBW102, 0, 29, 29},
	} {
		code := func(req int, f remoting.Fields) int { return c.call(req, f, []byte("x")).Code }
		if got := code(remoting.ReqSendMessageV2, sendFields(test.name, 0, "")); got != test.send {
			t.Errorf("send to %.40q: %d, want %d", test.name, got, test.send)
		}
		if got := code(remoting.ReqUpdateAndCreateTopic, fields("topic", test.name, "readQueueNums", 4, "writeQueueNums", 4, "perm", 6)); got != test.create {
			t.Errorf("create %.40q: %d, want %d", test.name, got, test.create)
		}
		if got := code(remoting.ReqDeleteTopicInBroker, fields("topic", test.name)); got != test.delete {
			t.Errorf("delete %.40q: %d, want %d", test.name, got, test.delete)
		}
	}
	c.want(remoting.NoPermission, remoting.ReqPullMessage, pullFields("g", message.ScheduleTopic, 0, 0, 0), nil)
	c.want(remoting.TopicNotExist, remoting.ReqInvokeBrokerToResetOffset, fields("topic", message.ScheduleTopic, "group", "g", "timestamp", 0), nil)
	c.want(remoting.TopicNotExist, remoting.ReqUpdateConsumerOffset, fields("consumerGroup", "g", "topic", message.ScheduleTopic, "queueId", 0, "commitOffset", 5), nil)
}
