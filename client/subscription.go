package client

import (
	"errors"
	"slices"
	"strings"

	"github.com/tidemq/tidemq/internal/message"
)

// Filter languages, as RocketMQ ExpressionType.
const (
	tagFilter = "TAG"
	sqlFilter = "SQL92"
)

// subscription selects a topic's messages.
type subscription struct {
	kind string   // tagFilter or sqlFilter
	expr string   // "*" or "a || b", or SQL92, as sent
	tags []string // sorted, without duplicates; nil takes all that the broker hands out
}

var errTagExpression = errors.New(`tag expression wants "*" or tags divided by "||"`)

// parseTags reads a tag expression as RocketMQ FilterAPI does.
func parseTags(expr string) (subscription, error) {
	if t := strings.TrimSpace(expr); t == "" || t == "*" {
		return subscription{kind: tagFilter, expr: "*"}, nil
	}
	var tags []string
	for tag := range strings.SplitSeq(expr, "||") {
		tag = strings.TrimSpace(tag)
		if tag == "" || strings.ContainsAny(tag, "|\x01\x02") {
			return subscription{}, errTagExpression
		}
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	return subscription{kind: tagFilter, expr: strings.Join(tags, " || "), tags: tags}, nil
}

// takes reports whether a message with this tag is wanted. Brokers select by
// the tag's hash, so others may slip through.
func (s subscription) takes(tag string) bool {
	if s.tags == nil {
		return true
	}
	_, found := slices.BinarySearch(s.tags, tag)
	return found
}

// data is the subscription as heartbeats carry it.
func (s subscription) data(topic string, version int64) subscriptionData {
	d := subscriptionData{
		Topic:          topic,
		SubString:      s.expr,
		Tags:           []string{},
		Codes:          []int32{},
		SubVersion:     version,
		ExpressionType: s.kind,
	}
	for _, t := range s.tags {
		d.Tags = append(d.Tags, t)
		d.Codes = append(d.Codes, int32(message.TagsCode(t)))
	}
	return d
}
