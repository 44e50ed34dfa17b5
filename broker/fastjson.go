package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// plainJSON returns what fastjson wrote as JSON that encoding/json reads: a
// member's name that is an object, a list, a number or a bare word becomes a
// string of the same text. Java clients write maps that way whose keys are
// queues or numbers: {{"brokerName":"b","queueId":0,"topic":"t"}:5}. Bytes that
// are JSON already are returned as they are.
func plainJSON(b []byte) ([]byte, error) {
	if json.Valid(b) {
		return b, nil
	}
	p := fastjson{in: b, out: make([]byte, 0, len(b)+len(b)/8)}
	p.value(0)
	p.space()
	if p.err == nil && p.i != len(b) {
		p.fail("the end")
	}
	if p.err == nil && !json.Valid(p.out) {
		p.fail("JSON")
	}
	return p.out, p.err
}

// maxJSONDepth bounds how deep values are nested, as encoding/json does.
const maxJSONDepth = 1000

type fastjson struct {
	in, out []byte
	i       int
	err     error
}

func (p *fastjson) fail(want string) {
	if p.err == nil {
		p.err = fmt.Errorf("want %s at byte %d", want, p.i)
	}
}

func (p *fastjson) space() {
	for p.i < len(p.in) && bytes.IndexByte([]byte(" \t\r\n"), p.in[p.i]) >= 0 {
		p.i++
	}
}

// next returns the byte after white space, 0 at the end.
func (p *fastjson) next() byte {
	p.space()
	if p.err != nil || p.i >= len(p.in) {
		return 0
	}
	return p.in[p.i]
}

// value copies one value.
func (p *fastjson) value(depth int) {
	if depth > maxJSONDepth {
		p.fail("fewer values inside each other")
		return
	}
	switch c := p.next(); c {
	case '{':
		p.members('}', func() {
			p.name(depth)
			if p.next() != ':' {
				p.fail(":")
				return
			}
			p.take()
			p.value(depth + 1)
		})
	case '[':
		p.members(']', func() { p.value(depth + 1) })
	case '"':
		p.str()
	default:
		p.word()
	}
}

// members copies what stands between brackets, divided by commas.
func (p *fastjson) members(end byte, member func()) {
	p.take()
	if p.next() == end {
		p.take()
		return
	}
	for p.err == nil {
		member()
		switch p.next() {
		case ',':
			p.take()
		case end:
			p.take()
			return
		default:
			p.fail(", or " + string(end))
		}
	}
}

// name copies a member's name, as a string.
func (p *fastjson) name(depth int) {
	if p.next() == '"' {
		p.str()
		return
	}
	start := len(p.out)
	p.value(depth + 1)
	if p.err != nil {
		return
	}
	text, err := json.Marshal(string(p.out[start:]))
	if err != nil {
		p.err = err
		return
	}
	p.out = append(p.out[:start], text...)
}

func (p *fastjson) take() {
	p.out = append(p.out, p.in[p.i])
	p.i++
}

func (p *fastjson) str() {
	start := p.i
	for p.i++; p.i < len(p.in); p.i++ {
		switch p.in[p.i] {
		case '\\':
			p.i++
		case '"':
			p.i++
			p.out = append(p.out, p.in[start:p.i]...)
			return
		}
	}
	p.fail(`"`)
}

// word copies a number, true, false, null or a bare name.
func (p *fastjson) word() {
	start := p.i
	for p.i < len(p.in) && bytes.IndexByte([]byte(" \t\r\n{}[],:\""), p.in[p.i]) < 0 {
		p.i++
	}
	if p.i == start {
		p.fail("a value")
		return
	}
	p.out = append(p.out, p.in[start:p.i]...)
}
