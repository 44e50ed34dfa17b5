package message

import (
	"math"
	"testing"
)

// Codes that Java's String.hashCode gave, compiled and run.
func TestTagsCodeAsJava(t *testing.T) {
	for _, tt := range []struct {
		tags string
		want int64
	}{
		{"", 0},
		{"TagA", 2598919},
		{"order-created", -392709271},
		{"TagA || TagB", 1359775119},
		{"polygenelubricants", math.MinInt32},
		{"\u007f", 127},
		{"\u0080", 128},
		{"Ω", 937},
		{"täg", 118647},
		{"标签", 857175},
		{"zażółć gęślą jaźń", 481240412},
		{"😀", 1772899},
		{"𝒳𝒴", 1704969917},
		{"a😀b||订单", 314000337},
		{"\ufffd", 65533},
		{"\xff", 65533}, // Java reads a byte that is no UTF-8 as U+FFFD
	} {
		if got := TagsCode(tt.tags); got != tt.want {
			t.Errorf("TagsCode(%q) = %d, want %d", tt.tags, got, tt.want)
		}
	}
}
