package sqlfilter

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemq/tidemq/internal/message"
)

// valueKind is the type of a value. The zero value is NULL.
type valueKind uint8

const (
	null valueKind = iota
	boolean
	integer
	decimal
	text
)

// value is what a node evaluates to; kind says which field counts.
type value struct {
	kind valueKind
	b    bool
	i    int64
	f    float64
	s    string // may borrow from the properties
}

func truth(b bool) value { return value{kind: boolean, b: b} }

// node is a part of an expression. ok is false when values cannot be compared:
// then the whole expression does not match.
type node interface {
	eval(properties string) (v value, ok bool)
}

type (
	constant struct{ v value }
	// property is the name of one.
	property string
	// isTrue is a property that stands for a condition.
	isTrue   struct{ of property }
	negative struct{ of node }
	not      struct{ of node }
	anyOf    []node // OR
	allOf    []node // AND
	equal    struct{ left, right node }
	ordered  struct {
		op          orderOp
		left, right node
	}
	// oneOf is IN; list is sorted.
	oneOf struct {
		of      property
		list    []string
		negated bool
	}
	// textTest is CONTAINS, STARTSWITH or ENDSWITH.
	textTest struct {
		of      node
		want    string
		op      tokenKind
		negated bool
	}
)

type orderOp uint8

const (
	opBelow orderOp = iota
	opAtMost
	opAbove
	opAtLeast
)

var orders = map[string]orderOp{"<": opBelow, "<=": opAtMost, ">": opAbove, ">=": opAtLeast}

func (n constant) eval(string) (value, bool) { return n.v, true }

func (n property) eval(props string) (value, bool) {
	if s, ok := message.Property(props, string(n)); ok {
		return value{kind: text, s: s}, true
	}
	return value{}, true
}

// A property is a text and no truth value, so one that is there is FALSE.
func (n isTrue) eval(props string) (value, bool) {
	if _, ok := message.Property(props, string(n.of)); ok {
		return truth(false), true
	}
	return value{}, true
}

// Only numbers have a negative: of a text, that of a property too, it is NULL.
func (n negative) eval(props string) (value, bool) {
	v, ok := n.of.eval(props)
	switch v.kind {
	case integer:
		v.i = -v.i
	case decimal:
		v.f = -v.f
	default:
		v = value{}
	}
	return v, ok
}

func (n not) eval(props string) (value, bool) {
	v, ok := n.of.eval(props)
	if v.kind == boolean {
		v.b = !v.b
	}
	return v, ok
}

func (n anyOf) eval(props string) (value, bool) { return eachOf(n, true, props) }
func (n allOf) eval(props string) (value, bool) { return eachOf(n, false, props) }

// eachOf evaluates terms in order until one has the value that decides.
func eachOf(terms []node, decides bool, props string) (value, bool) {
	result := truth(!decides)
	for _, t := range terms {
		v, ok := t.eval(props)
		switch {
		case !ok:
			return value{}, false
		case v.kind != boolean:
			result = value{}
		case v.b == decides:
			return v, true
		}
	}
	return result, true
}

func (n equal) eval(props string) (value, bool) {
	l, lok := n.left.eval(props)
	r, rok := n.right.eval(props)
	switch {
	case !lok || !rok:
		return value{}, false
	case l.kind == null && r.kind == null:
		return truth(true), true
	case l.kind == null:
		return value{}, true
	case r.kind == null:
		return truth(false), true
	}
	c, ok := compare(l, r)
	return truth(c == 0), ok
}

func (n ordered) eval(props string) (value, bool) {
	l, lok := n.left.eval(props)
	if !lok || l.kind == null {
		return value{}, lok
	}
	r, rok := n.right.eval(props)
	if !rok || r.kind == null {
		return value{}, rok
	}
	if l.kind == text && r.kind == text { // two properties
		if l, lok = numberIn(l.s); !lok {
			return value{}, false
		}
	}
	c, ok := compare(l, r)
	switch n.op {
	case opBelow:
		return truth(c < 0), ok
	case opAtMost:
		return truth(c <= 0), ok
	case opAbove:
		return truth(c > 0), ok
	}
	return truth(c >= 0), ok
}

func (n oneOf) eval(props string) (value, bool) {
	v, ok := n.of.eval(props)
	if v.kind != text {
		return value{}, ok
	}
	_, found := slices.BinarySearch(n.list, v.s)
	return truth(found != n.negated), ok
}

func (n textTest) eval(props string) (value, bool) {
	v, ok := n.of.eval(props)
	if v.kind != text || n.want == "" {
		return truth(false), ok
	}
	var holds bool
	switch n.op {
	case tokContains:
		holds = strings.Contains(v.s, n.want)
	case tokStartsWith:
		holds = strings.HasPrefix(v.s, n.want)
	case tokEndsWith:
		holds = strings.HasSuffix(v.s, n.want)
	}
	return truth(holds != n.negated), ok
}

// compare compares two values that are not NULL; a text becomes what the other
// side is. Values of kinds that have nothing in common are different. ok is
// false when a text is not the number it has to be.
func compare(l, r value) (c int, ok bool) {
	if l.kind == text && r.kind != text {
		if l, ok = as(l.s, r.kind); !ok {
			return 0, false
		}
	} else if r.kind == text && l.kind != text {
		if r, ok = as(r.s, l.kind); !ok {
			return 0, false
		}
	}
	switch {
	case l.kind == text:
		return strings.Compare(l.s, r.s), true
	case l.kind == boolean && r.kind == boolean:
		if l.b == r.b {
			return 0, true
		}
		return -1, true
	case l.kind == boolean || r.kind == boolean:
		return -1, true
	case l.kind == integer && r.kind == integer:
		return cmp.Compare(l.i, r.i), true
	}
	return cmp.Compare(l.float(), r.float()), true
}

func (v value) float() float64 {
	if v.kind == integer {
		return float64(v.i)
	}
	return v.f
}

// as reads a text as a boolean or a number.
func as(s string, kind valueKind) (value, bool) {
	if kind == boolean {
		return truth(strings.EqualFold(s, "true")), true
	}
	return numberIn(s)
}

// numberIn reads a text as a number in decimal notation; blanks around it do
// not count.
func numberIn(s string) (value, bool) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return value{kind: integer, i: n}, true
	}
	for i := 0; i < len(s); i++ { // ParseFloat knows more: inf, 0x1p-2
		if c := s[i]; !isDigit(c) && c != '.' && c != '+' && c != '-' && c|0x20 != 'e' {
			return value{}, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return value{kind: decimal, f: f}, err == nil
}
