package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
)

// FuzzFrame parses foreign bytes as a frame of a peer. What is taken lies inside
// the frame, and is written as the same frame again but for the bytes that nobody
// reads.
//
//fuzz:parses peerframe.go:parseFrame,parseMessage,wireType,appendMessage
func FuzzFrame(f *testing.F) {
	f.Add(sampleFrame())
	f.Add([]byte{frameVersion, 0, 0, 0, 0, 0, 0, 8})
	f.Add(sampleFrame()[:60])
	huge := sampleFrame()
	binary.BigEndian.PutUint32(huge[frameHeadBytes+frameMessageBytes+12:], 1<<31)
	f.Add(huge)
	f.Fuzz(func(t *testing.T, p []byte) {
		var groups []core.PartitionID
		var ms []*pb.Message
		var entries [][]peerEntry
		err := parseFrame(arena.Foreign(p), func(g core.PartitionID, m *pb.Message, es []peerEntry) error {
			if !wireType(m.Type) {
				t.Fatalf("message of type %d", m.Type)
			}
			for i, e := range es {
				if e.index != core.Index(m.Index)+1+core.Index(i) || e.payload.Len() > len(p) {
					t.Fatalf("entry %d of a message of index %d has index %d and %d bytes", i, m.Index, e.index, e.payload.Len())
				}
			}
			groups, ms, entries = append(groups, g), append(ms, m), append(entries, slices.Clone(es))
			return nil
		})
		if err != nil {
			if !errors.Is(err, errFrame) {
				t.Fatal(err)
			}
			return
		}
		again := frameOf(groups, ms, entries)
		if len(again) != len(p) {
			t.Fatalf("%d bytes are written as %d", len(p), len(again))
		}
		var twice []byte
		err = parseFrame(arena.Foreign(again), func(g core.PartitionID, m *pb.Message, es []peerEntry) error {
			twice = appendMessage(twice, g, m, es)
			for _, e := range es {
				twice = append(twice, e.payload.Bytes()...)
			}
			return nil
		})
		var once []byte
		for i := range ms {
			once = appendMessage(once, groups[i], ms[i], entries[i])
			for _, e := range entries[i] {
				once = append(once, e.payload.Bytes()...)
			}
		}
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x became %x: %v", once, twice, err)
		}
	})
}

// produceRounds is after how many inputs FuzzProduce takes a fresh shard, so that
// what it keeps stays small.
const produceRounds = 500

// FuzzProduce appends foreign bytes, with a checksum that fits, through a shard.
// What is refused leaves no trace, what is taken is read back as it was sent.
//
//fuzz:parses produce.go:produce,append,decode,validate,validateTimes,sequenceOf,admit producers.go:check,find,appended,committed,push,after,sequenceAt /core/batch.go:NextBatch,Verify
func FuzzProduce(f *testing.F) {
	f.Add([]byte(batchOf(1, 10, 1000)))
	f.Add([]byte(idempotent(batchOf(3, 10, 1000), 5, 1, 7)))
	f.Add([]byte(idempotent(batchOf(3, 10, 1000), 5, 1, 10)))
	f.Add([]byte(idempotent(batchOf(3, 10, 1000), 5, 0, 10)))
	f.Add([]byte(idempotent(batchOf(3, 10, 1000), 5, 2, 0)))
	f.Add([]byte(batchOf(1, 10, 1000))[:40])
	f.Add(append([]byte(batchOf(1, 10, 1000)), 1, 2, 3))
	f.Add([]byte(batchOf(2, 10, 1<<60)))
	var c *cluster
	var id core.PartitionID
	rounds := 0
	f.Fuzz(func(t *testing.T, p []byte) {
		if rounds%produceRounds == 0 {
			c = newCluster(t, 1).start()
			id = c.topic("t", 1)[0]
			c.run()
		}
		rounds++
		c.t = t
		n := c.leader(id)
		if b, _, err := core.NextBatch(p); err == nil {
			b.Seal() // let mutations reach what is behind the checksum
		}
		sent := bytes.Clone(p)
		before, producers := n.shard.partitions[id].high, n.shard.partitions[id].producers.len()
		r := n.produceTo(id, p)
		n.done = nil
		n.ask(r)
		if !n.answered(r) {
			t.Fatal("no answer")
		}
		part := n.shard.partitions[id]
		if grew := part.high > before; grew != (r.Err == nil && r.BaseOffset >= before) {
			t.Fatalf("high watermark %d, then %d: %v", before, part.high, r.Err)
		}
		if n.shard.inflightBytes != 0 {
			t.Fatalf("%d bytes are still in flight", n.shard.inflightBytes)
		}
		if r.Err != nil {
			if part.producers.len() != producers || isUnmapped(r.Err) {
				t.Fatalf("refused with %v and %d producers, %d before", r.Err, part.producers.len(), producers)
			}
			return
		}
		if r.BaseOffset < before {
			return // a repeat
		}
		stored := n.batchAt(id, before)
		want := core.Batch(sent)
		attributes := want.Attributes()
		if attributes&core.AttrLogAppendTime != 0 { // taken off, and what has no meaning with it
			attributes &= core.AttrKnown &^ core.AttrLogAppendTime
		}
		if len(stored) != len(want) || !bytes.Equal(stored.Records(), want.Records()) || stored.Verify() != nil || stored.BaseOffset() != before ||
			stored.Attributes() != attributes || stored.Count() != want.Count() || stored.ProducerID() != want.ProducerID() {
			t.Fatalf("%x was sent, %x is stored", sent, []byte(stored))
		}
	})
}

// batchAt reads the batch at an offset.
func (n *testNode) batchAt(id core.PartitionID, offset core.Offset) core.Batch {
	q := fetchFrom(id, offset)
	n.must(q)
	var got core.Batch
	err := eachBatch(q.Parts[0].Data, func(b core.Batch, _ arena.Buf) error { got = bytes.Clone(b); return nil })
	if err != nil || got == nil {
		n.c.t.Fatalf("nothing to read at offset %d: %v", offset, err)
	}
	for _, b := range q.Parts[0].Data.Bufs {
		b.Release()
	}
	return got
}

// isUnmapped says that a client would be told UNKNOWN_SERVER_ERROR.
func isUnmapped(err error) bool {
	for _, known := range []error{core.ErrCorruptBatch, core.ErrInvalidRecord, core.ErrUnsupportedMagic, core.ErrInvalidTimestamp, core.ErrBatchTooLarge,
		core.ErrOutOfOrderSeq, core.ErrDuplicateSeq, core.ErrFencedProducer, core.ErrPolicyViolation} {
		if errors.Is(err, known) {
			return false
		}
	}
	return true
}

// FuzzCheckpoint decodes foreign bytes as producer state. What is decoded whole is
// written as the same bytes again, unless a producer stands in them twice.
//
//fuzz:parses checkpoint.go:encode,decode,decodeSequence
func FuzzCheckpoint(f *testing.F) {
	var ps producers
	for i := range int64(3) {
		ps.committed(i, sequence{first: 0, last: 4, base: core.Offset(i)}, 7, 10)
		ps.committed(i, sequence{first: 5, last: 9, base: core.Offset(i + 5)}, 8, 10)
	}
	f.Add(ps.encode())
	f.Add(ps.encode()[:70])
	f.Add(append(ps.encode(), 0))
	f.Add([]byte{checkpointVersion, 0, 0, 0, 0})
	f.Add([]byte{checkpointVersion, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, p []byte) {
		const limit = 100
		var ps producers
		if err := ps.decode(p, limit); err != nil {
			if !errors.Is(err, errCheckpoint) {
				t.Fatal(err)
			}
			return
		}
		if ps.len() > limit {
			t.Fatalf("%d producers, the limit is %d", ps.len(), limit)
		}
		encoded := ps.encode()
		if count := binary.BigEndian.Uint32(p[1:]); int(count) == ps.len() && !bytes.Equal(encoded, p) {
			t.Fatalf("%x is written as %x", p, encoded)
		}
		var again producers
		if err := again.decode(encoded, limit); err != nil || !bytes.Equal(again.encode(), encoded) {
			t.Fatalf("what was encoded does not decode: %v", err)
		}
	})
}
