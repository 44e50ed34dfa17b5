package message

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

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
