package broker

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/sqlfilter"
)

// subscription is what a consumer group wants of one topic. Immutable.
type subscription struct {
	topic string
	// expression and version as the client sent them; kind is the name of the
	// filter language.
	expression string
	version    int64
	kind       string
	tags       []string
	filter     filter
	// err is why the expression cannot be used.
	err error
}

// Filter languages, as RocketMQ `ExpressionType`.
const (
	tagFilter = "TAG"
	sqlFilter = "SQL92"
	allTags   = "*"
)

// filter chooses what a pull gets; nil and the zero filter choose everything.
// Immutable.
type filter struct {
	// codes are the tags codes wanted; nil for everything. Different tags may
	// share a code: clients compare the tag itself.
	codes []int64
	// sql is evaluated over a message's properties; nil for everything.
	sql *sqlfilter.Expr
}

// isTag reports whether a filter language is that of tags.
func isTag(kind string) bool { return kind == "" || kind == tagFilter }

// newSubscription builds the subscription for an expression: of tags, "a || b",
// as RocketMQ `FilterAPI`, where "" and "*" mean everything, or of SQL92. One
// that cannot be used has an err.
func (e *expressions) newSubscription(topic, expression, kind string, version int64) *subscription {
	s := &subscription{topic: topic, expression: expression, version: version, kind: kind}
	switch {
	case kind == sqlFilter:
		s.filter.sql, s.err = e.parse(expression)
		return s
	case !isTag(kind):
		s.err = fmt.Errorf("expressionType is %.40q: %s and %s are allowed", kind, tagFilter, sqlFilter)
		return s
	}
	s.kind = tagFilter
	if expression == "" || expression == allTags {
		s.expression = allTags
		return s
	}
	s.filter.codes = []int64{}
	for tag := range strings.SplitSeq(expression, "||") {
		if tag = strings.TrimSpace(tag); tag != "" {
			s.tags = append(s.tags, tag)
			s.filter.codes = append(s.filter.codes, message.TagsCode(tag))
		}
	}
	return s
}

// matchTags reports whether an entry with that tags code may be wanted.
func (f *filter) matchTags(tagsCode int64) bool {
	if f == nil || f.codes == nil {
		return true
	}
	for _, c := range f.codes {
		if c == tagsCode {
			return true
		}
	}
	return false
}

// entries returns what the store takes as a filter, nil for everything.
func (f *filter) entries() func(tagsCode int64) bool {
	if f == nil || f.codes == nil {
		return nil
	}
	return f.matchTags
}

// keep returns the records that the expression matches, in the slice given.
func (f *filter) keep(records [][]byte) [][]byte {
	if f == nil || f.sql == nil {
		return records
	}
	kept := records[:0]
	for _, r := range records {
		if f.sql.Match(message.View(r).Properties()) {
			kept = append(kept, r)
		}
	}
	return kept
}

// maxExpressions bounds the expressions that are kept compiled, as RocketMQ
// `SelectorParser`.
const maxExpressions = 100

// expressions keeps SQL92 expressions compiled: heartbeats, and the pulls of
// some clients, bring the same ones again and again.
type expressions struct {
	mu    sync.Mutex
	known map[string]*sqlfilter.Expr
}

func (e *expressions) parse(text string) (*sqlfilter.Expr, error) {
	e.mu.Lock()
	expr := e.known[text]
	e.mu.Unlock()
	if expr != nil {
		return expr, nil
	}
	expr, err := sqlfilter.Parse(text)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil || len(e.known) >= maxExpressions {
		e.known = make(map[string]*sqlfilter.Expr)
	}
	e.known[expr.String()] = expr // whose text is its own
	return expr, nil
}
