package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite testdata/store/golden by what the code produces, and make testdata/store/v1 when it is missing")

const (
	formatDoc = "../docs/format.md"
	goldenDir = "../testdata/store/golden"
)

// row is one row of a layout table in docs/format.md.
type row struct {
	at   string // a number, or … behind the row before
	size string
	name string
	typ  string
}

// docTables reads the tables of docs/format.md that are marked
// <!-- KIND: NAME -->, as rows of cells.
func docTables(t *testing.T) map[string][][]string {
	t.Helper()
	b, err := os.ReadFile(formatDoc)
	if err != nil {
		t.Fatal(err)
	}
	marker := regexp.MustCompile(`^<!-- ((?:layout|json): [a-z ]+|kinds) -->$`)
	tables := map[string][][]string{}
	name := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if m := marker.FindStringSubmatch(line); m != nil {
			name = m[1]
			if tables[name] != nil {
				t.Fatalf("%s has two tables %q", formatDoc, name)
			}
			tables[name] = [][]string{}
			continue
		}
		if strings.HasPrefix(line, "<!--") {
			t.Fatalf("%s: %q marks nothing the test knows", formatDoc, line)
		}
		if name == "" {
			continue
		}
		if !strings.HasPrefix(line, "|") {
			name = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(cells[0], "---") || cells[0] == "at" || cells[0] == "key" || cells[0] == "kind" {
			continue
		}
		tables[name] = append(tables[name], cells)
	}
	return tables
}

func layoutOf(t *testing.T, tables map[string][][]string, name string) []row {
	t.Helper()
	var rows []row
	for _, c := range tables["layout: "+name] {
		if len(c) != 5 {
			t.Fatalf("layout %s: row %v has %d cells, want at, size, field, type, meaning", name, c, len(c))
		}
		rows = append(rows, row{c[0], c[1], c[2], c[3]})
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no layout %q", formatDoc, name)
	}
	return rows
}

var (
	bySysflag = regexp.MustCompile(`^(\d+), (\d+) with sysflag bit (\d+)$`)
	byVersion = regexp.MustCompile(`^(\d+), (\d+) in V2$`)
)

// readBy takes bytes apart as a layout table says: integers as int64, all else
// as string. The table's numbered places must be where its sizes lead to, and
// its fields must take up all bytes.
func readBy(t *testing.T, rows []row, b []byte) map[string]any {
	t.Helper()
	got := map[string]any{}
	at := 0
	for _, r := range rows {
		if n, err := strconv.Atoi(r.at); err == nil {
			if n != at {
				t.Fatalf("field %s is said to be at %d, the fields before end at %d", r.name, n, at)
			}
		} else if r.at != "…" {
			t.Fatalf("field %s is at %q: a number or … expected", r.name, r.at)
		}
		size, err := strconv.Atoi(r.size)
		switch {
		case err == nil:
		case r.size == "uvarint":
			v, n := binary.Uvarint(b[at:])
			if n <= 0 {
				t.Fatalf("field %s: no uvarint at %d", r.name, at)
			}
			got[r.name] = int64(v)
			at += n
			continue
		case r.size == "rest":
			size = len(b) - at
		case bySysflag.MatchString(r.size):
			m := bySysflag.FindStringSubmatch(r.size)
			size = atoi(t, m[1])
			if got["sysflag"].(int64)&(1<<atoi(t, m[3])) != 0 {
				size = atoi(t, m[2])
			}
		case byVersion.MatchString(r.size):
			m := byVersion.FindStringSubmatch(r.size)
			size = atoi(t, m[1])
			if got["magic"].(int64) == int64(message.MagicV2) {
				size = atoi(t, m[2])
			}
		default:
			n, ok := got[r.size].(int64)
			if !ok {
				t.Fatalf("field %s has the size %q, which is no field before it", r.name, r.size)
			}
			size = int(n)
		}
		if size < 0 || at+size > len(b) {
			t.Fatalf("field %s at %d of %d bytes is beyond the %d there are", r.name, at, size, len(b))
		}
		part := b[at : at+size]
		at += size
		if _, twice := got[r.name]; twice {
			t.Fatalf("field %s is there twice", r.name)
		}
		got[r.name] = readAs(t, r, part)
	}
	if at != len(b) {
		t.Errorf("the fields end at %d, there are %d bytes", at, len(b))
	}
	return got
}

func readAs(t *testing.T, r row, part []byte) any {
	t.Helper()
	bits := map[string]int{"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i32": 32, "i64": 64, "u8 or u16": 8 * len(part)}
	if r.typ == "bytes" {
		return string(part)
	}
	if bits[r.typ] != 8*len(part) {
		t.Fatalf("field %s: type %s and %d bytes", r.name, r.typ, len(part))
	}
	var v uint64
	for _, b := range part {
		v = v<<8 | uint64(b)
	}
	if r.typ == "i32" {
		return int64(int32(v))
	}
	return int64(v)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// golden compares b with NAME.hex, or rewrites that.
func golden(t *testing.T, name string, b []byte) {
	t.Helper()
	path := filepath.Join(goldenDir, name+".hex")
	if *update {
		var text strings.Builder
		for part := range slices.Chunk(b, 32) {
			text.WriteString(hex.EncodeToString(part) + "\n")
		}
		if err := os.MkdirAll(goldenDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update makes it", err)
	}
	want, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s.hex differs: the format would change\n got %x\nwant %x", name, b, want)
	}
}

var (
	goldenV4 = netip.MustParseAddrPort("192.0.2.7:10911")
	goldenV6 = netip.MustParseAddrPort("[2001:db8::1]:40000")
)

// goldenMessage is a message with a value of its own in every field.
func goldenMessage(topic string) message.Message {
	return message.Message{
		Topic: topic, QueueID: 3, QueueOffset: 0x0102030405060708, PhysicalOffset: 0x1112131415161718, Flag: -2,
		SysFlag: message.WithCompression(message.FlagMultiTags, message.CompressionLZ4), BornTime: 1764563000123, BornHost: goldenV4,
		StoreTime: 1764563000456, StoreHost: netip.MustParseAddrPort("198.51.100.9:9876"), ReconsumeTimes: 5, PreparedTransactionOffset: 0x2122232425262728,
		Body: []byte("remind the customer"), Properties: "TAGS\x01unpaid\x02KEYS\x01order-4711\x02",
	}
}

// messageFields is what the message layout must show of m.
func messageFields(m *message.Message, size int) map[string]any {
	host := func(a netip.AddrPort) (string, int64) { return string(a.Addr().AsSlice()), int64(a.Port()) }
	bornAddr, bornPort := host(m.BornHost)
	storeAddr, storePort := host(m.StoreHost)
	magic, flag := message.MagicV1, m.SysFlag
	if len(m.Topic) > message.MaxTopicV1 {
		magic = message.MagicV2
	}
	if m.BornHost.Addr().Is6() {
		flag |= 1 << 4
	}
	if m.StoreHost.Addr().Is6() {
		flag |= 1 << 5
	}
	return map[string]any{
		"size": int64(size), "magic": int64(magic), "body crc": int64(message.BodyCRC(m.Body)), "queue id": int64(m.QueueID), "flag": int64(m.Flag),
		"queue offset": m.QueueOffset, "physical offset": m.PhysicalOffset, "sysflag": int64(flag), "born time": m.BornTime,
		"born address": bornAddr, "born port": bornPort, "store time": m.StoreTime, "store address": storeAddr, "store port": storePort,
		"reconsume times": int64(m.ReconsumeTimes), "prepared offset": m.PreparedTransactionOffset,
		"body length": int64(len(m.Body)), "body": string(m.Body), "topic length": int64(len(m.Topic)), "topic": m.Topic,
		"properties length": int64(len(m.Properties)), "properties": m.Properties,
	}
}

func compareFields(t *testing.T, want, got map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/format.md read by its tables (-code +text): %s", diff)
	}
}

func TestFormatMessage(t *testing.T) {
	rows := layoutOf(t, docTables(t), "message")
	v6 := goldenMessage("orders")
	v6.BornHost, v6.StoreHost = goldenV6, goldenV6
	bornV6 := goldenMessage("orders")
	bornV6.BornHost = goldenV6
	for name, m := range map[string]message.Message{
		"message-v1": goldenMessage("orders"), "message-v1-ipv6": v6, "message-v1-born-ipv6": bornV6,
		"message-v2": goldenMessage("%RETRY%" + strings.Repeat("g", 121)),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := message.AppendRecord(nil, &m)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, b)
			compareFields(t, messageFields(&m, len(b)), readBy(t, rows, b))
		})
	}
}

func TestFormatBatch(t *testing.T) {
	m := message.BatchMessage{Flag: 7, Body: []byte("one of many"), Properties: "TAGS\x01a\x02"}
	b, err := message.AppendBatch(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "batch-message", b)
	compareFields(t, map[string]any{
		"size": int64(len(b)), "magic": int64(0), "body crc": int64(0), "flag": int64(m.Flag), "body length": int64(len(m.Body)), "body": string(m.Body),
		"properties length": int64(len(m.Properties)), "properties": m.Properties,
	}, readBy(t, layoutOf(t, docTables(t), "batch message"), b))
}

// recordCase is a record as the program writes it.
type recordCase struct {
	name    string
	h       header
	payload []byte
}

func recordCases(t *testing.T) []recordCase {
	t.Helper()
	at := header{epoch: 3, index: 0x0807060504030201, address: 0x1817161514131211}
	with := func(kind Kind, change func(*header)) header {
		h := at
		h.kind = kind
		if change != nil {
			change(&h)
		}
		return h
	}
	m := goldenMessage("orders")
	m.QueueOffset, m.PhysicalOffset, m.PreparedTransactionOffset = 42, at.address, 0
	plain, err := message.AppendRecord(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	m.Topic, m.QueueID, m.QueueOffset = message.ScheduleTopic, 2, 17
	m.Properties += "DELAY\x013\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
	pending, err := message.AppendRecord(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	m.Topic, m.QueueID, m.Properties = message.TransHalfTopic, 0, "TAGS\x01unpaid\x02TRAN_MSG\x01true\x02PGROUP\x01shop\x02REAL_TOPIC\x01orders\x02REAL_QID\x013\x02"
	half, err := message.AppendRecord(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	state, err := json.Marshal(&statePart{
		StoreMs: 1764563000456,
		Topics:  []Topic{{Name: "orders", ReadQueues: 8, WriteQueues: 4, Perm: 6, Created: 100, Changed: 2}},
		Groups:  []Group{{Name: "billing", ConsumeEnable: true, RetryQueues: 1, RetryMaxTimes: 16, Changed: 3}},
		KVs:     []KVConfig{{Namespace: "ORDER_TOPIC_CONFIG", Key: "orders", Value: "tidemq:4", Changed: 4}},
		Offsets: []savedOffset{{"billing", "orders", 3, 42}},
		Queues:  []savedQueue{{"orders", 3, 40, 43}},
		Levels:  []savedLevel{{10_000, 17, 0, 20}},
		Halves:  []Half{{Address: 4711, QueueOffset: 42, StoreMs: 1764563000123, CarriedTo: 5000}},
		Pops:    []savedPops{{Group: "billing", Topic: "orders", QueueID: 3, Next: 42, Flights: [][4]int64{{41, 1764563000123, 1764563060123, 1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	table := func(c *tableChange) []byte {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const due = 1764563010456789
	tags := message.TagsCode("unpaid")
	cases := []recordCase{
		{"record-message", with(kindMessage, func(h *header) { h.tagsCode = tags }), plain},
		{"record-message-pending", with(kindMessage, func(h *header) { h.delayMs, h.entry, h.dueUs = 10_000, 17, due }), pending},
		{"record-step", with(kindStep, func(h *header) {
			h.identity, h.delayMs, h.entry, h.head, h.dueUs, h.tagsCode = 4711, 10_000, 17, 17, due, tags
		}), plain},
		{"record-step-no-message", with(kindStep, func(h *header) {
			h.flags, h.identity, h.delayMs, h.entry, h.head, h.dueUs = flagNoMessage, 4711, 10_000, 17, 17, due
		}), []byte("bad checksum")},
		{"record-half", with(kindHalf, func(h *header) { h.tagsCode = tags }), half},
		{"record-end", with(kindEnd, func(h *header) { h.identity, h.tagsCode = 4711, tags }), plain},
		{"record-end-pending", with(kindEnd, func(h *header) { h.identity, h.delayMs, h.entry, h.dueUs = 4711, 10_000, 17, due }), pending},
		{"record-end-no-message", with(kindEnd, func(h *header) { h.flags, h.identity = flagNoMessage, 4711 }), []byte("rolled back")},
		{"record-pops", with(kindPops, nil), goldenPops()},
		{"record-carry", with(kindCarry, func(h *header) { h.identity, h.delayMs, h.entry, h.dueUs = 4711, 10_000, 17, due }), pending},
		{"record-carry-half", with(kindCarry, func(h *header) { h.identity, h.entry, h.tagsCode = 4711, 42, tags }), half},
		{"record-state-part", with(kindStatePart, func(h *header) { h.flags, h.entry, h.head = flagLastPart, 2, 4700 }), state},
		{"record-offsets", with(kindOffsets, nil), encodeOffsets(map[offsetKey]int64{{"billing", "orders", 300}: 1 << 40})},
		{"record-offsets-reset", with(kindOffsets, func(h *header) { h.flags = flagReset }), encodeOffsets(map[offsetKey]int64{{"billing", "orders", 3}: 0})},
		{"record-table-put-topic", with(kindTable, nil), table(&tableChange{PutTopic: &Topic{
			Name: "orders", ReadQueues: 8, WriteQueues: 4, Perm: 6, FilterType: "SINGLE_TAG", SysFlag: 1, Order: true, Attributes: map[string]string{"message.type": "DELAY"}, Created: 1, Changed: 2,
		}})},
		{"record-table-delete-topic", with(kindTable, nil), table(&tableChange{DeleteTopic: "orders"})},
		{"record-table-put-group", with(kindTable, nil), table(&tableChange{PutGroup: &Group{
			Name: "billing", ConsumeEnable: true, ConsumeFromMinEnable: true, BroadcastEnable: true, OrderlyEnable: true, RetryQueues: 1, RetryMaxTimes: 16,
			BrokerID: 5, WhichBrokerWhenSlow: 1, NotifyChange: true, Attributes: map[string]string{"a": "b"}, Changed: 2,
		}})},
		{"record-table-delete-group", with(kindTable, nil), table(&tableChange{DeleteGroup: "billing"})},
		{"record-table-put-kv-config", with(kindTable, nil), table(&tableChange{PutKVConfig: &KVConfig{Namespace: "ORDER_TOPIC_CONFIG", Key: "orders", Value: "tidemq:4", Changed: 2}})},
		{"record-table-delete-kv-config", with(kindTable, nil), table(&tableChange{DeleteKVConfig: &kvKey{"ORDER_TOPIC_CONFIG", "orders"}})},
	}
	// Kinds that are not written yet, with a value of its own in every field:
	// they hold the numbers and the header's room.
	for kind, name := range map[Kind]string{kindTake: "take", kindPark: "park", kindMove: "move", kindHole: "hole"} {
		cases = append(cases, recordCase{"record-" + name, with(kind, func(h *header) {
			h.timeBase, h.flags = 2, 0x81
			h.identity, h.delayMs, h.entry, h.head = 0x2122232425262728, 0x3132333435363738, 0x4142434445464748, 0x5152535455565758
			h.dueUs, h.timerAddr, h.tagsCode = 0x6162636465666768, 0x7172737475767778, -0x7e7d7c7b7a797877
		}), []byte("reserved")})
	}
	return cases
}

// goldenPops is the payload of a pops record.
func goldenPops() []byte {
	q := newPopTable().get(offsetKey{"billing", "orders", 3})
	q.Begin(40)
	q.Set(41, Pop{PopMs: 1764563000456, UntilMs: 1764563060456, Times: 2})
	return append([]byte{1}, q.encode(nil, q.changed)...)
}

func TestFormatPops(t *testing.T) {
	compareFields(t, map[string]any{
		"count": int64(1), "group length": int64(7), "group": "billing", "topic length": int64(6), "topic": "orders", "queue id": int64(3), "next": int64(40),
		"changes": int64(1), "entry": int64(41), "popped": int64(1764563000456), "until": int64(1764563060456), "times": int64(2),
	}, readBy(t, layoutOf(t, docTables(t), "pops"), goldenPops()))
}

func TestFormatRecord(t *testing.T) {
	tables := docTables(t)
	rows := layoutOf(t, tables, "record")
	cases := recordCases(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := c.h
			b := appendRecord(nil, &h, c.payload)
			golden(t, c.name, b)
			got, payload, err := decodeRecord(b)
			if err != nil {
				t.Fatal(err)
			}
			compareFields(t, map[string]any{
				"magic": int64(recordMagic), "length": int64(got.length), "epoch": int64(got.epoch), "kind": int64(got.kind), "version": int64(got.version),
				"time base": int64(got.timeBase), "flags": int64(got.flags), "index": int64(got.index), "address": got.address, "identity": got.identity,
				"delay": got.delayMs, "entry": got.entry, "head": got.head, "due": got.dueUs, "timer address": got.timerAddr, "tags code": got.tagsCode,
				"extra": int64(0), "crc": int64(got.crc), "payload": string(payload),
			}, readBy(t, rows, b))
			rest := slices.Concat(b[:crcOffset], b[headerSize:])
			if want := crc32.Checksum(rest, crc32.MakeTable(crc32.Castagnoli)); got.crc != want {
				t.Errorf("crc %08x, the text's is %08x", got.crc, want)
			}
			h.version, h.length, h.crc = recordVersion, got.length, got.crc
			if h != got || !bytes.Equal(payload, c.payload) {
				t.Errorf("decoded %+v, want %+v", got, h)
			}
		})
	}
	t.Run("every kind", func(t *testing.T) {
		var names []string
		for _, c := range tables["kinds"] {
			k := Kind(atoi(t, c[0]))
			if int(k) != len(names)+1 || k.String() != c[1] {
				t.Errorf("kind %d is called %q in the text, %q in the code", k, c[1], k)
			}
			names = append(names, c[1])
			written := slices.ContainsFunc(cases, func(r recordCase) bool { return r.h.kind == k })
			if !written {
				t.Errorf("no golden record of kind %v", k)
			}
			s := &Store{replaying: true, tables: newTables(), offsets: newOffsetTable(), halves: newHalfTable(), pops: newPopTable(), queues: newQueueSet(newQueueFiles(vfs.OS), t.TempDir())}
			err := s.dispatch(&header{kind: k}, nil, nil)
			if refused, want := errors.Is(err, ErrNewerFormat), c[3] == "reserved" && k != kindHole; refused != want {
				t.Errorf("kind %v is %s, and a log that holds it is refused: %v", k, c[3], refused)
			}
		}
		if last := Kind(len(names) + 1); !strings.HasPrefix(last.String(), "kind ") {
			t.Errorf("the code has kind %v, the text does not", last)
		}
	})
}

func TestFormatWALEntry(t *testing.T) {
	rows := layoutOf(t, docTables(t), "wal entry")
	for _, c := range []struct {
		name    string
		payload string
	}{{"wal-entry-short", "x"}, {"wal-entry-long", strings.Repeat("x", 200)}} {
		h := header{kind: kindTable, epoch: 1, index: 1}
		rec := appendRecord(nil, &h, []byte(c.payload))
		b := append(binary.AppendUvarint(nil, uint64(len(rec))), rec...)
		golden(t, c.name, b)
		compareFields(t, map[string]any{"length": int64(len(rec)), "record": string(rec)}, readBy(t, rows, b))
		if entryLen(len(rec)) != len(b) {
			t.Errorf("%s: entryLen is %d, want %d", c.name, entryLen(len(rec)), len(b))
		}
	}
}

// The library frames entries as we reckon: a segment file of one batch.
func TestFormatSegmentFile(t *testing.T) {
	dir, _ := filled(t, 2, 0)
	b, err := os.ReadFile(filepath.Join(dir, "commitlog", "00000000000000000001"))
	if err != nil {
		t.Fatal(err)
	}
	rows := layoutOf(t, docTables(t), "wal entry")
	index := uint64(1)
	for at := 0; at < len(b); index++ {
		n, p := binary.Uvarint(b[at:])
		entry := b[at : at+p+int(n)]
		rec := []byte(readBy(t, rows, entry)["record"].(string))
		if h, _, err := decodeRecord(rec); err != nil || h.index != index || h.address != int64(at) {
			t.Errorf("entry at %d: index %d, address %d, %v", at, h.index, h.address, err)
		}
		at += len(entry)
	}
	if index != 4 {
		t.Errorf("%d entries, want the topic and two messages", index-1)
	}
}

func TestFormatOffsets(t *testing.T) {
	b := encodeOffsets(map[offsetKey]int64{{"billing", "orders", 300}: 1 << 40})
	compareFields(t, map[string]any{
		"count": int64(1), "group length": int64(7), "group": "billing", "topic length": int64(6), "topic": "orders", "queue id": int64(300), "offset": int64(1 << 40),
	}, readBy(t, layoutOf(t, docTables(t), "offsets"), b))
}

func TestFormatQueueEntry(t *testing.T) {
	e := entry{address: 0x0102030405060708, size: 0x11121314, tags: -0x2122232425262728}
	b := appendEntry(nil, e)
	golden(t, "queue-entry", b)
	compareFields(t, map[string]any{"address": e.address, "size": int64(e.size), "tags code": e.tags}, readBy(t, layoutOf(t, docTables(t), "queue entry"), b))
	if decodeQueueEntry(b) != e || len(b) != entrySize {
		t.Errorf("decoded %+v of %d bytes", decodeQueueEntry(b), len(b))
	}
}

func TestFormatEpoch(t *testing.T) {
	dir := t.TempDir()
	e := &epochFile{fs: vfs.OS, dir: dir, path: filepath.Join(dir, "epoch")}
	for range 3 {
		if _, err := e.raise(0); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(e.path)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "epoch", b)
	got := readBy(t, layoutOf(t, docTables(t), "epoch"), b)
	crc := func(n uint32) int64 { return int64(crc32.Checksum(binary.BigEndian.AppendUint32(nil, n), castagnoli)) }
	zeros := string(make([]byte, 504))
	compareFields(t, map[string]any{"even epoch": int64(2), "even crc": crc(2), "even rest": zeros, "odd epoch": int64(3), "odd crc": crc(3), "odd rest": zeros}, got)
}

func goldenCheckpoint() *checkpoint {
	return &checkpoint{
		Index: 78, Address: 4711, CRC: 0xfeedbeef, StoreMs: 1764563000456,
		Topics:  []Topic{{Name: "orders", ReadQueues: 8, WriteQueues: 4, Perm: 6, FilterType: "SINGLE_TAG", Created: 100, Changed: 2}},
		Groups:  []Group{{Name: "billing", ConsumeEnable: true, RetryQueues: 1, RetryMaxTimes: 16, Changed: 3}},
		Offsets: []savedOffset{{"billing", "orders", 3, 42}},
		Queues:  []savedQueue{{"orders", 3, 0, 43}},
		Levels:  []savedLevel{{10_000, 17, 0, 20}},
	}
}

func TestFormatCheckpoint(t *testing.T) {
	b, err := goldenCheckpoint().encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "checkpoint", b)
	head, body, _ := strings.Cut(string(b), "\n")
	if want := fmt.Sprintf("TMQCKPT1 %08x", crc32.Checksum([]byte(body), castagnoli)); head != want {
		t.Errorf("first line %q, want %q", head, want)
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenCheckpoint(), c); diff != "" {
		t.Error(diff)
	}
}

// The keys of every JSON object in the text are those of the code.
func TestFormatJSONKeys(t *testing.T) {
	tables := docTables(t)
	for name, v := range map[string]any{
		"table": tableChange{}, "topic": Topic{}, "group": Group{}, "kv config": KVConfig{}, "checkpoint": checkpoint{},
		"checkpoint offset": savedOffset{}, "checkpoint queue": savedQueue{}, "checkpoint level": savedLevel{}, "checkpoint half": Half{}, "checkpoint pops": savedPops{}, "state part": statePart{},
	} {
		var code, text []string
		for i := range reflect.TypeOf(v).NumField() {
			key, _, _ := strings.Cut(reflect.TypeOf(v).Field(i).Tag.Get("json"), ",")
			code = append(code, key)
		}
		for _, r := range tables["json: "+name] {
			text = append(text, strings.Split(r[0], ", ")...)
		}
		slices.Sort(code)
		slices.Sort(text)
		if diff := cmp.Diff(code, text); diff != "" {
			t.Errorf("keys of %s (-code +text): %s", name, diff)
		}
		delete(tables, "json: "+name)
	}
	maps.DeleteFunc(tables, func(name string, _ [][]string) bool { return !strings.HasPrefix(name, "json: ") })
	if len(tables) > 0 {
		t.Errorf("tables of the text that nothing compares: %v", slices.Collect(maps.Keys(tables)))
	}
}

// Every golden file is of a case, so that none is left behind unread.
func TestFormatGoldenFilesAreRead(t *testing.T) {
	known := []string{"batch-message", "checkpoint", "epoch", "message-v1", "message-v1-born-ipv6", "message-v1-ipv6", "message-v2", "queue-entry", "wal-entry-long", "wal-entry-short"}
	for _, c := range recordCases(t) {
		known = append(known, c.name)
	}
	slices.Sort(known)
	names, err := filepath.Glob(filepath.Join(goldenDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = strings.TrimSuffix(filepath.Base(names[i]), ".hex")
	}
	slices.Sort(names)
	if diff := cmp.Diff(known, names); diff != "" {
		t.Errorf("golden files (-cases +files): %s", diff)
	}
}
