package client

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStrictJSON(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"strict already", `{"a":[1,-2.5e3,true,null,"x\"y"],"b":{}}`, `{"a":[1,-2.5e3,true,null,"x\"y"],"b":{}}`},
		{"numbers as keys", `{"brokerAddrs":{0:"h:1",-1:"h:2"}}`, `{"brokerAddrs":{"0":"h:1","-1":"h:2"}}`},
		{"words as keys", `{a_b:1}`, `{"a_b":1}`},
		{"objects as keys", `{{"q":0,"t":"\"x"}:17,{"q":1}:[]}`, `{"{\"q\":0,\"t\":\"\\\"x\"}":17,"{\"q\":1}":[]}`},
		{"objects in objects as keys", `{{"a":{1:2}}:3}`, `{"{\"a\":{\"1\":2}}":3}`},
		{"white space", " { 0 : 1 ,\n\t\"a\" : [ ] } ", `{"0":1,"a":[]}`},
		{"scalar", ` 12 `, `12`},
	} {
		got, err := strictJSON([]byte(tc.in))
		if err != nil || string(got) != tc.want || !json.Valid(got) {
			t.Errorf("%s: %s, %v; want %s", tc.name, got, err, tc.want)
		}
	}
	for _, tc := range []struct{ name, in, says string }{
		{"empty", "", "unexpected end"},
		{"open object", `{"a":1`, "unexpected end"},
		{"open string", `{"a":"b`, "unexpected end"},
		{"string ends in an escape", `"a\`, "unexpected end"},
		{"no colon", `{"a" 1}`, "want ':'"},
		{"no key", `{:1}`, "key"},
		{"no value", `{"a":}`, `unexpected '}'`},
		{"two values", `{} {}`, "behind the value"},
		{"no comma", `[1 2]`, "want ','"},
		{"too deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), "deeper than 64"},
	} {
		if got, err := strictJSON([]byte(tc.in)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %s, %v; want an error with %q", tc.name, got, err, tc.says)
		}
	}
}

func TestQueueTable(t *testing.T) {
	want := queueTable{{"t", "b", 0}: 17, {"t", "b", 3}: 0}
	for _, in := range []string{
		`{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:17,{"brokerName":"b","queueId":3,"topic":"t"}:0}}`,
		`{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}":17,"{\"queueId\":3,\"topic\":\"t\",\"brokerName\":\"b\"}":0}}`,
		`{"offsetTable":[[{"topic":"t","brokerName":"b","queueId":0},17],[{"topic":"t","brokerName":"b","queueId":3},0]]}`,
		`{"offsetTable":[{"brokerName":"b","queueId":0,"topic":"t","offset":17},{"brokerName":"b","queueId":3,"topic":"t","offset":0}]}`,
	} {
		var body struct {
			Offsets queueTable `json:"offsetTable"`
		}
		if err := unmarshalLenient([]byte(in), &body); err != nil {
			t.Errorf("%s: %v", in, err)
		} else if diff := cmp.Diff(want, body.Offsets); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	for _, in := range []string{`{"offsetTable":{"x":1}}`, `{"offsetTable":7}`, `{"offsetTable":[1]}`, `{"offsetTable":{{"queueId":"a"}:1}}`} {
		var body struct {
			Offsets queueTable `json:"offsetTable"`
		}
		if err := unmarshalLenient([]byte(in), &body); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
}

// Whatever arrives, the answer is strict JSON or an error.
func FuzzStrictJSON(f *testing.F) {
	for _, s := range []string{
		`{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"b"}`,
		`{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:17}}`,
		`[{"a":[1,2,{3:{4:5}}]}]`, `"\\"`, `{{{`, `{a:b}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := strictJSON(in)
		if err != nil {
			return
		}
		// Scalars are passed on as they are; with them valid, the whole is.
		var v any
		if json.Unmarshal(out, &v) != nil {
			return
		}
		again, err := strictJSON(out)
		if err != nil || string(again) != string(out) {
			t.Errorf("%q became %q, and that %q, %v", in, out, again, err)
		}
	})
}
