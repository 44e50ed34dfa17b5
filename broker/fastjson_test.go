package broker

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlainJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`{{"brokerName":"b","queueId":0,"topic":"t"}:5,{"queueId":1}:6}`, `{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}":5,"{\"queueId\":1}":6}`},
		{`{"offsetTable":{0:1,"1":2}, "x":[ {2:{}} ] }`, `{"offsetTable":{"0":1,"1":2},"x":[{"2":{}}]}`},
		{`{ {"a":"}:\"{"} : {1:null} }`, `{"{\"a\":\"}:\\\"{\"}":{"1":null}}`},
		{`{bare:true}`, `{"bare":true}`},
		{"", ""}, {"{", ""}, {`{{"a":1}`, ""}, {`{"a"`, ""}, {`{1 2}`, ""}, {`{1:2}}`, ""}, {`{1:"a`, ""}, {`{1:tru}`, ""}, {`{,}`, ""},
		{strings.Repeat("[", 5000), ""}, {`{1:` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, ""},
	} {
		got, err := plainJSON([]byte(c.in))
		if (err == nil) != (c.want != "") || err == nil && string(got) != c.want {
			t.Errorf("%.80q: got %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func FuzzPlainJSON(f *testing.F) {
	f.Add([]byte(`{{"brokerName":"b","queueId":0,"topic":"t"}:5,0:[1,{2:"x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := plainJSON(b); err == nil && !json.Valid(out) {
			t.Errorf("%q became %q", b, out)
		}
	})
}
