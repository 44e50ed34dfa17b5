package message

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
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

func TestTopicNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string // part of the error, "" for valid
	}{
		{"TopicTest", ""},
		{"a", ""},
		{"%RETRY%group", ""},
		{"under_score-dash|pipe%percent09AZaz", ""},
		{strings.Repeat("t", 127), ""},
		{strings.Repeat("t", 128), "128 bytes long, at most 127"},
		{"%RETRY%" + strings.Repeat("g", 248), ""},
		{"%RETRY%" + strings.Repeat("g", 249), "256 bytes long, at most 255"},
		{"%DLQ%" + strings.Repeat("g", 250), ""},
		{"%DLQ%" + strings.Repeat("g", 251), "256 bytes long, at most 255"},
		{"%RETRY", ""},
		{ScheduleTopic, ""},
		{"", "empty name"},
		{" ", "contains characters other than"},
		{"a b", "contains characters other than"},
		{"a.b", "contains characters other than"},
		{"a/b", "contains characters other than"},
		{"tópico", "contains characters other than"},
		{"nul\x00", "contains characters other than"},
	} {
		checkName(t, "ValidateTopic", tt.name, ValidateTopic(tt.name), ErrInvalidTopic, tt.want)
	}
	for _, tt := range []struct{ name, want string }{
		{"group", ""},
		{strings.Repeat("g", 120), ""},
		{strings.Repeat("g", 121), "121 bytes long, at most 120"},
		{"", "empty name"},
		{"a b", "contains characters other than"},
	} {
		checkName(t, "ValidateGroup", tt.name, ValidateGroup(tt.name), ErrInvalidGroup, tt.want)
	}
}

func checkName(t *testing.T, f, name string, err, kind error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s(%.30q, %d bytes) = %v, want valid", f, name, len(name), err)
	case want != "" && (!errors.Is(err, kind) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s(%.30q, %d bytes) = %v, want %v with %q", f, name, len(name), err, kind, want)
	}
}

// The longest group's retry and dead-letter topics are valid topics.
func TestGroupTopics(t *testing.T) {
	group := strings.Repeat("g", MaxGroup)
	for _, topic := range []string{RetryTopic(group), DLQTopic(group)} {
		if err := ValidateTopic(topic); err != nil {
			t.Errorf("topic of a group of %d bytes: %v", MaxGroup, err)
		}
	}
	if !IsRetryTopic("%RETRY%g") || IsRetryTopic("RETRY%g") || IsRetryTopic("%DLQ%g") || !IsDLQTopic("%DLQ%g") || IsDLQTopic("%RETRY%g") {
		t.Error("retry and dead-letter topics are not told apart")
	}
}

func TestSystemTopics(t *testing.T) {
	for _, tt := range []struct {
		topic           string
		system, refused bool
	}{
		{"TopicTest", false, false},
		{"%RETRY%g", false, false},
		{"%DLQ%g", false, false},
		{"schedule_topic_xxxx", false, false},
		{"TBW102", true, false},
		{"BenchmarkTest", true, false},
		{"RMQ_SYS_TRACE_TOPIC", true, false},
		{"rmq_sys_TRACE_DATA_x", true, false},
		{"SCHEDULE_TOPIC_XXXX", true, true},
		{"RMQ_SYS_TRANS_HALF_TOPIC", true, true},
		{"RMQ_SYS_TRANS_OP_HALF_TOPIC", true, true},
		{"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", true, true},
		{"RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", true, true},
		{"TRANS_CHECK_MAX_TIME_TOPIC", true, true},
		{"SELF_TEST_TOPIC", true, true},
		{"OFFSET_MOVED_EVENT", true, true},
		{"CHECKPOINT_TOPIC", true, false},
		{"rmq_sys_wheel_timer", true, true},
		{UndeliverableTopic, true, true},
	} {
		if got := IsSystemTopic(tt.topic); got != tt.system {
			t.Errorf("IsSystemTopic(%q) = %v, want %v", tt.topic, got, tt.system)
		}
		if got := IsSendForbidden(tt.topic); got != tt.refused {
			t.Errorf("IsSendForbidden(%q) = %v, want %v", tt.topic, got, tt.refused)
		}
	}
	if !IsSystemGroup("CID_RMQ_SYS_TRANS") || IsSystemGroup("group") {
		t.Error("system groups are not told apart")
	}
}

// Ids that RocketMQ 5.5.0's `MessageDecoder.createMessageId` made.
func TestOffsetIDAsRocketMQ(t *testing.T) {
	for _, tt := range []struct {
		host   string
		offset int64
		want   string
	}{
		{"192.168.0.9:10911", 1234567890123, "C0A8000900002A9F0000011F71FB04CB"},
		{"[2001:db8::7]:10911", -2, "20010DB800000000000000000000000700002A9FFFFFFFFFFFFFFFFE"},
	} {
		host := netip.MustParseAddrPort(tt.host)
		if got := OffsetID(host, tt.offset); got != tt.want {
			t.Errorf("OffsetID(%s, %d) = %s, want %s", tt.host, tt.offset, got, tt.want)
		}
		for _, id := range []string{tt.want, strings.ToLower(tt.want)} {
			if h, o, err := ParseOffsetID(id); err != nil || h != host || o != tt.offset {
				t.Errorf("ParseOffsetID(%s) = %v, %d, %v; want %v, %d", id, h, o, err, host, tt.offset)
			}
		}
	}
}

func TestParseOffsetIDRefuses(t *testing.T) {
	good := "C0A8000900002A9F0000011F71FB04CB"
	for _, id := range []string{"", good[:31], good + "0", good[:30], good[:31] + "G", good[:8] + "00010000" + good[16:], strings.Repeat("0", 55), strings.Repeat("x", 56), strings.Repeat("1", 100000)} {
		_, _, err := ParseOffsetID(id)
		if !errors.Is(err, ErrInvalidID) || len(err.Error()) > 400 {
			t.Errorf("ParseOffsetID(%.60q) = %v, want %v in a short text", id, err, ErrInvalidID)
		}
	}
}

func TestUniqueID(t *testing.T) {
	now := time.Date(2026, 12, 1, 4, 5, 6, 789e6, time.UTC)
	g := NewUniqueIDs(netip.MustParseAddr("10.1.2.3"))
	id := g.UniqueID(now)
	if len(id) != 32 || id != strings.ToUpper(id) || !strings.HasPrefix(id, "0A010203") {
		t.Errorf("UniqueID = %q, want 32 upper-case digits that begin with 0A010203", id)
	}
	if want := fmt.Sprintf("%08X", ((4*60+5)*60+6)*1000+789); id[20:28] != want {
		t.Errorf("UniqueID %q has time %s, want %s", id, id[20:28], want)
	}
	if fake := NewUniqueIDs(netip.IPv6Loopback()).UniqueID(now); len(fake) != 32 {
		t.Errorf("UniqueID of an IPv6 host = %q, want 32 digits", fake)
	}
}

func TestUniqueIDTime(t *testing.T) {
	g := NewUniqueIDs(netip.MustParseAddr("10.1.2.3"))
	for _, tt := range []struct {
		name      string
		made, now time.Time
	}{
		{"the same moment", time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.UTC), time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.UTC)},
		{"last month", time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 4, 0, 0, 0, time.UTC)},
		{"last year", time.Date(2026, 12, 30, 12, 0, 0, 0, time.UTC), time.Date(2027, 1, 2, 4, 0, 0, 0, time.UTC)},
	} {
		if got, err := UniqueIDTime(g.UniqueID(tt.made), tt.now); err != nil || !got.Equal(tt.made) {
			t.Errorf("%s: UniqueIDTime = %v, %v; want %v", tt.name, got, err, tt.made)
		}
	}
	for _, id := range []string{"", "0A", strings.Repeat("Z", 32), strings.Repeat("0", 33)} {
		if _, err := UniqueIDTime(id, time.Now()); !errors.Is(err, ErrInvalidID) {
			t.Errorf("UniqueIDTime(%q) = %v, want %v", id, err, ErrInvalidID)
		}
	}
}

func TestUniqueIDsAreUnique(t *testing.T) {
	const goroutines, each = 8, 4000
	now := time.Now()
	g, other := NewUniqueIDs(netip.IPv4Unspecified()), NewUniqueIDs(netip.IPv4Unspecified())
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			ids := make([]string, 0, 2*each)
			for range each {
				ids = append(ids, g.UniqueID(now), other.UniqueID(now))
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				seen[id] = true
			}
		})
	}
	wg.Wait()
	if len(seen) != 2*goroutines*each {
		t.Errorf("%d different ids of %d", len(seen), 2*goroutines*each)
	}
}

func TestSysFlag(t *testing.T) {
	for _, tt := range []struct {
		flag int32
		want Compression
		name string
	}{
		{0, CompressionNone, "none"},
		{2 << 8, CompressionNone, "none"}, // a type without the bit
		{FlagCompressed, CompressionZlib, "zlib"},
		{FlagCompressed | 1<<8, CompressionLZ4, "lz4"},
		{FlagCompressed | 2<<8, CompressionZstd, "zstd"},
		{FlagCompressed | 3<<8, CompressionZlib, "zlib"},
		{FlagCompressed | 7<<8, Compression(7), "compression 7"},
	} {
		if got := CompressionOf(tt.flag); got != tt.want || got.String() != tt.name {
			t.Errorf("CompressionOf(%#x) = %v, want %s", tt.flag, got, tt.name)
		}
	}
	base := FlagMultiTags | TransactionCommit | FlagBornHostV6
	for _, c := range []Compression{CompressionLZ4, CompressionZstd, CompressionZlib, CompressionNone} {
		flag := WithCompression(base|FlagCompressed|7<<8, c)
		if CompressionOf(flag) != c || flag&base != base {
			t.Errorf("WithCompression(…, %v) = %#x", c, flag)
		}
	}
	for _, tr := range []int32{TransactionNone, TransactionPrepared, TransactionCommit, TransactionRollback} {
		flag := WithTransactionType(base, tr)
		if TransactionType(flag) != tr || flag&FlagMultiTags == 0 {
			t.Errorf("WithTransactionType(…, %#x) = %#x", tr, flag)
		}
	}
}
