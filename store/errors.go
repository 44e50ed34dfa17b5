package store

import (
	"errors"
	"fmt"
)

// Errors of Open.
var (
	// ErrLocked: another process holds the data directory.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrNewerFormat: the log holds records of a version or kind this program
	// does not know; nothing was changed.
	ErrNewerFormat = errors.New("log was written by a newer version")
)

// Errors of appends.
var (
	// ErrClosed: the store is closed or closing; nothing was stored.
	ErrClosed = errors.New("store is closed")
	// ErrBusy: more bytes wait for the writer than Options.QueueBytes; nothing
	// was stored, try again.
	ErrBusy = errors.New("too many appends are waiting")
	// ErrDiskFull: the file system has less room than Options.MinFreeBytes, or
	// refused the write for want of room; nothing was stored.
	ErrDiskFull = errors.New("disk is full")
	// ErrUnavailable: the log failed to write or sync and is being reopened;
	// nothing was stored.
	ErrUnavailable = errors.New("commit log is being reopened after an error")
	// ErrUnknown: whether the append is stored cannot be told.
	ErrUnknown = errors.New("outcome of the append is unknown")
	// ErrStale: the origin of a step is no longer the head of its level.
	ErrStale = errors.New("entry is not the head of its level")
	// ErrTopicNotFound: the topic does not exist, or was created after the
	// pending message that was to be delivered into it.
	ErrTopicNotFound = errors.New("topic not found")
	// ErrTransactionEnded: the transaction was committed or rolled back before,
	// or there is no half message at that log address.
	ErrTransactionEnded = errors.New("transaction has ended, or never began")
	// ErrTooLarge: a record over the limit of one log entry.
	ErrTooLarge = errors.New("record too large")
	// ErrTooManyKVs: there are MaxKVs configuration values; none was added.
	ErrTooManyKVs = errors.New("too many configuration values")
)

// Errors of reads.
var (
	// ErrNotFound: no record starts at that address, or no such entry.
	ErrNotFound = errors.New("not found")
)

// CorruptionError is damage with its place.
type CorruptionError struct {
	// File is the damaged file's path, Offset the place in it.
	File   string
	Offset int64
	// Reason says what was expected: "bad magic", "bad checksum", …
	Reason string
	Err    error
}

// Error implements error.
func (e *CorruptionError) Error() string {
	s := fmt.Sprintf("%s at %d: %s", e.File, e.Offset, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause, if any.
func (e *CorruptionError) Unwrap() error { return e.Err }
