package store

import (
	"log/slog"
	"time"

	"github.com/tidemq/tidemq/internal/vfs"
)

// FlushMode says when an append is answered and becomes visible, as RocketMQ's
// flushDiskType.
type FlushMode int

const (
	// SyncFlush answers an append, and shows it to consumers, only after the
	// fsync that covers it. The default.
	SyncFlush FlushMode = iota
	// AsyncFlush answers after the write; the log is synced in the background
	// each FlushBytes or FlushInterval, whichever comes first. A process that
	// is killed loses nothing; a machine that loses power may lose that much.
	AsyncFlush
)

// String returns RocketMQ's name of the mode, SYNC_FLUSH or ASYNC_FLUSH.
func (m FlushMode) String() string {
	if m == AsyncFlush {
		return "ASYNC_FLUSH"
	}
	return "SYNC_FLUSH"
}

// Arrival tells that entries [First, Next) of a consume queue became visible.
type Arrival struct {
	Topic   string
	QueueID int32
	First   int64
	Next    int64
	// Bytes is the size of the new entries' messages.
	Bytes int64
	// TagsCodes holds the tags code of each new entry, in order. Borrowed:
	// valid only during the call.
	TagsCodes []int64
}

// Options of Open. Only Dir is required.
type Options struct {
	// Dir is the data directory, created when missing. One process at a time.
	Dir string
	// Lock is Dir's lock when LockDir has taken it before. Open takes it over,
	// and releases it when it fails. Nil: Open locks.
	Lock *DirLock
	// Flush is the flush mode; SyncFlush by default.
	Flush FlushMode
	// FlushInterval bounds the age of unsynced bytes in AsyncFlush; 500 ms by
	// default (RocketMQ's flushIntervalCommitLog).
	FlushInterval time.Duration
	// FlushBytes bounds the unsynced bytes in AsyncFlush; 1 MiB by default.
	FlushBytes int64
	// SegmentBytes is the size at which the commit log rolls to a new segment
	// file; 4 MiB by default, at least 64 KiB.
	SegmentBytes int
	// CheckpointBytes and CheckpointInterval bound the log that a start has to
	// replay; 256 MiB and 30 s by default.
	CheckpointBytes    int64
	CheckpointInterval time.Duration
	// MinFreeBytes is the free space of the file system below which sends are
	// refused with ErrDiskFull while deliveries go on; 64 MiB by default, -1
	// turns the check off.
	MinFreeBytes int64
	// QueueBytes bounds the bytes of appends that wait for the writer; beyond
	// it Append refuses with ErrBusy. 64 MiB by default.
	QueueBytes int64
	// Retention says what may be deleted; nothing by default.
	Retention Retention
	// Now reads the wall clock; time.Now by default. Tests inject their own.
	Now func() time.Time
	// FS is the file system of everything but the WAL's own files; the
	// operating system's by default.
	FS vfs.FS
	// Logger receives what an operator should know; slog.Default by default.
	Logger *slog.Logger

	// OnArrive is called after entries of consume queues became visible, one
	// call a batch, from the writer: it must not block nor call Append's Done.
	// The slice and what it points to are borrowed until it returns.
	OnArrive func([]Arrival)
	// OnPending is called from the writer when the head of an empty level
	// queue appeared: the level's length and when it is due (µs since the epoch). It must not
	// block.
	OnPending func(delay time.Duration, dueUs int64)

	// openWAL puts faults between the store and the WAL, in tests.
	openWAL func(dir string, segmentBytes int) (walLog, error)
}

const (
	defaultFlushInterval      = 500 * time.Millisecond
	defaultFlushBytes         = 1 << 20
	defaultSegmentBytes       = 4 << 20
	minSegmentBytes           = 64 << 10
	defaultCheckpointBytes    = 256 << 20
	defaultCheckpointInterval = 30 * time.Second
	defaultMinFreeBytes       = 64 << 20
	defaultQueueBytes         = 64 << 20
)

func (o Options) withDefaults() Options {
	if o.FlushInterval <= 0 {
		o.FlushInterval = defaultFlushInterval
	}
	if o.FlushBytes <= 0 {
		o.FlushBytes = defaultFlushBytes
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SegmentBytes < minSegmentBytes {
		o.SegmentBytes = minSegmentBytes
	}
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = defaultCheckpointBytes
	}
	if o.CheckpointInterval <= 0 {
		o.CheckpointInterval = defaultCheckpointInterval
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = defaultMinFreeBytes
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = defaultQueueBytes
	}
	o.Retention = o.Retention.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}
