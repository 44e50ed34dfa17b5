package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

// Bodies are JSON as fastjson writes and reads it: maps whose keys are queues
// have the queue's object as the key.
//
//	{"offsetTable":{{"brokerName":"tidemq","queueId":0,"topic":"t"}:5}}

// maxJSONBody bounds the JSON bodies that clients send, in bytes.
const maxJSONBody = 4 << 20

// decodeJSON decodes a request's body.
func decodeJSON(body []byte, v any) error {
	if len(body) > maxJSONBody {
		return refuse(remoting.InvalidParameter, "body is %d bytes of JSON, at most %d are allowed", len(body), maxJSONBody)
	}
	body, err := plainJSON(body)
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return refuse(remoting.InvalidParameter, "body is not the JSON expected: %v", err)
	}
	return nil
}

// replyJSON answers with success and a JSON body.
func (c *conn) replyJSON(req *remoting.Command, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = body
	c.reply(req, resp)
	return nil
}

// number is an integer that clients write as a number or as a string.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	text := string(b)
	if text == "null" || text == `""` {
		return nil
	}
	if len(text) >= 2 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%.40q is not an integer", text)
	}
	*n = number(v)
	return nil
}

// quoted returns s as a JSON string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always encodes
		return strconv.Quote(s)
	}
	return string(b)
}

// appendQueue appends a queue of this broker as RocketMQ's MessageQueue.
func (b *Broker) appendQueue(dst []byte, topic string, queue int32) []byte {
	dst = append(dst, `{"brokerName":`...)
	dst = append(dst, quoted(b.opts.BrokerName)...)
	dst = append(dst, `,"queueId":`...)
	dst = strconv.AppendInt(dst, int64(queue), 10)
	dst = append(dst, `,"topic":`...)
	dst = append(dst, quoted(topic)...)
	return append(dst, '}')
}

// offsetTable is RocketMQ's ResetOffsetBody, queues in order.
func (b *Broker) offsetTable(topic string, offsets map[int32]int64) []byte {
	dst := []byte(`{"offsetTable":{`)
	for i, queue := range slices.Sorted(maps.Keys(offsets)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = b.appendQueue(dst, topic, queue)
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, offsets[queue], 10)
	}
	return append(dst, "}}"...)
}

// offsetList is RocketMQ's ResetOffsetBodyForC.
func (b *Broker) offsetList(topic string, offsets map[int32]int64) []byte {
	dst := []byte(`{"offsetTable":[`)
	for i, queue := range slices.Sorted(maps.Keys(offsets)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		q := b.appendQueue(nil, topic, queue)
		dst = append(dst, q[:len(q)-1]...)
		dst = append(dst, `,"offset":`...)
		dst = strconv.AppendInt(dst, offsets[queue], 10)
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// subscriptionJSON is RocketMQ's SubscriptionData.
type subscriptionJSON struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	Topic           string   `json:"topic"`
	SubString       string   `json:"subString"`
	TagsSet         []string `json:"tagsSet"`
	CodeSet         []int32  `json:"codeSet"`
	SubVersion      int64    `json:"subVersion"`
	ExpressionType  string   `json:"expressionType"`
}

func (s *subscription) json() subscriptionJSON {
	j := subscriptionJSON{
		Topic: s.topic, SubString: s.expression, SubVersion: s.version, ExpressionType: s.kind,
		TagsSet: []string{}, CodeSet: []int32{},
	}
	for _, tag := range s.tags {
		j.TagsSet = append(j.TagsSet, tag)
		j.CodeSet = append(j.CodeSet, int32(message.TagsCode(tag)))
	}
	return j
}

// connectionJSON is RocketMQ's Connection.
type connectionJSON struct {
	ClientID   string `json:"clientId"`
	ClientAddr string `json:"clientAddr"`
	Language   string `json:"language"`
	Version    int    `json:"version"`
}

func connectionsJSON(clients []*clientInfo) []connectionJSON {
	list := make([]connectionJSON, 0, len(clients))
	for _, info := range clients {
		list = append(list, connectionJSON{
			ClientID: info.id, ClientAddr: info.conn.remote.String(),
			Language: remoting.LanguageName(info.language), Version: info.version,
		})
	}
	return list
}
