package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// baseTime is when the records of all sequences were made, in ms: a constant, so
// that answers can be compared.
const baseTime = 1_700_000_000_000

// batchSpec describes a record batch; what is wrong with it is said by the
// fields that stand off from zero.
type batchSpec struct {
	records  int
	size     int // of each value, bytes
	keys     bool
	headers  bool
	codec    int8 // 0 to 7
	attrs    int16
	base     int64
	epoch    int32
	producer int64
	pEpoch   int16
	sequence int32
	first    int64 // timestamp of the first record, ms
	step     int64 // ms between records

	magic      int8  // 0: 2
	badCRC     bool  // checksum of other bytes
	lastDelta  int32 // added to the last offset delta
	count      int32 // added to the number of records
	maxTime    int64 // added to the largest timestamp
	length     int32 // added to the batch length
	deltaShift int32 // added to every record's offset delta
	garbage    bool  // records that do not decode
	cut        int   // bytes cut off at the end
	tail       int   // bytes added behind the batch
}

func plainBatch(records int) batchSpec {
	return batchSpec{records: records, size: 10, producer: -1, pEpoch: -1, sequence: -1, first: baseTime, step: 1}
}

// encode writes the batch.
func (s batchSpec) encode() []byte {
	raw := s.recordBytes()
	if s.garbage {
		for i := range raw {
			raw[i] = 0x7F
		}
	}
	payload := compress(s.codec, raw)
	n := int32(s.records)
	rb := kmsg.RecordBatch{
		FirstOffset: s.base, PartitionLeaderEpoch: s.epoch, Magic: 2,
		Attributes: s.attrs | int16(s.codec), LastOffsetDelta: n - 1 + s.lastDelta,
		FirstTimestamp: s.first, MaxTimestamp: s.first + max(0, int64(n-1))*s.step + s.maxTime,
		ProducerID: s.producer, ProducerEpoch: s.pEpoch, FirstSequence: s.sequence,
		NumRecords: n + s.count, Records: payload,
	}
	if s.magic != 0 {
		rb.Magic = s.magic
		if s.magic < 0 {
			rb.Magic = 0
		}
	}
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(int32(len(b)-12)+s.length))
	crc := castagnoli(b[batchAttrsAt:])
	if s.badCRC {
		crc ^= 0x5A5A
	}
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc)
	if s.cut > 0 {
		b = b[:max(0, len(b)-s.cut)]
	}
	return append(b, bytes.Repeat([]byte{7}, s.tail)...)
}

func (s batchSpec) recordBytes() []byte {
	var raw []byte
	for i := range s.records {
		r := kmsg.Record{TimestampDelta64: int64(i) * s.step, OffsetDelta: int32(i) + s.deltaShift}
		if s.keys {
			r.Key = []byte{'k', byte('a' + i%26)}
		}
		r.Value = bytes.Repeat([]byte{byte('a' + i%26)}, s.size)
		if s.headers {
			r.Headers = []kmsg.Header{{Key: "h", Value: []byte("v")}, {Key: "n"}}
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length itself was written as one byte, 0
		raw = r.AppendTo(raw)
	}
	return raw
}

func compress(codec int8, raw []byte) []byte {
	switch codec {
	case 1:
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write(raw)
		w.Close()
		return b.Bytes()
	case 2:
		return s2.EncodeSnappy(nil, raw)
	case 3:
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		w.Write(raw)
		w.Close()
		return b.Bytes()
	case 4:
		return zstdEncoder.EncodeAll(raw, nil)
	}
	return raw
}

var zstdEncoder = func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return e
}()
