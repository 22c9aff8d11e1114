package shard

import (
	"errors"
	"math"
	"slices"
	"testing"

	"millrace/core"
)

func TestFetchWaitsForMinBytes(t *testing.T) {
	c := newCluster(t, 1).start()
	ids := c.topic("t", 2)
	c.run()
	n := c.leader(ids[0])
	size := len(batchOf(1, 100, 0))
	f := fetchFrom(ids[0], 0)
	f.Parts = append(f.Parts, fetchFrom(ids[1], 0).Parts...)
	f.MinBytes, f.Deadline = 2*size, c.now+core.Second
	n.ask(f)
	n.must(n.produceTo(ids[0], batchOf(1, 100, 0)))
	if n.answered(f) {
		t.Fatal("answered below MinBytes")
	}
	n.must(n.produceTo(ids[1], batchOf(1, 100, 0)))
	if !n.answered(f) || f.Parts[0].Data.Bytes != size || f.Parts[1].Data.Bytes != size {
		t.Fatalf("answered %v: %+v", n.answered(f), f.Parts)
	}
	if n.shard.Stats().FetchWaiters != 0 {
		t.Fatal("an answered fetch still waits")
	}
	f.dropData()
}

// As in Kafka, what a limit keeps out counts towards MinBytes up to the limit:
// a fetch does not wait for bytes that are there.
func TestFetchCountsWhatALimitKeepsOut(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	size := len(batchOf(1, 600, 0))
	n.must(n.produceTo(id, batchOf(1, 600, 0)))
	n.must(n.produceTo(id, batchOf(1, 600, 0)))
	for _, tc := range []struct {
		min, max, partMax int
		answered          bool
	}{
		{size + 100, size + 100, 1 << 20, true},
		{size + 101, 1 << 20, size + 100, false},
		{2 * size, 1 << 20, 1 << 20, true},
		{2*size + 1, 1 << 20, 1 << 20, false},
	} {
		f := fetchFrom(id, 0)
		f.MinBytes, f.MaxBytes, f.Parts[0].MaxBytes, f.Deadline = tc.min, tc.max, tc.partMax, c.now+core.Second
		n.ask(f)
		if n.answered(f) != tc.answered || tc.answered && (f.AtOnce || f.Have < tc.min) {
			t.Errorf("%+v: answered %v, at once %v, counted %d", tc, n.answered(f), f.AtOnce, f.Have)
		}
		n.send(Event{Kind: EventCancel, Request: f})
		c.run()
		if !n.answered(f) || f.AtOnce || f.Parts[0].Data.Bytes == 0 {
			t.Errorf("%+v: canceled: answered %v, at once %v, %d bytes", tc, n.answered(f), f.AtOnce, f.Parts[0].Data.Bytes)
		}
		f.dropData()
	}
}

func TestFetchIsAnsweredAtItsDeadlineOrWhenCanceled(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(n.produceTo(id, batchOf(1, 10, 0)))
	a, b := fetchFrom(id, 0), fetchFrom(id, 0)
	a.MinBytes, a.Deadline = 1<<20, c.now+core.Second
	b.MinBytes, b.Deadline = 1<<20, c.now+100*core.Second
	n.ask(a)
	n.ask(b)
	c.advance(core.Second)
	if !n.answered(a) || n.answered(b) || a.Parts[0].Data.Bytes == 0 {
		t.Fatalf("at the deadline: %v %v, %d bytes", n.answered(a), n.answered(b), a.Parts[0].Data.Bytes)
	}
	n.send(Event{Kind: EventCancel, Request: b})
	n.send(Event{Kind: EventCancel, Request: a}) // too late: nothing happens
	c.run()
	if !n.answered(b) || b.Err != nil || b.Parts[0].Data.Bytes == 0 {
		t.Fatalf("canceled: %v, %v", n.answered(b), b.Err)
	}
	a.dropData()
	b.dropData()
}

func TestFetchWaitersAreBounded(t *testing.T) {
	c := newCluster(t, 1)
	c.limits.FetchWaitersMax = 2
	c.start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	var fs []*Fetch
	for range 3 {
		f := fetchFrom(id, 0)
		f.Deadline = c.now + core.Second
		n.ask(f)
		fs = append(fs, f)
	}
	if n.answered(fs[0]) || n.answered(fs[1]) || !n.answered(fs[2]) || fs[2].Err != nil {
		t.Fatalf("%v %v %v", n.answered(fs[0]), n.answered(fs[1]), n.answered(fs[2]))
	}
	n.send(Event{Kind: EventShutdown})
	c.run()
	if !n.answered(fs[0]) || !n.answered(fs[1]) {
		t.Fatal("a shutdown leaves fetches waiting")
	}
}

func TestFetchSizes(t *testing.T) {
	c := newCluster(t, 1).start()
	ids := c.topic("t", 2)
	c.run()
	n := c.leader(ids[0])
	size := len(batchOf(1, 1000, 0))
	for _, id := range ids {
		for range 5 {
			n.must(n.produceTo(id, batchOf(1, 1000, 0)))
		}
	}
	for _, tc := range []struct {
		max, partMax int
		want         [2]int
	}{
		{1 << 20, 1 << 20, [2]int{5, 5}},
		{1 << 20, 2 * size, [2]int{2, 2}},
		{1, 1 << 20, [2]int{1, 0}},          // the first batch is returned even if larger
		{1 << 20, 1, [2]int{1, 0}},          // also beyond its partition's limit
		{6 * size, 1 << 20, [2]int{5, 1}},   // over all parts
		{5*size + 1, 1 << 20, [2]int{5, 0}}, // only the very first may be too large
	} {
		f := fetchFrom(ids[0], 0)
		f.Parts = append(f.Parts, fetchFrom(ids[1], 0).Parts...)
		f.MaxBytes, f.Parts[0].MaxBytes, f.Parts[1].MaxBytes = tc.max, tc.partMax, tc.partMax
		n.must(f)
		got := [2]int{len(offsetsOf(&f.Parts[0])), len(offsetsOf(&f.Parts[1]))}
		if got != tc.want {
			t.Errorf("max %d, of a part %d: %v batches, want %v", tc.max, tc.partMax, got, tc.want)
		}
		f.dropData()
	}
}

func TestFetchErrors(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	for range 3 {
		n.must(n.produceTo(id, batchOf(2, 10, 0)))
	}
	n.must(&DeleteRecords{Partition: id, Offset: 2})
	term := int32(n.shard.partitions[id].term)
	for _, tc := range []struct {
		name string
		set  func(*FetchPart)
		want error
	}{
		{"beyond the end", func(p *FetchPart) { p.Offset = 7 }, core.ErrOffsetOutOfRange},
		{"below the log start", func(p *FetchPart) { p.Offset = 1 }, core.ErrOffsetOutOfRange},
		{"old epoch", func(p *FetchPart) { p.CurrentEpoch = term - 1 }, core.ErrFencedEpoch},
		{"new epoch", func(p *FetchPart) { p.CurrentEpoch = term + 1 }, core.ErrUnknownEpoch},
		{"unknown partition", func(p *FetchPart) { p.Partition = 4711 }, core.ErrUnknownPartition},
		{"at the end", func(p *FetchPart) { p.Offset = 6 }, nil},
		{"right epoch", func(p *FetchPart) { p.CurrentEpoch, p.LastEpoch = term, term }, nil},
	} {
		f := fetchFrom(id, 2)
		tc.set(&f.Parts[0])
		f.Deadline = c.now
		n.must(f)
		if !errors.Is(f.Parts[0].Err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, f.Parts[0].Err, tc.want)
		}
		if tc.want == nil && (f.Parts[0].HighWatermark != 6 || f.Parts[0].LogStart != 2) {
			t.Errorf("%s: %+v", tc.name, f.Parts[0])
		}
		f.dropData()
	}
}

func TestFetchReportsADivergingEpoch(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(n.produceTo(id, batchOf(4, 10, 0)))
	first := n.shard.partitions[id].term
	n.crash()
	n.restart()
	c.advance(core.Second)
	n.must(n.produceTo(id, batchOf(4, 10, 0)))
	f := fetchFrom(id, 6)
	f.Parts[0].LastEpoch = int32(first)
	n.must(f)
	if d := f.Parts[0].Diverging; f.Parts[0].Err != nil || d == nil || d.Epoch != first || d.End != 4 {
		t.Fatalf("%+v, %v", f.Parts[0].Diverging, f.Parts[0].Err)
	}
	for _, tc := range []struct {
		epoch int32
		want  EpochEndOffset
	}{
		{int32(first), EpochEndOffset{first, 4}},
		{int32(n.shard.partitions[id].term), EpochEndOffset{n.shard.partitions[id].term, 8}},
		{1000, EpochEndOffset{NoEpoch, -1}},
		{-1, EpochEndOffset{NoEpoch, -1}},
		{0, EpochEndOffset{0, 0}},
		{-2, EpochEndOffset{^core.Term(1), 0}}, // -2
	} {
		r := &EpochEnd{Partition: id, Epoch: tc.epoch, CurrentEpoch: -1}
		n.must(r)
		if r.End != tc.want {
			t.Errorf("epoch %d: %+v, want %+v", tc.epoch, r.End, tc.want)
		}
	}
}

func TestAnEpochIsCheckedUnlessItIsMinusOne(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	term := int32(n.shard.partitions[id].term)
	for epoch, want := range map[int32]error{
		-1: nil, term: nil, term - 1: core.ErrFencedEpoch, term + 1: core.ErrUnknownEpoch,
		-2: core.ErrFencedEpoch, math.MinInt32: core.ErrFencedEpoch, math.MaxInt32: core.ErrUnknownEpoch,
	} {
		f := fetchFrom(id, 0)
		f.Parts[0].CurrentEpoch = epoch
		n.ask(f)
		for _, r := range []Request{
			&ListOffset{Partition: id, Timestamp: -1, CurrentEpoch: epoch},
			&EpochEnd{Partition: id, Epoch: term, CurrentEpoch: epoch},
		} {
			n.ask(r)
			if !n.answered(r) || !errors.Is(r.Base().Err, want) {
				t.Errorf("%T with epoch %d: %v, want %v", r, epoch, r.Base().Err, want)
			}
		}
	}
}

func TestHistoryIsReadByJobsAndNothingLeaks(t *testing.T) {
	c := newCluster(t, 1)
	c.limits.JobsMax = 2
	c.start()
	ids := c.topic("t", 4)
	c.run()
	n := c.leader(ids[0])
	for _, id := range ids {
		for range 50 {
			n.must(n.produceTo(id, batchOf(2, 1000, 0)))
		}
	}
	n.store.LogSet(0).Evict(n.arena, 1<<30)
	// More catch-up reads than slots: all are answered, in order, in the end.
	var fs []*Fetch
	for i := range 10 {
		f := fetchFrom(ids[i%4], 0)
		f.Parts = append(f.Parts, fetchFrom(ids[(i+1)%4], 40).Parts...)
		f.MaxBytes, f.Deadline = 50000, c.now+10*core.Second
		n.send(Event{Kind: EventRequest, Request: f})
		fs = append(fs, f)
	}
	c.advance(core.Second)
	for i, f := range fs {
		if !n.answered(f) {
			t.Fatalf("fetch %d is not answered", i)
		}
		got := offsetsOf(&f.Parts[0])
		if len(got) == 0 || got[0] != 0 || !slices.IsSorted(got) {
			t.Fatalf("fetch %d: %v, %v", i, got, f.Parts[0].Err)
		}
		f.dropData()
	}
	c.publish(c.image.WithoutTopic("t"))
	c.run()
	c.advance(10 * core.Second)
	n.arena.Seal()
	if _, live := n.arena.Stats(); live != 0 {
		t.Fatalf("%d bytes of payload memory are live after everything was deleted", live)
	}
}

func TestDeletedPartitionAnswersItsWaiters(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	f := fetchFrom(id, 0)
	f.Deadline = c.now + core.Second
	n.ask(f)
	n.hold = true
	p := n.produceTo(id, batchOf(1, 10, 0))
	n.ask(p)
	c.publish(c.image.WithoutTopic("t"))
	c.run()
	if !n.answered(p) || p.Err == nil {
		t.Fatalf("produce: answered %v, %v", n.answered(p), p.Err)
	}
	if !n.answered(f) || !errors.Is(f.Parts[0].Err, core.ErrUnknownPartition) {
		t.Fatalf("fetch: answered %v, %v", n.answered(f), f.Parts[0].Err)
	}
	n.release()
	if s := n.shard.Stats(); s.InflightBytes != 0 || s.FetchWaiters != 0 {
		t.Fatalf("%+v", s)
	}
}
