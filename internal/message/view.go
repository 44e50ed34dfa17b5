package message

import (
	"encoding/binary"
	"net/netip"
	"unsafe"
)

// View reads an encoded record in place, without decoding the rest of it. The
// slice starts with the record and may be longer. Its methods except Valid may
// panic on bytes that are no record, so call Valid on what comes from outside;
// strings and slices they return borrow from the record, and must be cloned to
// outlive it.
type View []byte

// Valid reports whether the view starts with a record whose lengths agree, as
// [DecodeRecord] would; nil or an error wrapping [ErrMalformed].
func (v View) Valid() error {
	l, err := layoutOf(v)
	if err != nil {
		return err
	}
	if _, err = hostAt(v, offBornHost, l.bornV6); err != nil {
		return err
	}
	_, err = hostAt(v, l.storeHost, l.storeV6)
	return err
}

// Size is the record's length in bytes, as its header says.
func (v View) Size() int { return int(int32(be32(v, offSize))) }

// BodyCRC is the body's checksum as stored.
func (v View) BodyCRC() uint32 { return be32(v, offBodyCRC) }

// QueueID returns the number of the record's queue.
func (v View) QueueID() int32 { return int32(be32(v, offQueueID)) }

// Flag returns the sender's flag.
func (v View) Flag() int32 { return int32(be32(v, offFlag)) }

// QueueOffset returns the number of the record's consume queue entry.
func (v View) QueueOffset() int64 { return int64(be64(v, offQueueOffset)) }

// PhysicalOffset returns the record's log address.
func (v View) PhysicalOffset() int64 { return int64(be64(v, offPhysicalOffset)) }

// SysFlag returns the system flag.
func (v View) SysFlag() int32 { return int32(be32(v, offSysFlag)) }

// BornTime returns the sender's time in ms since the epoch.
func (v View) BornTime() int64 { return int64(be64(v, offBornTime)) }

// BornHost returns the sender's address; the zero AddrPort if its port is none.
func (v View) BornHost() netip.AddrPort {
	host, _ := hostAt(v, offBornHost, v.SysFlag()&FlagBornHostV6 != 0)
	return host
}

// StoreHost returns the broker's address; the zero AddrPort if its port is none.
func (v View) StoreHost() netip.AddrPort {
	host, _ := hostAt(v, storeTimeAt(v)+8, v.SysFlag()&FlagStoreHostV6 != 0)
	return host
}

// StoreTime returns the broker's time in ms since the epoch.
func (v View) StoreTime() int64 { return int64(be64(v, storeTimeAt(v))) }

// ReconsumeTimes returns how often the message was sent back.
func (v View) ReconsumeTimes() int32 { return int32(be32(v, v.bodyAt()-16)) }

// Body returns the body; it borrows from the record.
func (v View) Body() []byte {
	at := v.bodyAt()
	end := at + int(be32(v, at-4))
	return v[at:end:end]
}

// Topic returns the topic; it borrows from the record.
func (v View) Topic() string {
	s, _ := v.topicAt()
	return borrow(s)
}

// Properties returns the property string; it borrows from the record.
func (v View) Properties() string {
	_, at := v.topicAt()
	return borrow(v[at+2 : at+2+int(binary.BigEndian.Uint16(v[at:]))])
}

// Property returns a property's value, see the function [Property]; it borrows
// from the record.
func (v View) Property(key string) (string, bool) { return Property(v.Properties(), key) }

// bodyAt is the offset of the body's first byte.
func (v View) bodyAt() int {
	at := fixedV4
	sysFlag := v.SysFlag()
	if sysFlag&FlagBornHostV6 != 0 {
		at += hostV6 - hostV4
	}
	if sysFlag&FlagStoreHostV6 != 0 {
		at += hostV6 - hostV4
	}
	return at
}

// topicAt returns the topic and the offset behind it.
func (v View) topicAt() (topic []byte, end int) {
	at := v.bodyAt()
	at += int(be32(v, at-4))
	var n int
	if be32(v, offMagic) == MagicV2 {
		n = int(binary.BigEndian.Uint16(v[at:]))
		at += 2
	} else {
		n = int(v[at])
		at++
	}
	return v[at : at+n], at + n
}

func storeTimeAt(b []byte) int {
	if int32(be32(b, offSysFlag))&FlagBornHostV6 != 0 {
		return offBornHost + hostV6
	}
	return offBornHost + hostV4
}

// SetQueueID writes the queue id into an encoded record.
func SetQueueID(rec []byte, v int32) { binary.BigEndian.PutUint32(rec[offQueueID:], uint32(v)) }

// SetQueueOffset writes the queue offset into an encoded record.
func SetQueueOffset(rec []byte, v int64) { binary.BigEndian.PutUint64(rec[offQueueOffset:], uint64(v)) }

// SetPhysicalOffset writes the physical offset into an encoded record.
func SetPhysicalOffset(rec []byte, v int64) {
	binary.BigEndian.PutUint64(rec[offPhysicalOffset:], uint64(v))
}

// SetStoreTime writes the store time, in ms since the epoch, into an encoded
// record.
func SetStoreTime(rec []byte, v int64) { binary.BigEndian.PutUint64(rec[storeTimeAt(rec):], uint64(v)) }

// SetReconsumeTimes writes the number of times that a message was sent back
// into an encoded record.
func SetReconsumeTimes(rec []byte, v int32) {
	binary.BigEndian.PutUint32(rec[View(rec).bodyAt()-16:], uint32(v))
}

// borrow returns b as a string without copying it.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
