package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
)

const (
	checkShort = time.Second
	checkLong  = 5 * time.Second
)

// checkable makes a closed data directory with something of everything: two
// segments, two levels of which one is half delivered, a step without a
// message, a topic that was deleted and made again, a group, offsets.
func checkable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	now := time.UnixMilli(1_800_000_000_000)
	opts := testOptions(dir)
	opts.Now = func() time.Time { return now }
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustTopic(t, s, "t", 2)
	mustTopic(t, s, "u", 1)
	mustPut(t, s, plain(t, "u", 0, "to be deleted"), plain(t, "u", 0, "too"))
	if err := s.DeleteTopic("u"); err != nil {
		t.Fatal(err)
	}
	mustTopic(t, s, "u", 1)
	mustPut(t, s, plain(t, "u", 0, "of the new topic"))
	pad := strings.Repeat(".", 3000)
	for i := range 20 {
		now = now.Add(time.Millisecond)
		mustPut(t, s, plain(t, "t", int32(i%2), fmt.Sprintf("m%d%s", i, pad)),
			pending(t, "t", checkShort, fmt.Sprintf("short%d", i)), pending(t, "t", checkLong, fmt.Sprintf("long%d", i)))
	}
	now = now.Add(2 * time.Second)
	deliver(t, s, checkShort, "t", s.Now().UnixMicro(), 8)
	mustPut(t, s, Message{Step: true, Reason: "cannot be read", Origin: originOf(t, s, checkShort, 8)})
	if err := s.PutGroup(Group{Name: "g", RetryMaxTimes: 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.ResetOffsets("g", "t", map[int32]int64{0: 4, 1: 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func originOf(t *testing.T, s *Store, delay time.Duration, entry int64) Origin {
	t.Helper()
	var b DueBatch
	if err := s.ReadDue(delay, entry, farFuture, 1, &b); err != nil || len(b.Items) == 0 {
		t.Fatalf("ReadDue: %v", err)
	}
	d := b.Items[0]
	return Origin{Delay: delay, Entry: entry, Identity: d.Address, DueUs: d.DueUs}
}

// contents is every file of a directory with a checksum.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		out[p] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheckFindsNothingWrong(t *testing.T) {
	dir := checkable(t)
	before := contents(t, dir)
	r, err := Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Errorf("problems in a directory that is in order:\n%v", err)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("Check changed the directory: %s", diff)
	}
	st, err := os.Stat(segmentFiles(t, dir)[1])
	if err != nil {
		t.Fatal(err)
	}
	second, _ := parseSegmentName(filepath.Base(segmentFiles(t, dir)[1]))
	base := segmentBase(t, dir, 1)
	// t, u, 2 × u/0, u deleted, u, u/0 · 20 × 3 · 8 delivered · 1 passed over · group, offsets
	const records = 7 + 60 + 8 + 1 + 2
	want := CheckReport{
		Segments: 2, Records: records, Bytes: base + st.Size(), Next: records + 1, Epoch: 1, Checkpoint: records + 1,
		Pending: 11 + 20, Queues: 3 + 2, Entries: 10 + 10 + 1 + 8 + 20 + 20,
	}
	if diff := cmp.Diff(want, *r); diff != "" {
		t.Errorf("report (-want +got): %s", diff)
	}
	if second <= 1 {
		t.Errorf("the second segment begins at index %d", second)
	}

	removeDerived(t, dir)
	if r, err = Check(dir); err != nil || r.Err() != nil || r.Records != records || r.Checkpoint != 0 {
		t.Errorf("the log alone: %v, %+v", err, r)
	}
	if r, err = Check(t.TempDir()); err != nil || r.Err() != nil || r.Records != 0 || r.Next != 1 {
		t.Errorf("an empty directory: %v, %+v", err, r)
	}
}

func TestCheckCannot(t *testing.T) {
	dir := t.TempDir()
	openTest(t, testOptions(dir))
	if _, err := Check(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a directory in use: %v, want ErrLocked", err)
	}
	if _, err := Check(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// segmentBase is the log address at which the i-th segment begins.
func segmentBase(t *testing.T, dir string, i int) int64 {
	t.Helper()
	return segmentBases(t, dir)[i]
}

func segmentBases(t *testing.T, dir string) []int64 {
	t.Helper()
	var bases []int64
	at := int64(0)
	for _, f := range segmentFiles(t, dir) {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		bases = append(bases, at)
		at += st.Size()
	}
	return bases
}

// spot is where a record stands.
type spot struct {
	file string
	at   int64
}

// rewrite changes the first record that pick takes, in place, and seals it
// again: what the checksum vouches for, and is wrong all the same. It returns
// the record's place.
func rewrite(t *testing.T, dir string, pick func(h *header, m message.View) bool, change func(h *header, payload []byte)) spot {
	t.Helper()
	for _, file := range segmentFiles(t, dir) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(b); {
			h, payload, n, err := decodeEntry(b[at:])
			if err != nil {
				t.Fatal(err)
			}
			if !pick(&h, payload) {
				at += n
				continue
			}
			payload = append([]byte(nil), payload...)
			change(&h, payload)
			rec := appendRecord(nil, &h, payload)
			copy(b[at+n-len(rec):], rec)
			if err := os.WriteFile(file, b, 0o640); err != nil {
				t.Fatal(err)
			}
			return spot{file, int64(at)}
		}
	}
	t.Fatal("no such record")
	return spot{}
}

// Pickers of records, by what they are.
func isPlain(topic string, queue int32, n int64) func(*header, message.View) bool {
	return func(h *header, m message.View) bool {
		return h.kind == kindMessage && h.delayMs == 0 && m.Topic() == topic && m.QueueID() == queue && m.QueueOffset() == n
	}
}

func isPending(delay time.Duration, n int64) func(*header, message.View) bool {
	return func(h *header, _ message.View) bool {
		return h.kind == kindMessage && h.delayMs == delay.Milliseconds() && h.entry == n
	}
}

func isStep(n int64) func(*header, message.View) bool {
	return func(h *header, _ message.View) bool { return h.kind == kindStep && h.entry == n }
}

func isKind(k Kind) func(*header, message.View) bool {
	return func(h *header, _ message.View) bool { return h.kind == k }
}

func editFile(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o640); err != nil {
		t.Fatal(err)
	}
}

// editQueue changes entry n of a queue file and returns its place.
func editQueue(t *testing.T, path string, n int64, change func(e *entry)) spot {
	t.Helper()
	editFile(t, path, func(b []byte) []byte {
		e := decodeQueueEntry(b[n*entrySize:])
		change(&e)
		copy(b[n*entrySize:], appendEntry(nil, e))
		return b
	})
	return spot{path, n * entrySize}
}

func editCheckpoint(t *testing.T, dir string, change func(c *checkpoint)) spot {
	t.Helper()
	path := filepath.Join(dir, "checkpoint")
	editFile(t, path, func(b []byte) []byte {
		c, err := decodeCheckpoint(b)
		if err != nil {
			t.Fatal(err)
		}
		change(c)
		b, err = c.encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	return spot{path, 0}
}

func TestCheckFindsDamage(t *testing.T) {
	base := checkable(t)
	queue := func(d, topic, id string) string {
		return filepath.Join(d, "consumequeue", topic, id, fmt.Sprintf("%020d", 0))
	}
	// Each case makes one damage and tells where it is; reason is a part of
	// the first problem's text there.
	cases := []struct {
		name   string
		do     func(t *testing.T, d string) spot
		reason string
	}{
		// The log's bytes.
		{"bit in a body", func(t *testing.T, d string) spot {
			file := segmentFiles(t, d)[0]
			editFile(t, file, func(b []byte) []byte { b[len(b)-3000] ^= 1; return b })
			at := lastRecordAt(t, base, 0)
			return spot{file, at}
		}, "bad checksum; 1 records lost to the end of the segment"},
		{"zeros over the middle", func(t *testing.T, d string) spot {
			file := segmentFiles(t, d)[0]
			editFile(t, file, func(b []byte) []byte { clear(b[:100]); return b })
			return spot{file, 0}
		}, "bad length; 1 records lost, the next whole one is at"},
		{"bad magic", func(t *testing.T, d string) spot {
			file := segmentFiles(t, d)[0]
			editFile(t, file, func(b []byte) []byte { b[2] ^= 1; return b })
			return spot{file, 0}
		}, "bad magic"},
		{"torn tail", func(t *testing.T, d string) spot {
			file := segmentFiles(t, d)[1]
			editFile(t, file, func(b []byte) []byte { return b[:len(b)-1] })
			return spot{file, lastRecordAt(t, base, 1)}
		}, "no whole record follows"},
		{"garbage tail", func(t *testing.T, d string) spot {
			file := segmentFiles(t, d)[1]
			var end int64
			editFile(t, file, func(b []byte) []byte { end = int64(len(b)); return append(b, "TMQR"...) })
			return spot{file, end}
		}, "no whole record follows in the 4 bytes"},
		{"segment gone", func(t *testing.T, d string) spot {
			files := segmentFiles(t, d)
			if err := os.Remove(files[0]); err != nil {
				t.Fatal(err)
			}
			return spot{files[1], 0}
		}, "are missing before this segment"},
		{"stray file", func(t *testing.T, d string) spot {
			path := filepath.Join(d, "commitlog", "00000000000000000001.END")
			if err := os.WriteFile(path, nil, 0o640); err != nil {
				t.Fatal(err)
			}
			return spot{path, 0}
		}, "not a segment"},
		{"record of another place", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(h *header, _ []byte) { h.index++ })
		}, "were expected"},
		{"epoch falls", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(h *header, _ []byte) { h.epoch = 0 })
		}, "epoch 0 where"},
		{"segment copied from elsewhere", func(t *testing.T, d string) spot {
			file := segmentFiles(t, d)[1]
			shift := int64(64)
			editFile(t, file, func(b []byte) []byte {
				for at := 0; at < len(b); {
					h, payload, n, err := decodeEntry(b[at:])
					if err != nil {
						t.Fatal(err)
					}
					h.address += shift
					rec := appendRecord(nil, &h, append([]byte(nil), payload...))
					copy(b[at+n-len(rec):], rec)
					at += n
				}
				return b
			})
			return spot{file, 0}
		}, "the segment before ends at"},

		// What the records say.
		{"number given twice", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(_ *header, p []byte) { message.SetQueueOffset(p, 2) })
		}, "t/0: queue offset 2 where 3 was expected"},
		{"number left out", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 1, 3), func(_ *header, p []byte) { message.SetQueueOffset(p, 4) })
		}, "t/1: queue offset 4 where 3 was expected"},
		{"physical offset", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(_ *header, p []byte) { message.SetPhysicalOffset(p, 7) })
		}, "says physical offset 7"},
		{"tags code", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(h *header, _ []byte) { h.tagsCode = 98 })
		}, `tags code 98, tag "a" has 97`},
		{"body", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(_ *header, p []byte) { message.View(p).Body()[0] ^= 1 })
		}, "body"},
		{"message cut", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(_ *header, p []byte) { binary.BigEndian.PutUint32(p, 60) })
		}, "message: "},
		{"unknown topic", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(_ *header, p []byte) {
				at := strings.Index(string(p), "\x01t\x00\x07TAGS")
				p[at+1] = 'x'
			})
		}, `message in topic "x", which does not exist`},
		{"store time falls", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPlain("t", 0, 3), func(_ *header, p []byte) {
				message.SetStoreTime(p, message.View(p).StoreTime()-3)
			})
		}, "store time"},
		{"level entry left out", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPending(checkShort, 3), func(h *header, p []byte) {
				h.entry++
				message.SetQueueOffset(p, h.entry)
			})
		}, "level 1000ms: entry 4 where 3 was expected"},
		{"level entry and message differ", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPending(checkShort, 3), func(_ *header, p []byte) { message.SetQueueOffset(p, 9) })
		}, "entry 3, the message says queue offset 9"},
		{"due too late", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPending(checkLong, 3), func(h *header, _ []byte) { h.dueUs += 1001 })
		}, "level 5000ms: due at"},
		{"due falls", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPending(checkLong, 3), func(h *header, _ []byte) { h.dueUs -= 100_000 })
		}, "level 5000ms: "},
		{"pending under its real topic", func(t *testing.T, d string) spot {
			return rewrite(t, d, isPending(checkLong, 3), func(_ *header, p []byte) {
				at := strings.Index(string(p), message.ScheduleTopic)
				p[at] = 'x'
			})
		}, "a message of topic"},
		{"delivered twice", func(t *testing.T, d string) spot {
			return rewrite(t, d, isStep(5), func(h *header, _ []byte) { h.entry, h.head = 4, 4 })
		}, "a step from head 4 leaves entry 4 where the head was 5"},
		{"one passed over", func(t *testing.T, d string) spot {
			return rewrite(t, d, isStep(5), func(h *header, _ []byte) { h.entry, h.head = 6, 6 })
		}, "leaves entry 6 where the head was 5"},
		{"wrong identity", func(t *testing.T, d string) spot {
			return rewrite(t, d, isStep(5), func(h *header, _ []byte) { h.identity-- })
		}, "a step leaves entry 5 at address"},
		{"wrong due", func(t *testing.T, d string) spot {
			return rewrite(t, d, isStep(5), func(h *header, _ []byte) { h.dueUs-- })
		}, "a step leaves entry 5 at address"},
		{"early", func(t *testing.T, d string) spot {
			return rewrite(t, d, isStep(0), func(_ *header, p []byte) {
				message.SetStoreTime(p, message.View(p).StoreTime()-1500)
			})
		}, "early"},
		{"into a younger topic", func(t *testing.T, d string) spot {
			return rewrite(t, d, isStep(5), func(h *header, _ []byte) { h.identity = -1 })
		}, `delivered into topic "t", created at 0`},
		{"table record", func(t *testing.T, d string) spot {
			return rewrite(t, d, isKind(kindTable), func(_ *header, p []byte) { p[0] = '[' })
		}, "table record: "},
		{"offsets record", func(t *testing.T, d string) spot {
			return rewrite(t, d, isKind(kindOffsets), func(_ *header, p []byte) { p[0] = 99 })
		}, errBadOffsets.Error()},
		{"later kind", func(t *testing.T, d string) spot {
			return rewrite(t, d, isKind(kindOffsets), func(h *header, _ []byte) { h.kind = kindMove })
		}, "a move, which this version does not know"},

		// Queue files.
		{"entry of another queue", func(t *testing.T, d string) spot {
			var e entry
			editQueue(t, queue(d, "t", "1"), 3, func(other *entry) { e = *other })
			return editQueue(t, queue(d, "t", "0"), 3, func(to *entry) { *to = e })
		}, "entry 3: points at address"},
		{"entry into the void", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) { e.address += 1 << 30 })
		}, "entry 3: points at address"},
		{"entry beside its record", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) { e.address++ })
		}, "entry 3: points at address"},
		{"entry's size", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) { e.size-- })
		}, "entry 3: points at address"},
		{"entry's size negative", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) { e.size = -1 })
		}, "entry 3: size -1"},
		{"entry's tags code", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) { e.tags++ })
		}, "tags code 98, the record says 97"},
		{"entry empty", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) { *e = entry{} })
		}, "entry 3: empty"},
		{"level entry's due", func(t *testing.T, d string) spot {
			return editQueue(t, queue(d, message.ScheduleTopic, "5000ms"), 3, func(e *entry) { e.tags++ })
		}, "entry 3: points at address"},
		{"level entry of another level", func(t *testing.T, d string) spot {
			var e entry
			editQueue(t, queue(d, message.ScheduleTopic, "1000ms"), 12, func(other *entry) { e = *other })
			return editQueue(t, queue(d, message.ScheduleTopic, "5000ms"), 12, func(to *entry) { *to = e })
		}, "a message for level 1000ms, entry 12"},
		{"entry points at no message", func(t *testing.T, d string) spot {
			at := segmentBase(t, d, 0)
			return editQueue(t, queue(d, "t", "0"), 3, func(e *entry) {
				e.address, e.size = at, int32(recordLen(t, d)-headerSize)
			})
		}, "a table, no message"},
		{"queue file cut", func(t *testing.T, d string) spot {
			path := queue(d, "t", "0")
			editFile(t, path, func(b []byte) []byte { return b[:33] })
			return spot{path, 33}
		}, "too short"},
		{"queue file gone", func(t *testing.T, d string) spot {
			path := queue(d, "t", "0")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return spot{filepath.Dir(path), 0}
		}, "no such file"},

		// Checkpoint and epoch.
		{"checkpoint garbage", func(t *testing.T, d string) spot {
			path := filepath.Join(d, "checkpoint")
			editFile(t, path, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
			return spot{path, 0}
		}, "cannot be read: bad checksum"},
		{"checkpoint of another log", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.CRC++ })
		}, "it says"},
		{"checkpoint's address", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Address-- })
		}, "it names index"},
		{"checkpoint beyond the log", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Index++ })
		}, "the log ends at"},
		{"checkpoint's store time", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.StoreMs = 5 })
		}, "greatest store time 5"},
		{"checkpoint's topics", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Topics[0].WriteQueues++ })
		}, "topics: "},
		{"checkpoint without a topic", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Topics = c.Topics[1:] })
		}, "1 topics, the log has 2"},
		{"checkpoint's groups", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Groups[0].RetryMaxTimes++ })
		}, "groups: "},
		{"checkpoint's queue", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) {
				for i := range c.Queues {
					c.Queues[i].Next--
				}
			})
		}, "the log has 0 to"},
		{"checkpoint without a queue", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Queues = c.Queues[1:] })
		}, "missing, the log has"},
		{"checkpoint's head", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Levels[0].Head-- })
		}, "level 1000ms: first 0, head 8, next 20; the log has head 9, next 20"},
		{"checkpoint without a level", func(t *testing.T, d string) spot {
			return editCheckpoint(t, d, func(c *checkpoint) { c.Levels = c.Levels[:1] })
		}, "level 5000ms: missing, the log has 20 entries"},
		{"epoch file of before", func(t *testing.T, d string) spot {
			path := filepath.Join(d, "epoch")
			if err := os.WriteFile(path, make([]byte, 2*epochSlot), 0o640); err != nil {
				t.Fatal(err)
			}
			return spot{path, 0}
		}, "epoch is 0, the log's last record has 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := copyDir(t, base)
			where := c.do(t, d)
			r, err := Check(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Problems {
				if p.File == where.file && p.Offset == where.at && strings.Contains(p.Reason, c.reason) {
					return
				}
			}
			t.Errorf("want a problem at %d of %s with %q; found:\n%v", where.at, where.file, c.reason, r.Err())
		})
	}
}

// lastRecordAt is where the last record of the i-th segment begins.
func lastRecordAt(t *testing.T, dir string, i int) int64 {
	t.Helper()
	b, err := os.ReadFile(segmentFiles(t, dir)[i])
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for at := 0; at < len(b); {
		_, _, n, err := decodeEntry(b[at:])
		if err != nil {
			t.Fatal(err)
		}
		last = at
		at += n
	}
	return int64(last)
}

// recordLen is the length of the log's first record.
func recordLen(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(segmentFiles(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	h, _, _, err := decodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	return int(h.length)
}

// A damaged record is one problem, not one for all that follows from it, also
// after the next Open has closed the hole.
func TestCheckReportsALossOnce(t *testing.T) {
	dir := checkable(t)
	rewrite(t, dir, isPlain("t", 0, 3), func(h *header, _ []byte) { h.address++ })
	r, err := Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || r.Lost != 1 {
		t.Errorf("%d problems, %d lost records, want 1 and 1:\n%v", len(r.Problems), r.Lost, r.Err())
	}
	removeDerived(t, dir)
	s := openUnchecked(t, testOptions(dir))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = Check(dir); err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || r.Lost != 1 || r.Checkpoint != r.Next {
		t.Errorf("after a repair: %d problems, %d lost records, want 1 and 1:\n%v", len(r.Problems), r.Lost, r.Err())
	}
}

// A clock that was set back by more than the store follows lets due times
// fall, over a restart; by less, or without a restart, it must not.
func TestCheckClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{24 * time.Hour, maxAhead / 2} {
		dir := t.TempDir()
		now := time.UnixMilli(1_800_000_000_000)
		opts := testOptions(dir)
		opts.Now = func() time.Time { return now }
		for range 2 {
			s := openUnchecked(t, opts)
			mustTopic(t, s, "t", 1)
			mustPut(t, s, pending(t, "t", checkShort, "x"), plain(t, "t", 0, "y"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			now = now.Add(-back)
		}
		r, err := Check(dir)
		if err != nil || r.Err() != nil {
			t.Errorf("back by %v: %v, %v", back, err, r.Err())
		}
	}
}

// The report is bounded, and says how much it leaves out.
func TestCheckBoundsItsReport(t *testing.T) {
	dir, _ := filled(t, maxProblems+50, 0)
	path := filepath.Join(dir, "consumequeue", "t", "0", fmt.Sprintf("%020d", 0))
	editFile(t, path, func(b []byte) []byte { clear(b); return b })
	r, err := Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != maxProblems || r.Omitted != 50 || !strings.Contains(r.Err().Error(), "50 problems more") {
		t.Errorf("%d problems and %d omitted, want %d and 50", len(r.Problems), r.Omitted, maxProblems)
	}
}
