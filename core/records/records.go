package records

import (
	"encoding/binary"
	"fmt"

	"millrace/core"
)

// Record is one record of a batch. Key and Value alias the batch, or the memory
// it was decompressed into; nil means null.
type Record struct {
	Offset      core.Offset
	TimestampMs int64
	Key, Value  []byte
}

// Each calls fn for each record of b in order until fn returns false. A
// compressed batch that would take more than limitBytes of memory is refused.
// The header must have passed Verify. Errors: core.ErrCorruptBatch.
func Each(b core.Batch, limitBytes int, fn func(Record) bool) error {
	p, err := decompress(b.Codec(), b.Records(), limitBytes)
	if err != nil {
		return err
	}
	base, baseMs := b.BaseOffset(), b.BaseTimestamp()
	appendTime := b.Attributes()&core.AttrLogAppendTime != 0
	for i := int32(0); i < b.Count(); i++ {
		body, rest, ok := cut(p)
		if !ok || body == nil {
			return fmt.Errorf("%w: record %d of %d is cut off", core.ErrCorruptBatch, i, b.Count())
		}
		r, ok := parse(body)
		if !ok {
			return fmt.Errorf("%w: record %d of %d is malformed", core.ErrCorruptBatch, i, b.Count())
		}
		p = rest
		r.Offset += base
		if r.TimestampMs += baseMs; appendTime {
			r.TimestampMs = b.MaxTimestamp()
		}
		if !fn(r) {
			return nil
		}
	}
	return nil
}

// parse reads a record's fields; offset and timestamp are deltas. Headers are
// not looked at.
func parse(p []byte) (r Record, ok bool) {
	if len(p) < 1 {
		return r, false
	}
	p = p[1:] // attributes, unused
	ms, n := binary.Varint(p)
	if n <= 0 {
		return r, false
	}
	p = p[n:]
	delta, n := binary.Varint(p)
	if n <= 0 {
		return r, false
	}
	r.TimestampMs, r.Offset = ms, core.Offset(delta)
	if r.Key, p, ok = cut(p[n:]); !ok {
		return r, false
	}
	r.Value, _, ok = cut(p)
	return r, ok
}

// cut takes a varint length and as many bytes off p; a negative length is null.
func cut(p []byte) (field, rest []byte, ok bool) {
	size, n := binary.Varint(p)
	if n <= 0 || size > int64(len(p)-n) {
		return nil, nil, false
	}
	p = p[n:]
	if size < 0 {
		return nil, p, true
	}
	return p[:size:size], p[size:], true
}

// Size is the length of the batch that Encode makes of rs.
func Size(rs []core.Record) int {
	n := core.BatchHeaderBytes
	for i, r := range rs {
		body := bodySize(i, r)
		n += varintSize(int64(body)) + body
	}
	return n
}

// Encode writes rs as one uncompressed batch into dst, which has Size bytes.
// All records carry the timestamp ms. rs must not be empty.
func Encode(dst []byte, rs []core.Record, ms int64) core.Batch {
	if len(rs) == 0 {
		panic("BUG: a batch without records")
	}
	p := dst[:core.BatchHeaderBytes]
	for i, r := range rs {
		p = binary.AppendVarint(p, int64(bodySize(i, r)))
		p = append(p, 0)
		p = binary.AppendVarint(p, 0)
		p = binary.AppendVarint(p, int64(i))
		p = appendField(p, r.Key)
		p = appendField(p, r.Value)
		p = binary.AppendVarint(p, 0) // headers
	}
	if len(p) != len(dst) {
		panic(fmt.Sprintf("BUG: %d bytes encoded into %d", len(p), len(dst)))
	}
	b := core.Batch(dst)
	b.InitHeader(int32(len(rs)), ms, ms)
	return b
}

func bodySize(i int, r core.Record) int {
	return 3 + varintSize(int64(i)) + fieldSize(r.Key) + fieldSize(r.Value)
}

func fieldSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

func appendField(dst, p []byte) []byte {
	if p == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(p))), p...)
}

func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
