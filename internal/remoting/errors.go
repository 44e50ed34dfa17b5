package remoting

import (
	"errors"
	"fmt"
)

// Reasons of a [*FrameError]. After each the connection must be closed.
var (
	// ErrFrameTooLarge: the frame's length is over the limit.
	ErrFrameTooLarge = errors.New("frame too large")
	// ErrFrameTooShort: the frame's length leaves no room for a header length.
	ErrFrameTooShort = errors.New("frame too short")
	// ErrTruncated: the bytes end within a frame.
	ErrTruncated = errors.New("frame truncated")
	// ErrHeaderLength: the header is longer than its frame.
	ErrHeaderLength = errors.New("header longer than its frame")
	// ErrHeaderType: neither JSON (0) nor ROCKETMQ (1).
	ErrHeaderType = errors.New("unknown header type")
	// ErrMalformedHeader: the header's bytes do not follow its encoding.
	ErrMalformedHeader = errors.New("malformed header")
	// ErrNotRemoting: the peer speaks another protocol, such as HTTP or TLS.
	ErrNotRemoting = errors.New("not the remoting protocol")
)

// FrameError says why bytes are no frame. errors.Is finds the reason.
type FrameError struct {
	Reason error  // one of the sentinels above
	Detail string // the value and the limit
}

// Error returns the reason and the detail.
func (e *FrameError) Error() string {
	if e.Detail == "" {
		return e.Reason.Error()
	}
	return e.Reason.Error() + ": " + e.Detail
}

// Unwrap returns the reason.
func (e *FrameError) Unwrap() error { return e.Reason }

func frameErrorf(reason error, format string, args ...any) error {
	return &FrameError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Errors of encoding. The command is not sent; the connection goes on.
var (
	// ErrEncode: a command that its header type or a frame has no room for.
	ErrEncode = errors.New("command cannot be encoded")
)

// Errors of a [Writer].
var (
	// ErrWriterClosed: Write after Close.
	ErrWriterClosed = errors.New("connection writer closed")
	// ErrSlowPeer: the peer takes its bytes too slowly; the connection was
	// closed.
	ErrSlowPeer = errors.New("peer reads too slowly")
)

// Errors of a field. The command is well-formed; its sender gets an answer.
var (
	// ErrFieldMissing: a field that the command must have.
	ErrFieldMissing = errors.New("missing")
	// ErrFieldInvalid: a field's value that does not parse.
	ErrFieldInvalid = errors.New("invalid")
)

// FieldError names a field that is missing or does not parse. errors.Is finds
// [ErrFieldMissing] or [ErrFieldInvalid].
type FieldError struct {
	Key    string
	Value  string
	Want   string // what is allowed, such as "a 32-bit integer"
	Reason error
}

// Error names key, value and what is allowed.
func (e *FieldError) Error() string {
	if e.Reason == ErrFieldMissing {
		return fmt.Sprintf("field %s is missing, want %s", e.Key, e.Want)
	}
	return fmt.Sprintf("field %s is %.64q, want %s", e.Key, e.Value, e.Want)
}

// Unwrap returns the reason.
func (e *FieldError) Unwrap() error { return e.Reason }
