package sqlfilter

import (
	"fmt"
	"strings"
)

// tokenKind says what a token is. Keywords are kinds of their own.
type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokName
	tokText
	tokInteger
	tokDecimal
	tokSymbol // one of = <> < <= > >= ( ) , + -
	tokNot
	tokAnd
	tokOr
	tokBetween
	tokIn
	tokTrue
	tokFalse
	tokNull
	tokIs
	tokContains
	tokStartsWith
	tokEndsWith
)

var keywords = map[string]tokenKind{
	"NOT": tokNot, "AND": tokAnd, "OR": tokOr, "BETWEEN": tokBetween, "IN": tokIn, "TRUE": tokTrue, "FALSE": tokFalse,
	"NULL": tokNull, "IS": tokIs, "CONTAINS": tokContains, "STARTSWITH": tokStartsWith, "ENDSWITH": tokEndsWith,
}

// token is a piece of an expression; text is as it is written, of a text what
// it stands for. at is its first byte.
type token struct {
	kind tokenKind
	text string
	at   int
}

// lexer cuts an expression into tokens.
type lexer struct {
	src string
	at  int
}

func (l *lexer) fail(at int, format string, args ...any) error {
	return &SyntaxError{Expression: l.src, Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// next returns the next token, tokEnd behind the last.
func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	at := l.at
	if at == len(l.src) {
		return token{kind: tokEnd, at: at}, nil
	}
	switch c := l.src[at]; {
	case isNameStart(c):
		for l.at < len(l.src) && (isNameStart(l.src[l.at]) || isDigit(l.src[l.at])) {
			l.at++
		}
		t := token{kind: tokName, text: l.src[at:l.at], at: at}
		if len(t.text) <= len("STARTSWITH") {
			if k, ok := keywords[strings.ToUpper(t.text)]; ok {
				t.kind = k
			}
		}
		return t, nil
	case isDigit(c) || c == '.':
		return l.number()
	case c == '\'':
		return l.quoted()
	case strings.IndexByte("=(),+-", c) >= 0:
		l.at++
	case c == '<' || c == '>':
		l.at++
		if l.at < len(l.src) && (l.src[l.at] == '=' || c == '<' && l.src[l.at] == '>') {
			l.at++
		}
	default:
		return token{}, l.fail(at, "unexpected character %q", rune(c))
	}
	return token{kind: tokSymbol, text: l.src[at:l.at], at: at}, nil
}

// skip passes over blanks and comments.
func (l *lexer) skip() error {
	for l.at < len(l.src) {
		rest := l.src[l.at:]
		switch {
		case strings.IndexByte(" \t\n\r\f", rest[0]) >= 0:
			l.at++
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexAny(rest, "\r\n")
			if n < 0 {
				n = len(rest)
			}
			l.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return l.fail(l.at, "comment is not ended")
			}
			l.at += 2 + n + 2
		default:
			return nil
		}
	}
	return nil
}

// number reads 5, 5L, 5.5, 5., .5, 5e10 or 5.5E-3.
func (l *lexer) number() (token, error) {
	at := l.at
	digits := func() int {
		from := l.at
		for l.at < len(l.src) && isDigit(l.src[l.at]) {
			l.at++
		}
		return l.at - from
	}
	kind := tokInteger
	whole := digits()
	if l.at < len(l.src) && l.src[l.at] == '.' {
		l.at++
		kind = tokDecimal
		if digits() == 0 && whole == 0 {
			return token{}, l.fail(at, "unexpected character '.'")
		}
	}
	if end := l.at; end < len(l.src) && l.src[end]|0x20 == 'e' {
		l.at++
		if l.at < len(l.src) && (l.src[l.at] == '+' || l.src[l.at] == '-') {
			l.at++
		}
		if digits() == 0 {
			return token{}, l.fail(at, "%q is not a number", l.src[at:l.at])
		}
		kind = tokDecimal
	}
	text := l.src[at:l.at]
	if kind == tokInteger {
		if len(text) > 1 && text[0] == '0' {
			return token{}, l.fail(at, "%q is not a number: a whole number does not begin with 0", text)
		}
		if l.at < len(l.src) && l.src[l.at]|0x20 == 'l' {
			l.at++
		}
	}
	if l.at < len(l.src) && (isNameStart(l.src[l.at]) || isDigit(l.src[l.at])) {
		return token{}, l.fail(at, "%q is followed by %q", l.src[at:l.at], rune(l.src[l.at]))
	}
	return token{kind: kind, text: text, at: at}, nil
}

// quoted reads a text; two quotes in it stand for one.
func (l *lexer) quoted() (token, error) {
	at := l.at
	l.at++
	from := l.at
	doubled := false
	for l.at < len(l.src) {
		if l.src[l.at] != '\'' {
			l.at++
			continue
		}
		if l.at+1 < len(l.src) && l.src[l.at+1] == '\'' {
			doubled = true
			l.at += 2
			continue
		}
		text := l.src[from:l.at]
		l.at++
		if doubled {
			text = strings.ReplaceAll(text, "''", "'")
		}
		return token{kind: tokText, text: text, at: at}, nil
	}
	return token{}, l.fail(at, "text is not ended")
}

func isNameStart(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
