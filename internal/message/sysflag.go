package message

import "strconv"

// Bits of a message's system flag, as RocketMQ `MessageSysFlag`.
const (
	FlagCompressed  int32 = 1 << 0 // the body is compressed; see [CompressionOf]
	FlagMultiTags   int32 = 1 << 1
	FlagBornHostV6  int32 = 1 << 4 // the born host takes 16 + 4 bytes
	FlagStoreHostV6 int32 = 1 << 5 // the store host takes 16 + 4 bytes
	FlagNeedUnwrap  int32 = 1 << 6 // the body is a batch the client takes apart
	FlagInnerBatch  int32 = 1 << 7
)

// Transaction types: two bits of the system flag.
const (
	TransactionNone     int32 = 0
	TransactionPrepared int32 = 1 << 2
	TransactionCommit   int32 = 2 << 2
	TransactionRollback int32 = 3 << 2
	transactionMask     int32 = 3 << 2
)

// TransactionType returns the transaction bits of a system flag, one of the
// Transaction constants.
func TransactionType(sysFlag int32) int32 { return sysFlag & transactionMask }

// WithTransactionType returns sysFlag with its transaction bits replaced.
func WithTransactionType(sysFlag, transaction int32) int32 {
	return sysFlag&^transactionMask | transaction&transactionMask
}

// Compression is how a body is compressed: bits 8 to 10 of the system flag, as
// RocketMQ `CompressionType`.
type Compression uint8

// Compression types. Zero means zlib too: clients before 5.0 set only
// [FlagCompressed].
const (
	CompressionNone Compression = 0
	CompressionLZ4  Compression = 1
	CompressionZstd Compression = 2
	CompressionZlib Compression = 3

	compressionShift       = 8
	compressionMask  int32 = 7 << compressionShift
)

// String returns the type's name in lower case.
func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionLZ4:
		return "lz4"
	case CompressionZstd:
		return "zstd"
	case CompressionZlib:
		return "zlib"
	}
	return "compression " + strconv.Itoa(int(c))
}

// CompressionOf returns how the body of a message with this system flag is
// compressed: CompressionNone when [FlagCompressed] is not set, and zlib for
// the types 0 and 3.
func CompressionOf(sysFlag int32) Compression {
	if sysFlag&FlagCompressed == 0 {
		return CompressionNone
	}
	if c := Compression(sysFlag & compressionMask >> compressionShift); c != 0 {
		return c
	}
	return CompressionZlib
}

// WithCompression returns sysFlag saying that the body is compressed by c;
// CompressionNone clears the bits.
func WithCompression(sysFlag int32, c Compression) int32 {
	sysFlag &^= FlagCompressed | compressionMask
	if c == CompressionNone {
		return sysFlag
	}
	return sysFlag | FlagCompressed | int32(c)<<compressionShift
}
