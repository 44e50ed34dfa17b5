// Package message holds what store, broker and client share about a message:
// RocketMQ's stored layout and its batch layout, properties, tags codes,
// message ids, topic and group names, and the bits of the system flag. It
// makes no decisions and does no I/O.
//
// The types to know are [Message], a decoded record; [View], the same record
// read in place; and [BatchMessage], one message of a batch send.
//
// Bytes that come from outside are decoded by [DecodeRecord], [View.Valid] and
// [DecodeBatch]. They answer every input with a result or an error wrapping
// [ErrMalformed], never with a panic, and take no memory for a length before
// they have seen that the bytes are there.
package message
