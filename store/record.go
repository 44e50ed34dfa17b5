package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A record is one entry of the WAL: a header of one fixed size for every kind,
// then the payload. Integers are big-endian, as in RocketMQ's layouts.
//
//	 0  magic     u32  "TMQR"
//	 4  length    u32  header + payload, in bytes
//	 8  epoch     u32  raised at each open and reopen; never falls along the log
//	12  kind      u8   see Kind
//	13  version   u8   1
//	14  timeBase  u8   timer key: 0 none, 1 relative delay, 2 absolute time
//	15  flags     u8   0
//	16  index     u64  WAL index of this entry
//	24  address   i64  log address of this entry
//	32  identity  i64  address of the pending message's first copy (origin)
//	40  delay     i64  level: its length in ms, the key of its queue; 0: none
//	48  entry     i64  level: the entry taken up (message) or left (step, take, …)
//	56  head      i64  step: the head of the level it starts from
//	64  due       i64  due time in µs since the epoch; 0: at once
//	72  timerAddr i64  timer key: address of the send or move that made it pending
//	80  tagsCode  i64  tags code of the entry in the real consume queue
//	88  extra     u32  0; kept for later kinds
//	92  crc       u32  crc32c over all other bytes, payload included
//	96  payload
//
// The payload of message, step, take, park, carry, move, half and end is a message in
// RocketMQ's stored layout (MessageDecoder), or a reason in UTF-8 where
// nothing is delivered (flagNoMessage).
const (
	recordMagic   = 0x544d5152 // "TMQR"
	recordVersion = 1
	headerSize    = 96
	crcOffset     = 92
	// maxRecord bounds a record: RocketMQ's largest frame and room to spare.
	maxRecord = 32 << 20
)

// identityOf is the address of the first copy of the message that a record
// holds: what names a pending message, wherever it is carried.
func (h *header) identityOf() int64 {
	if h.kind == kindCarry {
		return h.identity
	}
	return h.address
}

// flagNoMessage marks a step, take or end whose payload is a reason, not a message.
const flagNoMessage = 1

// Kind says what a record is. Numbers are final.
type Kind uint8

// Kinds. Park, carry, move and state part belong to features that this version
// does not write yet; it refuses to open a log that holds them rather than to
// misread it.
const (
	kindMessage   Kind = 1  // a message, plain or pending
	kindStep      Kind = 2  // a delivery from the head of a level, in order
	kindTake      Kind = 3  // one pending entry taken out of order: cancel, fire
	kindPark      Kind = 4  // an unreadable pending entry set aside
	kindCarry     Kind = 5  // a pending message copied forward before its segment goes
	kindMove      Kind = 6  // a pending message given another due time
	kindOffsets   Kind = 7  // consumer offsets that changed
	kindStatePart Kind = 8  // a part of the state, so that the front may go
	kindHole      Kind = 9  // names a range of the log that is damaged
	kindTable     Kind = 10 // a topic, group or configuration value set or deleted
	kindHalf      Kind = 11 // a prepared message, whose transaction has not ended
	kindEnd       Kind = 12 // a transaction ended: what its commit stores, or that it was rolled back
	kindPops      Kind = 13 // what groups have popped and acknowledged
)

// String returns the kind's name.
func (k Kind) String() string {
	names := [...]string{"", "message", "step", "take", "park", "carry", "move", "offsets", "state part", "hole", "table", "half", "end", "pops"}
	if k > 0 && int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// holdsMessage reports whether records of the kind, without flagNoMessage, are
// messages that queue entries point at.
func (k Kind) holdsMessage() bool {
	switch k {
	case kindMessage, kindStep, kindCarry, kindHalf, kindEnd:
		return true
	}
	return false
}

// header is the decoded fixed part of a record.
type header struct {
	length    uint32
	epoch     uint32
	kind      Kind
	version   uint8
	timeBase  uint8
	flags     uint8
	index     uint64
	address   int64
	identity  int64
	delayMs   int64
	entry     int64
	head      int64
	dueUs     int64
	timerAddr int64
	tagsCode  int64
	crc       uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Reasons why bytes are not a record; three answers, as three things happened.
var (
	errBadMagic    = errors.New("bad magic")
	errBadVersion  = errors.New("unknown record version")
	errBadChecksum = errors.New("bad checksum")
	errBadLength   = errors.New("bad length")
)

// appendRecord appends h and payload to dst as a sealed record. h.length and
// h.crc are set here.
func appendRecord(dst []byte, h *header, payload []byte) []byte {
	at := len(dst)
	h.length = uint32(headerSize + len(payload))
	be := binary.BigEndian
	dst = be.AppendUint32(dst, recordMagic)
	dst = be.AppendUint32(dst, h.length)
	dst = be.AppendUint32(dst, h.epoch)
	dst = append(dst, byte(h.kind), recordVersion, h.timeBase, h.flags)
	dst = be.AppendUint64(dst, h.index)
	dst = be.AppendUint64(dst, uint64(h.address))
	dst = be.AppendUint64(dst, uint64(h.identity))
	dst = be.AppendUint64(dst, uint64(h.delayMs))
	dst = be.AppendUint64(dst, uint64(h.entry))
	dst = be.AppendUint64(dst, uint64(h.head))
	dst = be.AppendUint64(dst, uint64(h.dueUs))
	dst = be.AppendUint64(dst, uint64(h.timerAddr))
	dst = be.AppendUint64(dst, uint64(h.tagsCode))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, payload...)
	h.crc = recordCRC(dst[at:])
	be.PutUint32(dst[at+crcOffset:], h.crc)
	return dst
}

// recordCRC is the checksum of a whole record, its own field left out.
func recordCRC(rec []byte) uint32 {
	c := crc32.Update(0, castagnoli, rec[:crcOffset])
	return crc32.Update(c, castagnoli, rec[headerSize:])
}

// decodeHeader reads the fixed part of a record without checking its checksum.
func decodeHeader(b []byte) (h header, err error) {
	if len(b) < headerSize {
		return h, errBadLength
	}
	be := binary.BigEndian
	if be.Uint32(b) != recordMagic {
		return h, errBadMagic
	}
	h.length = be.Uint32(b[4:])
	if h.length < headerSize || h.length > maxRecord {
		return h, errBadLength
	}
	h.epoch = be.Uint32(b[8:])
	h.kind, h.version, h.timeBase, h.flags = Kind(b[12]), b[13], b[14], b[15]
	h.index = be.Uint64(b[16:])
	h.address = int64(be.Uint64(b[24:]))
	h.identity = int64(be.Uint64(b[32:]))
	h.delayMs = int64(be.Uint64(b[40:]))
	h.entry = int64(be.Uint64(b[48:]))
	h.head = int64(be.Uint64(b[56:]))
	h.dueUs = int64(be.Uint64(b[64:]))
	h.timerAddr = int64(be.Uint64(b[72:]))
	h.tagsCode = int64(be.Uint64(b[80:]))
	h.crc = be.Uint32(b[crcOffset:])
	return h, nil
}

// decodeRecord reads and verifies a whole record at the start of b. The
// payload borrows from b.
func decodeRecord(b []byte) (h header, payload []byte, err error) {
	h, err = decodeHeader(b)
	if err != nil {
		return h, nil, err
	}
	if int(h.length) > len(b) {
		return h, nil, errBadLength
	}
	b = b[:h.length]
	if recordCRC(b) != h.crc {
		return h, nil, errBadChecksum
	}
	// Only now: a version that a checksum vouches for is a newer program's,
	// not damage.
	if h.version != recordVersion {
		return h, nil, fmt.Errorf("%w %d", errBadVersion, h.version)
	}
	return h, b[headerSize:], nil
}

// uvarintLen is the length of n as an unsigned varint.
func uvarintLen(n uint64) int {
	l := 1
	for n >= 0x80 {
		n >>= 7
		l++
	}
	return l
}

// entryLen is the length in the log of a record of n bytes: the WAL's length
// prefix and the record.
func entryLen(n int) int { return uvarintLen(uint64(n)) + n }

// decodeEntry reads one WAL entry: its prefix and a verified record. n is what
// the entry takes up in the log.
func decodeEntry(b []byte) (h header, payload []byte, n int, err error) {
	size, p := binary.Uvarint(b)
	if p <= 0 || size > maxRecord || size < headerSize || uint64(len(b)-p) < size {
		return h, nil, 0, errBadLength
	}
	h, payload, err = decodeRecord(b[p:])
	if err == nil && uint64(h.length) != size {
		err = errBadLength
	}
	return h, payload, p + int(size), err
}
