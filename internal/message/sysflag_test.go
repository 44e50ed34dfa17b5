package message

import "testing"

func TestSysFlag(t *testing.T) {
	for _, tt := range []struct {
		flag int32
		want Compression
		name string
	}{
		{0, CompressionNone, "none"},
		{2 << 8, CompressionNone, "none"}, // a type without the bit
		{FlagCompressed, CompressionZlib, "zlib"},
		{FlagCompressed | 1<<8, CompressionLZ4, "lz4"},
		{FlagCompressed | 2<<8, CompressionZstd, "zstd"},
		{FlagCompressed | 3<<8, CompressionZlib, "zlib"},
		{FlagCompressed | 7<<8, Compression(7), "compression 7"},
	} {
		if got := CompressionOf(tt.flag); got != tt.want || got.String() != tt.name {
			t.Errorf("CompressionOf(%#x) = %v, want %s", tt.flag, got, tt.name)
		}
	}
	base := FlagMultiTags | TransactionCommit | FlagBornHostV6
	for _, c := range []Compression{CompressionLZ4, CompressionZstd, CompressionZlib, CompressionNone} {
		flag := WithCompression(base|FlagCompressed|7<<8, c)
		if CompressionOf(flag) != c || flag&base != base {
			t.Errorf("WithCompression(…, %v) = %#x", c, flag)
		}
	}
	for _, tr := range []int32{TransactionNone, TransactionPrepared, TransactionCommit, TransactionRollback} {
		flag := WithTransactionType(base, tr)
		if TransactionType(flag) != tr || flag&FlagMultiTags == 0 {
			t.Errorf("WithTransactionType(…, %#x) = %#x", tr, flag)
		}
	}
}
