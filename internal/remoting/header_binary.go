package remoting

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// The ROCKETMQ header, as RocketMQ `RocketMQSerializable`; big-endian:
//
//	 0  code      i16
//	 2  language  u8
//	 3  version   i16
//	 5  opaque    i32
//	 9  flag      i32
//	13  remark    length i32, bytes
//	 …  fields    length i32 of all, then each: key length i16, key, value length i32, value
const binaryFixed = 2 + 1 + 2 + 4 + 4 + 4 + 4

// appendBinary appends c's header. Code and version must fit 16 bits, a key
// 32 767 bytes.
func appendBinary(dst []byte, c *Command) ([]byte, error) {
	if !fitsInt16(c.Code) {
		return dst, fmt.Errorf("%w: code %d has no room in a ROCKETMQ header (16 bits)", ErrEncode, c.Code)
	}
	if !fitsInt16(c.Version) {
		return dst, fmt.Errorf("%w: version %d has no room in a ROCKETMQ header (16 bits)", ErrEncode, c.Version)
	}
	be := binary.BigEndian
	dst = be.AppendUint16(dst, uint16(c.Code))
	dst = append(dst, c.Language)
	dst = be.AppendUint16(dst, uint16(c.Version))
	dst = be.AppendUint32(dst, uint32(c.Opaque))
	dst = be.AppendUint32(dst, uint32(c.Flag))
	dst = be.AppendUint32(dst, uint32(len(c.Remark)))
	dst = append(dst, c.Remark...)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for i := range c.Fields {
		f := &c.Fields[i]
		if len(f.Key) > math.MaxInt16 {
			return dst, fmt.Errorf("%w: key %.20q… of %d bytes, at most %d", ErrEncode, f.Key, len(f.Key), math.MaxInt16)
		}
		dst = be.AppendUint16(dst, uint16(len(f.Key)))
		dst = append(dst, f.Key...)
		dst = be.AppendUint32(dst, uint32(len(f.Value)))
		dst = append(dst, f.Value...)
	}
	be.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, nil
}

// decodeBinary decodes a header; the command's strings borrow from b.
func decodeBinary(b []byte, c *Command) error {
	if len(b) < binaryFixed {
		return frameErrorf(ErrMalformedHeader, "%d bytes, a ROCKETMQ header has at least %d", len(b), binaryFixed)
	}
	be := binary.BigEndian
	c.Code = int(int16(be.Uint16(b)))
	c.Language = b[2]
	c.Version = int(int16(be.Uint16(b[3:])))
	c.Opaque = int32(be.Uint32(b[5:]))
	c.Flag = int(int32(be.Uint32(b[9:])))
	n := int32(be.Uint32(b[13:]))
	if n < 0 || int64(n) > int64(len(b)-binaryFixed) {
		return frameErrorf(ErrMalformedHeader, "remark length %d in a header of %d bytes", n, len(b))
	}
	c.Remark = borrow(b[17 : 17+n])
	total := len(b)
	b = b[17+n:]
	n = int32(be.Uint32(b))
	b = b[4:]
	if int64(n) != int64(len(b)) {
		return frameErrorf(ErrMalformedHeader, "fields length %d with %d bytes left of a header of %d", n, len(b), total)
	}
	for len(b) > 0 {
		if len(c.Fields) == MaxFields {
			return frameErrorf(ErrMalformedHeader, "more than %d fields", MaxFields)
		}
		var f Field
		if len(b) < 2 {
			return frameErrorf(ErrMalformedHeader, "%d bytes left for a key", len(b))
		}
		n := int(int16(be.Uint16(b)))
		if n < 0 || n+4 > len(b)-2 {
			return frameErrorf(ErrMalformedHeader, "key length %d with %d bytes left", n, len(b)-2)
		}
		f.Key = borrow(b[2 : 2+n])
		b = b[2+n:]
		v := int32(be.Uint32(b))
		if v < 0 || int64(v) > int64(len(b)-4) {
			return frameErrorf(ErrMalformedHeader, "value length %d of %.32q with %d bytes left", v, f.Key, len(b)-4)
		}
		f.Value = borrow(b[4 : 4+v])
		b = b[4+v:]
		c.Fields = append(c.Fields, f)
	}
	return nil
}

// borrow returns b as a string without copying it.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
