package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// goldenDir holds frames that RocketMQ's own clients sent and that a RocketMQ
// broker answered them; see its README.
const goldenDir = "../testdata/remoting"

// goldenFrame reads one frame; nil when there is none of that name.
func goldenFrame(t *testing.T, name string) (*remoting.Command, []byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDir, name+".bin"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd, _, err := remoting.DecodeCommand(bytes.Clone(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return cmd, b
}

// TestRealClients sends the very frames of the Java client, in both header
// types, and of the Go client, and compares the answers with those of a
// RocketMQ broker: the code, the fields of the header, the keys of the body.
func TestRealClients(t *testing.T) {
	// In an order in which each finds what it needs.
	steps := []struct {
		code  int
		codes []int // expected instead of 0
	}{
		{code: remoting.ReqUpdateAndCreateTopic},
		{code: remoting.ReqGetRouteInfoByTopic, codes: []int{0, remoting.TopicNotExist}},
		{code: remoting.ReqGetBrokerClusterInfo},
		{code: remoting.ReqHeartBeat},
		{code: remoting.ReqSendMessage},
		{code: remoting.ReqSendMessageV2},
		{code: remoting.ReqSendBatchMessage},
		{code: remoting.ReqGetMaxOffset},
		{code: remoting.ReqGetMinOffset},
		{code: remoting.ReqSearchOffsetByTimestamp},
		{code: remoting.ReqGetEarliestMsgStoreTime},
		{code: remoting.ReqGetConsumerListByGroup, codes: []int{0, remoting.SystemError}}, // the group of another heartbeat
		{code: remoting.ReqQueryConsumerOffset},
		{code: remoting.ReqUpdateConsumerOffset},
		{code: remoting.ReqLockBatchMQ},
		{code: remoting.ReqUnlockBatchMQ},
		{code: remoting.ReqPullMessage, codes: []int{0, remoting.SubscriptionNotExist}},
		{code: remoting.ReqLitePullMessage, codes: []int{0, remoting.PullNotFound}},
		{code: remoting.ReqConsumerSendMsgBack, codes: []int{remoting.SystemError}}, // an offset of another log
		{code: remoting.ReqGetAllTopicListFromNameserver},
		{code: remoting.ReqGetTopicStatsInfo},
		{code: remoting.ReqGetConsumeStats},
		{code: remoting.ReqGetConsumerConnectionList, codes: []int{0, remoting.ConsumerNotOnline}},
		{code: remoting.ReqInvokeBrokerToResetOffset},
		{code: remoting.ReqGetConsumerRunningInfo, codes: []int{remoting.SystemError}}, // that client is not here
		{code: remoting.ReqUnregisterClient},
		{code: remoting.ReqDeleteTopicInBroker},
		{code: remoting.ReqDeleteTopicInNamesrv},
		{code: remoting.ReqQueryMessage, codes: []int{remoting.RequestCodeNotSupported}},
		{code: remoting.ReqEndTransaction, codes: []int{remoting.SystemError}},                     // a half message of another log
		{code: remoting.ReqInvokeBrokerToGetConsumerStatus, codes: []int{0, remoting.SystemError}}, // nobody of that group is here
	}
	for _, client := range []string{"java-json", "java-binary", "go"} {
		t.Run(client, func(t *testing.T) {
			b := startBroker(t, func(o *Options) { o.BrokerName = "broker-a"; o.DelayLevels = "1h 2h" })
			setUpGolden(t, dial(t, b), client)
			nc, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(2 * answerLimit))
			r := remoting.NewReader(nc, 0)
			seen := 0
			for _, step := range steps {
				name := fmt.Sprintf("%s-%03d", client, step.code)
				req, frame := goldenFrame(t, name+"-request")
				if req == nil {
					continue
				}
				seen++
				if _, err := nc.Write(frame); err != nil {
					t.Fatal(err)
				}
				if req.IsOneway() {
					continue
				}
				got := answerOf(t, r, req.Opaque)
				codes := step.codes
				if codes == nil {
					codes = []int{0}
				}
				if !slices.Contains(codes, got.Code) || got.HeaderType != req.HeaderType {
					t.Errorf("%s: answered %v in header type %d, want one of %v in %d", name, got, got.HeaderType, codes, req.HeaderType)
					continue
				}
				if want, _ := goldenFrame(t, name+"-response-0"); want != nil && got.Code == 0 {
					compareGolden(t, name, got, want)
				}
			}
			requests, err := filepath.Glob(filepath.Join(goldenDir, client+"-[0-9][0-9][0-9]-request.bin"))
			if err != nil || seen != len(requests) || seen == 0 {
				t.Errorf("sent %d frames of %d, %v", seen, len(requests), err)
			}
		})
	}
}

// setUpGolden creates the topics and groups that a client's frames name, and
// puts messages into the queues.
func setUpGolden(t *testing.T, c *rawClient, client string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(goldenDir, client+"-[0-9][0-9][0-9]-request.bin"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no frames of %s: %v", client, err)
	}
	topics, groups := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		req, _ := goldenFrame(t, filepath.Base(file[:len(file)-len(".bin")]))
		for _, f := range req.Fields {
			switch f.Key {
			case "topic", "b":
				topics[f.Value] = true
			case "consumerGroup", "group":
				groups[f.Value] = true
			}
		}
	}
	delete(topics, "TBW102")
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		c.createTopic(topic, 8)
		for i := range 20 {
			c.send(topic, i%4, props("TAGS", "TagA"), "x")
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			c.ok(remoting.ReqUpdateConsumerOffset, commitFields(group, topic, 0, 2), nil)
		}
	}
}

// answerOf reads until the answer to opaque comes; notices come in between.
func answerOf(t *testing.T, r *remoting.Reader, opaque int32) *remoting.Command {
	t.Helper()
	for {
		cmd, err := r.ReadCommand()
		if err != nil {
			t.Fatal(err)
		}
		if cmd.IsResponse() && cmd.Opaque == opaque {
			return cmd
		}
	}
}

// leftOut are fields and keys of RocketMQ's answers that ours leave out, each
// because the client takes the same for granted.
var leftOut = map[string]string{
	"groupSysFlag": "0 by default",
	"topicSysFlag": "0 by default",
	"MSG_REGION":   "Java: DefaultRegion by default; others get it",
	"TRACE_ON":     "Java: true by default; others get it",
	"consumeTps":   "not counted",
	"topicPutTps":  "not counted",
}

func compareGolden(t *testing.T, name string, got, want *remoting.Command) {
	t.Helper()
	for _, f := range want.Fields {
		traced := f.Key == "MSG_REGION" || f.Key == "TRACE_ON"
		needed := leftOut[f.Key] == "" || traced && strings.HasPrefix(name, "go-")
		if _, ok := got.Fields.Get(f.Key); needed && !ok {
			t.Errorf("%s: the answer has no field %s (%v)", name, f.Key, got.Fields)
		}
	}
	if got.Code != want.Code || len(want.Body) == 0 || want.Body[0] != '{' {
		return
	}
	have := jsonKeys(t, name, got.Body)
	for key := range jsonKeys(t, name, want.Body) {
		if !have[key] && leftOut[key] == "" {
			t.Errorf("%s: the body has no key %s: %s", name, key, got.Body)
		}
	}
}

// objectKey is a queue as a map's key, as fastjson writes it.
var objectKey = regexp.MustCompile(`\{"brokerName":"[^"]*","queueId":\d+,"topic":"[^"]*"\}:`)

// numberKey is a number as a map's key.
var numberKey = regexp.MustCompile(`([{,])(\d+):`)

// jsonKeys returns the keys of objects in a body, wherever they are; keys that
// are data, such as names of topics, are left out.
func jsonKeys(t *testing.T, name string, body []byte) map[string]bool {
	t.Helper()
	body = objectKey.ReplaceAll(body, []byte(`"queue":`))
	body = numberKey.ReplaceAll(body, []byte(`$1"$2":`))
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v in %s", name, err, body)
	}
	keys := make(map[string]bool)
	var walk func(v any, data bool)
	walk = func(v any, data bool) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if !data {
					keys[key] = true
				}
				walk(value, key == "subscriptionTable")
			}
		case []any:
			for _, value := range v {
				walk(value, false)
			}
		}
	}
	walk(v, false)
	return keys
}
