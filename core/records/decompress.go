package records

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"millrace/core"
)

// Compression codecs as a batch's attributes number them.
const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// xerialMagic starts snappy data in the framing of the Java client; raw snappy
// blocks are used by others.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderBytes = 16

// decompress returns at most limitBytes of p; more than that, or data that the
// codec does not accept, is ErrCorruptBatch.
func decompress(codec int, p []byte, limitBytes int) ([]byte, error) {
	var r io.Reader
	switch codec {
	case codecNone:
		return p, nil
	case codecGzip:
		z, err := gzip.NewReader(bytes.NewReader(p))
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %v", core.ErrCorruptBatch, err)
		}
		r = z
	case codecSnappy:
		return unsnappy(p, limitBytes)
	case codecLZ4:
		r = lz4.NewReader(bytes.NewReader(p))
	case codecZstd:
		z, err := zstd.NewReader(bytes.NewReader(p), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(max(limitBytes, 1<<20))))
		if err != nil {
			return nil, fmt.Errorf("%w: zstd: %v", core.ErrCorruptBatch, err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("%w: compression codec %d", core.ErrCorruptBatch, codec)
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limitBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: decompressing: %v", core.ErrCorruptBatch, err)
	}
	if len(out) > limitBytes {
		return nil, tooLarge(limitBytes)
	}
	return out, nil
}

func tooLarge(limitBytes int) error {
	return fmt.Errorf("%w: more than %d bytes when decompressed", core.ErrCorruptBatch, limitBytes)
}

func unsnappy(p []byte, limitBytes int) ([]byte, error) {
	if !bytes.HasPrefix(p, xerialMagic) {
		return unsnappyBlock(nil, p, limitBytes)
	}
	if len(p) < xerialHeaderBytes {
		return nil, fmt.Errorf("%w: snappy framing is cut off", core.ErrCorruptBatch)
	}
	var out []byte
	for p = p[xerialHeaderBytes:]; len(p) > 0; {
		if len(p) < 4 {
			return nil, fmt.Errorf("%w: snappy framing is cut off", core.ErrCorruptBatch)
		}
		n := int64(binary.BigEndian.Uint32(p))
		if p = p[4:]; n > int64(len(p)) {
			return nil, fmt.Errorf("%w: snappy block of %d bytes where %d are left", core.ErrCorruptBatch, n, len(p))
		}
		var err error
		if out, err = unsnappyBlock(out, p[:n], limitBytes); err != nil {
			return nil, err
		}
		p = p[n:]
	}
	return out, nil
}

func unsnappyBlock(dst, p []byte, limitBytes int) ([]byte, error) {
	n, err := snappy.DecodedLen(p)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %v", core.ErrCorruptBatch, err)
	}
	if n > limitBytes-len(dst) {
		return nil, tooLarge(limitBytes)
	}
	block, err := snappy.Decode(nil, p)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %v", core.ErrCorruptBatch, err)
	}
	return append(dst, block...), nil
}
