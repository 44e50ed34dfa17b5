package store

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemq/tidemq/internal/message"
)

// versionDir holds a data directory of each format version, and what it must
// contain. A directory is made once, by a program of that version; what a later
// program writes is another version's business.
const versionDir = "../testdata/store"

// contained is what a data directory must contain, as its maker knows it from
// what it put in, not from reading it back.
type contained struct {
	Queues  map[string][]storedMessage
	Levels  map[string]containedLevel
	Topics  []string
	Groups  []string
	Offsets map[string]int64 // group/topic/queue
	Records uint64
}

type storedMessage struct {
	Offset                int64
	Address               int64
	StoreMs               int64
	BornMs                int64
	Flag, SysFlag         int32
	ReconsumeTimes        int32
	BornHost, StoreHost   string
	Body                  string // its text, or SHA-256 when it is long
	Properties            string
	TagsCode              int64
	TopicBytes, BodyBytes int
}

type containedLevel struct {
	Head, Next int64
	Pending    []pendingMessage
}

type pendingMessage struct {
	Entry, DueUs int64
	Message      storedMessage
}

// maker makes a data directory and notes what it puts in.
type maker struct {
	t    *testing.T
	s    *Store
	now  time.Time
	want contained
}

func (k *maker) options(dir string) Options {
	opts := testOptions(dir)
	opts.Now = func() time.Time { return k.now }
	return opts
}

// asStored is what must be read of a message.
func asStored(m *message.Message, a Appended) storedMessage {
	body := string(m.Body)
	if len(body) > 100 {
		body = fmt.Sprintf("%x", sha256.Sum256(m.Body))
	}
	tags, _ := m.Property(message.PropertyTags)
	return storedMessage{
		Offset: a.QueueOffset, Address: a.Address, StoreMs: a.StoreMs, BornMs: m.BornTime, Flag: m.Flag, SysFlag: m.SysFlag, ReconsumeTimes: m.ReconsumeTimes,
		BornHost: m.BornHost.String(), StoreHost: m.StoreHost.String(), Body: body, Properties: m.Properties,
		TagsCode: message.TagsCode(tags), TopicBytes: len(m.Topic), BodyBytes: len(m.Body),
	}
}

// message is a message with something in every field.
func (k *maker) message(topic string, queue int32, n int, size int) *message.Message {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	body := []byte(fmt.Sprintf("message %d of %s", n, topic))
	for len(body) < size {
		body = append(body, byte(rng.Uint32()))
	}
	m := &message.Message{
		Topic: topic, QueueID: queue, Flag: int32(n), BornTime: k.now.UnixMilli() - 3, BornHost: goldenV4, StoreHost: testHost, ReconsumeTimes: int32(n % 3),
		Body: body, Properties: fmt.Sprintf("TAGS\x01%s\x02KEYS\x01key-%d\x02UNIQ_KEY\x01%032X\x02", []string{"red", "grün", "藍"}[n%3], n, n),
	}
	switch n % 4 {
	case 1:
		m.BornHost = goldenV6
		m.SysFlag = message.FlagBornHostV6
	case 2:
		m.BornHost, m.StoreHost = goldenV6, goldenV6
		m.SysFlag = message.WithCompression(message.FlagBornHostV6|message.FlagStoreHostV6, message.CompressionZstd)
	}
	return m
}

func (k *maker) append(m Message) Appended {
	k.t.Helper()
	return mustPut(k.t, k.s, m)[0].Appended
}

func encoded(t testing.TB, m *message.Message) []byte {
	t.Helper()
	b, err := message.AppendRecord(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send stores a message at once.
func (k *maker) send(topic string, queue int32, n, size int) {
	k.t.Helper()
	m := k.message(topic, queue, n, size)
	tags, _ := m.Property(message.PropertyTags)
	a := k.append(Message{Topic: topic, QueueID: queue, Record: encoded(k.t, m), TagsCode: message.TagsCode(tags)})
	k.stored(m, a)
}

func (k *maker) stored(m *message.Message, a Appended) {
	key := fmt.Sprintf("%s/%d", m.Topic, m.QueueID)
	k.want.Queues[key] = append(k.want.Queues[key], asStored(m, a))
}

// wait stores a pending message.
func (k *maker) wait(level int, delay time.Duration, topic string, queue int32, n int) {
	k.t.Helper()
	m := k.message(topic, queue, n, 0)
	m.Topic, m.QueueID = message.ScheduleTopic, int32(level-1)
	m.Properties += fmt.Sprintf("DELAY\x01%d\x02REAL_TOPIC\x01%s\x02REAL_QID\x01%d\x02", level, topic, queue)
	a := k.append(Message{Topic: topic, QueueID: queue, Record: encoded(k.t, m), Delay: delay})
	l := k.want.Levels[delay.String()]
	l.Next = a.QueueOffset + 1
	l.Pending = append(l.Pending, pendingMessage{a.QueueOffset, a.DueUs, asStored(m, a)})
	k.want.Levels[delay.String()] = l
}

// deliver steps the head of a level into its topic, or passes it over.
func (k *maker) deliver(delay time.Duration, topic string, queue int32, n int, skip string) {
	k.t.Helper()
	l := k.want.Levels[delay.String()]
	p := l.Pending[0]
	l.Pending, l.Head = l.Pending[1:], l.Head+1
	k.want.Levels[delay.String()] = l
	m := k.message(topic, queue, n, 0)
	m.BornTime = p.Message.BornMs
	tags, _ := m.Property(message.PropertyTags)
	step := Message{Topic: topic, QueueID: queue, Step: true, Origin: Origin{Delay: delay, Entry: p.Entry, Identity: p.Message.Address, DueUs: p.DueUs}}
	if skip != "" {
		step.Reason = skip
		k.append(step)
		return
	}
	step.Record, step.TagsCode = encoded(k.t, m), message.TagsCode(tags)
	k.stored(m, k.append(step))
}

func (k *maker) topic(name string, queues int32) {
	k.t.Helper()
	mustTopic(k.t, k.s, name, queues)
}

// makeVersion1 makes dir: a first process stops cleanly, a second one is
// killed, so that log and checkpoint are apart, and its log is torn.
func makeVersion1(t *testing.T, dir string) contained {
	t.Helper()
	k := &maker{t: t, now: time.UnixMilli(1_796_000_000_000), want: contained{Queues: map[string][]storedMessage{}, Levels: map[string]containedLevel{}, Offsets: map[string]int64{}}}
	work := t.TempDir()
	k.s = openUnchecked(t, k.options(work))
	long := "%RETRY%" + strings.Repeat("g", 120)
	k.topic("orders", 2)
	k.topic("short-lived", 1)
	k.topic(long, 1)
	k.send("short-lived", 0, 1, 0)
	if err := k.s.DeleteTopic("short-lived"); err != nil {
		t.Fatal(err)
	}
	delete(k.want.Queues, "short-lived/0")
	k.topic("short-lived", 1)
	k.send("short-lived", 0, 2, 0)
	for n := range 12 {
		k.now = k.now.Add(7 * time.Millisecond)
		k.send("orders", int32(n%2), n, 6000*(n%4)/3)
		k.wait(1, time.Second, "orders", 1, 100+n)
		k.wait(3, 90*time.Second, "orders", 0, 200+n)
	}
	k.send(long, 0, 3, 0)
	if err := k.s.PutGroup(Group{Name: "billing", ConsumeEnable: true, RetryQueues: 1, RetryMaxTimes: 16, Attributes: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if err := k.s.PutGroup(Group{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	k.now = k.now.Add(2 * time.Second)
	for n := range 5 {
		k.deliver(time.Second, "orders", 1, 100+n, "")
	}
	if err := k.s.ResetOffsets("billing", "orders", map[int32]int64{1: 4}); err != nil {
		t.Fatal(err)
	}
	if err := k.s.Close(); err != nil {
		t.Fatal(err)
	}

	k.s = openUnchecked(t, k.options(work))
	if err := k.s.DeleteGroup("gone"); err != nil {
		t.Fatal(err)
	}
	k.deliver(time.Second, "orders", 1, 105, "")
	k.deliver(time.Second, "orders", 1, 106, "bad checksum")
	for n := range 5 {
		k.now = k.now.Add(time.Millisecond)
		k.send("orders", 0, 20+n, 5000)
	}
	k.wait(4, 2*time.Hour, "orders", 1, 300)
	if err := k.s.ResetOffsets("billing", "orders", map[int32]int64{0: 3}); err != nil {
		t.Fatal(err)
	}
	k.want.Offsets = map[string]int64{"billing/orders/0": 3, "billing/orders/1": 4}
	k.want.Topics = []string{long, "orders", "short-lived"}
	k.want.Groups = []string{"billing"}
	k.want.Records = k.s.log.end.index - 1

	// What a kill leaves now: the files as they are, half a record behind them.
	if err := os.CopyFS(dir, os.DirFS(work)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	files := segmentFiles(t, dir)
	editFile(t, files[len(files)-1], func(b []byte) []byte { return append(b, "\xb2\x01TMQR torn"...) })
	return k.want
}

// readContained reads all that contained tells of.
func readContained(t *testing.T, s *Store) contained {
	t.Helper()
	got := contained{Queues: map[string][]storedMessage{}, Levels: map[string]containedLevel{}, Offsets: map[string]int64{}, Records: s.log.end.index - 1}
	decode := func(rec []byte) *message.Message {
		m, _, err := message.DecodeRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.VerifyBody(); err != nil {
			t.Fatal(err)
		}
		return &m
	}
	at := func(m *message.Message) Appended {
		return Appended{Address: m.PhysicalOffset, QueueOffset: m.QueueOffset, StoreMs: m.StoreTime}
	}
	for _, topic := range s.Topics() {
		got.Topics = append(got.Topics, topic.Name)
		for id := range topic.ReadQueues {
			var tags []int64
			r, err := s.Read(topic.Name, id, 0, 1000, 1<<20, func(code int64) bool { tags = append(tags, code); return true })
			if err != nil {
				t.Fatal(err)
			}
			for i, rec := range r.Records {
				m := decode(rec)
				sm := asStored(m, at(m))
				sm.TagsCode = tags[i]
				key := fmt.Sprintf("%s/%d", m.Topic, m.QueueID)
				got.Queues[key] = append(got.Queues[key], sm)
				if copied, err := s.ReadAt(m.PhysicalOffset); err != nil || string(copied) != string(rec) {
					t.Errorf("ReadAt(%d): %v", m.PhysicalOffset, err)
				}
			}
			r.Release()
		}
	}
	for _, g := range s.Groups() {
		got.Groups = append(got.Groups, g.Name)
		for topic, queues := range s.GroupOffsets(g.Name) {
			for q, v := range queues {
				got.Offsets[fmt.Sprintf("%s/%s/%d", g.Name, topic, q)] = v
			}
		}
	}
	for _, st := range s.Levels() {
		l := containedLevel{Head: st.Head, Next: st.Next}
		var b DueBatch
		for from := st.Head; from < st.Next; from += int64(len(b.Items)) {
			if err := s.ReadDue(st.Delay, from, farFuture, 1<<20, &b); err != nil || len(b.Items) == 0 {
				t.Fatalf("ReadDue: %v", err)
			}
			for _, d := range b.Items {
				m := decode(d.Record)
				l.Pending = append(l.Pending, pendingMessage{d.Entry, d.DueUs, asStored(m, at(m))})
			}
		}
		got.Levels[st.Delay.String()] = l
	}
	return got
}

// TestVersion1 opens a data directory as version 1 left it after a kill.
func TestVersion1(t *testing.T) {
	dir, list := filepath.Join(versionDir, "v1"), filepath.Join(versionDir, "v1.json")
	if *update {
		if _, err := os.Stat(dir); err == nil {
			t.Logf("%s stays as it is: it is what version 1 wrote", dir)
		} else {
			b, err := json.MarshalIndent(makeVersion1(t, dir), "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list, append(b, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	b, err := os.ReadFile(list)
	if err != nil {
		t.Fatalf("%v; -update makes it", err)
	}
	var want contained
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"as it is", "log alone"} {
		t.Run(how, func(t *testing.T) {
			d := copyDir(t, dir)
			if how == "log alone" {
				removeDerived(t, d)
			}
			r, err := Check(d)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Reason, "no whole record follows") || r.Records != int64(want.Records) {
				t.Errorf("before the first Open: %d records, %v; want %d and the torn tail", r.Records, r.Err(), want.Records)
			}
			if how == "as it is" && (r.Checkpoint == 0 || r.Checkpoint > want.Records || r.Segments < 2) {
				t.Errorf("checkpoint at %d of %d records, %d segments: want it before the end, and several", r.Checkpoint, want.Records, r.Segments)
			}
			opts := testOptions(d)
			opts.Now = func() time.Time { return time.UnixMilli(1_796_000_100_000) }
			s := openUnchecked(t, opts)
			if diff := cmp.Diff(want, readContained(t, s)); diff != "" {
				t.Errorf("the directory holds (-want +got): %s", diff)
			}
			if n := len(s.Damages()); n != 1 {
				t.Errorf("%d damages, want the torn tail", n)
			}
			// It goes on: what is due is delivered, at the next offsets.
			next := int64(len(want.Queues["orders/0"]))
			pending := want.Levels["1m30s"]
			if n := deliver(t, s, 90*time.Second, "orders", s.Now().UnixMicro(), 100); n != int(pending.Next-pending.Head) {
				t.Errorf("%d delivered, want %d", n, pending.Next-pending.Head)
			}
			a := mustPut(t, s, plain(t, "orders", 0, "of now"))[0].Appended
			if a.QueueOffset != next+pending.Next-pending.Head {
				t.Errorf("next queue offset %d, want %d", a.QueueOffset, next+pending.Next-pending.Head)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if r, err = Check(d); err != nil || r.Err() != nil {
				t.Errorf("after it went on: %v, %v", err, r.Err())
			}
		})
	}
}

func TestVersion1IsSmall(t *testing.T) {
	var total int64
	for _, size := range dirList(t, filepath.Join(versionDir, "v1")) {
		total += size
	}
	if total == 0 || total > 100<<10 {
		t.Errorf("testdata/store/v1 has %d bytes, at most 100 KiB are wanted in the tree", total)
	}
}
