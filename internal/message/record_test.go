package message

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Records that RocketMQ 5.5.0's `MessageDecoder.encode` made of sample() and,
// in V6, of the same with IPv6 hosts.
const (
	javaV4 = "0000007bdaa320a70d4a11850000000300000005000000000000004d0000011f71fb04cb000000020000019ad8269b3b" +
		"0a01020300009c410000019ad8269c88c0a8000900002a9f0000000200000000000000630000000b68656c6c6f20776f726c64" +
		"09546f70696354657374000c5441475301e6a087e7adbe02"
	javaV6 = "00000093daa320a70d4a11850000000300000005000000000000004d0000011f71fb04cb000000320000019ad8269b3b" +
		"20010db800000000000000000000000700009c410000019ad8269c88fe80000000000000000000000000000100002a9f" +
		"0000000200000000000000630000000b68656c6c6f20776f726c6409546f70696354657374000c5441475301e6a087e7adbe02"
)

func sample() Message {
	return Message{
		Topic:                     "TopicTest",
		QueueID:                   3,
		QueueOffset:               77,
		PhysicalOffset:            1234567890123,
		Flag:                      5,
		SysFlag:                   FlagMultiTags,
		BornTime:                  1764563000123,
		BornHost:                  netip.MustParseAddrPort("10.1.2.3:40001"),
		StoreTime:                 1764563000456,
		StoreHost:                 netip.MustParseAddrPort("192.168.0.9:10911"),
		ReconsumeTimes:            2,
		PreparedTransactionOffset: 99,
		Body:                      []byte("hello world"),
		Properties:                "TAGS\x01标签\x02",
	}
}

func sampleV6() Message {
	m := sample()
	m.BornHost = netip.MustParseAddrPort("[2001:db8::7]:40001")
	m.StoreHost = netip.MustParseAddrPort("[fe80::1]:10911")
	return m
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func encode(tb testing.TB, m *Message) []byte {
	tb.Helper()
	b, err := AppendRecord(nil, m)
	if err != nil {
		tb.Fatalf("AppendRecord: %v", err)
	}
	return b
}

var options = cmp.Options{
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(bytes.Equal),
}

func TestRecordAsRocketMQ(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		m         Message
		sysFlag   int32
	}{
		{"IPv4 hosts", javaV4, sample(), FlagMultiTags},
		{"IPv6 hosts", javaV6, sampleV6(), FlagMultiTags | FlagBornHostV6 | FlagStoreHostV6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			java := unhex(t, tt.hex)
			if got := encode(t, &tt.m); !bytes.Equal(got, java) {
				t.Errorf("AppendRecord\n got %x\nwant %x", got, java)
			}
			got, n, err := DecodeRecord(append(bytes.Clone(java), "next"...))
			if err != nil {
				t.Fatal(err)
			}
			want := tt.m
			want.SysFlag = tt.sysFlag
			want.BodyCRC = 222957957 // UtilAll.crc32 of "hello world"
			want.Size = int32(len(java))
			if d := cmp.Diff(want, got, options); d != "" {
				t.Errorf("DecodeRecord (-want +got):\n%s", d)
			}
			if n != len(java) {
				t.Errorf("consumed %d, want %d", n, len(java))
			}
			if err := got.VerifyBody(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The drawing at AppendRecord, by offset, on the record with IPv4 hosts.
func TestRecordOffsets(t *testing.T) {
	rec := unhex(t, javaV4)
	u32, u64 := binary.BigEndian.Uint32, binary.BigEndian.Uint64
	for _, tt := range []struct {
		name      string
		at        int
		got, want any
	}{
		{"size", 0, u32(rec[0:]), uint32(len(rec))},
		{"magic", 4, u32(rec[4:]), MagicV1},
		{"body crc", 8, u32(rec[8:]), uint32(222957957)},
		{"queue id", 12, u32(rec[12:]), uint32(3)},
		{"flag", 16, u32(rec[16:]), uint32(5)},
		{"queue offset", 20, u64(rec[20:]), uint64(77)},
		{"physical offset", 28, u64(rec[28:]), uint64(1234567890123)},
		{"sysflag", 36, u32(rec[36:]), uint32(FlagMultiTags)},
		{"born time", 40, u64(rec[40:]), uint64(1764563000123)},
		{"born host", 48, hex.EncodeToString(rec[48:56]), "0a01020300009c41"},
		{"store time", 56, u64(rec[56:]), uint64(1764563000456)},
		{"store host", 64, hex.EncodeToString(rec[64:72]), "c0a8000900002a9f"},
		{"reconsume times", 72, u32(rec[72:]), uint32(2)},
		{"prepared offset", 76, u64(rec[76:]), uint64(99)},
		{"body", 84, string(rec[88 : 88+u32(rec[84:])]), "hello world"},
		{"topic", 99, string(rec[100 : 100+int(rec[99])]), "TopicTest"},
		{"properties", 109, string(rec[111:]), "TAGS\x01标签\x02"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s at %d: got %v, want %v", tt.name, tt.at, tt.got, tt.want)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	long := strings.Repeat("t", MaxTopicV1)
	for _, tt := range []struct {
		name   string
		change func(m *Message)
		magic  uint32
	}{
		{"plain", func(m *Message) {}, MagicV1},
		{"no body, no properties", func(m *Message) { m.Body, m.Properties = nil, "" }, MagicV1},
		{"topic of 127 bytes", func(m *Message) { m.Topic = long }, MagicV1},
		{"topic of 128 bytes", func(m *Message) { m.Topic = long + "t" }, MagicV2},
		{"topic of 255 bytes", func(m *Message) { m.Topic = RetryTopic(strings.Repeat("g", MaxRetryTopic-7)) }, MagicV2},
		{"V2 with IPv6", func(m *Message) { *m = sampleV6(); m.Topic = long + "t" }, MagicV2},
		{"IPv6 born host only", func(m *Message) { m.BornHost = sampleV6().BornHost }, MagicV1},
		{"IPv6 store host only", func(m *Message) { m.StoreHost = sampleV6().StoreHost }, MagicV1},
		{"longest properties", func(m *Message) { m.Properties = strings.Repeat("p", MaxProperties) }, MagicV1},
		{"extremes", func(m *Message) {
			m.QueueID, m.Flag, m.ReconsumeTimes = math.MinInt32, math.MinInt32, math.MaxInt32
			m.QueueOffset, m.PhysicalOffset, m.BornTime, m.StoreTime = math.MaxInt64, math.MinInt64, -1, math.MaxInt64
			m.SysFlag = -1 &^ (FlagBornHostV6 | FlagStoreHostV6)
			m.BornHost = netip.MustParseAddrPort("255.255.255.255:65535")
		}, MagicV1},
		{"body of 4 MiB", func(m *Message) { m.Body = bytes.Repeat([]byte{0xda}, 4<<20) }, MagicV1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := sample()
			tt.change(&m)
			rec := encode(t, &m)
			if got := binary.BigEndian.Uint32(rec[4:]); got != tt.magic {
				t.Errorf("magic %#x, want %#x", got, tt.magic)
			}
			got, n, err := DecodeRecord(rec)
			if err != nil {
				t.Fatal(err)
			}
			if n != len(rec) || int(got.Size) != n {
				t.Errorf("consumed %d, Size %d, want %d", n, got.Size, len(rec))
			}
			want := m
			want.SysFlag = want.SysFlag&^(FlagBornHostV6|FlagStoreHostV6) | got.SysFlag&(FlagBornHostV6|FlagStoreHostV6)
			want.Size, want.BodyCRC = int32(n), BodyCRC(m.Body)
			if d := cmp.Diff(want, got, options); d != "" {
				t.Errorf("decoded (-want +got):\n%s", d)
			}
			if got.BornHost.Addr().Is6() != (got.SysFlag&FlagBornHostV6 != 0) || got.StoreHost.Addr().Is6() != (got.SysFlag&FlagStoreHostV6 != 0) {
				t.Errorf("sysflag %#x does not fit hosts %v, %v", got.SysFlag, got.BornHost, got.StoreHost)
			}
			checkView(t, View(rec), &got)
		})
	}
}

func checkView(t *testing.T, v View, m *Message) {
	t.Helper()
	if err := v.Valid(); err != nil {
		t.Errorf("Valid: %v", err)
	}
	type fields struct {
		Size                                         int
		BodyCRC                                      uint32
		QueueID, Flag, SysFlag, ReconsumeTimes       int32
		QueueOffset, PhysicalOffset, Born, StoreTime int64
		BornHost, StoreHost                          netip.AddrPort
		Topic, Properties, Body                      string
	}
	got := fields{v.Size(), v.BodyCRC(), v.QueueID(), v.Flag(), v.SysFlag(), v.ReconsumeTimes(),
		v.QueueOffset(), v.PhysicalOffset(), v.BornTime(), v.StoreTime(), v.BornHost(), v.StoreHost(), v.Topic(), v.Properties(), string(v.Body())}
	want := fields{int(m.Size), m.BodyCRC, m.QueueID, m.Flag, m.SysFlag, m.ReconsumeTimes,
		m.QueueOffset, m.PhysicalOffset, m.BornTime, m.StoreTime, m.BornHost, m.StoreHost, m.Topic, m.Properties, string(m.Body)}
	if got != want {
		t.Errorf("view\n got %.200v\nwant %.200v", got, want)
	}
}

func TestAppendRecordHosts(t *testing.T) {
	for _, tt := range []struct {
		name string
		host netip.AddrPort
		want string
	}{
		{"zero", netip.AddrPort{}, "0.0.0.0:0"},
		{"IPv4 in IPv6 form", netip.MustParseAddrPort("[::ffff:10.0.0.1]:80"), "10.0.0.1:80"},
		{"zone", netip.MustParseAddrPort("[fe80::1%eth0]:80"), "[fe80::1]:80"},
	} {
		m := sample()
		m.BornHost, m.StoreHost = tt.host, tt.host
		got, _, err := DecodeRecord(encode(t, &m))
		if err != nil {
			t.Fatal(err)
		}
		if got.BornHost.String() != tt.want || got.StoreHost.String() != tt.want {
			t.Errorf("%s: born host %v, store host %v, want %s", tt.name, got.BornHost, got.StoreHost, tt.want)
		}
	}
}

func TestAppendRecordRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *Message)
		want   error
		text   string
	}{
		{"empty topic", func(m *Message) { m.Topic = "" }, ErrMalformed, "empty topic"},
		{"topic of 256 bytes", func(m *Message) { m.Topic = strings.Repeat("t", 256) }, ErrTooLong, "256 bytes, at most 255"},
		{"properties of 32768 bytes", func(m *Message) { m.Properties = strings.Repeat("p", 32768) }, ErrTooLong, "32768 bytes, at most 32767"},
	} {
		m := sample()
		tt.change(&m)
		got, err := AppendRecord([]byte("kept"), &m)
		if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) {
			t.Errorf("%s: error %v, want %v with %q", tt.name, err, tt.want, tt.text)
		}
		if string(got) != "kept" {
			t.Errorf("%s: dst became %q", tt.name, got)
		}
	}
}

func TestAppendRecordAppends(t *testing.T) {
	m := sample()
	want := encode(t, &m)
	got, err := AppendRecord([]byte("before"), &m)
	if err != nil || string(got[:6]) != "before" || !bytes.Equal(got[6:], want) {
		t.Errorf("AppendRecord after %q: %x, %v", "before", got, err)
	}
}

func TestPatch(t *testing.T) {
	for _, m := range []Message{sample(), sampleV6()} {
		rec := encode(t, &m)
		SetQueueID(rec, -7)
		SetQueueOffset(rec, 1<<40)
		SetPhysicalOffset(rec, 1<<41)
		SetStoreTime(rec, 1<<42)
		got, _, err := DecodeRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		want := m
		want.QueueID, want.QueueOffset, want.PhysicalOffset, want.StoreTime = -7, 1<<40, 1<<41, 1<<42
		want.SysFlag, want.BodyCRC, want.Size = got.SysFlag, BodyCRC(m.Body), int32(len(rec))
		if d := cmp.Diff(want, got, options); d != "" {
			t.Errorf("patched (-want +got):\n%s", d)
		}
	}
}

func TestVerifyBody(t *testing.T) {
	m := sample()
	rec := encode(t, &m)
	rec[90] ^= 1 // in the body
	got, _, err := DecodeRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.VerifyBody(); !errors.Is(err, ErrBodyCRC) {
		t.Errorf("VerifyBody of a changed body: %v, want %v", err, ErrBodyCRC)
	}
}

// Every cut of a record, and every hostile value in a length, is an error.
func TestDecodeRecordRefuses(t *testing.T) {
	long := sample()
	long.Topic = strings.Repeat("t", 200)
	v6 := sampleV6()
	plain := sample()
	for name, m := range map[string]*Message{"V1": &plain, "V1 with IPv6": &v6, "V2": &long} {
		rec := encode(t, m)
		for n := range rec {
			checkMalformed(t, fmt.Sprintf("%s cut to %d bytes", name, n), rec[:n:n])
			if n >= 4 {
				cut := bytes.Clone(rec[:n])
				binary.BigEndian.PutUint32(cut, uint32(n))
				checkMalformed(t, fmt.Sprintf("%s cut to %d bytes with that size", name, n), cut)
			}
		}
	}

	rec := unhex(t, javaV4)
	be := binary.BigEndian
	for _, tt := range []struct {
		name   string
		change func(b []byte)
	}{
		{"magic of a blank", func(b []byte) { be.PutUint32(b[4:], 0xcbd43194) }},
		{"size 0", func(b []byte) { be.PutUint32(b, 0) }},
		{"size negative", func(b []byte) { be.PutUint32(b, 1<<31) }},
		{"size below the smallest", func(b []byte) { be.PutUint32(b, minRecord-1) }},
		{"size one less", func(b []byte) { be.PutUint32(b, uint32(len(b)-1)) }},
		{"size one more", func(b []byte) { be.PutUint32(b, uint32(len(b)+1)) }},
		{"size at its maximum", func(b []byte) { be.PutUint32(b, math.MaxInt32) }},
		{"IPv6 bit of the born host", func(b []byte) { b[39] |= byte(FlagBornHostV6) }},
		{"IPv6 bit of the store host", func(b []byte) { b[39] |= byte(FlagStoreHostV6) }},
		{"born port 65536", func(b []byte) { be.PutUint32(b[52:], 65536) }},
		{"store port negative", func(b []byte) { be.PutUint32(b[68:], 1<<31) }},
		{"body length negative", func(b []byte) { be.PutUint32(b[84:], 1<<31) }},
		{"body length at its maximum", func(b []byte) { be.PutUint32(b[84:], math.MaxInt32) }},
		{"body up to the end", func(b []byte) { be.PutUint32(b[84:], uint32(len(b)-88)) }},
		{"body one more", func(b []byte) { be.PutUint32(b[84:], 12) }},
		{"topic length 0", func(b []byte) { b[99] = 0 }},
		{"topic length negative", func(b []byte) { b[99] = 0x80 }},
		{"topic length 127", func(b []byte) { b[99] = 127 }},
		{"topic one less", func(b []byte) { b[99]-- }},
		{"properties length negative", func(b []byte) { be.PutUint16(b[109:], 1<<15) }},
		{"properties length at its maximum", func(b []byte) { be.PutUint16(b[109:], math.MaxInt16) }},
		{"properties one less", func(b []byte) { be.PutUint16(b[109:], 11) }},
	} {
		b := bytes.Clone(rec)
		tt.change(b)
		checkMalformed(t, tt.name, b)
	}
}

func checkMalformed(t *testing.T, name string, b []byte) {
	t.Helper()
	m, n, err := DecodeRecord(b)
	if !errors.Is(err, ErrMalformed) || n != 0 || m.Topic != "" {
		t.Errorf("%s: DecodeRecord = %q, %d, %v; want %v", name, m.Topic, n, err, ErrMalformed)
	}
	if err := View(b).Valid(); !errors.Is(err, ErrMalformed) {
		t.Errorf("%s: Valid = %v, want %v", name, err, ErrMalformed)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	long := sample()
	long.Topic = strings.Repeat("t", 200)
	f.Add(unhex(f, javaV4))
	f.Add(unhex(f, javaV6))
	f.Add(encode(f, &long))
	f.Add(append(unhex(f, javaV4), unhex(f, javaV6)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, n, err := DecodeRecord(b)
		if valid := View(b).Valid(); (valid == nil) != (err == nil) {
			t.Fatalf("DecodeRecord: %v, View.Valid: %v", err, valid)
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not %v", err, ErrMalformed)
			}
			return
		}
		if n > len(b) {
			t.Fatalf("consumed %d of %d", n, len(b))
		}
		checkView(t, View(b), &m)
		rec, err := AppendRecord(nil, &m)
		if err != nil {
			t.Fatalf("decoded and cannot be encoded: %v", err)
		}
		again, _, err := DecodeRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		// What AppendRecord reckons itself may differ from what it was given.
		again.Size, again.BodyCRC, again.SysFlag = m.Size, m.BodyCRC, m.SysFlag
		if d := cmp.Diff(m, again, options); d != "" {
			t.Fatalf("encoded again (-first +second):\n%s", d)
		}
	})
}

func BenchmarkAppendRecord(b *testing.B) {
	m := sample()
	m.Body = bytes.Repeat([]byte("x"), 1024)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendRecord(buf[:0], &m)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeRecord(b *testing.B) {
	rec := unhex(b, javaV4)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeRecord(rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkViewTags(b *testing.B) {
	m := sample()
	m.Properties = "UNIQ_KEY\x01C0A80102A1B218B4AAC27D1F0A6B0001\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01TagA\x02"
	v := View(encode(b, &m))
	b.ReportAllocs()
	for b.Loop() {
		if tags, _ := v.Property(PropertyTags); tags != "TagA" {
			b.Fatal(tags)
		}
	}
}
