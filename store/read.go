package store

import "time"

// ReadStatus says what Read found, as RocketMQ's GetMessageStatus.
type ReadStatus int

const (
	// Found: Records holds at least one message.
	Found ReadStatus = iota
	// NoMatch: entries were passed over by the filter; go on at Next.
	NoMatch
	// NoMessageYet: the offset is the queue's end.
	NoMessageYet
	// OffsetTooSmall: before the queue's first entry; Next is the minimum.
	OffsetTooSmall
	// OffsetTooLarge: beyond the queue's end; Next is the maximum.
	OffsetTooLarge
	// NoQueue: nothing was ever stored in that queue. Next is 0.
	NoQueue
)

// ReadResult is what Read returns.
type ReadResult struct {
	Status ReadStatus
	// Next is the offset to read next, Min and Max the queue's bounds: the
	// first entry and one past the last.
	Next, Min, Max int64
	// Records are stored messages (RocketMQ's layout), in queue order. They
	// are the caller's until Release is called.
	Records [][]byte
	// Skipped counts entries whose record could not be read (damage); they
	// are passed over and reported in the log.
	Skipped int

	buf *readBuf
}

// LevelState is one level queue: the messages that wait for one length.
type LevelState struct {
	Delay time.Duration
	// Head is the first entry not yet delivered, Next one past the last:
	// Next-Head messages are pending.
	Head, Next int64
	// HeadDueUs is when the head is due (µs since the epoch), 0 when nothing is pending.
	HeadDueUs int64
}

// Due is one entry of a level queue.
type Due struct {
	Entry int64
	// Address is the log address of the message's first copy, which names it,
	// wherever it was carried since.
	Address int64
	DueUs   int64
	// Record is the pending message as stored; borrowed from the buffer of
	// the DueBatch. Nil when Err is set.
	Record []byte
	// Err tells why the record cannot be read: a *CorruptionError, or an error
	// of the file system.
	Err error
}

// DueBatch is reused from one ReadDue to the next.
type DueBatch struct {
	Items []Due
	// NextDueUs is the due time (µs) of the entry after the items when it is not
	// due yet, 0 when the level is empty there.
	NextDueUs int64
	// More is true when further entries are due already.
	More bool

	entries []entry
	bufs    []*readBuf
}
