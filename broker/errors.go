package broker

import (
	"errors"
	"fmt"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/schedule"
	"github.com/tidemq/tidemq/store"
)

// Errors of Start.
var (
	// ErrStarted: Start was called before.
	ErrStarted = errors.New("broker: started already")
	// ErrClosed: the broker was closed.
	ErrClosed = errors.New("broker: closed")
	// ErrDirInUse: another process holds the data directory.
	ErrDirInUse = store.ErrLocked
)

// errApart tells the dispatcher that a request has to wait for the disk, and
// is to be served again on a goroutine of its own. It is never answered.
var errApart = errors.New("request has to wait")

// refusal is an answer other than success that was decided here.
type refusal struct {
	code   int
	remark string
	// fields go into the answer's header.
	fields remoting.Fields
}

// Error implements error.
func (r *refusal) Error() string {
	return fmt.Sprintf("%s (%d): %s", remoting.ResponseName(r.code), r.code, r.remark)
}

// refuse returns an error that is answered with code and remark.
func refuse(code int, format string, args ...any) error {
	return &refusal{code: code, remark: fmt.Sprintf(format, args...)}
}

// answerTo is the one place where an error becomes a response code and a
// remark.
func answerTo(err error) (code int, remark string) {
	var r *refusal
	var field *remoting.FieldError
	switch {
	case errors.As(err, &r):
		return r.code, r.remark
	case errors.As(err, &field):
		return remoting.InvalidParameter, err.Error()
	case errors.Is(err, store.ErrDiskFull), errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return remoting.ServiceNotAvailable, "service not available now: " + err.Error()
	case errors.Is(err, store.ErrBusy):
		return remoting.SystemBusy, "broker busy: " + err.Error()
	case errors.Is(err, store.ErrTransactionEnded):
		return remoting.SystemError, "Find prepared transaction message failed: " + err.Error()
	case errors.Is(err, store.ErrTopicNotFound):
		return remoting.TopicNotExist, err.Error()
	case errors.Is(err, schedule.ErrBadDelay), errors.Is(err, schedule.ErrPropertiesTooLong),
		errors.Is(err, store.ErrTooLarge), errors.Is(err, message.ErrTooLong), errors.Is(err, message.ErrMalformed), errors.Is(err, message.ErrInvalidProperty):
		return remoting.MessageIllegal, err.Error()
	case errors.Is(err, message.ErrInvalidTopic), errors.Is(err, message.ErrInvalidGroup):
		return remoting.InvalidParameter, err.Error()
	}
	return remoting.SystemError, err.Error()
}
