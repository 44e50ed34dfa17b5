package message

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
)

// Magic numbers of the two record layouts, as RocketMQ `MessageVersion`.
const (
	MagicV1 uint32 = 0xdaa320a7 // topic length in 1 byte
	MagicV2 uint32 = 0xdaa320ab // topic length in 2 bytes; topics over 127 bytes
)

// Limits of the record layout, in bytes.
const (
	// MaxTopicV1 is the longest topic that the first layout has room for.
	MaxTopicV1 = math.MaxInt8
	// MaxProperties is the longest property string.
	MaxProperties = math.MaxInt16
)

// Offsets of the fields before the first host, whose length varies.
const (
	offSize           = 0
	offMagic          = 4
	offBodyCRC        = 8
	offQueueID        = 12
	offFlag           = 16
	offQueueOffset    = 20
	offPhysicalOffset = 28
	offSysFlag        = 36
	offBornTime       = 40
	offBornHost       = 48

	hostV4 = 4 + 4
	hostV6 = 16 + 4
	// fixedV4 is the length of everything up to and with the body's length,
	// both hosts being IPv4.
	fixedV4 = offBornHost + hostV4 + 8 + hostV4 + 4 + 8 + 4
	// minRecord is a record with one byte of topic and nothing else.
	minRecord = fixedV4 + 1 + 1 + 2
)

// AppendRecord appends m to dst in RocketMQ's stored layout (`MessageDecoder`,
// `MessageExtEncoder`). Integers are big-endian.
//
//	 0  size             i32  of the whole record
//	 4  magic            u32  MagicV1, or MagicV2 for a topic over 127 bytes
//	 8  body crc         u32  BodyCRC(body)
//	12  queue id         i32
//	16  flag             i32
//	20  queue offset     i64
//	28  physical offset  i64
//	36  sysflag          i32
//	40  born time        i64  ms
//	48  born host        4 or 16 bytes of address, port i32
//	 …  store time       i64  ms
//	 …  store host       4 or 16 bytes of address, port i32
//	 …  reconsume times  i32
//	 …  prepared offset  i64
//	 …  body             length i32, bytes
//	 …  topic            length u8 (V1) or i16 (V2), bytes
//	 …  properties       length i16, bytes
//
// The size, the checksum and the two bits of the system flag that tell the
// hosts' lengths follow from the other fields; an IPv4 address in IPv6 form is
// written as IPv4, the zero AddrPort as 0.0.0.0:0. Errors wrap [ErrTooLong],
// or [ErrMalformed] for an empty topic; dst is then returned as it was.
func AppendRecord(dst []byte, m *Message) ([]byte, error) {
	if m.Topic == "" {
		return dst, fmt.Errorf("%w: empty topic", ErrMalformed)
	}
	if len(m.Topic) > MaxRetryTopic {
		return dst, fmt.Errorf("topic of %d bytes, at most %d: %w", len(m.Topic), MaxRetryTopic, ErrTooLong)
	}
	if len(m.Properties) > MaxProperties {
		return dst, fmt.Errorf("properties of %d bytes, at most %d: %w", len(m.Properties), MaxProperties, ErrTooLong)
	}
	sysFlag := m.SysFlag &^ (FlagBornHostV6 | FlagStoreHostV6)
	size := fixedV4 + len(m.Body) + 1 + len(m.Topic) + 2 + len(m.Properties)
	born, store := m.BornHost.Addr().Unmap(), m.StoreHost.Addr().Unmap()
	if born.Is6() {
		sysFlag |= FlagBornHostV6
		size += hostV6 - hostV4
	}
	if store.Is6() {
		sysFlag |= FlagStoreHostV6
		size += hostV6 - hostV4
	}
	magic := MagicV1
	if len(m.Topic) > MaxTopicV1 {
		magic = MagicV2
		size++
	}
	if size > math.MaxInt32 {
		return dst, fmt.Errorf("body of %d bytes: %w", len(m.Body), ErrTooLong)
	}

	be := binary.BigEndian
	dst = grow(dst, size)
	dst = be.AppendUint32(dst, uint32(size))
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, BodyCRC(m.Body))
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint64(dst, uint64(m.QueueOffset))
	dst = be.AppendUint64(dst, uint64(m.PhysicalOffset))
	dst = be.AppendUint32(dst, uint32(sysFlag))
	dst = be.AppendUint64(dst, uint64(m.BornTime))
	dst = appendHost(dst, born, m.BornHost.Port())
	dst = be.AppendUint64(dst, uint64(m.StoreTime))
	dst = appendHost(dst, store, m.StoreHost.Port())
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedTransactionOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	if magic == MagicV2 {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	} else {
		dst = append(dst, byte(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	dst = be.AppendUint16(dst, uint16(len(m.Properties)))
	return append(dst, m.Properties...), nil
}

// grow makes room for n more bytes in one step.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	bigger := make([]byte, len(dst), len(dst)+n)
	copy(bigger, dst)
	return bigger
}

// appendHost appends an unmapped address and its port; the zero Addr counts as
// 0.0.0.0.
func appendHost(dst []byte, a netip.Addr, port uint16) []byte {
	switch {
	case a.Is6():
		b := a.As16()
		dst = append(dst, b[:]...)
	case a.Is4():
		b := a.As4()
		dst = append(dst, b[:]...)
	default:
		dst = append(dst, 0, 0, 0, 0)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(port))
}

// DecodeRecord decodes the record at the start of b and returns its length n.
// Body borrows from b; strings are copies. Every length is checked, and their
// sum against the record's size; the body's checksum is not reckoned
// ([Message.VerifyBody] does). Errors wrap [ErrMalformed] and n is 0.
func DecodeRecord(b []byte) (m Message, n int, err error) {
	l, err := layoutOf(b)
	if err != nil {
		return Message{}, 0, err
	}
	v := View(b[:l.size])
	if m.BornHost, err = hostAt(v, offBornHost, l.bornV6); err != nil {
		return Message{}, 0, fmt.Errorf("born host: %w", err)
	}
	if m.StoreHost, err = hostAt(v, l.storeHost, l.storeV6); err != nil {
		return Message{}, 0, fmt.Errorf("store host: %w", err)
	}
	m.Topic = string(v[l.topic : l.topic+l.topicLen])
	m.QueueID = v.QueueID()
	m.QueueOffset = v.QueueOffset()
	m.PhysicalOffset = v.PhysicalOffset()
	m.Flag = v.Flag()
	m.SysFlag = v.SysFlag()
	m.BornTime = v.BornTime()
	m.StoreTime = int64(be64(v, l.storeHost-8))
	m.ReconsumeTimes = int32(be32(v, l.body-16))
	m.PreparedTransactionOffset = int64(be64(v, l.body-12))
	m.BodyCRC = v.BodyCRC()
	m.Body = v[l.body : l.body+l.bodyLen : l.body+l.bodyLen]
	m.Properties = string(v[l.props : l.props+l.propsLen])
	m.Size = int32(l.size)
	return m, l.size, nil
}

func be32(b []byte, at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
func be64(b []byte, at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }

// hostAt reads an address and port. A port that no host can have is an error,
// as Java's InetSocketAddress refuses it.
func hostAt(b []byte, at int, v6 bool) (netip.AddrPort, error) {
	var a netip.Addr
	if v6 {
		a = netip.AddrFrom16([16]byte(b[at : at+16])).Unmap()
		at += 16
	} else {
		a = netip.AddrFrom4([4]byte(b[at : at+4]))
		at += 4
	}
	port := be32(b, at)
	if port > math.MaxUint16 {
		return netip.AddrPort{}, fmt.Errorf("%w: port %d, at most %d", ErrMalformed, int32(port), math.MaxUint16)
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}

// layout is where the parts of a record lie.
type layout struct {
	size            int
	bornV6, storeV6 bool
	storeHost       int
	body, bodyLen   int
	topic, topicLen int
	props, propsLen int
}

// layoutOf checks magic and lengths of the record at the start of b.
func layoutOf(b []byte) (l layout, err error) {
	if len(b) < minRecord {
		return l, fmt.Errorf("%w: %d bytes, a record has at least %d", ErrMalformed, len(b), minRecord)
	}
	magic := be32(b, offMagic)
	if magic != MagicV1 && magic != MagicV2 {
		return l, fmt.Errorf("%w: magic %#x", ErrMalformed, magic)
	}
	size := int32(be32(b, offSize))
	if size < minRecord || int64(size) > int64(len(b)) {
		return l, fmt.Errorf("%w: size %d of %d bytes", ErrMalformed, size, len(b))
	}
	l.size = int(size)
	b = b[:l.size]
	sysFlag := int32(be32(b, offSysFlag))
	l.storeHost = offBornHost + hostV4 + 8
	if sysFlag&FlagBornHostV6 != 0 {
		l.bornV6 = true
		l.storeHost += hostV6 - hostV4
	}
	l.body = l.storeHost + hostV4 + 4 + 8 + 4
	if sysFlag&FlagStoreHostV6 != 0 {
		l.storeV6 = true
		l.body += hostV6 - hostV4
	}
	// What is left behind each length must hold it and the lengths that follow.
	left := l.size - l.body
	topicSize := 1
	if magic == MagicV2 {
		topicSize = 2
	}
	if left < 0 {
		return l, fmt.Errorf("%w: size %d ends within the header", ErrMalformed, size)
	}
	n := int32(be32(b, l.body-4))
	if n < 0 || int64(n) > int64(left-topicSize-2) {
		return l, fmt.Errorf("%w: body length %d in a record of %d bytes", ErrMalformed, n, size)
	}
	l.bodyLen = int(n)
	left -= l.bodyLen
	l.topic = l.body + l.bodyLen + topicSize
	if magic == MagicV2 {
		l.topicLen = int(int16(binary.BigEndian.Uint16(b[l.topic-2:])))
	} else {
		l.topicLen = int(int8(b[l.topic-1]))
	}
	if l.topicLen <= 0 || l.topicLen > MaxRetryTopic || l.topicLen > left-topicSize-2 {
		return l, fmt.Errorf("%w: topic length %d in a record of %d bytes", ErrMalformed, l.topicLen, size)
	}
	l.props = l.topic + l.topicLen + 2
	l.propsLen = int(int16(binary.BigEndian.Uint16(b[l.props-2:])))
	if l.propsLen < 0 || l.props+l.propsLen != l.size {
		return l, fmt.Errorf("%w: properties length %d leaves %d bytes of %d", ErrMalformed, l.propsLen, l.size-l.props-l.propsLen, size)
	}
	return l, nil
}
