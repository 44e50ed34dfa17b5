package client

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/tidemq/tidemq/internal/message"
)

// Compression names how bodies are compressed on the wire and in the log.
// Consumers of either kind decompress by the record's system flag.
type Compression int

// The kinds RocketMQ's clients know. Clients before 5.0 read only zlib.
const (
	Zlib Compression = iota // the default
	LZ4                     // LZ4 frame format
	Zstd
	NoCompression
)

// String implements fmt.Stringer.
func (c Compression) String() string {
	switch c {
	case Zlib:
		return "zlib"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	case NoCompression:
		return "none"
	}
	return fmt.Sprintf("Compression(%d)", int(c))
}

// maxInflated bounds what a compressed body may grow to. Brokers take at most
// 4 MiB by default, compressed; a few bytes must not cost gigabytes.
const maxInflated = 64 << 20

// The zstd coders are costly to make and safe for concurrent use of EncodeAll
// and DecodeAll; concurrency 1 keeps them free of goroutines.
var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)) // fails for bad options only
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxInflated))
		return d
	})
)

// compress returns body compressed and sysFlag saying how. A body that would
// not shrink comes back as it is, and so does sysFlag.
func compress(kind Compression, body []byte, sysFlag int32) ([]byte, int32, error) {
	var (
		b   bytes.Buffer
		out []byte
		how message.Compression
	)
	switch kind {
	case Zlib:
		how = message.CompressionZlib
		w, err := zlib.NewWriterLevel(&b, 5) // the level of RocketMQ's producers
		if err != nil {
			return nil, 0, err
		}
		if err := writeClose(w, body); err != nil {
			return nil, 0, err
		}
		out = b.Bytes()
	case LZ4:
		how = message.CompressionLZ4
		if err := writeClose(lz4.NewWriter(&b), body); err != nil {
			return nil, 0, err
		}
		out = b.Bytes()
	case Zstd:
		how = message.CompressionZstd
		out = zstdEncoder().EncodeAll(body, nil)
	default:
		return body, sysFlag, nil
	}
	if len(out) >= len(body) {
		return body, sysFlag, nil
	}
	return out, message.WithCompression(sysFlag, how), nil
}

func writeClose(w io.WriteCloser, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return err
	}
	return w.Close()
}

// decompress returns what body held. Errors wrap ErrBadBody.
func decompress(kind message.Compression, body []byte) ([]byte, error) {
	var r io.Reader
	switch kind {
	case message.CompressionZlib:
		zr, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadBody, err)
		}
		defer zr.Close()
		r = zr
	case message.CompressionLZ4:
		r = lz4.NewReader(bytes.NewReader(body))
	case message.CompressionZstd:
		out, err := zstdDecoder().DecodeAll(body, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadBody, err)
		}
		return out, nil
	default:
		return nil, fmt.Errorf("%w: compression kind %d is not known", ErrBadBody, kind)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBadBody, kind, err)
	}
	if len(out) > maxInflated {
		return nil, fmt.Errorf("%w: more than %d bytes when decompressed", ErrBadBody, maxInflated)
	}
	return out, nil
}
