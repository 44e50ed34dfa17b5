package broker

import (
	"strings"

	"github.com/tidemq/tidemq/internal/message"
)

// subscription is what a consumer group wants of one topic. Immutable.
type subscription struct {
	topic string
	// expression and version as the client sent them; kind is "TAG" or the
	// name of another filter language.
	expression string
	version    int64
	kind       string
	tags       []string
	// codes are the tags codes wanted; nil for everything.
	codes []int64
}

const (
	tagFilter = "TAG"
	allTags   = "*"
)

// newSubscription builds the subscription for an expression of tags,
// "a || b", as RocketMQ `FilterAPI`. "" and "*" mean everything. For another
// filter language only kind is kept.
func newSubscription(topic, expression, kind string, version int64) *subscription {
	s := &subscription{topic: topic, expression: expression, version: version, kind: kind}
	if kind == "" {
		s.kind = tagFilter
	}
	if s.kind != tagFilter {
		return s
	}
	if expression == "" || expression == allTags {
		s.expression = allTags
		return s
	}
	s.codes = []int64{}
	for tag := range strings.SplitSeq(expression, "||") {
		if tag = strings.TrimSpace(tag); tag != "" {
			s.tags = append(s.tags, tag)
			s.codes = append(s.codes, message.TagsCode(tag))
		}
	}
	return s
}

// everything reports whether no message is filtered out.
func (s *subscription) everything() bool { return s.codes == nil }

// match reports whether an entry with that tags code may be wanted. Different
// tags may share a code: clients compare the tag itself.
func (s *subscription) match(tagsCode int64) bool {
	if s.codes == nil {
		return true
	}
	for _, c := range s.codes {
		if c == tagsCode {
			return true
		}
	}
	return false
}

// matcher returns what the store takes as a filter, nil for everything.
func (s *subscription) matcher() func(int64) bool {
	if s.everything() {
		return nil
	}
	return s.match
}
