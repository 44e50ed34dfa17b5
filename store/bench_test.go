package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/vfs"
)

// benchBody is the body of the messages that benchmarks store.
const benchBody = 256

// benchStore opens a store that never syncs: what a group costs besides the
// disk's own time.
func benchStore(b *testing.B, flush FlushMode) *Store {
	b.Helper()
	s, err := Open(Options{Dir: b.TempDir(), Flush: flush, FS: vfs.NoSync{FS: vfs.OS}, MinFreeBytes: -1, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	mustTopic(b, s, "t", 4)
	return s
}

func benchRecord(b *testing.B, topic string) []byte {
	b.Helper()
	return record(b, topic, 0, string(make([]byte, benchBody)))
}

func BenchmarkEncodeRecord(b *testing.B) {
	payload := benchRecord(b, "t")
	h := header{kind: kindMessage, epoch: 1, index: 1}
	var buf []byte
	b.SetBytes(int64(headerSize + len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		buf = appendRecord(buf[:0], &h, payload)
	}
}

func BenchmarkDecodeEntry(b *testing.B) {
	h := header{kind: kindMessage, epoch: 1, index: 1}
	rec := appendRecord(nil, &h, benchRecord(b, "t"))
	entry := append([]byte{byte(len(rec)) | 0x80, byte(len(rec) >> 7)}, rec...)
	b.SetBytes(int64(len(entry)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := decodeEntry(entry); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend stores one message an operation, with so many on their way:
// judged, written, dispatched and answered, in groups as they come.
func BenchmarkAppend(b *testing.B) {
	for _, flush := range []FlushMode{SyncFlush, AsyncFlush} {
		for _, delay := range []time.Duration{0, time.Hour} {
			for _, window := range []int{1, 128} {
				b.Run(fmt.Sprintf("%v/delay=%v/window=%d", flush, delay, window), func(b *testing.B) {
					benchmarkAppend(b, flush, delay, window)
				})
			}
		}
	}
}

func benchmarkAppend(b *testing.B, flush FlushMode, delay time.Duration, window int) {
	s := benchStore(b, flush)
	topic := "t"
	if delay > 0 {
		topic = message.ScheduleTopic
	}
	free := make(chan *Batch, window)
	for range window {
		free <- &Batch{
			Messages: []Message{{Topic: "t", Record: benchRecord(b, topic), Delay: delay}},
			Done: func(batch *Batch, err error) {
				if err != nil || batch.Messages[0].Err != nil {
					b.Error(err, batch.Messages[0].Err)
				}
				free <- batch
			},
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Append(<-free)
	}
	for range window {
		<-free
	}
}

// BenchmarkDispatch derives queue entries from one record an operation.
func BenchmarkDispatch(b *testing.B) {
	for _, kind := range []string{"message", "pending", "step"} {
		b.Run(kind, func(b *testing.B) {
			s := benchStore(b, AsyncFlush)
			payload := benchRecord(b, "t")
			h := header{kind: kindMessage, tagsCode: 97}
			n := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				h.address = n * int64(len(payload))
				switch kind {
				case "pending":
					h.delayMs, h.entry, h.dueUs = 3_600_000, n, n
				case "step":
					h.kind, h.delayMs, h.entry, h.head = kindStep, 1000, n, n
				}
				message.SetQueueOffset(payload, n)
				if err := s.dispatch(&h, payload, nil); err != nil {
					b.Fatal(err)
				}
				n++
			}
			// What was dispatched stands in no log, so that no checkpoint may
			// speak of it.
			s.saved.Store(s.log.end.index)
		})
	}
}

// BenchmarkRead reads 32 records of a queue an operation, which are neighbours
// in the log, or each of which stands between three of other queues.
func BenchmarkRead(b *testing.B) {
	for _, queues := range []int32{1, 4} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			s := benchStore(b, AsyncFlush)
			const n = 4096
			for range n / 64 {
				var ms []Message
				for i := range int32(64) {
					ms = append(ms, Message{Topic: "t", QueueID: i % queues, Record: record(b, "t", i%queues, string(make([]byte, benchBody)))})
				}
				mustPut(b, s, ms...)
			}
			perQueue := int64(n / queues)
			at := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				r, err := s.Read("t", 0, at, 32, 1<<20, nil)
				if err != nil || len(r.Records) != 32 {
					b.Fatal(err, len(r.Records))
				}
				at = r.Next % perQueue
				r.Release()
			}
		})
	}
}

// BenchmarkReadDue reads 128 due entries of a level and their records an
// operation.
func BenchmarkReadDue(b *testing.B) {
	s := benchStore(b, AsyncFlush)
	const n, each = 4096, 128
	for range n / 64 {
		var ms []Message
		for range 64 {
			ms = append(ms, pending(b, "t", time.Hour, string(make([]byte, benchBody))))
		}
		mustPut(b, s, ms...)
	}
	size := len(record(b, message.ScheduleTopic, 0, string(make([]byte, benchBody))))
	var due DueBatch
	at := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.ReadDue(time.Hour, at, farFuture, each*size, &due); err != nil || len(due.Items) != each {
			b.Fatal(err, len(due.Items))
		}
		at = (at + each) % n
	}
}
