package remoting

import "strconv"

// The JSON header is one object, as RocketMQ's `RemotingCommand` through
// fastjson:
//
//	{"code":310,"extFields":{"b":"TopicA",…},"flag":0,"language":"JAVA",
//	 "opaque":7,"remark":"…","serializeTypeCurrentRPC":"JSON","version":513}
//
// Members may come in any order; remark and extFields may be missing or null.

// appendJSON appends c's header, members in RocketMQ's order.
func appendJSON(dst []byte, c *Command) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(c.Code), 10)
	if len(c.Fields) > 0 {
		dst = append(dst, `,"extFields":{`...)
		for i := range c.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, c.Fields[i].Key)
			dst = append(dst, ':')
			dst = appendString(dst, c.Fields[i].Value)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(c.Flag), 10)
	dst = append(dst, `,"language":"`...)
	dst = append(dst, LanguageName(c.Language)...)
	dst = append(dst, `","opaque":`...)
	dst = strconv.AppendInt(dst, int64(c.Opaque), 10)
	if c.Remark != "" {
		dst = append(dst, `,"remark":`...)
		dst = appendString(dst, c.Remark)
	}
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	dst = strconv.AppendInt(dst, int64(c.Version), 10)
	return append(dst, '}')
}

// decodeJSON decodes a header; the command's strings borrow from b, which is
// changed.
func decodeJSON(b []byte, c *Command) error {
	p := parser{b: b}
	if err := p.open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, done, err := p.member(first)
		if err != nil {
			return err
		}
		if done {
			break
		}
		switch key {
		case "code":
			c.Code, err = p.integer(key)
		case "flag":
			c.Flag, err = p.integer(key)
		case "version":
			c.Version, err = p.integer(key)
		case "opaque":
			var n int
			n, err = p.integer(key)
			c.Opaque = int32(n)
		case "language":
			c.Language, err = p.language()
		case "remark":
			c.Remark, _, err = p.scalar(key)
		case "extFields":
			c.Fields, err = p.fields(c.Fields[:0])
		default:
			_, _, err = p.scalar(key)
		}
		if err != nil {
			return err
		}
	}
	p.space()
	if p.i < len(p.b) {
		return p.fail("end of header")
	}
	return nil
}

// fields reads the extFields object into f. Numbers and booleans are taken as
// text, nested values as compact JSON; null leaves the field out.
func (p *parser) fields(f Fields) (Fields, error) {
	if p.next() == 'n' {
		return f, p.literal("null")
	}
	if err := p.open(); err != nil {
		return f, err
	}
	for first := true; ; first = false {
		key, done, err := p.member(first)
		if err != nil {
			return f, err
		}
		if done {
			return f, nil
		}
		value, null, err := p.scalar(key)
		if err != nil {
			return f, err
		}
		if null {
			continue
		}
		if len(f) == MaxFields {
			return f, frameErrorf(ErrMalformedHeader, "more than %d fields", MaxFields)
		}
		f = append(f, Field{key, value})
	}
}

// integer reads a 32-bit integer, quoted or not; null counts as 0.
func (p *parser) integer(key string) (int, error) {
	// The usual case first: a few digits.
	c := p.next()
	i, neg := p.i, false
	if c == '-' {
		neg = true
		i++
	}
	start, n := i, 0
	for i < len(p.b) && i-start < 9 && p.b[i]-'0' < 10 {
		n = n*10 + int(p.b[i]-'0')
		i++
	}
	if i > start && i < len(p.b) && (p.b[i] == ',' || p.b[i] == '}') && (p.b[start] != '0' || i == start+1) {
		p.i = i
		if neg {
			n = -n
		}
		return n, nil
	}
	s, null, err := p.scalar(key)
	if err != nil || null {
		return 0, err
	}
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, frameErrorf(ErrMalformedHeader, "%s is %.40q, want a 32-bit integer", key, s)
	}
	return int(v), nil
}

// language reads a language by name, or by number as some clients send it.
func (p *parser) language() (byte, error) {
	s, null, err := p.scalar("language")
	if err != nil || null {
		return LanguageOther, err
	}
	for i, name := range languages {
		if s == name {
			return byte(i), nil
		}
	}
	if n, err := strconv.ParseUint(s, 10, 8); err == nil {
		return byte(n), nil
	}
	return LanguageOther, nil
}
