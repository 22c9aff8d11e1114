package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wrongInside says whether the records of a batch do not decode or do not agree
// with its header, which only who reads them sees.
func wrongInside(rb *kmsg.RecordBatch) bool {
	all, ok := recordsInside(rb)
	if !ok {
		return true
	}
	most := int64(-1)
	for i, r := range all {
		if r.OffsetDelta != int32(i) {
			return true
		}
		most = max(most, rb.FirstTimestamp+r.TimestampDelta64)
	}
	n := int32(len(all))
	return n != rb.NumRecords || n-1 != rb.LastOffsetDelta || most != rb.MaxTimestamp
}

// earlierInside says whether a record is from before the batch's first timestamp.
func earlierInside(rb *kmsg.RecordBatch) bool {
	all, _ := recordsInside(rb)
	return slices.ContainsFunc(all, func(r kmsg.Record) bool { return r.TimestampDelta64 < 0 })
}

// recordsInside reads a batch's records; ok is false where they do not decode.
func recordsInside(rb *kmsg.RecordBatch) (all []kmsg.Record, ok bool) {
	raw, err := decompress(rb.Attributes&7, rb.Records)
	if err != nil {
		return nil, false
	}
	for len(raw) > 0 {
		size, width := kmsgVarint(raw)
		if width <= 0 || size < 0 || int64(size) > int64(len(raw)-width) {
			return all, false
		}
		var r kmsg.Record
		if err := r.ReadFrom(raw[:width+int(size)]); err != nil {
			return all, false
		}
		all = append(all, r)
		raw = raw[width+int(size):]
	}
	return all, true
}

// kmsgVarint reads a zigzag varint and its width.
func kmsgVarint(b []byte) (v int32, width int) {
	var u uint32
	for i := 0; i < 5 && i < len(b); i++ {
		u |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	return 0, 0
}

func decompress(codec int16, b []byte) ([]byte, error) {
	switch codec {
	case 1:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case 2:
		return s2.Decode(nil, b)
	case 3:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(b)))
	case 4:
		return zstdDecoder.DecodeAll(b, nil)
	}
	return b, nil
}

var zstdDecoder = func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return d
}()
