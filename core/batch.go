package core

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Byte positions in a record batch of magic 2 (KIP-98).
const (
	batchBaseOffset    = 0
	batchLength        = 8
	batchLeaderEpoch   = 12
	batchMagic         = 16
	batchCRC           = 17
	batchAttributes    = 21
	batchLastDelta     = 23
	batchBaseTimestamp = 27
	batchMaxTimestamp  = 35
	batchProducerID    = 43
	batchProducerEpoch = 51
	batchBaseSequence  = 53
	batchCount         = 57
	// BatchHeaderBytes is the size of the header before the records.
	BatchHeaderBytes = 61
	// batchLengthBase is what the length field does not count.
	batchLengthBase = 12
)

// Attribute bits of a batch.
const (
	AttrCodecMask     = 0x07
	AttrLogAppendTime = 0x08
	AttrTransactional = 0x10
	AttrControl       = 0x20
	AttrDeleteHorizon = 0x40
	AttrKnown         = 0x7F // all of them; batches keep others that clients set
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a view over the wire bytes of one record batch of magic 2. Only
// NextBatch and a successful Verify make the accessors safe on foreign bytes.
type Batch []byte

// NextBatch cuts the first batch off b by its length field; rest is what
// follows. It checks lengths and nothing else (ErrCorruptBatch).
func NextBatch(b []byte) (first Batch, rest []byte, err error) {
	if len(b) < BatchHeaderBytes {
		if len(b) > batchMagic && b[batchMagic] < 2 {
			return nil, nil, fmt.Errorf("%w: message format version %d", ErrUnsupportedMagic, b[batchMagic])
		}
		return nil, nil, fmt.Errorf("%w: %d bytes are left where a batch header has %d", ErrCorruptBatch, len(b), BatchHeaderBytes)
	}
	n := int64(int32(binary.BigEndian.Uint32(b[batchLength:]))) + batchLengthBase
	if n < BatchHeaderBytes || n > int64(len(b)) {
		if b[batchMagic] < 2 {
			return nil, nil, fmt.Errorf("%w: message format version %d", ErrUnsupportedMagic, b[batchMagic])
		}
		return nil, nil, fmt.Errorf("%w: the length field says %d bytes, %d are there", ErrCorruptBatch, n, len(b))
	}
	return Batch(b[:n:n]), b[n:], nil
}

// Verify checks magic, checksum and the fields that must agree with each other,
// without looking into the records. Errors: ErrUnsupportedMagic,
// ErrCorruptBatch, ErrInvalidRecord.
func (b Batch) Verify() error {
	if m := b[batchMagic]; m != 2 {
		return fmt.Errorf("%w: magic %d, want 2", ErrUnsupportedMagic, int8(m))
	}
	if got, want := crc32.Checksum(b[batchAttributes:], castagnoli), binary.BigEndian.Uint32(b[batchCRC:]); got != want {
		return fmt.Errorf("%w: checksum %08x, the header says %08x", ErrCorruptBatch, got, want)
	}
	if n, last := b.Count(), b.LastOffsetDelta(); n < 0 || last < 0 || int64(last) < int64(n)-1 {
		return fmt.Errorf("%w: %d records with a last offset delta of %d", ErrInvalidRecord, n, last)
	}
	return nil
}

// Magic is the format; only 2 is stored.
func (b Batch) Magic() int8 { return int8(b[batchMagic]) }

// BaseOffset is the offset of the first record.
func (b Batch) BaseOffset() Offset { return Offset(binary.BigEndian.Uint64(b[batchBaseOffset:])) }

// LeaderEpoch is the leader epoch that the broker wrote.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[batchLeaderEpoch:])) }

// SetBase writes base offset and leader epoch; the checksum does not cover them.
func (b Batch) SetBase(base Offset, epoch int32) {
	binary.BigEndian.PutUint64(b[batchBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[batchLeaderEpoch:], uint32(epoch))
}

// Attributes holds codec, timestamp type and the transactional and control bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[batchAttributes:])) }

// LastOffsetDelta is the last record's offset less the base offset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[batchLastDelta:])) }

// LastOffset is the offset of the last record.
func (b Batch) LastOffset() Offset { return b.BaseOffset() + Offset(b.LastOffsetDelta()) }

// BaseTimestamp is the first timestamp, in milliseconds since the epoch.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[batchBaseTimestamp:])) }

// MaxTimestamp is the largest timestamp, in milliseconds since the epoch.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[batchMaxTimestamp:])) }

// ProducerID is -1 where the producer is not idempotent.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[batchProducerID:])) }

// ProducerEpoch belongs to ProducerID.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[batchProducerEpoch:])) }

// BaseSequence is the sequence number of the first record, or -1.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[batchBaseSequence:])) }

// Count is the number of records.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[batchCount:])) }

// Codec is the compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
func (b Batch) Codec() int { return int(b.Attributes() & AttrCodecMask) }

// IsControl says whether the batch holds a transaction marker.
func (b Batch) IsControl() bool { return b.Attributes()&AttrControl != 0 }

// IsTransactional says whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.Attributes()&AttrTransactional != 0 }

// Records are the bytes after the header, compressed as Codec says.
func (b Batch) Records() []byte { return b[BatchHeaderBytes:] }

// SetAppendTime marks the batch as stamped by the broker at ms and renews the
// checksum (message.timestamp.type=LogAppendTime). As in Kafka, attributes that
// have no meaning do not survive that.
func (b Batch) SetAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[batchAttributes:], uint16(b.Attributes())&AttrKnown|AttrLogAppendTime)
	binary.BigEndian.PutUint64(b[batchMaxTimestamp:], uint64(ms))
	binary.BigEndian.PutUint32(b[batchCRC:], crc32.Checksum(b[batchAttributes:], castagnoli))
}

// InitHeader writes the header of a batch of count uncompressed records whose
// bytes are already in place after the header, without producer, with CreateTime
// timestamps from baseMs to maxMs, and seals it with its checksum. Base offset
// and leader epoch are left to SetBase.
func (b Batch) InitHeader(count int32, baseMs, maxMs int64) {
	binary.BigEndian.PutUint64(b[batchBaseOffset:], 0)
	binary.BigEndian.PutUint32(b[batchLength:], uint32(len(b)-batchLengthBase))
	binary.BigEndian.PutUint32(b[batchLeaderEpoch:], 0)
	b[batchMagic] = 2
	binary.BigEndian.PutUint16(b[batchAttributes:], 0)
	binary.BigEndian.PutUint32(b[batchLastDelta:], uint32(count-1))
	binary.BigEndian.PutUint64(b[batchBaseTimestamp:], uint64(baseMs))
	binary.BigEndian.PutUint64(b[batchMaxTimestamp:], uint64(maxMs))
	b.SetProducer(-1, -1, -1)
	binary.BigEndian.PutUint32(b[batchCount:], uint32(count))
	b.Seal()
}

// SetProducer writes the idempotent producer's fields; the checksum covers
// them, so Seal follows.
func (b Batch) SetProducer(id int64, epoch int16, baseSequence int32) {
	binary.BigEndian.PutUint64(b[batchProducerID:], uint64(id))
	binary.BigEndian.PutUint16(b[batchProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[batchBaseSequence:], uint32(baseSequence))
}

// SetAttributes writes the attribute bits; the checksum covers them, so Seal
// follows.
func (b Batch) SetAttributes(a int16) {
	binary.BigEndian.PutUint16(b[batchAttributes:], uint16(a))
}

// Seal renews the checksum.
func (b Batch) Seal() {
	binary.BigEndian.PutUint32(b[batchCRC:], crc32.Checksum(b[batchAttributes:], castagnoli))
}

// SizeBytes is the size of the whole batch as its length field has it; it may be
// read from a bare header.
func (b Batch) SizeBytes() int {
	return int(int32(binary.BigEndian.Uint32(b[batchLength:]))) + batchLengthBase
}
