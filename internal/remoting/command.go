package remoting

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Header types: the top byte of a frame's header-length word.
const (
	HeaderJSON     byte = 0
	HeaderRocketMQ byte = 1 // binary
)

// Bits of Command.Flag.
const (
	FlagResponse = 1 << 0
	FlagOneway   = 1 << 1
)

// Languages, as RocketMQ `LanguageCode`.
const (
	LanguageJava   byte = 0
	LanguageCPP    byte = 1
	LanguageDotNet byte = 2
	LanguagePython byte = 3
	LanguageDelphi byte = 4
	LanguageErlang byte = 5
	LanguageRuby   byte = 6
	LanguageOther  byte = 7
	LanguageHTTP   byte = 8
	LanguageGo     byte = 9
	LanguagePHP    byte = 10
	LanguageOMS    byte = 11
	LanguageRust   byte = 12
	LanguageNodeJS byte = 13
)

var languages = [...]string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"}

// LanguageName returns the name of a language, OTHER for one that is not known.
func LanguageName(language byte) string {
	if int(language) < len(languages) {
		return languages[language]
	}
	return languages[LanguageOther]
}

// Version is what our commands carry: the ordinal of V5_5_0 in RocketMQ
// `MQVersion`. Peers compare it to learn what we understand.
const Version = 513

const (
	// MaxFrame is the longest frame in bytes, its length word included, as
	// RocketMQ `NettyDecoder`.
	MaxFrame = 16 << 20
	// MaxFields is how many extFields a header may have; RocketMQ's own
	// commands have fewer than 40.
	MaxFields = 4096

	maxHeader = 1<<24 - 1
	prefix    = 8 // length and header-length words
)

// Command is a request or a response.
type Command struct {
	Code     int
	Language byte // of the sender; see the Language constants
	Version  int  // of the sender; ordinal in RocketMQ `MQVersion`
	// Opaque joins a response with its request; unique per connection among
	// the requests in flight.
	Opaque int32
	Flag   int // FlagResponse, FlagOneway
	Remark string
	Fields Fields
	Body   []byte
	// Bodies follow Body in the frame, so that an answer need not be joined.
	// Decoding leaves it nil.
	Bodies [][]byte
	// Done, if set, is called once by [Writer.Write] or after it, from any
	// goroutine, when Body and Bodies are no longer needed: written, copied, or
	// given up with an error.
	Done func()
	// HeaderType is HeaderJSON or HeaderRocketMQ; a response has its request's.
	HeaderType byte
}

// NewRequest returns a request in JSON with our language and version. The
// caller sets Opaque.
func NewRequest(code int, fields ...Field) *Command {
	return &Command{Code: code, Language: LanguageGo, Version: Version, Fields: fields}
}

// Reply returns a response to c: same opaque and header type, our language and
// version. Code is a response code; remark may be empty.
func (c *Command) Reply(code int, remark string) *Command {
	return &Command{
		Code:       code,
		Language:   LanguageGo,
		Version:    Version,
		Opaque:     c.Opaque,
		Flag:       FlagResponse,
		Remark:     remark,
		HeaderType: c.HeaderType,
	}
}

// IsResponse reports whether c answers a request.
func (c *Command) IsResponse() bool { return c.Flag&FlagResponse != 0 }

// IsOneway reports whether c's sender waits for no answer.
func (c *Command) IsOneway() bool { return c.Flag&FlagOneway != 0 }

// BodyLen is the length of Body and Bodies together.
func (c *Command) BodyLen() int {
	n := len(c.Body)
	for _, b := range c.Bodies {
		n += len(b)
	}
	return n
}

// String tells the command in one line, for logs.
func (c *Command) String() string {
	kind, name := "request", RequestName(c.Code)
	if c.IsResponse() {
		kind, name = "response", ResponseName(c.Code)
	}
	s := fmt.Sprintf("%s %d %s opaque=%d", kind, c.Code, name, c.Opaque)
	if c.Remark != "" {
		s += fmt.Sprintf(" remark=%.100q", c.Remark)
	}
	return s
}

// AppendCommand appends c as a whole frame, bodies included. Errors wrap
// [ErrEncode]; dst is then returned as it was.
func AppendCommand(dst []byte, c *Command) ([]byte, error) {
	out, err := AppendHeader(dst, c)
	if err != nil {
		return dst, err
	}
	out = append(out, c.Body...)
	for _, b := range c.Bodies {
		out = append(out, b...)
	}
	return out, nil
}

// AppendHeader appends a frame up to its body, whose length it counts in. The
// caller sends Body and Bodies behind it. Errors wrap [ErrEncode]; dst is then
// returned as it was.
func AppendHeader(dst []byte, c *Command) ([]byte, error) {
	at := len(dst)
	out := append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	var err error
	switch c.HeaderType {
	case HeaderJSON:
		out = appendJSON(out, c)
	case HeaderRocketMQ:
		out, err = appendBinary(out, c)
	default:
		err = fmt.Errorf("%w: header type %d, want 0 or 1", ErrEncode, c.HeaderType)
	}
	if err != nil {
		return dst, err
	}
	header := len(out) - at - prefix
	total := prefix + header + c.BodyLen()
	if header > maxHeader || total > MaxFrame {
		return dst, fmt.Errorf("%w: frame of %d bytes with a header of %d, at most %d", ErrEncode, total, header, MaxFrame)
	}
	binary.BigEndian.PutUint32(out[at:], uint32(total-4))
	binary.BigEndian.PutUint32(out[at+4:], uint32(c.HeaderType)<<24|uint32(header))
	return out, nil
}

// DecodeCommand decodes the frame at the start of b and returns its length n.
// The command takes b's frame over: its strings and its body lie in it, and
// decoding changes the header's bytes, so b must be neither used nor changed
// afterwards. The error is a [*FrameError]; [ErrTruncated] says that b ends
// within the frame.
func DecodeCommand(b []byte) (c *Command, n int, err error) {
	if len(b) < 4 {
		return nil, 0, frameErrorf(ErrTruncated, "%d bytes", len(b))
	}
	n, err = frameLength(b, MaxFrame)
	if err != nil {
		return nil, 0, err
	}
	if n > len(b) {
		return nil, 0, frameErrorf(ErrTruncated, "%d bytes of %d", len(b), n)
	}
	header, typ, err := headerLength(b[4:prefix], n)
	if err != nil {
		return nil, 0, err
	}
	d := new(frame)
	if err := d.decodeHeader(b[prefix:prefix+header], typ); err != nil {
		return nil, 0, err
	}
	if body := b[prefix+header : n : n]; len(body) > 0 {
		d.Body = body
	}
	return &d.Command, n, nil
}

// frameLength reads a length word and returns the length of the whole frame.
func frameLength(b []byte, limit int) (int, error) {
	length := binary.BigEndian.Uint32(b)
	if int64(length)+4 > int64(limit) {
		if name := foreign(b); name != "" {
			return 0, frameErrorf(ErrNotRemoting, "the first bytes %q look like %s", b[:4], name)
		}
		return 0, frameErrorf(ErrFrameTooLarge, "%d bytes, at most %d", int64(length)+4, limit)
	}
	if length < 4 {
		return 0, frameErrorf(ErrFrameTooShort, "length %d, at least 4", length)
	}
	return int(length) + 4, nil
}

// foreign guesses the protocol of bytes that make no sensible length word.
func foreign(b []byte) string {
	switch string(b[:4]) {
	case "GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "PATC", "CONN", "TRAC":
		return "HTTP"
	case "PRI ":
		return "HTTP/2"
	case "SSH-":
		return "SSH"
	}
	if b[0] == 0x16 && b[1] == 3 {
		return "TLS"
	}
	return ""
}

// headerLength reads a header-length word of a frame of n bytes.
func headerLength(b []byte, n int) (length int, typ byte, err error) {
	word := binary.BigEndian.Uint32(b)
	length, typ = int(word&maxHeader), byte(word>>24)
	if length > n-prefix {
		return 0, 0, frameErrorf(ErrHeaderLength, "header of %d bytes in a frame of %d", length, n)
	}
	if typ != HeaderJSON && typ != HeaderRocketMQ {
		return 0, 0, frameErrorf(ErrHeaderType, "%d, want 0 (JSON) or 1 (ROCKETMQ)", typ)
	}
	return length, typ, nil
}

// frame is a command with room for its fields, so that both are one
// allocation. A send has up to 15 fields.
type frame struct {
	Command
	fields [16]Field
}

// decodeHeader decodes a header whose bytes it may change and keep.
func (d *frame) decodeHeader(b []byte, typ byte) error {
	d.Command = Command{HeaderType: typ, Fields: d.fields[:0]}
	var err error
	if typ == HeaderJSON {
		err = decodeJSON(b, &d.Command)
	} else {
		err = decodeBinary(b, &d.Command)
	}
	if len(d.Fields) == 0 {
		d.Fields = nil
	}
	return err
}

func fitsInt16(v int) bool { return v >= math.MinInt16 && v <= math.MaxInt16 }
