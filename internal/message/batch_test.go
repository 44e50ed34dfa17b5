package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// javaBatch is what RocketMQ 5.5.0's `MessageDecoder.encodeMessages` made of
// sampleBatch.
const javaBatch = "0000003a00000000000000000000000700000008626f6479206f6e65001c4b455953016b310254414753015461674102" +
	"574149540174727565020000001700000000000000000000000000000001010000"

func sampleBatch() []BatchMessage {
	return []BatchMessage{
		{Flag: 7, Body: []byte("body one"), Properties: "KEYS\x01k1\x02TAGS\x01TagA\x02WAIT\x01true\x02"},
		{Body: []byte{1}},
	}
}

func encodeBatch(tb testing.TB, messages []BatchMessage) []byte {
	tb.Helper()
	var b []byte
	var err error
	for i := range messages {
		if b, err = AppendBatch(b, &messages[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return b
}

func TestBatchAsRocketMQ(t *testing.T) {
	java := unhex(t, javaBatch)
	if got := encodeBatch(t, sampleBatch()); !bytes.Equal(got, java) {
		t.Errorf("AppendBatch\n got %x\nwant %x", got, java)
	}
	got, err := DecodeBatch(java)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sampleBatch(), got, options); d != "" {
		t.Errorf("DecodeBatch (-want +got):\n%s", d)
	}
}

func TestBatchEmpty(t *testing.T) {
	if got, err := DecodeBatch(nil); err != nil || len(got) != 0 {
		t.Errorf("DecodeBatch(nil) = %v, %v; want nothing", got, err)
	}
}

func TestDecodeBatchRefuses(t *testing.T) {
	whole := unhex(t, javaBatch)
	first := 58
	for n := 1; n < len(whole); n++ {
		if n == first {
			continue // ends between the entries
		}
		got, err := DecodeBatch(whole[:n:n])
		if !errors.Is(err, ErrMalformed) || got != nil {
			t.Errorf("cut to %d bytes: %v, %v; want %v", n, got, err, ErrMalformed)
		}
	}
	be := binary.BigEndian
	for _, tt := range []struct {
		name   string
		change func(b []byte)
	}{
		{"size 0", func(b []byte) { be.PutUint32(b, 0) }},
		{"size negative", func(b []byte) { be.PutUint32(b, 1<<31) }},
		{"size one less", func(b []byte) { be.PutUint32(b, uint32(first-1)) }},
		{"size one more", func(b []byte) { be.PutUint32(b, uint32(first+1)) }},
		{"size of both entries", func(b []byte) { be.PutUint32(b, uint32(len(b))) }},
		{"size at its maximum", func(b []byte) { be.PutUint32(b, math.MaxInt32) }},
		{"body length negative", func(b []byte) { be.PutUint32(b[16:], 1<<31) }},
		{"body length at its maximum", func(b []byte) { be.PutUint32(b[16:], math.MaxInt32) }},
		{"body one more", func(b []byte) { be.PutUint32(b[16:], 9) }},
		{"properties length negative", func(b []byte) { be.PutUint16(b[28:], 1<<15) }},
		{"properties length at its maximum", func(b []byte) { be.PutUint16(b[28:], math.MaxInt16) }},
		{"properties one less", func(b []byte) { be.PutUint16(b[28:], 27) }},
	} {
		b := bytes.Clone(whole)
		tt.change(b)
		if got, err := DecodeBatch(b); !errors.Is(err, ErrMalformed) || !strings.Contains(fmt.Sprint(err), "entry 0 at byte 0") {
			t.Errorf("%s: %v, %v; want %v naming the entry", tt.name, got, err, ErrMalformed)
		}
	}
}

func TestAppendBatchRefuses(t *testing.T) {
	m := BatchMessage{Properties: strings.Repeat("p", MaxProperties+1)}
	if got, err := AppendBatch([]byte("kept"), &m); !errors.Is(err, ErrTooLong) || string(got) != "kept" {
		t.Errorf("AppendBatch = %q, %v; want %v", got, err, ErrTooLong)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(unhex(f, javaBatch))
	f.Add(encodeBatch(f, sampleBatch()[1:]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		messages, err := DecodeBatch(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not %v", err, ErrMalformed)
			}
			return
		}
		again, err := DecodeBatch(encodeBatch(t, messages))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(messages, again, options); d != "" {
			t.Fatalf("encoded again (-first +second):\n%s", d)
		}
	})
}
