package message

import "errors"

// Errors of the codecs. They come wrapped with the value and the limit or
// place; test with errors.Is.
var (
	// ErrMalformed: bytes that are no record or batch entry.
	ErrMalformed = errors.New("malformed message")
	// ErrTooLong: a topic, property string or body that its layout has no room for.
	ErrTooLong = errors.New("too long")
	// ErrBodyCRC: the body does not match the record's checksum.
	ErrBodyCRC = errors.New("body checksum mismatch")
)

// Errors of names and properties.
var (
	// ErrInvalidTopic: the topic's name is empty, too long or has a character
	// that is not allowed.
	ErrInvalidTopic = errors.New("invalid topic")
	// ErrInvalidGroup: the same of a consumer or producer group.
	ErrInvalidGroup = errors.New("invalid group")
	// ErrInvalidProperty: a property that cannot be stored and read back.
	ErrInvalidProperty = errors.New("invalid property")
	// ErrInvalidID: a string that is no message id of the kind asked for.
	ErrInvalidID = errors.New("invalid message id")
)
