package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/gzip"

	"millrace/core"
	"millrace/core/records"
	"millrace/raftlog"
)

// timedBatch makes a batch of two records, at ms and ms+10.
func timedBatch(ms int64) core.Batch {
	rs := []core.Record{{Value: []byte("a")}, {Value: []byte("b")}}
	b := records.Encode(make([]byte, records.Size(rs)), rs, ms)
	// The second record's timestamp delta is one byte: make it 10.
	at := core.BatchHeaderBytes + 1 + int(b[core.BatchHeaderBytes])/2 + 1
	b[at+1] = 20
	b.InitHeader(2, ms, ms+10)
	return b
}

func TestListOffsets(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		c := newCluster(t, 1).start()
		id := c.topic("t", 1)[0]
		c.run()
		n := c.leader(id)
		for _, ms := range []int64{100, 300, 200} {
			n.must(n.produceTo(id, timedBatch(ms)))
		}
		if evicted {
			n.store.LogSet(0).Evict(n.arena, 1<<30)
		}
		term := int32(n.shard.partitions[id].term)
		for _, tc := range []struct {
			ms, time, epoch int64
			offset          core.Offset
		}{
			{timeLatest, -1, int64(term), 6},
			{timeEarliest, -1, int64(term), 0},
			{timeEarliestLocal, -1, int64(term), 0},
			{timeLatestTiered, -1, -1, -1},
			{timeEarliestPending, -1, -1, -1},
			{timeMax, 310, int64(term), 3},
			{0, 100, int64(term), 0},
			{100, 100, int64(term), 0},
			{101, 110, int64(term), 1}, // the record, not its batch
			{111, 300, int64(term), 2},
			{301, 310, int64(term), 3},
			{311, -1, -1, -1},
		} {
			r := &ListOffset{Partition: id, Timestamp: tc.ms, CurrentEpoch: -1}
			n.must(r)
			if r.Offset != tc.offset || r.FoundTimeMs != tc.time || r.LeaderEpoch != int32(tc.epoch) {
				t.Errorf("evicted %v, timestamp %d: offset %d at %d, epoch %d; want %d at %d, epoch %d", evicted,
					tc.ms, r.Offset, r.FoundTimeMs, r.LeaderEpoch, tc.offset, tc.time, tc.epoch)
			}
		}
		n.must(&DeleteRecords{Partition: id, Offset: 1})
		r := &ListOffset{Partition: id, Timestamp: 0, CurrentEpoch: -1}
		n.must(r)
		if r.Offset != 1 || r.FoundTimeMs != 110 {
			t.Errorf("with the log start inside a batch: %d at %d", r.Offset, r.FoundTimeMs)
		}
	}
}

func TestListOffsetsOfAnEmptyLog(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	for _, tc := range []struct {
		ms   int64
		want core.Offset
	}{{timeLatest, 0}, {timeEarliest, 0}, {timeMax, -1}, {5, -1}} {
		r := &ListOffset{Partition: id, Timestamp: tc.ms, CurrentEpoch: -1}
		n.must(r)
		if r.Offset != tc.want {
			t.Errorf("timestamp %d: offset %d, want %d", tc.ms, r.Offset, tc.want)
		}
	}
}

// What lies before the log start has no end that could be read.
func TestEpochsEndAtTheLogStartAtLeast(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(n.produceTo(id, batchOf(5, 10, 0)))
	n.must(&DeleteRecords{Partition: id, Offset: 3})
	r := &EpochEnd{Partition: id, CurrentEpoch: -1, Epoch: -2}
	n.must(r)
	if r.End.End != 3 {
		t.Errorf("an epoch before the first ends at %d, the log starts at 3", r.End.End)
	}
}

func TestDeleteRecords(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	for range 4 {
		n.must(n.produceTo(id, batchOf(5, 10, 0)))
	}
	for _, tc := range []struct {
		offset, start core.Offset
		want          error
	}{
		{7, 7, nil}, {3, 7, nil}, {21, 0, core.ErrOffsetOutOfRange}, {-2, 0, core.ErrOffsetOutOfRange}, {-1, 20, nil},
	} {
		r := &DeleteRecords{Partition: id, Offset: tc.offset}
		n.ask(r)
		if !n.answered(r) || !errors.Is(r.Err, tc.want) || tc.want == nil && r.LogStart != tc.start {
			t.Errorf("offset %d: answered %v, %v, log start %d", tc.offset, n.answered(r), r.Err, r.LogStart)
		}
	}
	n.crash()
	n.restart()
	c.advance(core.Second)
	d := &Describe{Partition: id}
	n.must(d)
	if d.LogStart != 20 || d.HighWatermark != 20 {
		t.Fatalf("after a restart: %+v", d)
	}
	p := n.produceTo(id, batchOf(1, 10, 0))
	n.must(p)
	if p.BaseOffset != 20 || p.LogStart != 20 {
		t.Fatalf("offset %d, log start %d", p.BaseOffset, p.LogStart)
	}
}

func TestRetentionMovesTheLogStart(t *testing.T) {
	c := newCluster(t, 1)
	c.tweak = func(cfg *TopicConfig) {
		cfg.Log = raftlog.LogConfig{SegmentBytes: 64 << 10, SegmentMs: 1 << 40, RetentionBytes: 200 << 10, RetentionMs: -1, FlushBytesMax: 32 << 10, Delete: true}
	}
	c.start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	for range 100 {
		n.must(n.produceTo(id, batchOf(1, 10000, 0)))
		c.advance(300 * core.Millisecond)
	}
	c.advance(20 * core.Second)
	d := &Describe{Partition: id}
	n.must(d)
	if d.LogStart == 0 || d.LogStart >= 90 || d.HighWatermark != 100 {
		t.Fatalf("%+v", d)
	}
	f := fetchFrom(id, d.LogStart)
	f.MaxBytes, f.Parts[0].MaxBytes = 2<<20, 2<<20
	n.must(f)
	if got := offsetsOf(&f.Parts[0]); len(got) == 0 || got[0] != d.LogStart {
		t.Fatalf("%v, %v", got, f.Parts[0].Err)
	}
	f.dropData()
}

// gzipped compresses a batch.
func gzipped(b core.Batch) core.Batch {
	var out bytes.Buffer
	out.Write(b[:core.BatchHeaderBytes])
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b.Records()); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	z := core.Batch(out.Bytes())
	binary.BigEndian.PutUint32(z[8:], uint32(len(z)-12))
	z.SetAttributes(1)
	z.Seal()
	return z
}

// lookupsOf asks for so many timestamps of a partition, in one turn.
func lookupsOf(n *testNode, id core.PartitionID, count int) (all []*ListOffset) {
	for i := range count {
		r := &ListOffset{Partition: id, Timestamp: int64(i), CurrentEpoch: -1}
		n.send(Event{Kind: EventRequest, Request: r})
		all = append(all, r)
	}
	return all
}

func answeredOf(n *testNode, all []*ListOffset) (count int) {
	for _, r := range all {
		if n.answered(r) {
			count++
		}
	}
	return count
}

// TestLookupsTakeTurns: a request with many of them keeps no other waiting, and what
// must be decompressed is, by one job at a time.
func TestLookupsTakeTurns(t *testing.T) {
	const many = 100
	for _, packed := range []bool{false, true} {
		c := newCluster(t, 1).start()
		ids := c.topic("t", 2)
		c.run()
		n := c.leader(ids[0])
		b := batchOf(1, 1<<20, many)
		if packed {
			b = gzipped(b)
		} else {
			b = batchOf(1, 100, many)
		}
		n.must(n.produceTo(ids[0], b))
		n.must(n.produceTo(ids[1], batchOf(1, 100, many)))
		first := lookupsOf(n, ids[0], many)
		other := lookupsOf(n, ids[1], 1)
		for turn := 0; answeredOf(n, first) < many; turn++ {
			before, jobs := answeredOf(n, first), n.shard.jobsInflight
			n.turn()
			if got := answeredOf(n, first) - before; got > lookupsPerTurn || packed && (got > 1 || jobs > 1) {
				t.Fatalf("packed %v: turn %d answers %d with %d jobs", packed, turn, got, jobs)
			}
			if turn == 20 && answeredOf(n, other) == 0 {
				t.Errorf("packed %v: another partition's lookup waits for all %d", packed, many)
			}
			if turn > 10*many {
				t.Fatalf("packed %v: %d answers of %d", packed, answeredOf(n, first), many)
			}
			if n.next > 0 && n.next <= c.now {
				n.send(Event{Kind: EventTimer})
			}
		}
		for _, r := range append(first, other...) {
			if r.Err != nil || r.Offset != 0 || r.FoundTimeMs != many {
				t.Fatalf("packed %v, timestamp %d: offset %d at %d (%v)", packed, r.Timestamp, r.Offset, r.FoundTimeMs, r.Err)
			}
		}
		if st := n.shard.Stats(); st.Lookups != 0 || n.shard.lookups.running != 0 || n.shard.lookups.scanning {
			t.Errorf("packed %v: %d wait, %d run in the end", packed, st.Lookups, n.shard.lookups.running)
		}
	}
}

// TestLookupsThatWaitAreAnsweredInTheEnd: when they have waited for too long, when the
// topic is deleted, and when the node stops.
func TestLookupsThatWaitAreAnsweredInTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(c *cluster, n *testNode)
		want error
	}{
		{"late", func(c *cluster, _ *testNode) { c.now += lookupWaitMax + core.Second }, core.ErrOverloaded},
		{"deleted", func(c *cluster, _ *testNode) {
			im := c.image.WithoutTopic("t")
			im.Version = c.image.Version + 1
			c.publish(im)
		}, core.ErrUnknownPartition},
		{"stopped", func(_ *cluster, n *testNode) { n.send(Event{Kind: EventShutdown}) }, core.ErrShuttingDown},
	} {
		c := newCluster(t, 1).start()
		id := c.topic("t", 1)[0]
		c.run()
		n := c.leader(id)
		n.must(n.produceTo(id, gzipped(batchOf(1, 1<<20, 1000))))
		all := lookupsOf(n, id, 50)
		n.turn()
		if st := n.shard.Stats(); st.Lookups == 0 {
			t.Fatalf("%s: none waits", tc.name)
		}
		tc.do(c, n)
		for range 100 {
			n.send(Event{Kind: EventTimer})
			n.turn()
		}
		if got := answeredOf(n, all); got != len(all) {
			t.Fatalf("%s: %d of %d are answered", tc.name, got, len(all))
		}
		if err := all[len(all)-1].Err; !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}
