package sqlfilter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxLength bounds an expression, in bytes.
	MaxLength = 64 << 10
	// MaxDepth bounds how deep brackets, signs, NOTs and rows of comparisons
	// may be nested.
	MaxDepth = 100
)

// ErrSyntax is what every error of Parse wraps.
var ErrSyntax = errors.New("invalid SQL92 expression")

// SyntaxError says where an expression is wrong, and why. It wraps [ErrSyntax].
type SyntaxError struct {
	Expression string
	// Offset is the place in bytes.
	Offset int
	Reason string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	text := e.Expression
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:100], "") + "…"
	}
	return fmt.Sprintf("%v %q: at byte %d: %s", ErrSyntax, text, e.Offset, e.Reason)
}

// Unwrap returns ErrSyntax.
func (e *SyntaxError) Unwrap() error { return ErrSyntax }

// Expr is a compiled expression. It is immutable and may be used by several
// goroutines.
type Expr struct {
	text string
	root node
}

// Parse compiles an expression. The error is a [*SyntaxError].
func Parse(text string) (*Expr, error) {
	if len(text) > MaxLength {
		return nil, &SyntaxError{Expression: text, Offset: MaxLength, Reason: fmt.Sprintf("%d bytes, at most %d are allowed", len(text), MaxLength)}
	}
	text = strings.Clone(text) // constants borrow from it
	p := parser{lexer: lexer{src: text}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	root, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokEnd {
		return nil, p.fail(p.tok.at, "%q is not expected here", p.tok.text)
	}
	if root, err = p.condition(root, 0); err != nil {
		return nil, err
	}
	return &Expr{text: text, root: root}, nil
}

// String returns the expression as it was written.
func (e *Expr) String() string { return e.text }

// Match reports whether a message with this property string
// ("k\x01v\x02…") is wanted. It allocates nothing.
func (e *Expr) Match(properties string) bool {
	v, ok := e.root.eval(properties)
	return ok && v.kind == boolean && v.b
}

// parser is a recursive descent with one token of look-ahead.
type parser struct {
	lexer
	tok   token
	depth int
}

func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

// take moves on when the token is the one asked for.
func (p *parser) take(kind tokenKind) (bool, error) {
	if p.tok.kind != kind {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expect(kind tokenKind, text, what string) (token, error) {
	t := p.tok
	if t.kind != kind || text != "" && t.text != text {
		return t, p.unexpected(what)
	}
	return t, p.advance()
}

func (p *parser) unexpected(want string) error {
	if p.tok.kind == tokEnd {
		return p.fail(p.tok.at, "%s is expected, the expression ends", want)
	}
	return p.fail(p.tok.at, "%s is expected, not %q", want, p.tok.text)
}

// deeper bounds nesting: n more levels than there are.
func (p *parser) deeper(n int) error {
	if p.depth+n > MaxDepth {
		return p.fail(p.tok.at, "nested more than %d deep", MaxDepth)
	}
	return nil
}

// chain moves on to the next comparison of a row, whose left side is the one
// before.
func (p *parser) chain(n int) error {
	if err := p.deeper(n); err != nil {
		return err
	}
	return p.advance()
}

// condition returns n as something that is true or false, as RocketMQ
// `SelectorParser.asBooleanExpression`.
func (p *parser) condition(n node, at int) (node, error) {
	switch x := n.(type) {
	case property:
		return isTrue{x}, nil
	case constant:
		if x.v.kind == boolean || x.v.kind == null {
			return n, nil
		}
	case negative:
	default:
		return n, nil
	}
	return nil, p.fail(at, "a condition is expected, not a value")
}

func (p *parser) or() (node, error) {
	return p.row(tokOr, p.and, func(ns []node) node { return anyOf(ns) })
}

func (p *parser) and() (node, error) {
	return p.row(tokAnd, p.equality, func(ns []node) node { return allOf(ns) })
}

// row parses terms with one keyword between them.
func (p *parser) row(between tokenKind, term func() (node, error), join func([]node) node) (node, error) {
	at := p.tok.at
	first, err := term()
	if err != nil || p.tok.kind != between {
		return first, err
	}
	if first, err = p.condition(first, at); err != nil {
		return nil, err
	}
	terms := []node{first}
	for p.tok.kind == between {
		if err := p.advance(); err != nil {
			return nil, err
		}
		at := p.tok.at
		n, err := term()
		if err != nil {
			return nil, err
		}
		if n, err = p.condition(n, at); err != nil {
			return nil, err
		}
		terms = append(terms, n)
	}
	return join(terms), nil
}

func (p *parser) equality() (node, error) {
	left, err := p.comparison()
	for chained := 1; err == nil; chained++ {
		at := p.tok.at
		switch {
		case p.tok.kind == tokSymbol && (p.tok.text == "=" || p.tok.text == "<>"):
			different := p.tok.text == "<>"
			if err := p.chain(chained); err != nil {
				return nil, err
			}
			right, err := p.comparison()
			if err != nil {
				return nil, err
			}
			if err := p.equalOperands(left, right, at); err != nil {
				return nil, err
			}
			left = equal{left, right}
			if different {
				left = not{left}
			}
		case p.tok.kind == tokIs:
			if err := p.chain(chained); err != nil {
				return nil, err
			}
			negated, err := p.take(tokNot)
			if err != nil {
				return nil, err
			}
			if _, err := p.expect(tokNull, "", "NULL"); err != nil {
				return nil, err
			}
			left = equal{left, constant{}}
			if negated {
				left = not{left}
			}
		default:
			return left, nil
		}
	}
	return left, err
}

// equalOperands checks the sides of = and <>.
func (p *parser) equalOperands(left, right node, at int) error {
	l, lok := left.(constant)
	r, rok := right.(constant)
	switch {
	case lok && l.v.kind == null || rok && r.v.kind == null:
		return p.fail(at, "NULL cannot be compared: use IS NULL")
	case lok && rok && l.v.kind == boolean && r.v.kind != boolean:
		return p.fail(at, "TRUE and FALSE cannot be compared with a text or number")
	}
	return nil
}

func (p *parser) comparison() (node, error) {
	left, err := p.unary()
	for chained := 0; err == nil; chained++ {
		at := p.tok.at
		if err := p.deeper(chained); err != nil {
			return nil, err
		}
		if p.tok.kind == tokSymbol {
			op, ok := orders[p.tok.text]
			if !ok {
				return left, nil
			}
			if err := p.advance(); err != nil {
				return nil, err
			}
			right, err := p.unary()
			if err != nil {
				return nil, err
			}
			if left, err = p.order(op, left, right, at); err != nil {
				return nil, err
			}
			continue
		}
		negated, err := p.take(tokNot)
		if err != nil {
			return nil, err
		}
		switch p.tok.kind {
		case tokBetween:
			left, err = p.between(left, negated, at)
		case tokIn:
			left, err = p.in(left, negated, at)
		case tokContains, tokStartsWith, tokEndsWith:
			op := p.tok.kind
			if err = p.advance(); err != nil {
				return nil, err
			}
			var t token
			t, err = p.expect(tokText, "", "a text in quotes")
			left = textTest{left, t.text, op, negated}
		default:
			if negated {
				return nil, p.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
			}
			return left, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return left, err
}

// order makes a comparison by <, <=, > or >=, whose sides must be numbers or
// properties.
func (p *parser) order(op orderOp, left, right node, at int) (node, error) {
	for _, n := range []node{left, right} {
		switch x := n.(type) {
		case property, negative:
		case constant:
			if x.v.kind != integer && x.v.kind != decimal {
				return nil, p.fail(at, "only numbers and properties can be compared by <, <=, > and >=")
			}
		default:
			return nil, p.fail(at, "a condition cannot be compared by <, <=, > and >=")
		}
	}
	return ordered{op, left, right}, nil
}

func (p *parser) between(left node, negated bool, at int) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	low, err := p.unary()
	if err != nil {
		return nil, err
	}
	if _, err = p.expect(tokAnd, "", "AND"); err != nil {
		return nil, err
	}
	high, err := p.unary()
	if err != nil {
		return nil, err
	}
	first, second := opAtLeast, opAtMost
	if negated {
		first, second = opBelow, opAbove
	}
	a, err := p.order(first, left, low, at)
	if err != nil {
		return nil, err
	}
	b, err := p.order(second, left, high, at)
	if err != nil {
		return nil, err
	}
	if negated {
		return anyOf{a, b}, nil
	}
	l, lok := low.(constant)
	h, hok := high.(constant)
	if lok && hok {
		if c, ok := compare(l.v, h.v); ok && c > 0 {
			return nil, p.fail(at, "BETWEEN needs the lower value first")
		}
	}
	return allOf{a, b}, nil
}

func (p *parser) in(left node, negated bool, at int) (node, error) {
	prop, ok := left.(property)
	if !ok {
		return nil, p.fail(at, "IN needs a property before it")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if _, err := p.expect(tokSymbol, "(", `"("`); err != nil {
		return nil, err
	}
	var list []string
	for {
		t, err := p.expect(tokText, "", "a text in quotes")
		if err != nil {
			return nil, err
		}
		list = append(list, t.text)
		if p.tok.kind != tokSymbol || p.tok.text != "," {
			break
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	if _, err := p.expect(tokSymbol, ")", `"," or ")"`); err != nil {
		return nil, err
	}
	slices.Sort(list)
	return oneOf{prop, list, negated}, nil
}

func (p *parser) unary() (n node, err error) {
	p.depth++
	defer func() { p.depth-- }()
	if err := p.deeper(0); err != nil {
		return nil, err
	}
	at := p.tok.at
	switch {
	case p.tok.kind == tokSymbol && p.tok.text == "+":
		if err := p.advance(); err != nil {
			return nil, err
		}
		return p.unary()
	case p.tok.kind == tokSymbol && p.tok.text == "-":
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.unary()
		return negative{n}, err
	case p.tok.kind == tokNot:
		if err := p.advance(); err != nil {
			return nil, err
		}
		if n, err = p.unary(); err != nil {
			return nil, err
		}
		n, err = p.condition(n, at)
		return not{n}, err
	}
	return p.primary()
}

func (p *parser) primary() (node, error) {
	t := p.tok
	c := constant{}
	switch t.kind {
	case tokSymbol:
		if t.text != "(" {
			return nil, p.unexpected("a value or condition")
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
		n, err := p.or()
		if err != nil {
			return nil, err
		}
		_, err = p.expect(tokSymbol, ")", `")"`)
		return n, err
	case tokName:
		return property(t.text), p.advance()
	case tokText:
		c.v = value{kind: text, s: t.text}
	case tokInteger:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, p.fail(t.at, "%s is more than a 64-bit integer", t.text)
		}
		c.v = value{kind: integer, i: n}
	case tokDecimal:
		n, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail(t.at, "%s is more than a double", t.text)
		}
		c.v = value{kind: decimal, f: n}
	case tokTrue, tokFalse:
		c.v = value{kind: boolean, b: t.kind == tokTrue}
	case tokNull:
	default:
		return nil, p.unexpected("a value or condition")
	}
	return c, p.advance()
}
