package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Bodies of name servers and brokers are written by fastjson, which is JSON
// but for the keys of maps: numbers stand without quotes, and objects serve as
// keys as they are:
//
//	{"brokerAddrs":{0:"127.0.0.1:10911"}}
//	{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:17}}
//
// strictJSON puts such keys into quotes – an object as a string that holds its
// own JSON – so that encoding/json can read the rest.

// maxJSONDepth bounds the nesting of a body; what is sent needs 6.
const maxJSONDepth = 64

var errJSONEnd = errors.New("unexpected end")

// unmarshalLenient decodes a body that fastjson or a strict encoder wrote.
func unmarshalLenient(body []byte, v any) error {
	strict, err := strictJSON(body)
	if err != nil {
		return err
	}
	return json.Unmarshal(strict, v)
}

// strictJSON returns src with every map key quoted. It checks only what it
// needs to find the keys; the decoder that follows checks the rest. src is not
// changed.
func strictJSON(src []byte) ([]byte, error) {
	p := &jsonKeys{src: src, dst: make([]byte, 0, len(src)+len(src)/8)}
	if err := p.value(0); err != nil {
		return nil, fmt.Errorf("JSON at byte %d: %w", p.pos, err)
	}
	p.space()
	if p.pos != len(src) {
		return nil, fmt.Errorf("JSON at byte %d: text behind the value", p.pos)
	}
	return p.dst, nil
}

type jsonKeys struct {
	src []byte
	pos int
	dst []byte
}

func (p *jsonKeys) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return
		}
	}
}

// next returns the next byte that is not white space without taking it.
func (p *jsonKeys) next() (byte, error) {
	p.space()
	if p.pos >= len(p.src) {
		return 0, errJSONEnd
	}
	return p.src[p.pos], nil
}

// take copies n bytes to the output.
func (p *jsonKeys) take(n int) {
	p.dst = append(p.dst, p.src[p.pos:p.pos+n]...)
	p.pos += n
}

func (p *jsonKeys) value(depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	c, err := p.next()
	if err != nil {
		return err
	}
	switch c {
	case '{':
		return p.list('}', func() error { return p.member(depth) })
	case '[':
		return p.list(']', func() error { return p.value(depth + 1) })
	case '"':
		return p.str()
	}
	n := p.scalar()
	if n == 0 {
		return fmt.Errorf("unexpected %q", c)
	}
	p.take(n)
	return nil
}

// list copies an opening bracket, elements divided by commas, and end.
func (p *jsonKeys) list(end byte, element func() error) error {
	p.take(1)
	c, err := p.next()
	if err != nil {
		return err
	}
	if c == end {
		p.take(1)
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		c, err := p.next()
		if err != nil {
			return err
		}
		if c != ',' && c != end {
			return fmt.Errorf("unexpected %q, want ',' or %q", c, end)
		}
		p.take(1)
		if c == end {
			return nil
		}
	}
}

// member copies one "key: value".
func (p *jsonKeys) member(depth int) error {
	c, err := p.next()
	if err != nil {
		return err
	}
	switch c {
	case '"':
		err = p.str()
	case '{', '[':
		outer := p.dst
		p.dst = nil
		err = p.value(depth + 1)
		p.dst = appendQuoted(outer, p.dst)
	default:
		n := p.scalar()
		if n == 0 {
			return fmt.Errorf("unexpected %q where a key should be", c)
		}
		p.dst = appendQuoted(p.dst, p.src[p.pos:p.pos+n])
		p.pos += n
	}
	if err != nil {
		return err
	}
	if c, err = p.next(); err != nil {
		return err
	}
	if c != ':' {
		return fmt.Errorf("unexpected %q, want ':'", c)
	}
	p.take(1)
	return p.value(depth + 1)
}

// str copies a quoted string.
func (p *jsonKeys) str() error {
	for i := p.pos + 1; i < len(p.src); i++ {
		switch p.src[i] {
		case '\\':
			i++
		case '"':
			p.take(i + 1 - p.pos)
			return nil
		}
	}
	return errJSONEnd
}

// scalar returns the length of the number or word at the current place.
func (p *jsonKeys) scalar() int {
	i := p.pos
	for ; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z',
			c == '+', c == '-', c == '.', c == '_', c == '$':
			continue
		}
		break
	}
	return i - p.pos
}

// appendQuoted appends text as a JSON string. encoding/json keeps what
// strconv would escape in a way JSON does not know.
func appendQuoted(dst, text []byte) []byte {
	q, err := json.Marshal(string(text))
	if err != nil { // a string always encodes
		return strconv.AppendQuote(dst, string(text))
	}
	return append(dst, q...)
}

// queueKey is a queue as bodies name it, as RocketMQ's MessageQueue.
type queueKey struct {
	BrokerName string `json:"brokerName"`
	QueueID    int    `json:"queueId"`
	Topic      string `json:"topic"`
}

// queueTable is a map with queues as keys, in each of the three shapes peers
// write: fastjson's object keys, gson's list of pairs [[key, value], …], and
// the list of objects {"brokerName":…, "offset":…} meant for C clients.
// Values are offsets.
type queueTable map[Queue]int64

// UnmarshalJSON implements json.Unmarshaler. The input is strict already.
func (t *queueTable) UnmarshalJSON(b []byte) error {
	*t = queueTable{}
	var byKey map[string]int64
	if err := json.Unmarshal(b, &byKey); err == nil {
		for text, offset := range byKey {
			var k queueKey
			if err := json.Unmarshal([]byte(text), &k); err != nil {
				return fmt.Errorf("queue %q: %w", text, err)
			}
			(*t)[Queue{Topic: k.Topic, Broker: k.BrokerName, ID: k.QueueID}] = offset
		}
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	for _, item := range list {
		var k struct {
			queueKey
			Offset int64 `json:"offset"`
		}
		if len(item) > 0 && item[0] == '[' {
			pair := []any{&k.queueKey, &k.Offset}
			if err := json.Unmarshal(item, &pair); err != nil {
				return err
			}
		} else if err := json.Unmarshal(item, &k); err != nil {
			return err
		}
		(*t)[Queue{Topic: k.Topic, Broker: k.BrokerName, ID: k.QueueID}] = k.Offset
	}
	return nil
}

// appendQueueMap appends a map with queues as keys in fastjson's shape, the
// one Java peers read. Values are JSON already.
func appendQueueMap[V any](dst []byte, m map[Queue]V, value func([]byte, V) []byte) []byte {
	dst = append(dst, '{')
	for i, q := range sortedQueues(m) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"brokerName":`...)
		dst = appendQuoted(dst, []byte(q.Broker))
		dst = append(dst, `,"queueId":`...)
		dst = strconv.AppendInt(dst, int64(q.ID), 10)
		dst = append(dst, `,"topic":`...)
		dst = appendQuoted(dst, []byte(q.Topic))
		dst = append(dst, "}:"...)
		dst = value(dst, m[q])
	}
	return append(dst, '}')
}
