package message

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BatchMessage is one message in the body of a batch send (request code 320).
type BatchMessage struct {
	Flag       int32
	Body       []byte
	Properties string
}

// batchFixed is the length of an entry without body and properties.
const batchFixed = 4 + 4 + 4 + 4 + 4 + 2

// AppendBatch appends one message to the body of a batch send, as RocketMQ
// `MessageDecoder.encodeMessage`. Integers are big-endian.
//
//	 0  size        i32  of the whole entry
//	 4  magic       i32  0
//	 8  body crc    i32  0
//	12  flag        i32
//	16  body        length i32, bytes
//	 …  properties  length i16, bytes
//
// Errors wrap [ErrTooLong]; dst is then returned as it was.
func AppendBatch(dst []byte, m *BatchMessage) ([]byte, error) {
	if len(m.Properties) > MaxProperties {
		return dst, fmt.Errorf("properties of %d bytes, at most %d: %w", len(m.Properties), MaxProperties, ErrTooLong)
	}
	size := batchFixed + len(m.Body) + len(m.Properties)
	if size > math.MaxInt32 {
		return dst, fmt.Errorf("body of %d bytes: %w", len(m.Body), ErrTooLong)
	}
	be := binary.BigEndian
	dst = grow(dst, size)
	dst = be.AppendUint32(dst, uint32(size))
	dst = be.AppendUint64(dst, 0)
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	dst = be.AppendUint16(dst, uint16(len(m.Properties)))
	return append(dst, m.Properties...), nil
}

// DecodeBatch takes the body of a batch send apart. Bodies and properties
// borrow from b. An empty b is a batch of none. Errors wrap [ErrMalformed] and
// name the entry; nothing is returned with them.
func DecodeBatch(b []byte) ([]BatchMessage, error) {
	n := 0
	for rest := b; len(rest) > 0; n++ {
		size, err := batchEntry(rest, nil)
		if err != nil {
			return nil, fmt.Errorf("batch entry %d at byte %d: %w", n, len(b)-len(rest), err)
		}
		rest = rest[size:]
	}
	messages := make([]BatchMessage, n)
	for i := range messages {
		size, err := batchEntry(b, &messages[i])
		if err != nil {
			return nil, err
		}
		b = b[size:]
	}
	return messages, nil
}

// batchEntry checks the entry at the start of b, decodes it into m if that is
// not nil, and returns its length.
func batchEntry(b []byte, m *BatchMessage) (int, error) {
	if len(b) < batchFixed {
		return 0, fmt.Errorf("%w: %d bytes left, an entry has at least %d", ErrMalformed, len(b), batchFixed)
	}
	size := int32(be32(b, 0))
	if size < batchFixed || int64(size) > int64(len(b)) {
		return 0, fmt.Errorf("%w: size %d with %d bytes left", ErrMalformed, size, len(b))
	}
	bodyLen := int32(be32(b, 16))
	if bodyLen < 0 || bodyLen > size-batchFixed {
		return 0, fmt.Errorf("%w: body length %d in an entry of %d bytes", ErrMalformed, bodyLen, size)
	}
	props := 20 + int(bodyLen) + 2
	propsLen := int(int16(binary.BigEndian.Uint16(b[props-2:])))
	if propsLen < 0 || props+propsLen != int(size) {
		return 0, fmt.Errorf("%w: properties length %d in an entry of %d bytes with a body of %d", ErrMalformed, propsLen, size, bodyLen)
	}
	if m != nil {
		end := props - 2
		m.Flag = int32(be32(b, 12))
		m.Body = b[20:end:end]
		m.Properties = borrow(b[props : props+propsLen])
	}
	return int(size), nil
}
