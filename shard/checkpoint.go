package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A checkpoint is the committed producer state of a partition, as the log keeps
// it beside its segments. Big endian:
//
//	u8  version, 1
//	u32 producers, longest idle first; each:
//	    i64 id, i16 epoch, i64 last append in ms, u8 batches (1..5), each:
//	        i32 first sequence, i32 last sequence,
//	        i64 base offset, i64 last offset, i64 max timestamp
const (
	checkpointVersion  = 1
	checkpointHead     = 5
	checkpointProducer = 19
	checkpointBatch    = 32
)

var errCheckpoint = errors.New("producer state checkpoint is malformed")

// encode writes the committed part of the state.
func (ps *producers) encode() []byte {
	out := make([]byte, checkpointHead, checkpointHead+len(ps.byID)*(checkpointProducer+checkpointBatch))
	out[0] = checkpointVersion
	count := uint32(0)
	for p := ps.oldest; p != nil; p = p.newer {
		if p.n == 0 {
			continue
		}
		count++
		out = binary.BigEndian.AppendUint64(out, uint64(p.id))
		out = binary.BigEndian.AppendUint16(out, uint16(p.epoch))
		out = binary.BigEndian.AppendUint64(out, uint64(p.seenMs))
		out = append(out, byte(p.n))
		for _, s := range p.batches[:p.n] {
			out = binary.BigEndian.AppendUint32(out, uint32(s.first))
			out = binary.BigEndian.AppendUint32(out, uint32(s.last))
			out = binary.BigEndian.AppendUint64(out, uint64(s.base))
			out = binary.BigEndian.AppendUint64(out, uint64(s.lastOffset))
			out = binary.BigEndian.AppendUint64(out, uint64(s.maxMs))
		}
	}
	binary.BigEndian.PutUint32(out[1:], count)
	return out
}

// decode fills an empty state; at most limit producers, the newest, are kept.
func (ps *producers) decode(p []byte, limit int) error {
	if len(p) < checkpointHead || p[0] != checkpointVersion {
		return fmt.Errorf("%w: no header of version %d", errCheckpoint, checkpointVersion)
	}
	count := binary.BigEndian.Uint32(p[1:])
	p = p[checkpointHead:]
	for i := uint32(0); i < count; i++ {
		if len(p) < checkpointProducer {
			return fmt.Errorf("%w: cut off at producer %d of %d", errCheckpoint, i, count)
		}
		id := int64(binary.BigEndian.Uint64(p))
		epoch := int16(binary.BigEndian.Uint16(p[8:]))
		seenMs := int64(binary.BigEndian.Uint64(p[10:]))
		n := int(p[18])
		p = p[checkpointProducer:]
		if n < 1 || n > batchesKept || len(p) < n*checkpointBatch {
			return fmt.Errorf("%w: producer %d of %d holds %d batches", errCheckpoint, i, count, n)
		}
		for ; n > 0; n-- {
			ps.committed(id, decodeSequence(p, epoch), seenMs, limit)
			p = p[checkpointBatch:]
		}
	}
	if len(p) != 0 {
		return fmt.Errorf("%w: %d bytes after the last producer", errCheckpoint, len(p))
	}
	return nil
}

func decodeSequence(p []byte, epoch int16) sequence {
	return sequence{
		first:      int32(binary.BigEndian.Uint32(p)),
		last:       int32(binary.BigEndian.Uint32(p[4:])),
		epoch:      epoch,
		base:       offsetAt(p[8:]),
		lastOffset: offsetAt(p[16:]),
		maxMs:      int64(binary.BigEndian.Uint64(p[24:])),
	}
}
