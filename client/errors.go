package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/tidemq/tidemq/internal/remoting"
)

// Errors found before anything is sent.
var (
	// ErrClosed: the client, producer or consumer is closed or closing.
	ErrClosed = errors.New("client is closed")
	// ErrInvalidOption: an option's value is out of its range.
	ErrInvalidOption = errors.New("invalid option")
	// ErrInvalidMessage: a message that no broker would take.
	ErrInvalidMessage = errors.New("invalid message")
	// ErrMessageTooLarge: the body is over WithMaxMessageSize, or the properties
	// over 32 767 bytes.
	ErrMessageTooLarge = errors.New("message too large")
	// ErrGroupInUse: the client has a producer or a consumer of that group
	// already.
	ErrGroupInUse = errors.New("group is in use by this client")
	// ErrNoQueue: the topic has no queue that may be written, or read.
	ErrNoQueue = errors.New("no usable queue")
)

// Errors of the way to the broker.
var (
	// ErrConnection: the connection could not be made, or broke before the
	// answer. Whether the request was carried out is not known.
	ErrConnection = errors.New("connection failed")
	// ErrTimeout: no answer in time. Whether the request was carried out is not
	// known. It wraps context.DeadlineExceeded as well.
	ErrTimeout = errors.New("no answer in time")
	// ErrBadAnswer: the answer lacks a field, or its body does not parse.
	ErrBadAnswer = errors.New("malformed answer")
	// ErrBadBody: a received body that does not decompress (Message.BodyErr).
	ErrBadBody = errors.New("body cannot be decompressed")
)

// What brokers answer, for errors.Is with a *BrokerError.
var (
	// ErrTopicNotFound: there is no such topic, and none was created for it.
	ErrTopicNotFound = errors.New("topic not found")
	// ErrGroupNotFound: there is no such consumer group.
	ErrGroupNotFound = errors.New("consumer group not found")
	// ErrNoMembers: no member of the consumer group is on-line.
	ErrNoMembers = errors.New("no member on-line")
	// ErrOffsetNotFound: the group has no committed offset in that queue.
	ErrOffsetNotFound = errors.New("no committed offset")
	// ErrNoPermission: the topic or group may not be read or written.
	ErrNoPermission = errors.New("no permission")
	// ErrRefused: the broker found the message or a parameter unfit.
	ErrRefused = errors.New("refused")
	// ErrBusy: the broker cannot do it now: full disk, flow control, starting.
	ErrBusy = errors.New("broker is busy")
	// ErrNotSupported: the broker does not know the request.
	ErrNotSupported = errors.New("not supported by the broker")
)

// BrokerError is an answer other than success.
type BrokerError struct {
	// Request is the request code, Code the answer's, both RocketMQ's numbers.
	Request, Code int
	// Name is RocketMQ's name for Code, such as "TOPIC_NOT_EXIST".
	Name string
	// Remark is what the broker says about it.
	Remark string
	// Addr is the peer that answered.
	Addr string
}

// Error implements error.
func (e *BrokerError) Error() string {
	s := fmt.Sprintf("%s answered %d (%s) to %s", e.Addr, e.Code, e.Name, remoting.RequestName(e.Request))
	if e.Remark != "" {
		s += ": " + e.Remark
	}
	return s
}

// Is reports whether target is the sentinel that Code belongs to.
func (e *BrokerError) Is(target error) bool {
	switch e.Code {
	case remoting.TopicNotExist:
		return target == ErrTopicNotFound
	case remoting.SubscriptionGroupNotExist:
		return target == ErrGroupNotFound
	case remoting.ConsumerNotOnline:
		return target == ErrNoMembers
	case remoting.QueryNotFound:
		return target == ErrOffsetNotFound
	case remoting.NoPermission:
		return target == ErrNoPermission
	case remoting.MessageIllegal, remoting.InvalidParameter:
		return target == ErrRefused
	case remoting.SystemBusy, remoting.ServiceNotAvailable, remoting.FlowControl:
		return target == ErrBusy
	case remoting.RequestCodeNotSupported:
		return target == ErrNotSupported
	}
	return false
}

// verdict says what to do about a failed request.
type verdict int

const (
	// final: another attempt would end the same way.
	final verdict = iota
	// retryElsewhere: only another broker may do it.
	retryElsewhere
	// retryAny: the same broker may do it at another attempt.
	retryAny
)

// judge decides, for every kind of request, whether a failed attempt is worth
// repeating, and whether the topic's route should be asked for again first.
//
// As with RocketMQ's producers, a send whose answer was lost is repeated
// although the first may be stored: at least once is the promise. Refusals of
// the message itself are final; which answers are not is data of package
// remoting, and flow control (215) passes too.
func judge(err error) (v verdict, reroute bool) {
	var be *BrokerError
	switch {
	case err == nil, errors.Is(err, ErrClosed):
		return final, false
	case errors.As(err, &be):
		switch {
		case be.Code == remoting.NoPermission:
			return retryElsewhere, true
		case be.Code == remoting.TopicNotExist:
			return retryAny, true
		case be.Code == remoting.FlowControl, remoting.Retriable(be.Code):
			return retryAny, false
		}
		return final, false
	case errors.Is(err, ErrConnection), errors.Is(err, ErrTimeout):
		return retryAny, true
	case errors.Is(err, ErrBadAnswer):
		return retryAny, false
	}
	return final, false
}

// brokerError returns nil for a successful answer.
func brokerError(addr string, request int, answer *remoting.Command) error {
	if answer.Code == remoting.Success {
		return nil
	}
	return &BrokerError{
		Request: request,
		Code:    answer.Code,
		Name:    remoting.ResponseName(answer.Code),
		Remark:  strings.Clone(answer.Remark),
		Addr:    addr,
	}
}

// connectionError marks err as a failure of the connection to addr.
func connectionError(addr string, err error) error {
	if errors.Is(err, ErrConnection) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrConnection, addr, err)
}

// contextError tells a deadline from the caller's giving up. what says what was
// waited for.
func contextError(ctx context.Context, what string) error {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s: %w", ErrTimeout, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// optionError names an option's value and its range.
func optionError(option string, value any, want string) error {
	return fmt.Errorf("%w: %s(%v): want %s", ErrInvalidOption, option, value, want)
}

// validateAddr checks a "host:port" that will be dialled.
func validateAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return optionError("New", fmt.Sprintf("%q", addr), "host:port")
	}
	return nil
}
