package remoting

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFields(t *testing.T) {
	f := Fields{{"a", "1"}, {"b", "2"}, {"a", "3"}, {"empty", ""}}
	for _, tt := range []struct {
		key, want string
		ok        bool
	}{{"a", "3", true}, {"b", "2", true}, {"empty", "", true}, {"A", "", false}, {"", "", false}} {
		if got, ok := f.Get(tt.key); got != tt.want || ok != tt.ok {
			t.Errorf("Get(%q) = %q, %v; want %q, %v", tt.key, got, ok, tt.want, tt.ok)
		}
		if got := f.Value(tt.key); got != tt.want {
			t.Errorf("Value(%q) = %q, want %q", tt.key, got, tt.want)
		}
	}
	f.Set("b", "new")
	f.SetInt("c", -9)
	f.Set("a", "4")
	if d := cmp.Diff(Fields{{"a", "1"}, {"b", "new"}, {"a", "4"}, {"empty", ""}, {"c", "-9"}}, f); d != "" {
		t.Errorf("after Set (-want +got):\n%s", d)
	}
	if v, err := f.Require("b"); v != "new" || err != nil {
		t.Errorf("Require(b) = %q, %v", v, err)
	}
	for _, key := range []string{"empty", "absent"} {
		if _, err := f.Require(key); !errors.Is(err, ErrFieldMissing) {
			t.Errorf("Require(%s) = %v, want %v", key, err, ErrFieldMissing)
		}
	}
}

func TestFieldNumbers(t *testing.T) {
	f := Fields{
		{"n", "17"}, {"negative", "-17"}, {"plus", "+5"}, {"max32", "2147483647"}, {"over32", "2147483648"}, {"max64", "9223372036854775807"},
		{"over64", "9223372036854775808"}, {"empty", ""}, {"space", " 3"}, {"float", "3.5"}, {"word", "abc"}, {"hex", "0x10"}, {"under", "1_0"}, {"long", strings.Repeat("9", 100000)},
		{"true", "true"}, {"TRUE", "TRUE"}, {"false", "False"}, {"one", "1"},
	}
	for _, tt := range []struct {
		key    string
		want32 int32
		err32  error
		want64 int64
		err64  error
	}{
		{"n", 17, nil, 17, nil},
		{"negative", -17, nil, -17, nil},
		{"plus", 5, nil, 5, nil},
		{"max32", 1<<31 - 1, nil, 1<<31 - 1, nil},
		{"over32", 0, ErrFieldInvalid, 1 << 31, nil},
		{"max64", 0, ErrFieldInvalid, 1<<63 - 1, nil},
		{"over64", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"empty", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"space", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"float", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"word", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"hex", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"under", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"long", 0, ErrFieldInvalid, 0, ErrFieldInvalid},
		{"absent", 0, ErrFieldMissing, 0, ErrFieldMissing},
	} {
		n32, err := f.Int32(tt.key)
		checkField(t, "Int32", tt.key, err, tt.err32)
		n64, err := f.Int64(tt.key)
		checkField(t, "Int64", tt.key, err, tt.err64)
		if n32 != tt.want32 || n64 != tt.want64 {
			t.Errorf("%s: Int32 %d, Int64 %d; want %d, %d", tt.key, n32, n64, tt.want32, tt.want64)
		}
		// With a value for what is absent, which an empty one counts as.
		or32, err := f.Int32Or(tt.key, 7)
		or64, err2 := f.Int64Or(tt.key, 8)
		if tt.key == "absent" || tt.key == "empty" {
			if or32 != 7 || or64 != 8 || err != nil || err2 != nil {
				t.Errorf("%s: Int32Or %d, %v, Int64Or %d, %v; want 7 and 8", tt.key, or32, err, or64, err2)
			}
			continue
		}
		checkField(t, "Int32Or", tt.key, err, tt.err32)
		checkField(t, "Int64Or", tt.key, err2, tt.err64)
		if or32 != tt.want32 || or64 != tt.want64 {
			t.Errorf("%s: Int32Or %d, Int64Or %d; want %d, %d", tt.key, or32, or64, tt.want32, tt.want64)
		}
	}
	for _, tt := range []struct {
		key  string
		want bool
		err  error
	}{{"true", true, nil}, {"TRUE", true, nil}, {"false", false, nil}, {"one", false, ErrFieldInvalid}, {"word", false, ErrFieldInvalid}, {"absent", false, ErrFieldMissing}} {
		got, err := f.Bool(tt.key)
		checkField(t, "Bool", tt.key, err, tt.err)
		if got != tt.want {
			t.Errorf("Bool(%s) = %v, want %v", tt.key, got, tt.want)
		}
	}
	if got, err := f.BoolOr("absent", true); !got || err != nil {
		t.Errorf("BoolOr(absent, true) = %v, %v", got, err)
	}
	if _, err := f.BoolOr("word", true); !errors.Is(err, ErrFieldInvalid) {
		t.Errorf("BoolOr(word) = %v, want %v", err, ErrFieldInvalid)
	}
}

// Errors name the key, the value and what is allowed, and stay short.
func checkField(t *testing.T, f, key string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s(%s) = %v, want %v", f, key, err, want)
		return
	}
	if err == nil {
		return
	}
	var fe *FieldError
	if !errors.As(err, &fe) || fe.Key != key || !strings.Contains(err.Error(), "field "+key) || !strings.Contains(err.Error(), "want ") || len(err.Error()) > 200 {
		t.Errorf("%s(%s): error %q does not name key and wish in short", f, key, err)
	}
}

func TestParseSend(t *testing.T) {
	want := SendHeader{
		ProducerGroup: "g", Topic: "T", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: -1, SysFlag: 3, BornTimestamp: 1764563000123, Flag: 9,
		Properties: "TAGS\x01t\x02", ReconsumeTimes: 2, MaxReconsumeTimes: 16, UnitMode: true, Batch: true, BrokerName: "b",
	}
	short := want.AppendFields(nil)
	names := map[string]string{"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId", "f": "sysFlag", "g": "bornTimestamp",
		"h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch", "n": "bname"}
	var long Fields
	for _, f := range short {
		long = append(long, Field{names[f.Key], f.Value})
	}
	if len(short) != len(names) {
		t.Errorf("%d fields, want %d", len(short), len(names))
	}
	for name, fields := range map[string]Fields{"short": short, "long": long, "others beside": append(Fields{{"z", "?"}, {"nsd", "true"}}, short...)} {
		got, err := ParseSend(fields)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s names (-want +got):\n%s", name, d)
		}
	}
	got, err := ParseSend(Fields{{"b", "T"}, {"e", "0"}, {"d", ""}, {"g", ""}, {"k", ""}})
	if d := cmp.Diff(SendHeader{Topic: "T", MaxReconsumeTimes: -1}, got); err != nil || d != "" {
		t.Errorf("least fields: %v (-want +got):\n%s", err, d)
	}
	for _, tt := range []struct {
		fields Fields
		key    string
		want   error
	}{
		{Fields{{"e", "0"}}, "topic", ErrFieldMissing},
		{Fields{{"b", "T"}}, "queueId", ErrFieldMissing},
		{Fields{{"b", "T"}, {"e", ""}}, "queueId", ErrFieldMissing},
		{Fields{{"b", "T"}, {"e", "one"}}, "e", ErrFieldInvalid},
		{Fields{{"b", "T"}, {"e", "0"}, {"f", "2147483648"}}, "f", ErrFieldInvalid},
		{Fields{{"topic", "T"}, {"queueId", "0"}, {"bornTimestamp", "now"}}, "bornTimestamp", ErrFieldInvalid},
	} {
		_, err := ParseSend(tt.fields)
		checkField(t, "ParseSend", tt.key, err, tt.want)
	}
}

func TestCodes(t *testing.T) {
	for name, table := range map[string][]CodeInfo{"request": requests, "response": responses} {
		codes, names := map[int]bool{}, map[string]bool{}
		for _, info := range table {
			if codes[info.Code] || names[info.Name] {
				t.Errorf("%s %d %s is listed twice", name, info.Code, info.Name)
			}
			codes[info.Code], names[info.Name] = true, true
			if info.Meaning == "" {
				t.Errorf("%s %s has no meaning", name, info.Name)
			}
		}
	}
	for _, tt := range []struct{ got, want any }{
		{RequestName(310), "SEND_MESSAGE_V2"},
		{RequestName(ReqNotifyConsumerIDsChanged), "NOTIFY_CONSUMER_IDS_CHANGED"},
		{RequestName(-1), "UNKNOWN"},
		{ResponseName(3), "REQUEST_CODE_NOT_SUPPORTED"},
		{ResponseName(99999), "UNKNOWN"},
		{Retriable(SystemBusy), true},
		{Retriable(ServiceNotAvailable), true},
		{Retriable(MessageIllegal), false},
		{Retriable(Success), false},
		{Retriable(99999), false},
	} {
		if tt.got != tt.want {
			t.Errorf("got %v, want %v", tt.got, tt.want)
		}
	}
	if info, ok := Response(PullOffsetMoved); !ok || info.Code != 21 || info.Name != "PULL_OFFSET_MOVED" {
		t.Errorf("Response(21) = %+v, %v", info, ok)
	}
}
