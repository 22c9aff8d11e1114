package shard

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"millrace/core"
	"millrace/raftlog"
)

func TestProducedRecordsAreReadOnceTheyAreDurable(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)

	n.hold = true
	p := n.produceTo(id, batchOf(3, 10, 1000))
	n.ask(p)
	if n.answered(p) {
		t.Fatal("acknowledged before the journal has written it")
	}
	f := fetchFrom(id, 0)
	f.Deadline = c.now + core.Second
	n.ask(f)
	if n.answered(f) {
		t.Fatalf("read before it is durable: %+v", f.Parts[0])
	}
	n.release()
	if !n.answered(p) || p.Err != nil || p.BaseOffset != 0 || p.AppendTimeMs != -1 {
		t.Fatalf("produce: answered %v, %v, offset %d", n.answered(p), p.Err, p.BaseOffset)
	}
	if !n.answered(f) {
		t.Fatal("the waiting fetch was not woken by the commit")
	}
	part := &f.Parts[0]
	if part.HighWatermark != 3 || len(part.Data.Bufs) != 1 {
		t.Fatalf("fetch: %+v", part)
	}
	b := core.Batch(part.Data.Bufs[0].Bytes())
	if err := b.Verify(); err != nil || b.BaseOffset() != 0 || core.Term(b.LeaderEpoch()) != p.CurrentEpoch {
		t.Fatalf("batch: %v, offset %d, epoch %d", err, b.BaseOffset(), b.LeaderEpoch())
	}
	f.dropData()

	p2 := n.produceTo(id, batchOf(2, 10, 1000))
	n.must(p2)
	if p2.BaseOffset != 3 {
		t.Fatalf("second batch at offset %d", p2.BaseOffset)
	}
}

func TestProduceRefusals(t *testing.T) {
	seal := func(b core.Batch, f func(core.Batch)) []byte { f(b); b.Seal(); return b }
	now := core.Second.Millis()
	for _, tc := range []struct {
		name  string
		batch []byte
		want  error
		set   func(*Produce)
	}{
		{"nothing", nil, core.ErrInvalidRecord, nil},
		{"cut off", batchOf(1, 10, now)[:30], core.ErrCorruptBatch, nil},
		{"old format", append(make([]byte, 16), 1), core.ErrUnsupportedMagic, nil},
		{"bad checksum", func() []byte { b := batchOf(1, 10, now); b[len(b)-1] ^= 1; return b }(), core.ErrCorruptBatch, nil},
		{"two batches", append(batchOf(1, 10, now), batchOf(1, 10, now)...), core.ErrInvalidRecord, nil},
		{"too large", batchOf(1, 2<<20, now), core.ErrBatchTooLarge, nil},
		{"control", seal(batchOf(1, 10, now), func(b core.Batch) { b.SetAttributes(core.AttrControl) }), core.ErrInvalidRecord, nil},
		{"unknown codec", seal(batchOf(1, 10, now), func(b core.Batch) { b.SetAttributes(5) }), core.ErrInvalidRecord, nil},
		{"no sequence", seal(batchOf(1, 10, now), func(b core.Batch) { b.SetProducer(5, 0, -1) }), core.ErrInvalidRecord, nil},
		{"from the future", batchOf(1, 10, now+3600001), core.ErrInvalidTimestamp, nil},
		{"from before all time", batchOf(1, 10, math.MinInt64), core.ErrInvalidTimestamp, nil},
		{"from the future and compressed", seal(batchOf(1, 10, now+3600001), func(b core.Batch) { b.SetAttributes(1) }), core.ErrInvalidTimestamp, nil},
		{"transactional", batchOf(1, 10, now), core.ErrPolicyViolation, func(p *Produce) { p.Transactional = true }},
		{"base offset", func() []byte { b := batchOf(1, 10, now); b.SetBase(7, 0); return b }(), core.ErrInvalidRecord, nil},
		{"base offset of a batch too large", func() []byte { b := batchOf(1, 2<<20, now); b.SetBase(7, 0); return b }(), core.ErrInvalidRecord, nil},
		{"other partition", batchOf(1, 10, now), core.ErrUnknownPartition, func(p *Produce) { p.Partition = 999 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCluster(t, 1).start()
			id := c.topic("t", 1)[0]
			c.run()
			n := c.leader(id)
			p := n.produceTo(id, tc.batch)
			if tc.set != nil {
				tc.set(p)
			}
			n.ask(p)
			if !n.answered(p) || !errors.Is(p.Err, tc.want) {
				t.Fatalf("answered %v: %v, want %v", n.answered(p), p.Err, tc.want)
			}
			// As in Kafka, which does not tell it of batches that it could not read.
			known := errors.Is(tc.want, core.ErrInvalidTimestamp) || tc.name == "base offset" || tc.name == "control"
			unread := tc.name == "bad checksum" || tc.name == "too large"
			if known && p.LogStart != 0 || unread && p.LogStart != -1 {
				t.Errorf("log start %d", p.LogStart)
			}
			if tc.name == "from the future" && (len(p.RecordErrors) != 1 || p.RecordErrors[0].Index != 0 ||
				!strings.Contains(p.RecordErrors[0].Message, "by more than message.timestamp.after.max.ms, 3600000")) {
				t.Errorf("the offending record and its limit are not named: %+v", p.RecordErrors)
			}
			if tc.name == "from the future and compressed" && len(p.RecordErrors) > 0 {
				t.Errorf("records of a compressed batch are named: %+v", p.RecordErrors)
			}
			d := &Describe{Partition: id}
			n.must(d)
			if d.LogEnd != 0 {
				t.Errorf("log end %d after a refusal", d.LogEnd)
			}
			n.arena.Seal()
			if _, live := n.arena.Stats(); live != 0 {
				t.Errorf("%d bytes of a refused request are kept", live)
			}
		})
	}
}

func TestMinInsyncReplicasCountsTheReplicasThatThereAre(t *testing.T) {
	for _, tc := range []struct {
		nodes, down, min int
		acks             int16
		want             error
	}{
		{1, 0, 1, -1, nil},
		{1, 0, 3, -1, nil}, // more than there are: all of them
		{3, 0, 3, -1, nil},
		{3, 0, 9, -1, nil},
		{3, 1, 2, -1, nil},
		{3, 1, 3, -1, core.ErrNotEnoughReplicas},
		{3, 1, 9, -1, core.ErrNotEnoughReplicas},
		{3, 1, 9, 1, nil}, // asks the leader alone
	} {
		t.Run(fmt.Sprintf("%d of %d down, at least %d, acks %d", tc.down, tc.nodes, tc.min, tc.acks), func(t *testing.T) {
			c := newCluster(t, tc.nodes)
			c.tweak = func(cfg *TopicConfig) { cfg.MinInsyncReplicas = int32(tc.min) }
			c.start()
			id := c.topic("t", 1)[0]
			c.advance(5 * core.Second)
			n := c.leader(id)
			for i := range tc.down {
				c.nodes[(int(n.id)+i)%len(c.nodes)].crash()
			}
			c.advance(core.Second)
			n = c.leader(id)
			p := n.produceTo(id, batchOf(1, 10, c.now.Millis()))
			p.Acks = tc.acks
			n.ask(p)
			c.advance(core.Second)
			if !n.answered(p) || !errors.Is(p.Err, tc.want) {
				t.Fatalf("answered %v: %v, want %v", n.answered(p), p.Err, tc.want)
			}
		})
	}
}

func TestFullDiskRefusesClientsAndNotCoordinators(t *testing.T) {
	c := newCluster(t, 1)
	c.nodes[0].machine = func(id core.PartitionID, topic string, num int32) StateMachine {
		if topic == "_counter" {
			return &counter{}
		}
		return nil
	}
	c.start()
	id, internal := c.topic("t", 1)[0], c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	n.space = raftlog.SpaceLow
	p := n.produceTo(id, batchOf(1, 10, 0))
	n.ask(p)
	if !errors.Is(p.Err, core.ErrStorageFull) {
		t.Errorf("client: %v", p.Err)
	}
	n.must(&Coordinate{Partition: internal, Command: core.Command{Body: 5}})
	del := &DeleteRecords{Partition: id, Offset: -1}
	n.must(del)
}

// TestTooLargeIsToldWhileOthersAreInFlight sends what can never be taken when there
// is no room either: a client that is told to try again would do so for ever.
func TestTooLargeIsToldWhileOthersAreInFlight(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.hold = true
	n.ask(n.produceTo(id, batchOf(1, 500<<10, core.Second.Millis())))
	for size, want := range map[int]error{700 << 10: core.ErrOverloaded, 2 << 20: core.ErrBatchTooLarge} {
		p := n.produceTo(id, batchOf(1, size, core.Second.Millis()))
		n.ask(p)
		if !n.answered(p) || !errors.Is(p.Err, want) {
			t.Errorf("%d bytes: %v, want %v", size, p.Err, want)
		}
	}
	n.release()
	c.run()
}

func TestBytesInFlightAreBounded(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.hold = true
	first, second := n.produceTo(id, batchOf(1, 700<<10, 0)), n.produceTo(id, batchOf(1, 700<<10, 0))
	n.ask(first)
	n.ask(second)
	if !errors.Is(second.Err, core.ErrOverloaded) || n.answered(first) {
		t.Fatalf("second: %v; first answered: %v", second.Err, n.answered(first))
	}
	n.release()
	if !n.answered(first) || first.Err != nil || n.shard.Stats().InflightBytes != 0 {
		t.Fatalf("first: %v, %d bytes in flight", first.Err, n.shard.Stats().InflightBytes)
	}
}

func TestRepeatedBatchInFlightWaitsForTheSameCommit(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.hold = true
	batch := idempotent(batchOf(2, 10, 0), 77, 0, 0)
	first, repeat := n.produceTo(id, batch), n.produceTo(id, batch)
	n.ask(first)
	n.ask(repeat)
	if n.answered(repeat) {
		t.Fatal("a repeat is acknowledged before its first copy is durable")
	}
	n.release()
	if first.Err != nil || repeat.Err != nil || !n.answered(repeat) || repeat.BaseOffset != first.BaseOffset {
		t.Fatalf("first %v at %d, repeat %v at %d", first.Err, first.BaseOffset, repeat.Err, repeat.BaseOffset)
	}
	d := &Describe{Partition: id, Producers: true}
	n.must(d)
	if d.LogEnd != 2 || len(d.Active) != 1 || d.Active[0].LastSequence != 1 {
		t.Fatalf("%+v", d)
	}
}

func TestProducerStateSurvivesARestart(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	for i := range int32(7) {
		n.must(n.produceTo(id, idempotent(batchOf(10, 10, 0), 77, 3, i*10)))
	}
	c.advance(core.Second) // maintenance may flush, with a checkpoint
	n.crash()
	n.restart()
	c.advance(core.Second)
	repeat := n.produceTo(id, idempotent(batchOf(10, 10, 0), 77, 3, 60))
	n.must(repeat)
	if repeat.BaseOffset != 60 {
		t.Fatalf("repeat at offset %d, its first copy was at 60", repeat.BaseOffset)
	}
	gap := n.produceTo(id, idempotent(batchOf(10, 10, 0), 77, 3, 80))
	n.ask(gap)
	if !errors.Is(gap.Err, core.ErrOutOfOrderSeq) {
		t.Fatalf("gap: %v", gap.Err)
	}
	old := n.produceTo(id, idempotent(batchOf(10, 10, 0), 77, 2, 70))
	n.ask(old)
	if !errors.Is(old.Err, core.ErrFencedProducer) {
		t.Fatalf("old epoch: %v", old.Err)
	}
}

func TestLogAppendTime(t *testing.T) {
	c := newCluster(t, 1)
	c.tweak = func(cfg *TopicConfig) { cfg.LogAppendTime = true }
	c.start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	p := n.produceTo(id, batchOf(1, 10, 1))
	n.must(p)
	if p.AppendTimeMs != c.now.Millis() {
		t.Fatalf("append time %d at %d", p.AppendTimeMs, c.now.Millis())
	}
	repeated := idempotent(batchOf(1, 10, 1), 7, 0, 0)
	n.must(n.produceTo(id, repeated))
	again := n.produceTo(id, repeated)
	n.must(again)
	if again.AppendTimeMs != c.now.Millis() || again.BaseOffset != 1 {
		t.Fatalf("repeat: append time %d, offset %d", again.AppendTimeMs, again.BaseOffset)
	}
	lo := &ListOffset{Partition: id, Timestamp: c.now.Millis(), CurrentEpoch: -1}
	n.must(lo)
	if lo.Offset != 0 || lo.FoundTimeMs != c.now.Millis() {
		t.Fatalf("%+v", lo)
	}
}

// TestAttributesWithoutMeaning are kept where the header stays as it was sent, and
// go where the broker writes it.
func TestAttributesWithoutMeaning(t *testing.T) {
	for _, tc := range []struct {
		byBroker   bool
		sent, want int16
	}{
		{false, 0x7F00, 0x7F00},
		{false, 0x7F08, 0},
		{true, 0x7F01, 0x09},
	} {
		c := newCluster(t, 1)
		c.tweak = func(cfg *TopicConfig) { cfg.LogAppendTime = tc.byBroker }
		c.start()
		id := c.topic("t", 1)[0]
		c.run()
		n := c.leader(id)
		b := batchOf(1, 10, 500)
		b.SetAttributes(tc.sent)
		b.Seal()
		n.must(n.produceTo(id, b))
		if stored := n.batchAt(id, 0); stored.Attributes() != tc.want || stored.Verify() != nil {
			t.Errorf("sent %#x: %#x, want %#x; %v", tc.sent, stored.Attributes(), tc.want, stored.Verify())
		}
	}
}

func TestClientsDoNotChooseTheTypeOfTimestamps(t *testing.T) {
	now := core.Second.Millis()
	for _, tc := range []struct {
		base, largest int64
		codec         int16
		byBroker      bool // LogAppendTime
		named         int  // records of a batch that is refused; 0 if it is taken
	}{
		{500, 500, 0, false, 0},
		{-1 << 40, 500, 0, false, 0}, // all records have the largest one
		{500, 500, 1, false, 0},
		{500, -1, 0, false, 3},
		{500, -1, 1, false, 3},
		{500, now + 3600001, 1, false, 3},
		{500, 500, 0, true, 3},
		{500, 500, 1, true, 3},
	} {
		c := newCluster(t, 1)
		c.tweak = func(cfg *TopicConfig) { cfg.LogAppendTime = tc.byBroker; cfg.TimestampBeforeMaxMs = 1 << 32 }
		c.start()
		id := c.topic("t", 1)[0]
		c.run()
		n := c.leader(id)
		b := batchOf(3, 10, tc.base)
		b.SetAppendTime(tc.largest)
		b.SetAttributes(b.Attributes() | tc.codec)
		b.Seal()
		p := n.produceTo(id, b)
		n.ask(p)
		if tc.named > 0 {
			if !errors.Is(p.Err, core.ErrInvalidTimestamp) || len(p.RecordErrors) != tc.named || p.RecordErrors[2].Index != 2 || p.LogStart != 0 {
				t.Errorf("%+v: %v, log start %d, %v", tc, p.Err, p.LogStart, p.RecordErrors)
			}
			continue
		}
		if p.Err != nil {
			t.Errorf("%+v: %v", tc, p.Err)
			continue
		}
		f := fetchFrom(id, 0)
		n.must(f)
		stored := core.Batch(f.Parts[0].Data.Bufs[0].Bytes())
		if err := stored.Verify(); err != nil || stored.Attributes() != tc.codec || stored.MaxTimestamp() != tc.largest {
			t.Errorf("%+v: attributes %#x, largest timestamp %d, %v", tc, stored.Attributes(), stored.MaxTimestamp(), err)
		}
		f.dropData()
	}
}

// TestTheShardBoundsItsProducers: the partition that has the most gives way, idle ones
// first, and no partition goes below the floor; the same after a restart.
func TestTheShardBoundsItsProducers(t *testing.T) {
	const most = 100
	c := newCluster(t, 1)
	c.limits.ShardProducersMax = most
	c.start()
	ids := c.topic("t", 4)
	c.run()
	n := c.leader(ids[0])
	produce := func(id core.PartitionID, pid int64, seq int32) {
		t.Helper()
		n.must(n.produceTo(id, idempotent(batchOf(1, 10, 1000), pid, 0, seq)))
	}
	check := func(when string) {
		t.Helper()
		sum := 0
		for _, id := range ids {
			sum += n.shard.partitions[id].producers.len()
		}
		if st := n.shard.Stats(); st.Producers != sum || sum > most {
			t.Fatalf("%s: %d producers, counted %d, bound %d", when, sum, st.Producers, most)
		}
	}
	for pid := range int64(producersFloor) {
		produce(ids[0], pid, 0)
	}
	for pid := range int64(30) {
		produce(ids[1], pid, 0)
	}
	for pid := range int64(1000) {
		produce(ids[2], 10_000+pid, 0)
		check("a flood of ids")
		if pid%10 == 0 {
			produce(ids[2], 10_000, int32(1+pid/10)) // one of them is busy
		}
	}
	if n.shard.Stats().ProducersDropped == 0 || n.shard.partitions[ids[2]].producers.byID[10_000] == nil {
		t.Errorf("%d are dropped; the busy one is known: %v", n.shard.Stats().ProducersDropped, n.shard.partitions[ids[2]].producers.byID[10_000] != nil)
	}
	for i, want := range []int{producersFloor, 30} {
		if got := n.shard.partitions[ids[i]].producers.len(); got != want {
			t.Errorf("partition %d has %d producers left of %d", i, got, want)
		}
	}
	// What is remembered recognises what comes again.
	again := n.produceTo(ids[0], idempotent(batchOf(1, 10, 1000), 3, 0, 0))
	n.must(again)
	if again.BaseOffset != 3 {
		t.Errorf("a batch that came again is at offset %d, want 3", again.BaseOffset)
	}
	// The next to grow gets its room from whoever has most.
	for pid := range int64(40) {
		produce(ids[3], pid, 0)
		check("another grows")
	}
	if got := n.shard.partitions[ids[3]].producers.len(); got < 30 {
		t.Errorf("the partition that grows has %d of 40 producers", got)
	}
	n.crash()
	n.restart()
	c.run()
	check("after a restart")
	for _, id := range ids {
		if got := n.shard.partitions[id].producers.len(); got < producersFloor {
			t.Errorf("partition %d has %d producers after a restart", id, got)
		}
	}
}

// TestTheFloorOfProducersHoldsForManyPartitions that together have more than the bound.
func TestTheFloorOfProducersHoldsForManyPartitions(t *testing.T) {
	c := newCluster(t, 1)
	c.limits.ShardProducersMax = 1
	c.start()
	ids := c.topic("t", 5)
	c.run()
	n := c.leader(ids[0])
	for pid := range int64(3 * producersFloor) {
		for _, id := range ids {
			n.must(n.produceTo(id, idempotent(batchOf(1, 10, 1000), pid, 0, 0)))
		}
	}
	for _, id := range ids {
		if got := n.shard.partitions[id].producers.len(); got < producersFloor {
			t.Errorf("partition %d has %d producers", id, got)
		}
	}
	// The metadata partition counts among those that have a floor.
	if got, limit := n.shard.Stats().Producers, producersFloor*(len(ids)+1); got > limit {
		t.Errorf("%d producers of %d", got, limit)
	}
}
