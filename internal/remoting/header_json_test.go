package remoting

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// oddHeaders are JSON headers that are unusual and still understood.
var oddHeaders = []struct {
	name, json string
	want       Command
}{
	{"empty object", `{}`, Command{}},
	{"white space everywhere", " \t\r\n{ \"code\" : 34 ,\n\"extFields\" : { \"a\" : \"b\" , \"c\" : 1 } , \"opaque\" : 7 } \n", Command{Code: 34, Opaque: 7, Fields: Fields{{"a", "b"}, {"c", "1"}}}},
	{"members in another order", `{"version":401,"remark":"r","opaque":3,"language":"GO","flag":1,"extFields":{},"code":11}`,
		Command{Code: 11, Language: LanguageGo, Version: 401, Opaque: 3, Flag: 1, Remark: "r"}},
	{"unknown members of every kind", `{"code":1,"x":null,"y":[1,{"z":"]}\""}],"suspended":false,"serializeTypeCurrentRPC":"JSON","n":-1.5e+3,"o":{"p":{}},"opaque":2}`,
		Command{Code: 1, Opaque: 2}},
	{"null members", `{"code":null,"extFields":null,"remark":null,"language":null,"opaque":5}`, Command{Opaque: 5, Language: LanguageOther}},
	{"members as strings", `{"code":"310","opaque":"-4","version":"12","flag":"2"}`, Command{Code: 310, Opaque: -4, Version: 12, Flag: 2}},
	{"integers at their limits", `{"code":2147483647,"opaque":-2147483648,"flag":2147483647}`, Command{Code: 1<<31 - 1, Opaque: -1 << 31, Flag: 1<<31 - 1}},
	{"integer before a space", `{"code":310 ,"opaque":1000000000	}`, Command{Code: 310, Opaque: 1000000000}},
	{"negative zero", `{"opaque":-0}`, Command{}},
	{"fields as numbers, booleans and null", `{"extFields":{"d":4,"g":1764563000123,"x":-1.5E-7,"k":false,"m":true,"gone":null,"z":""}}`,
		Command{Fields: Fields{{"d", "4"}, {"g", "1764563000123"}, {"x", "-1.5E-7"}, {"k", "false"}, {"m", "true"}, {"z", ""}}}},
	{"fields as objects and arrays", `{"extFields":{"o":{ "a" : [ 1, "x]" ] },"l":[ true ],"s":"after"}}`,
		Command{Fields: Fields{{"o", `{"a":[1,"x]"]}`}, {"l", "[true]"}, {"s", "after"}}}},
	{"every escape", `{"remark":"\"\\\/\b\f\n\r\t\u0000\u0001\u00e9\u6807\ud83d\ude00\uFFFD\u00E9"}`, Command{Remark: "\"\\/\b\f\n\r\t\x00\x01é标😀\ufffdé"}},
	{"escapes in keys", `{"\u0063ode":7,"extFields":{"\u0061\n":"b"}}`, Command{Code: 7, Fields: Fields{{"a\n", "b"}}}},
	{"properties", `{"extFields":{"i":"KEYS\u0001k1\u0002TAGS\u0001标签\u0002"}}`, Command{Fields: Fields{{"i", "KEYS\x01k1\x02TAGS\x01标签\x02"}}}},
	{"raw control characters", "{\"remark\":\"a\x01b\x02\n\x00\"}", Command{Remark: "a\x01b\x02\n\x00"}},
	{"half a surrogate pair", `{"remark":"\ud83d|\ude00|\ud83d\u0041|\ud83d\ud83d\ude00|\ud83d"}`, Command{Remark: "\ufffd|\ufffd|\ufffdA|\ufffd😀|\ufffd"}},
	{"bytes that are no UTF-8", "{\"remark\":\"a\xff\xc3b\",\"extFields\":{\"k\":\"\xe6\xa0\\n\"}}", Command{Remark: "a\ufffd\ufffdb", Fields: Fields{{"k", "\ufffd\ufffd\n"}}}},
	{"a key twice", `{"code":1,"code":2,"extFields":{"k":"1","k":"2"}}`, Command{Code: 2, Fields: Fields{{"k", "1"}, {"k", "2"}}}},
	{"extFields twice", `{"extFields":{"k":"1"},"extFields":{"l":"2"}}`, Command{Fields: Fields{{"l", "2"}}}},
	{"language by number", `{"language":12}`, Command{Language: LanguageRust}},
	{"language not known", `{"language":"COBOL"}`, Command{Language: LanguageOther}},
	{"name of another case", `{"Code":5,"code":6}`, Command{Code: 6}},
}

func TestOddJSON(t *testing.T) {
	for _, tt := range oddHeaders {
		t.Run(tt.name, func(t *testing.T) {
			got := decode(t, frameOf(HeaderJSON, tt.json, ""))
			want := tt.want
			if want.Language == 0 && !strings.Contains(tt.json, "language") {
				want.Language = got.Language
			}
			same(t, "decoded", &want, got)
			same(t, "encoded and decoded again", got, decode(t, encode(t, got)))
		})
	}
}

// badHeaders are not JSON, or not a header.
var badHeaders = []struct{ name, json, text string }{
	{"nothing", ``, "ends at byte 0, want {"},
	{"white space", ` `, "ends at byte 1, want {"},
	{"an array", `[]`, `'[' at byte 0, want {`},
	{"a string", `"code"`, `want {`},
	{"null", `null`, `want {`},
	{"not closed", `{"code":1`, "ends at byte 9, want , or }"},
	{"two objects", `{}{}`, `'{' at byte 2, want end of header`},
	{"text behind", `{"code":1} x`, `'x' at byte 11, want end of header`},
	{"a NUL behind", "{}\x00", `want end of header`},
	{"comma first", `{,"code":1}`, "want a member's name"},
	{"comma last", `{"code":1,}`, "want a member's name"},
	{"no comma", `{"code":1 "flag":2}`, "want , or }"},
	{"no colon", `{"code" 1}`, "want :"},
	{"no value", `{"code":}`, `want a value of "code"`},
	{"name without quotes", `{code:1}`, "want a member's name"},
	{"single quotes", `{'code':1}`, "want a member's name"},
	{"string not closed", `{"remark":"abc}`, "ends at byte 15, want the string's end"},
	{"escape at the end", `{"remark":"abc\`, "want the string's end"},
	{"escape of a quote at the end", `{"remark":"abc\"`, "want the string's end"},
	{"unknown escape", `{"remark":"\x41"}`, `'x' at byte 12, want an escape`},
	{"short \\u", `{"remark":"\u12"}`, "want four hex digits"},
	{"\\u that is no hex", `{"remark":"\u12g4"}`, "want four hex digits"},
	{"\\u cut", `{"remark":"\u00`, "want four hex digits"},
	{"code too large", `{"code":2147483648}`, `code is "2147483648", want a 32-bit integer`},
	{"code beyond 64 bits", `{"code":99999999999999999999}`, "want a 32-bit integer"},
	{"code with a fraction", `{"code":1.5}`, `code is "1.5"`},
	{"code as a word", `{"code":"ten"}`, `code is "ten"`},
	{"code as an empty string", `{"code":""}`, `code is ""`},
	{"code as a boolean", `{"code":true}`, `code is "true"`},
	{"code as an object", `{"code":{}}`, `code is "{}"`},
	{"leading zero", `{"code":01}`, "want a number"},
	{"leading plus", `{"code":+1}`, "want a value"},
	{"minus alone", `{"code":-}`, "want a number"},
	{"fraction without digits", `{"x":1.}`, "want a digit"},
	{"exponent without digits", `{"x":1e}`, "want a digit"},
	{"NaN", `{"x":NaN}`, `want a value of "x"`},
	{"wrong literal", `{"x":nul}`, "want null"},
	{"literal cut", `{"x":tru`, "want true"},
	{"extFields as a string", `{"extFields":"a"}`, "want {"},
	{"extFields as an array", `{"extFields":[]}`, "want {"},
	{"extFields as a wrong literal", `{"extFields":nil}`, "want null"},
	{"extFields not closed", `{"extFields":{"a":"b"`, "want , or }"},
	{"nested value not closed", `{"extFields":{"a":{"b":[1,2}`, "want } or ]"},
	{"nested value mismatched", `{"extFields":{"a":{"b":[1,2}]}}`, "JSON value at byte 18"},
	{"nested value that is no JSON", `{"x":{a:1}}`, "JSON value at byte 5"},
	{"nesting without end", `{"x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, "exceeded max depth"},
	{"too many fields", `{"extFields":{` + strings.Repeat(`"a":1,`, MaxFields) + `"a":1}}`, "more than 4096 fields"},
}

func TestBadJSON(t *testing.T) {
	for _, tt := range badHeaders {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := DecodeCommand(frameOf(HeaderJSON, tt.json, "body"))
			checkFrameError(t, "DecodeCommand", err, ErrMalformedHeader, tt.text)
		})
	}
}

// Any string comes back, whatever stands beside it, and encoding/json reads
// what we write.
func TestJSONStringModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Command{Remark: rapid.String().Draw(t, "remark")}
		for range rapid.IntRange(0, 5).Draw(t, "fields") {
			c.Fields = append(c.Fields, Field{rapid.String().Draw(t, "key"), rapid.String().Draw(t, "value")})
		}
		frame, err := AppendCommand(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		var std struct {
			Remark    string
			ExtFields map[string]string
		}
		if err := json.Unmarshal(frame[prefix:], &std); err != nil {
			t.Fatalf("%q: %v", frame[prefix:], err)
		}
		want := make(map[string]string)
		for _, f := range c.Fields {
			want[f.Key] = f.Value
		}
		if std.Remark != c.Remark || len(want) != len(std.ExtFields) || len(want) > 0 && !cmp.Equal(want, std.ExtFields) {
			t.Fatalf("encoding/json reads %q, %q; want %q, %q", std.Remark, std.ExtFields, c.Remark, want)
		}
		got, _, err := DecodeCommand(frame)
		if err != nil {
			t.Fatal(err)
		}
		if got.Remark != c.Remark || len(got.Fields) != len(c.Fields) {
			t.Fatalf("got %q, %q; want %q, %q", got.Remark, got.Fields, c.Remark, c.Fields)
		}
		for i, f := range c.Fields {
			if got.Fields[i] != f {
				t.Fatalf("field %d is %q, want %q", i, got.Fields[i], f)
			}
		}
	})
}

// The ends of strings are looked for eight bytes at a time: every length and
// every place of a special byte among others that differ from one by a bit.
func TestSpecial(t *testing.T) {
	for _, fill := range []byte{'a', '!', '#', '[', ']', 0, 0x01, 0x7f, 0x80, 0xa2, 0xdc, 0xff} {
		for n := range 20 {
			b := []byte(strings.Repeat(string([]byte{fill}), n))
			for from := 0; from <= n; from++ {
				if at, high := special(b, from); at != n || (high != 0) != (fill >= 0x80 && from < n) {
					t.Fatalf("special(%q, %d) = %d, %#x; want %d", b, from, at, high, n)
				}
				for at := from; at < n; at++ {
					for _, c := range []byte{'"', '\\'} {
						b[at] = c
						if got, _ := special(b, from); got != at {
							t.Fatalf("special(%q, %d) = %d, want %d", b, from, got, at)
						}
						b[at] = fill
					}
				}
			}
		}
	}
}

func TestDecodeAllocations(t *testing.T) {
	for typ, name := range []string{"JSON", "ROCKETMQ"} {
		r := NewReader(&endless{frame: sendFrame(t, byte(typ), 1024)}, 0)
		if n := testing.AllocsPerRun(200, func() {
			if _, err := r.ReadCommand(); err != nil {
				t.Fatal(err)
			}
		}); n > 3 {
			t.Errorf("%s: reading a send takes %v allocations, want at most 3", name, n)
		}
		s := new(Scratch)
		if n := testing.AllocsPerRun(200, func() {
			if _, err := r.ReadInto(s); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: reading a send into used memory takes %v allocations, want 0", name, n)
		}
	}
}

func ExampleCommand_Reply() {
	request := NewRequest(ReqGetMaxOffset, Field{"topic", "TopicTest"}, Field{"queueId", "3"})
	request.Opaque = 7

	answer := request.Reply(Success, "")
	answer.Fields.SetInt("offset", 1234)
	frame, err := AppendCommand(nil, answer)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", frame[8:])
	// Output: {"code":0,"extFields":{"offset":"1234"},"flag":1,"language":"GO","opaque":7,"serializeTypeCurrentRPC":"JSON","version":513}
}
