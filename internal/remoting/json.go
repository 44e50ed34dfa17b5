package remoting

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const lowerDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are no UTF-8 become
// U+FFFD, as JSON has no place for them.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', lowerDigits[c>>4], lowerDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// parser walks over a header once. Strings are unescaped where they lie, since
// that never makes them longer, and borrowed.
type parser struct {
	b []byte
	i int
}

// fail is the error of a header that has something else here than want.
func (p *parser) fail(want string) error {
	if p.i >= len(p.b) {
		return frameErrorf(ErrMalformedHeader, "JSON ends at byte %d, want %s", p.i, want)
	}
	return frameErrorf(ErrMalformedHeader, "JSON has %q at byte %d, want %s", p.b[p.i], p.i, want)
}

func (p *parser) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// next skips white space and returns the byte after it, 0 at the end.
func (p *parser) next() byte {
	if p.i < len(p.b) && p.b[p.i] > ' ' {
		return p.b[p.i]
	}
	p.space()
	if p.i < len(p.b) {
		return p.b[p.i]
	}
	return 0
}

func (p *parser) open() error {
	if p.next() != '{' {
		return p.fail("{")
	}
	p.i++
	return nil
}

// member reads up to the value of an object's next member, or past its end.
func (p *parser) member(first bool) (key string, done bool, err error) {
	c := p.next()
	if c == '}' {
		p.i++
		return "", true, nil
	}
	if !first {
		if c != ',' {
			return "", false, p.fail(", or }")
		}
		p.i++
		c = p.next()
	}
	if c != '"' {
		return "", false, p.fail("a member's name")
	}
	if key, err = p.str(); err != nil {
		return "", false, err
	}
	if p.next() != ':' {
		return "", false, p.fail(":")
	}
	p.i++
	return key, false, nil
}

// scalar reads any value as text.
func (p *parser) scalar(key string) (value string, null bool, err error) {
	switch c := p.next(); {
	case c == '"':
		value, err = p.str()
		return value, false, err
	case c == '-' || c >= '0' && c <= '9':
		value, err = p.number()
		return value, false, err
	case c == 't':
		return "true", false, p.literal("true")
	case c == 'f':
		return "false", false, p.literal("false")
	case c == 'n':
		return "", true, p.literal("null")
	case c == '{' || c == '[':
		value, err = p.nested()
		return value, false, err
	}
	return "", false, p.fail("a value of " + strconv.QuoteToASCII(shorten(key)))
}

func shorten(s string) string {
	if len(s) > 32 {
		return s[:32]
	}
	return s
}

func (p *parser) literal(word string) error {
	if len(p.b)-p.i < len(word) || string(p.b[p.i:p.i+len(word)]) != word {
		return p.fail(word)
	}
	p.i += len(word)
	return nil
}

// number reads a number as it is written.
func (p *parser) number() (string, error) {
	start := p.i
	digits := func() bool {
		at := p.i
		for p.i < len(p.b) && p.b[p.i]-'0' < 10 {
			p.i++
		}
		return p.i > at
	}
	if p.b[p.i] == '-' {
		p.i++
	}
	first := p.i
	if !digits() || p.b[first] == '0' && p.i > first+1 {
		p.i = first
		return "", p.fail("a number")
	}
	if p.i < len(p.b) && p.b[p.i] == '.' {
		p.i++
		if !digits() {
			return "", p.fail("a digit")
		}
	}
	if p.i < len(p.b) && p.b[p.i]|0x20 == 'e' {
		p.i++
		if p.i < len(p.b) && (p.b[p.i] == '+' || p.b[p.i] == '-') {
			p.i++
		}
		if !digits() {
			return "", p.fail("a digit")
		}
	}
	return borrow(p.b[start:p.i]), nil
}

// nested reads an object or array as compact JSON. No RocketMQ client is known
// to send one, so encoding/json may do the work.
func (p *parser) nested() (string, error) {
	start, depth := p.i, 0
	for ; p.i < len(p.b); p.i++ {
		switch p.b[p.i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			for p.i++; p.i < len(p.b) && p.b[p.i] != '"'; p.i++ {
				if p.b[p.i] == '\\' {
					p.i++
				}
			}
		}
		if depth == 0 {
			p.i++
			var out bytes.Buffer
			if err := json.Compact(&out, p.b[start:p.i]); err != nil {
				return "", frameErrorf(ErrMalformedHeader, "JSON value at byte %d: %v", start, err)
			}
			return validUTF8(out.String()), nil
		}
	}
	p.i = len(p.b)
	return "", p.fail("} or ]")
}

// str reads a string whose opening quote is the next byte. Raw control
// characters are let pass.
func (p *parser) str() (string, error) {
	b := p.b
	start := p.i + 1
	i, high := special(b, start)
	if i < len(b) && b[i] == '"' {
		p.i = i + 1
		return text(b[start:i], high)
	}
	return p.escaped(start, i, high)
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// special finds the first quote or backslash at or after i, len(b) if there is
// none. high is not 0 if there may be bytes above 0x7f before it.
func special(b []byte, i int) (at int, high uint64) {
	for ; len(b)-i >= 8; i += 8 {
		// Eight bytes at once: x-eachByte borrows into the high bit of the
		// lowest byte that is zero, and only from there up is it unreliable.
		x := binary.LittleEndian.Uint64(b[i:])
		quote, back := x^('"'*eachByte), x^('\\'*eachByte)
		found := ((quote-eachByte)&^quote | (back-eachByte)&^back) & highBits
		high |= x
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8, high & highBits
		}
	}
	for ; i < len(b) && b[i] != '"' && b[i] != '\\'; i++ {
		high |= uint64(b[i])
	}
	return i, high & highBits
}

// text borrows b as a string; high is 0 if b is ASCII.
func text(b []byte, high uint64) (string, error) {
	if high != 0 && !utf8.Valid(b) {
		return validUTF8(string(b)), nil
	}
	return borrow(b), nil
}

// validUTF8 puts U+FFFD for each byte that is no UTF-8.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// escaped goes on with a string at its first backslash, writing at w what it
// reads at i.
func (p *parser) escaped(start, i int, high uint64) (string, error) {
	b, w := p.b, i
	for i < len(b) {
		if b[i] == '"' {
			p.i = i + 1
			return text(b[start:w], high)
		}
		// A backslash.
		if i+1 >= len(b) {
			break
		}
		c := b[i+1]
		i += 2
		switch c {
		case '"', '\\', '/':
		case 'n':
			c = '\n'
		case 't':
			c = '\t'
		case 'r':
			c = '\r'
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'u':
			r := hex4(b, i)
			if r < 0 {
				p.i = i
				return "", p.fail("four hex digits")
			}
			i += 4
			if utf16.IsSurrogate(r) {
				// Half a pair becomes U+FFFD, as in encoding/json.
				low := rune(-1)
				if len(b)-i >= 6 && b[i] == '\\' && b[i+1] == 'u' {
					low = hex4(b, i+2)
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			w += utf8.EncodeRune(b[w:i], r) // at most 3 bytes for 6, 4 for 12
		default:
			p.i = i - 1
			return "", p.fail("an escape")
		}
		if c != 'u' {
			b[w] = c
			w++
		}
		next, h := special(b, i)
		high |= h
		w += copy(b[w:], b[i:next])
		i = next
	}
	p.i = len(b)
	return "", p.fail("the string's end")
}

// hex4 reads four hex digits at i; −1 when they are not there.
func hex4(b []byte, i int) rune {
	if len(b)-i < 4 {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
