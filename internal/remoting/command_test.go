package remoting

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Frames that RocketMQ 5.5.0's `RemotingCommand.encode` made of javaSend().
const (
	javaJSON = "000001570000014f7b22636f6465223a3331302c226578744669656c6473223a7b2261223a2267222c2262223a22546f70696354657374" +
		"222c2263223a22544257313032222c2264223a2234222c2265223a2231222c2266223a2230222c2267223a223137363435363330303031" +
		"3233222c2268223a2230222c2269223a22544147535c7530303031e6a087e7adbef09f98805c7530303032515c75303030315c225c5c2f" +
		"5c6e7fe280a85c7530303032222c226a223a2230222c226b223a2266616c7365222c226c223a223136222c226d223a2266616c7365222c" +
		"226e223a2262726f6b65722d61227d2c22666c6167223a302c226c616e6775616765223a224a415641222c226f7061717565223a34322c" +
		"2272656d61726b223a2272c3a95c7530303031222c2273657269616c697a655479706543757272656e74525043223a224a534f4e222c22" +
		"76657273696f6e223a3531337d626f6479"
	javaBinary = "000000d4010000cc01360002010000002a000000000000000472c3a901000000b3000161000000016700016200000009546f706963546573" +
		"74000163000000065442573130320001640000000134000165000000013100016600000001300001670000000d313736343536333030303" +
		"13233000168000000013000016900" +
		"00001b5441475301e6a087e7adbef09f9880025101225c2f0a7fe280a80200016a000000013000016b0000000566616c736500016c0000" +
		"0002313600016d0000000566616c736500016e0000000862726f6b65722d61626f6479"
)

func javaSend(typ byte) *Command {
	return &Command{
		Code: ReqSendMessageV2, Language: LanguageJava, Version: 513, Opaque: 42, Remark: "ré\x01", HeaderType: typ,
		Fields: Fields{{"a", "g"}, {"b", "TopicTest"}, {"c", "TBW102"}, {"d", "4"}, {"e", "1"}, {"f", "0"}, {"g", "1764563000123"}, {"h", "0"},
			{"i", "TAGS\x01标签😀\x02Q\x01\"\\/\n\x7f\u2028\x02"},
			{"j", "0"}, {"k", "false"}, {"l", "16"}, {"m", "false"}, {"n", "broker-a"}},
		Body: []byte("body"),
	}
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func encode(tb testing.TB, c *Command) []byte {
	tb.Helper()
	b, err := AppendCommand(nil, c)
	if err != nil {
		tb.Fatalf("AppendCommand(%v): %v", c, err)
	}
	return b
}

// decode decodes a copy of b, which is one whole frame.
func decode(tb testing.TB, b []byte) *Command {
	tb.Helper()
	c, n, err := DecodeCommand(bytes.Clone(b))
	if err != nil {
		tb.Fatalf("DecodeCommand: %v", err)
	}
	if n != len(b) {
		tb.Fatalf("DecodeCommand consumed %d of %d bytes", n, len(b))
	}
	return c
}

// frameOf puts a header and body into a frame.
func frameOf(typ byte, header, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(typ)<<24|uint32(len(header)))
	return append(append(b, header...), body...)
}

// same compares commands by meaning: a body given in parts is one body.
func same(tb testing.TB, what string, want, got *Command) {
	tb.Helper()
	if d := cmp.Diff(want, got, cmp.Comparer(bytes.Equal), cmp.Comparer(slices.Equal[Fields])); d != "" {
		tb.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestFrameAsRocketMQ(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		typ       byte
	}{{"JSON", javaJSON, HeaderJSON}, {"ROCKETMQ", javaBinary, HeaderRocketMQ}} {
		t.Run(tt.name, func(t *testing.T) {
			java := unhex(t, tt.hex)
			if got := encode(t, javaSend(tt.typ)); !bytes.Equal(got, java) {
				t.Errorf("encoded\n got %q\nwant %q", got, java)
			}
			same(t, "decoded", javaSend(tt.typ), decode(t, java))
		})
	}
}

func TestRoundTrip(t *testing.T) {
	for _, typ := range []byte{HeaderJSON, HeaderRocketMQ} {
		for _, tt := range []struct {
			name string
			c    Command
		}{
			{"nothing", Command{}},
			{"response", Command{Code: PullNotFound, Language: LanguageGo, Version: Version, Opaque: 7, Flag: FlagResponse, Remark: "OFFSET_FOUND_NULL"}},
			{"one-way", Command{Code: ReqUpdateConsumerOffset, Flag: FlagOneway, Language: LanguageCPP}},
			{"extremes", Command{Code: math.MinInt16, Version: math.MaxInt16, Opaque: math.MinInt32, Flag: math.MaxInt32, Language: LanguageNodeJS}},
			{"every control character", Command{Remark: "\x00\x01\x02\x03\x04\x05\x06\x07\b\t\n\v\f\r\x0e\x0f\x10\x1f \x7f\"\\/"}},
			{"beyond ASCII", Command{Remark: "ñ 标签 😀 \u2028 \ufffd", Fields: Fields{{"ключ", "значение"}}}},
			{"empty key and value", Command{Fields: Fields{{"", "x"}, {"y", ""}}}},
			{"a key twice", Command{Fields: Fields{{"k", "1"}, {"k", "2"}}}},
			{"more fields than a send", Command{Fields: manyFields(40)}},
			{"as many fields as allowed", Command{Fields: manyFields(MaxFields)}},
			{"long value", Command{Fields: Fields{{"properties", strings.Repeat("k\x01v\x02", 8000)}}}},
			{"large body", Command{Body: bytes.Repeat([]byte{0, 1, 0xff}, 1<<20)}},
		} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, typ), func(t *testing.T) {
				c := tt.c
				c.HeaderType = typ
				frame := encode(t, &c)
				same(t, "decoded", &c, decode(t, frame))
				same(t, "read", &c, read(t, frame))
			})
		}
	}
}

func manyFields(n int) Fields {
	f := make(Fields, n)
	for i := range f {
		f[i] = Field{fmt.Sprint("key", i), fmt.Sprint(i)}
	}
	return f
}

// A JSON header has room for codes and versions that ROCKETMQ has not.
func TestLargeCodes(t *testing.T) {
	c := Command{Code: ReqPopMessage, Version: 1 << 20, Language: LanguageJava}
	same(t, "JSON", &c, decode(t, encode(t, &c)))
	for name, c := range map[string]Command{
		"code":    {Code: ReqPopMessage, HeaderType: HeaderRocketMQ},
		"version": {Version: 1 << 15, HeaderType: HeaderRocketMQ},
		"key":     {Fields: Fields{{strings.Repeat("k", 1<<15), ""}}, HeaderType: HeaderRocketMQ},
		"type":    {HeaderType: 2},
		"body":    {Body: make([]byte, MaxFrame)},
		"header":  {Remark: strings.Repeat("r", MaxFrame-8)},
		"parts":   {Bodies: [][]byte{make([]byte, MaxFrame/2), make([]byte, MaxFrame/2)}},
	} {
		got, err := AppendCommand([]byte("kept"), &c)
		if !errors.Is(err, ErrEncode) || string(got) != "kept" {
			t.Errorf("%s: AppendCommand = %d bytes, %v; want %v and dst as it was", name, len(got), err, ErrEncode)
		}
	}
}

func TestBodies(t *testing.T) {
	c := &Command{Code: Success, Body: []byte("one "), Bodies: [][]byte{[]byte("two "), nil, []byte("three")}}
	if got := decode(t, encode(t, c)); string(got.Body) != "one two three" || got.Bodies != nil {
		t.Errorf("Body %q, Bodies %q; want one body", got.Body, got.Bodies)
	}
	if c.BodyLen() != len("one two three") {
		t.Errorf("BodyLen = %d", c.BodyLen())
	}
}

func TestReply(t *testing.T) {
	q := NewRequest(ReqHeartBeat, Field{"a", "b"})
	q.Opaque, q.HeaderType, q.Flag = -5, HeaderRocketMQ, 0
	if q.IsResponse() || q.IsOneway() || q.Language != LanguageGo || q.Version != Version {
		t.Errorf("NewRequest = %+v", *q)
	}
	same(t, "Reply", &Command{Code: SystemBusy, Language: LanguageGo, Version: Version, Opaque: -5, Flag: FlagResponse, Remark: "why", HeaderType: HeaderRocketMQ}, q.Reply(SystemBusy, "why"))
	if r := q.Reply(Success, ""); !r.IsResponse() || r.IsOneway() {
		t.Errorf("Reply's flag is %#x", r.Flag)
	}
	for c, want := range map[*Command]string{
		q:                         "request 34 HEART_BEAT opaque=-5",
		q.Reply(SystemBusy, "no"): `response 2 SYSTEM_BUSY opaque=-5 remark="no"`,
		NewRequest(999):           "request 999 UNKNOWN opaque=0",
	} {
		if got := c.String(); got != want {
			t.Errorf("String = %q, want %q", got, want)
		}
	}
}

// What a frame's own lengths and types can get wrong.
func TestBadFrames(t *testing.T) {
	word := func(values ...uint32) []byte {
		var b []byte
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	for _, tt := range []struct {
		name  string
		frame []byte
		want  error
		text  string
	}{
		{"length 0", word(0, 0), ErrFrameTooShort, "length 0, at least 4"},
		{"length 3", word(3, 0), ErrFrameTooShort, "length 3"},
		{"length only", word(4, 0), ErrMalformedHeader, ""},
		{"length of 16 MiB", word(MaxFrame-3, 0), ErrFrameTooLarge, "16777217 bytes, at most 16777216"},
		{"length at its maximum", word(math.MaxInt32, 0), ErrFrameTooLarge, "2147483651"},
		{"length negative", word(math.MaxUint32, 0), ErrFrameTooLarge, "4294967299"},
		{"header longer than the frame", word(4, 1), ErrHeaderLength, "header of 1 bytes in a frame of 8"},
		{"header length at its maximum", word(6, 0x00ffffff, 0), ErrHeaderLength, "16777215"},
		{"header type 2", append(word(6, 2<<24|2), "{}"...), ErrHeaderType, "2, want 0 (JSON) or 1 (ROCKETMQ)"},
		{"header type 255", append(word(6, 255<<24|2), "{}"...), ErrHeaderType, "255"},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ErrNotRemoting, "HTTP"},
		{"HTTP POST", []byte("POST /topic HTTP/1.1\r\n\r\n"), ErrNotRemoting, "HTTP"},
		{"HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ErrNotRemoting, "HTTP/2"},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), ErrNotRemoting, "TLS"},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.6\r\n"), ErrNotRemoting, "SSH"},
		{"text", []byte("hello, broker\r\n"), ErrFrameTooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, n, err := DecodeCommand(bytes.Clone(tt.frame))
			checkFrameError(t, "DecodeCommand", err, tt.want, tt.text)
			if n != 0 {
				t.Errorf("consumed %d", n)
			}
			r := NewReader(bytes.NewReader(tt.frame), 0)
			_, err = r.ReadCommand()
			checkFrameError(t, "ReadCommand", err, tt.want, tt.text)
			if _, again := r.ReadCommand(); again != err {
				t.Errorf("ReadCommand after the error: %v, want the same error", again)
			}
		})
	}
}

func checkFrameError(t *testing.T, what string, err, want error, text string) {
	t.Helper()
	var fe *FrameError
	if !errors.As(err, &fe) || !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want a FrameError for %q with %q", what, err, want, text)
	} else if len(err.Error()) > 250 {
		t.Errorf("%s: the error has %d characters", what, len(err.Error()))
	}
}

// Every cut of a frame is an error, whether its lengths follow or not.
func TestTruncated(t *testing.T) {
	for name, whole := range map[string][]byte{"JSON": unhex(t, javaJSON), "ROCKETMQ": unhex(t, javaBinary)} {
		for n := range whole {
			_, _, err := DecodeCommand(bytes.Clone(whole[:n]))
			checkFrameError(t, fmt.Sprintf("%s cut to %d bytes", name, n), err, ErrTruncated, fmt.Sprintf("%d bytes", n))
		}
		// A header cut short within a frame that is whole.
		header := int(binary.BigEndian.Uint32(whole[4:]) & maxHeader)
		for n := range header {
			frame := frameOf(whole[4], string(whole[8:8+n]), "body")
			_, _, err := DecodeCommand(frame)
			checkFrameError(t, fmt.Sprintf("%s header cut to %d bytes", name, n), err, ErrMalformedHeader, "")
		}
	}
}

// The whole frame may have 16 MiB, its length word included.
func TestLargestFrame(t *testing.T) {
	c := &Command{Fields: Fields{{"k", "v"}}}
	c.Body = make([]byte, MaxFrame-len(encode(t, c)))
	frame := encode(t, c)
	if len(frame) != MaxFrame {
		t.Fatalf("frame of %d bytes, want %d", len(frame), MaxFrame)
	}
	if got := read(t, frame); len(got.Body) != len(c.Body) {
		t.Errorf("body of %d bytes, want %d", len(got.Body), len(c.Body))
	}
	c.Body = append(c.Body, 0)
	if _, err := AppendCommand(nil, c); !errors.Is(err, ErrEncode) {
		t.Errorf("one byte more: %v, want %v", err, ErrEncode)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, s := range []string{javaJSON, javaBinary} {
		f.Add(unhex(f, s))
	}
	for _, h := range oddHeaders {
		f.Add(frameOf(HeaderJSON, h.json, "body"))
	}
	for _, h := range badHeaders {
		if len(h.json) < 1000 { // larger seeds take the fuzzer minutes to shorten
			f.Add(frameOf(HeaderJSON, h.json, ""))
		}
	}
	for _, b := range goldenFrames(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, n, err := DecodeCommand(bytes.Clone(b))
		if err != nil {
			var fe *FrameError
			if !errors.As(err, &fe) || n != 0 {
				t.Fatalf("DecodeCommand: %d, %v; want 0 and a FrameError", n, err)
			}
			return
		}
		if n > len(b) {
			t.Fatalf("consumed %d of %d bytes", n, len(b))
		}
		same(t, "read in one piece", c, read(t, b[:n]))
		again, err := AppendCommand(nil, c)
		if err != nil {
			if len(b) < MaxFrame/8 {
				t.Fatalf("decoded and cannot be encoded: %v", err)
			}
			return // escapes may make a JSON header longer
		}
		same(t, "encoded and decoded again", inJSON(c, c.HeaderType), decode(t, again))
		if c.HeaderType == HeaderRocketMQ {
			// The same command has a JSON form.
			want := inJSON(c, HeaderJSON)
			if again, err = AppendCommand(nil, want); err == nil {
				same(t, "in JSON, decoded again", want, decode(t, again))
			}
		}
	})
}

// inJSON is what of c comes back from a header of this type: JSON knows no
// language without a name and no bytes that are not UTF-8.
func inJSON(c *Command, typ byte) *Command {
	v := *c
	v.HeaderType = typ
	if typ != HeaderJSON {
		return &v
	}
	if int(v.Language) >= len(languages) {
		v.Language = LanguageOther
	}
	v.Remark = validUTF8(v.Remark)
	v.Fields = nil
	for _, f := range c.Fields {
		v.Fields = append(v.Fields, Field{validUTF8(f.Key), validUTF8(f.Value)})
	}
	return &v
}
