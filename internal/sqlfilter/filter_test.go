package sqlfilter

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/tidemq/tidemq/internal/message"
)

// propertySets are those that testdata/rocketmq-5.5.0.txt was made with.
var propertySets = [][]string{
	{},
	{"a", "5"},
	{"a", "5.5"},
	{"a", "3000000000"},
	{"a", "-5"},
	{"a", "x", "b", "x"},
	{"a", "5", "b", "x"},
	{"a", "5", "b", "6"},
	{"a", "b", "c", "y"},
	{"a", "true", "b", "false", "c", "y"},
	{"a", "it's", "TAGS", "red"},
	{"a", "2", "b", "x", "TAGS", "blue"},
	{"a", "xyx", "b", "y", "c", "y"},
	{"a", " 7 ", "b", "7"},
}

func propertyString(kv []string) string {
	var b []byte
	for i := 0; i < len(kv); i += 2 {
		b = message.AppendProperty(b, kv[i], kv[i+1])
	}
	return string(b)
}

// refused are expressions that RocketMQ understands in part: what stands
// behind is passed over there. Here they are errors.
var refused = []string{"a LIKE 'x%'", "a-b = 5", "a+b = 5", "a = 5)"}

// TestAsRocketMQ holds the evaluator against what RocketMQ's answered.
func TestAsRocketMQ(t *testing.T) {
	data, err := os.ReadFile("testdata/rocketmq-5.5.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(data)) {
		want, expression, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		compared++
		for _, r := range refused {
			if expression == r {
				want = "error"
			}
		}
		e, err := Parse(expression)
		if err != nil {
			var s *SyntaxError
			if !errors.Is(err, ErrSyntax) || !errors.As(err, &s) || s.Offset < 0 || s.Offset > len(expression) {
				t.Errorf("%q: error %#v", expression, err)
			}
			if want != "error" {
				t.Errorf("%q: %v, RocketMQ has %s", expression, err, want)
			}
			continue
		}
		if want == "error" {
			t.Errorf("%q: no error", expression)
			continue
		}
		for i, set := range propertySets {
			p := propertyString(set)
			v, ok := e.root.eval(p)
			got := byte('!')
			switch {
			case ok && v.kind == null:
				got = '-'
			case ok && v.b:
				got = 'T'
			case ok:
				got = 'f'
			}
			// Numbers that RocketMQ cannot read as what the constant is, read by
			// their value: 5.5, 3000000000, " 7 ".
			widened := want[i] == '!' && (i == 2 || i == 3 || i == 13)
			if got != want[i] && !widened {
				t.Errorf("%q with %v: %c, RocketMQ has %c", expression, set, got, want[i])
			}
			if e.Match(p) != (got == 'T') {
				t.Errorf("%q with %v: Match is %v, the value %c", expression, set, e.Match(p), got)
			}
		}
	}
	if compared < 150 {
		t.Errorf("only %d expressions compared", compared)
	}
}

// TestBetter: what matches here and not in RocketMQ.
func TestBetter(t *testing.T) {
	for _, test := range []struct {
		expression string
		properties []string
		want       bool
	}{
		{"qty > 5", []string{"qty", "5.5"}, true},
		{"qty > 5", []string{"qty", "4.5"}, false},
		{"qty > 5", []string{"qty", "3000000000"}, true},
		{"qty = 5", []string{"qty", "5.0"}, true},
		{"qty <> 5", []string{"qty", "5.0"}, false},
		{"qty > 0.0", []string{"qty", "0.1"}, true},
		{"TRUE = paid", []string{"paid", "true"}, true},
		{"TRUE = paid", []string{"paid", "no"}, false},
		{"qty > 5 -- more than a hand", []string{"qty", "6"}, true},
		{"qty > 5", []string{"qty", "inf"}, false},
		{"qty > 5", []string{"qty", "0x10"}, false},
		{"qty > 5", []string{"qty", "1_0"}, false},
		{"a = 9007199254740993", []string{"a", "9007199254740993"}, true},
		{"a = 9007199254740993", []string{"a", "9007199254740992"}, false},
	} {
		e, err := Parse(test.expression)
		if err != nil {
			t.Errorf("%q: %v", test.expression, err)
			continue
		}
		if got := e.Match(propertyString(test.properties)); got != test.want {
			t.Errorf("%q with %v: %v", test.expression, test.properties, got)
		}
	}
}

// TestBounds: neither length nor nesting can hurt.
func TestBounds(t *testing.T) {
	long := "a IN ('" + strings.Repeat("x", MaxLength) + "')"
	for name, expression := range map[string]string{
		"length":      long,
		"brackets":    strings.Repeat("(", 30000) + "a = 1" + strings.Repeat(")", 30000),
		"signs":       strings.Repeat("+", 60000) + "1 = a",
		"not":         strings.Repeat("NOT ", 15000) + "a",
		"equal":       "a" + strings.Repeat(" = a", 15000),
		"is null":     "a" + strings.Repeat(" IS NULL", 7000),
		"contains":    "a" + strings.Repeat(" CONTAINS 'x'", 4000),
		"open":        strings.Repeat("(", 60000),
		"half a text": "a = '" + strings.Repeat("''", 30000),
	} {
		_, err := Parse(expression)
		if !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %v", name, err)
		} else if len(err.Error()) > 500 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	// Rows of AND and OR are no nesting.
	e, err := Parse("a = 0" + strings.Repeat(" OR a = 1 AND a = 1", 3000))
	if err != nil || !e.Match(propertyString([]string{"a", "1"})) {
		t.Errorf("a long row: %v", err)
	}
	deep := MaxDepth - 1
	if _, err := Parse(strings.Repeat("(", deep) + "a" + strings.Repeat(")", deep)); err != nil {
		t.Errorf("%d brackets: %v", deep, err)
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/rocketmq-5.5.0.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if _, expression, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			f.Add(expression, "a\x015\x02b\x01x\x02")
		}
	}
	f.Fuzz(func(t *testing.T, expression, properties string) {
		e, err := Parse(expression)
		if err != nil {
			var s *SyntaxError
			if !errors.As(err, &s) || s.Offset < 0 || s.Offset > len(expression) {
				t.Fatalf("error %#v", err)
			}
			return
		}
		again, err := Parse("((" + e.String() + "\n))")
		if err != nil && (strings.Contains(err.Error(), "nested more than") || len(expression)+5 > MaxLength) {
			return // at the bounds
		}
		if err != nil {
			t.Fatalf("in brackets: %v", err)
		}
		if e.Match(properties) != again.Match(properties) {
			t.Fatal("brackets make a difference")
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	e, err := Parse("region = 'eu' AND (price BETWEEN 5 AND 10 OR vip IS NOT NULL)")
	if err != nil {
		b.Fatal(err)
	}
	p := propertyString([]string{"TAGS", "unpaid", "KEYS", "order-4711", "UNIQ_KEY", "7F0000010B5218B4AAC212345678", "region", "eu", "price", "7"})
	b.ReportAllocs()
	for b.Loop() {
		if !e.Match(p) {
			b.Fatal("no match")
		}
	}
}
