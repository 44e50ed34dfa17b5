package message

import (
	"fmt"
	"hash/crc32"
	"net/netip"
)

// Message is one stored message. Its layout in the log and on the wire is
// drawn at [AppendRecord].
type Message struct {
	Topic          string
	QueueID        int32
	QueueOffset    int64 // number of its entry in the consume queue
	PhysicalOffset int64 // log address in bytes
	Flag           int32 // the sender's own; TideMQ attaches no meaning to it
	SysFlag        int32 // see the Flag constants
	BornTime       int64 // ms since the epoch, by the sender's clock
	BornHost       netip.AddrPort
	StoreTime      int64 // ms since the epoch, by the broker's clock
	StoreHost      netip.AddrPort
	// ReconsumeTimes counts how often a consumer group sent the message back.
	ReconsumeTimes int32
	// PreparedTransactionOffset is the physical offset of the prepared message
	// that a commit or roll-back belongs to; 0 otherwise.
	PreparedTransactionOffset int64
	// BodyCRC is set by DecodeRecord and written by AppendRecord's own
	// reckoning, never from here; see BodyCRC.
	BodyCRC    uint32
	Body       []byte
	Properties string // "k\x01v\x02…"; see ParseProperties
	// Size is the length of the record in bytes, set by DecodeRecord.
	Size int32
}

// Property returns a property's value; see the function [Property].
func (m *Message) Property(key string) (string, bool) { return Property(m.Properties, key) }

// VerifyBody checks the body against BodyCRC. The error wraps [ErrBodyCRC].
func (m *Message) VerifyBody() error {
	if got := BodyCRC(m.Body); got != m.BodyCRC {
		return fmt.Errorf("%w: body of %d bytes has %#x, the record says %#x", ErrBodyCRC, len(m.Body), got, m.BodyCRC)
	}
	return nil
}

// BodyCRC is a body's checksum as RocketMQ `UtilAll.crc32`: CRC-32 (IEEE)
// without its highest bit.
func BodyCRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & 0x7fffffff }
