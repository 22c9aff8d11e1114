// Package wire makes record batches whose records tell who they are, and reads
// them back.
//
// Any goroutine may call it; nothing blocks, and nothing is durable here. Read
// Value first.
package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"millrace/chaos/check"
	"millrace/core"
	"millrace/core/records"
)

// ValueBytesMin is the size of a record's identity, the least size of a value.
const ValueBytesMin = 12

// Value fills p (ValueBytesMin or more) with the identity of a record and with
// bytes that follow from it.
func Value(p []byte, k check.Key) {
	binary.BigEndian.PutUint32(p, uint32(k.Producer))
	binary.BigEndian.PutUint64(p[4:], uint64(k.Seq))
	x := uint64(k.Producer)<<40 ^ uint64(k.Seq) ^ uint64(len(p))<<20
	for rest := p[ValueBytesMin:]; len(rest) > 0; {
		x += 0x9E3779B97F4A7C15
		z := (x ^ x>>30) * 0xBF58476D1CE4E5B9
		z ^= z >> 27
		if len(rest) < 8 {
			for i := range rest {
				rest[i] = byte(z >> (8 * i))
			}
			return
		}
		binary.LittleEndian.PutUint64(rest, z)
		rest = rest[8:]
	}
}

// Spec describes a batch to make.
type Spec struct {
	First      check.Key // identity of the first record; Seq counts up
	ValueBytes []int     // size of each record's value
	Ms         int64
	// ProducerID is -1 for a batch that is not idempotent.
	ProducerID   int64
	Epoch        int16
	BaseSequence int32
}

// Make builds the batch and the checksums of its values.
func Make(s Spec) (core.Batch, []uint64) {
	recs := make([]core.Record, len(s.ValueBytes))
	sums := make([]uint64, len(recs))
	for i, n := range s.ValueBytes {
		v := make([]byte, max(n, ValueBytesMin))
		Value(v, check.Key{Producer: s.First.Producer, Seq: s.First.Seq + int64(i)})
		recs[i].Value, sums[i] = v, xxhash.Sum64(v)
	}
	b := records.Encode(make([]byte, records.Size(recs)), recs, s.Ms)
	if s.ProducerID >= 0 {
		b.SetProducer(s.ProducerID, s.Epoch, s.BaseSequence)
		b.Seal()
	}
	return b, sums
}

// Parse verifies a batch and appends its records to dst.
func Parse(dst []check.Record, b core.Batch) ([]check.Record, error) {
	if err := b.Verify(); err != nil {
		return dst, err
	}
	var short error
	err := records.Each(b, 64<<20, func(r records.Record) bool {
		if len(r.Value) < ValueBytesMin {
			short = fmt.Errorf("the record at offset %d has a value of %d bytes", r.Offset, len(r.Value))
			return false
		}
		dst = append(dst, check.Record{
			Offset: int64(r.Offset),
			Key: check.Key{
				Producer: int32(binary.BigEndian.Uint32(r.Value)),
				Seq:      int64(binary.BigEndian.Uint64(r.Value[4:])),
			},
			Sum: xxhash.Sum64(r.Value),
		})
		return true
	})
	if err == nil {
		err = short
	}
	return dst, err
}
