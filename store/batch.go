package store

import "time"

// Origin says which pending entry a delivered message leaves: the head of a
// level queue, in order. The writer accepts it only while Entry is still the
// level's head, so two proposals for one entry can never both be stored.
type Origin struct {
	// Delay is the length of the level, the key of its queue.
	Delay time.Duration
	// Entry is the level queue's entry that the message leaves.
	Entry int64
	// Identity is the log address of the pending message's first copy.
	Identity int64
	// DueUs is the entry's due time, in µs since the epoch.
	DueUs int64
}

// Message is one message to append.
type Message struct {
	// Topic and QueueID name the consume queue. For a message with a Delay
	// they name the real target, which must exist too; the entry goes to the
	// level's queue.
	Topic   string
	QueueID int32
	// Record is the message in RocketMQ's stored layout, as
	// internal/message.AppendRecord makes it. The writer patches queue offset,
	// physical offset and store time in place; the bytes belong to the store
	// until Done is called. Nil in a step: the entry is skipped (Reason).
	Record []byte
	// TagsCode is the consume queue entry's tags code (0: no tag).
	TagsCode int64
	// Delay > 0 makes the message pending in the level queue of that length:
	// due at store time + Delay. Record's topic is SCHEDULE_TOPIC_XXXX then.
	Delay time.Duration
	// Step is true when the message is a delivery that leaves Origin.
	Step   bool
	Origin Origin
	// Half stores the message as the half message of a transaction: Record's
	// topic is RMQ_SYS_TRANS_HALF_TOPIC, queue 0, and Topic the real target,
	// which must exist too. Delay does not count yet.
	Half bool
	// Ends is true when the message ends the transaction of the half message at
	// log address Origin.Identity: Record, Topic, QueueID and Delay are what its
	// commit stores, as of any message; a nil Record rolls it back (Reason).
	Ends bool
	// Reason is stored with a step or end whose Record is nil.
	Reason string

	// Results, set before Done.
	Appended Appended
	// Err is the verdict on this one message: nil, ErrStale, ErrTopicNotFound,
	// ErrTransactionEnded.
	Err error

	// Of the store's own records: not zero for anything but a message.
	kind    Kind
	flags   uint8
	durable bool // synced in either flush mode before Done
}

// Appended is where a message was stored.
type Appended struct {
	// Address is the log address, RocketMQ's physical offset.
	Address int64
	// QueueOffset is the entry's number in its consume queue or level queue.
	QueueOffset int64
	// StoreMs is the store time in ms since the epoch.
	StoreMs int64
	// DueUs is when a message with a Delay is due, in µs since the epoch.
	DueUs int64
}

// Batch is a group of messages that is written whole or not at all.
type Batch struct {
	Messages []Message
	// Done is called exactly once, from the store's writer: it must not block.
	// err is nil when every message without an Err of its own is stored as the
	// flush mode promises; otherwise none is stored, or, for ErrUnknown, it
	// cannot be told. The batch may be reused from then on.
	Done func(b *Batch, err error)

	bytes int64
	next  *Batch
}
