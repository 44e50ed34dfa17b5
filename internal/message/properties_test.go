package message

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Results of RocketMQ 5.5.0's `MessageDecoder.string2messageProperties`.
func TestPropertiesAsRocketMQ(t *testing.T) {
	type m = map[string]string
	for _, tt := range []struct {
		props string
		want  m
	}{
		{"", m{}},
		{"a\x01b", m{"a": "b"}},
		{"a\x01b\x02", m{"a": "b"}},
		{"a\x01b\x02a\x01c\x02", m{"a": "c"}},
		{"a\x01\x02b\x01x", m{"b": "x"}},
		{"\x01v\x02", m{}},
		{"a\x02b\x01c", m{"b": "c"}},
		{"a\x01b\x01c\x02", m{"a": "b\x01c"}},
		{"\x02\x02x\x01y\x02", m{"x": "y"}},
		{"ab\x01c\x02b\x01d", m{"ab": "c", "b": "d"}},
		{"a\x01b\x02a\x01\x02", m{"a": "b"}},
	} {
		got := ParseProperties(tt.props)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("ParseProperties(%q) (-want +got):\n%s", tt.props, d)
		}
		for _, key := range []string{"a", "b", "ab", "x", "", "v", "c"} {
			want, wantOK := tt.want[key]
			if got, ok := Property(tt.props, key); got != want || ok != wantOK {
				t.Errorf("Property(%q, %q) = %q, %v; want %q, %v", tt.props, key, got, ok, want, wantOK)
			}
		}
	}
}

func TestPropertyInsideValue(t *testing.T) {
	props := "KEYS\x01TAGS\x02X\x01aTAGS\x02TAGS\x01t\x02XTAGS\x01no\x02"
	if got, ok := Property(props, PropertyTags); got != "t" || !ok {
		t.Errorf("Property(%q, TAGS) = %q, %v; want %q", props, got, ok, "t")
	}
}

func TestPropertyDoesNotAllocate(t *testing.T) {
	props := "UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02DELAY\x013\x02TAGS\x01TagA\x02"
	if n := testing.AllocsPerRun(100, func() { Property(props, PropertyTags) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAppendProperty(t *testing.T) {
	for _, tt := range []struct{ props, want string }{
		{"", "k\x01v\x02"},
		{"a\x01b\x02", "a\x01b\x02k\x01v\x02"},
		{"a\x01b", "a\x01b\x02k\x01v\x02"}, // clients before 4.9 end without a separator
	} {
		if got := string(AppendProperty([]byte(tt.props), "k", "v")); got != tt.want {
			t.Errorf("AppendProperty(%q, k, v) = %q, want %q", tt.props, got, tt.want)
		}
	}
}

func TestRemoveProperties(t *testing.T) {
	for _, tt := range []struct {
		name, props string
		keys        []string
		want        string
	}{
		{"none of them", "a\x01b\x02c\x01d\x02", []string{"x", "b"}, "a\x01b\x02c\x01d\x02"},
		{"first", "a\x01b\x02c\x01d\x02", []string{"a"}, "c\x01d\x02"},
		{"last", "a\x01b\x02c\x01d\x02", []string{"c"}, "a\x01b\x02"},
		{"last without a separator", "a\x01b\x02c\x01d", []string{"c"}, "a\x01b\x02"},
		{"every entry of a key", "a\x011\x02b\x012\x02a\x013\x02", []string{"a"}, "b\x012\x02"},
		{"several keys", "DELAY\x013\x02TAGS\x01t\x02REAL_QID\x010\x02REAL_TOPIC\x01T\x02", []string{PropertyDelay, PropertyRealTopic, PropertyRealQueueID}, "TAGS\x01t\x02"},
		{"all", "a\x01b\x02", []string{"a"}, ""},
		{"without value", "a\x01\x02b\x012\x02", []string{"a"}, "b\x012\x02"},
		{"a name that ends like a key", "xa\x01b\x02", []string{"a"}, "xa\x01b\x02"},
		{"empty", "", []string{"a"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := RemoveProperties(tt.props, tt.keys...); got != tt.want {
				t.Errorf("RemoveProperties(%q, %q) = %q, want %q", tt.props, tt.keys, got, tt.want)
			}
		})
	}
}

func TestFormatProperties(t *testing.T) {
	got := FormatProperties(map[string]string{"b": "2", "a": "1", "empty": "", "": "nameless", "c": "标签"})
	if want := "a\x011\x02b\x012\x02c\x01标签\x02"; got != want {
		t.Errorf("FormatProperties = %q, want %q", got, want)
	}
	if got := FormatProperties(nil); got != "" {
		t.Errorf("FormatProperties(nil) = %q, want nothing", got)
	}
}

func TestValidateProperty(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		ok         bool
	}{
		{"k", "v", true},
		{"ключ", "值", true},
		{"k", " ", true},
		{"", "v", false},
		{"k", "", false},
		{"k\x01", "v", false},
		{"k\x02", "v", false},
		{"k", "\x01v", false},
		{"k", "v\x02", false},
	} {
		err := ValidateProperty(tt.key, tt.value)
		if tt.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalidProperty) {
			t.Errorf("ValidateProperty(%q, %q) = %v, want ok %v", tt.key, tt.value, err, tt.ok)
		}
	}
}

// Properties that are valid come back, one by one and together, through any
// order of appending and removing.
func TestPropertiesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[A-Za-z_ ]{1,6}|[äöü标签😀]{1,3}`)
		model := map[string]string{}
		var props []byte
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			key := word.Draw(t, "key")
			if rapid.Bool().Draw(t, "remove") {
				delete(model, key)
				props = []byte(RemoveProperties(string(props), key))
				continue
			}
			model[key] = word.Draw(t, "value")
			props = AppendProperty(props, key, model[key])
		}
		got := ParseProperties(string(props))
		if !maps.Equal(got, model) {
			t.Fatalf("ParseProperties(%q) = %q, want %q", props, got, model)
		}
		for key, value := range model {
			if got, ok := Property(string(props), key); !ok || got != value {
				t.Fatalf("Property(%q, %q) = %q, %v; want %q", props, key, got, ok, value)
			}
		}
		if again := ParseProperties(FormatProperties(model)); !maps.Equal(again, model) {
			t.Fatalf("formatted and parsed: %q, want %q", again, model)
		}
	})
}

func FuzzProperties(f *testing.F) {
	f.Add("a\x01b\x02c\x01d\x02", "a")
	f.Add("UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02TAGS\x01TagA", "TAGS")
	f.Add("a\x01b\x01c\x02\x02\x01\x02a\x01", "a")
	f.Fuzz(func(t *testing.T, props, key string) {
		m := ParseProperties(props)
		if strings.ContainsAny(key, "\x01\x02") {
			return
		}
		want, wantOK := m[key]
		if got, ok := Property(props, key); got != want || ok != wantOK {
			t.Fatalf("Property(%q, %q) = %q, %v; the map has %q, %v", props, key, got, ok, want, wantOK)
		}
		rest := RemoveProperties(props, key)
		if got, ok := Property(rest, key); ok {
			t.Fatalf("RemoveProperties(%q, %q) leaves %q", props, key, got)
		}
		delete(m, key)
		if got := ParseProperties(rest); !maps.Equal(got, m) {
			t.Fatalf("RemoveProperties(%q, %q) leaves %q, want %q", props, key, got, m)
		}
		if got := ParseProperties(FormatProperties(m)); !maps.Equal(got, m) {
			t.Fatalf("formatted and parsed: %q, want %q", got, m)
		}
		if key != "" {
			m[key] = "value"
			if got := ParseProperties(string(AppendProperty([]byte(rest), key, "value"))); !maps.Equal(got, m) {
				t.Fatalf("AppendProperty(%q, %q) gives %q, want %q", rest, key, got, m)
			}
		}
	})
}

func BenchmarkProperty(b *testing.B) {
	props := "UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01TagA\x02"
	b.ReportAllocs()
	for b.Loop() {
		Property(props, PropertyDelay)
	}
}

func BenchmarkRemoveProperties(b *testing.B) {
	props := "UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01TagA\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02"
	b.ReportAllocs()
	for b.Loop() {
		RemoveProperties(props, PropertyDelay, PropertyRealTopic, PropertyRealQueueID)
	}
}
