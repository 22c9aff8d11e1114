package shard

import (
	"errors"
	"testing"

	"millrace/core"
)

// segmented makes a topic of one partition with n batches that only segments hold.
func segmented(c *cluster, n int) (*testNode, core.PartitionID) {
	c.t.Helper()
	c.tweak = func(cfg *TopicConfig) { cfg.Log.FlushBytesMax, cfg.Log.SegmentBytes = 64<<10, 8<<20 }
	c.start()
	id := c.topic("t", 1)[0]
	c.run()
	node := c.leader(id)
	for range n {
		node.must(node.produceTo(id, batchOf(2, 10_000, 0)))
	}
	node.must(node.produceTo(id, batchOf(2, 64<<10, 0))) // over FlushBytesMax
	c.advance(5 * core.Second)
	node.store.LogSet(0).Evict(node.arena, 1<<30)
	return node, id
}

// readFrom fetches at most maxBytes and returns the base offsets and where to go on.
func readFrom(n *testNode, id core.PartitionID, at core.Offset, maxBytes int) ([]core.Offset, core.Offset) {
	n.c.t.Helper()
	f := fetchFrom(id, at)
	f.Parts[0].MaxBytes = maxBytes
	n.must(f)
	if f.Parts[0].Err != nil {
		n.c.t.Fatal(f.Parts[0].Err)
	}
	got, next := offsetsOf(&f.Parts[0]), f.Parts[0].Data.Next
	f.dropData()
	return got, next
}

// TestSequentialReadersAreReadAheadFor: from the second read on, what follows is
// read before it is asked for, every batch is delivered once and in order for any
// size of request, and nothing stays behind.
func TestSequentialReadersAreReadAheadFor(t *testing.T) {
	for _, maxBytes := range []int{1, 30_000, 100_000, 1 << 20, 3 << 20} {
		c := newCluster(t, 1)
		n, id := segmented(c, 300)
		p := n.shard.partitions[id]
		var all []core.Offset
		aheads := 0
		for at := core.Offset(0); at < p.high; {
			got, next := readFrom(n, id, at, maxBytes)
			if len(got) == 0 || next <= at {
				t.Fatalf("%d bytes: nothing at offset %d of %d", maxBytes, at, p.high)
			}
			all, at = append(all, got...), next
			aheads += len(p.aheads)
		}
		for i, o := range all {
			if o != core.Offset(2*i) {
				t.Fatalf("%d bytes: batch %d has offset %d", maxBytes, i, o)
			}
		}
		if len(all) != 301 || aheads == 0 || n.shard.stats.ReadsAhead == 0 {
			t.Errorf("%d bytes: %d batches, %d reads ahead", maxBytes, len(all), n.shard.stats.ReadsAhead)
		}
		c.advance(aheadIdle + core.Second)
		if n.shard.aheadBytes != 0 || len(n.shard.aheads) != 0 || p.aheads != nil {
			t.Errorf("%d bytes: %d bytes read ahead are kept", maxBytes, n.shard.aheadBytes)
		}
		n.arena.Seal()
		if _, live := n.arena.Stats(); live != 0 {
			t.Errorf("%d bytes: %d bytes of payload memory are live", maxBytes, live)
		}
	}
}

// TestReadsAtRandomAreNotReadAheadFor: only who goes on where a read ended is.
func TestReadsAtRandomAreNotReadAheadFor(t *testing.T) {
	c := newCluster(t, 1)
	n, id := segmented(c, 300)
	for _, at := range []core.Offset{0, 400, 200, 100, 500} {
		readFrom(n, id, at, 30_000)
	}
	if n.shard.stats.ReadsAhead != 0 {
		t.Errorf("%d reads ahead", n.shard.stats.ReadsAhead)
	}
}

// TestReadersOfOneHistoryDoNotDisturbEachOther: two at the same place and one
// behind each get all of it.
func TestReadersOfOneHistoryDoNotDisturbEachOther(t *testing.T) {
	c := newCluster(t, 1)
	n, id := segmented(c, 300)
	p := n.shard.partitions[id]
	var at [3]core.Offset
	for busy := true; busy; {
		busy = false
		var fs [len(at)]*Fetch
		for i := range at {
			fs[i] = fetchFrom(id, at[i])
			fs[i].Parts[0].MaxBytes = 200_000 - 50_000*(i/2)
			n.send(Event{Kind: EventRequest, Request: fs[i]})
		}
		c.run()
		for i, f := range fs {
			if at[i] == p.high {
				continue
			}
			got := offsetsOf(&f.Parts[0])
			if !n.answered(f) || f.Parts[0].Err != nil || len(got) == 0 || got[0] != at[i] {
				t.Fatalf("reader %d at %d got %v, %v", i, at[i], got, f.Parts[0].Err)
			}
			at[i], busy = f.Parts[0].Data.Next, true
			f.dropData()
		}
	}
}

// readingAhead begins to read the history in sequence and returns where the reader
// goes on. What follows has been read and its completion is n.events.
func readingAhead(n *testNode, id core.PartitionID, damaged bool) core.Offset {
	n.c.t.Helper()
	_, at := readFrom(n, id, 0, 100_000)
	f := fetchFrom(id, at)
	f.Parts[0].MaxBytes = 100_000
	n.send(Event{Kind: EventRequest, Request: f})
	n.turn() // the read
	if damaged {
		n.disk.Faults.ReadEIO = 1
	}
	n.turn() // its answer, and the job that reads ahead
	n.disk.Faults.ReadEIO = 0
	if !n.answered(f) || len(n.shard.aheads) != 1 || n.shard.aheads[0].job == nil || len(n.events) != 1 {
		n.c.t.Fatalf("answered %v, %d read ahead, %d events", n.answered(f), len(n.shard.aheads), len(n.events))
	}
	at = f.Parts[0].Data.Next
	f.dropData()
	return at
}

// before steps events of its own into the next turns, then those at hand.
func (n *testNode) before(evs ...Event) {
	rest := n.events
	n.events = evs
	n.turn()
	n.events = append(n.events, rest...)
}

// TestDeletionEndsReadingAhead: while a job is under way, with a reader waiting
// for it or not.
func TestDeletionEndsReadingAhead(t *testing.T) {
	for _, waits := range []bool{false, true} {
		c := newCluster(t, 1)
		n, id := segmented(c, 300)
		f := fetchFrom(id, readingAhead(n, id, false))
		if waits {
			n.before(Event{Kind: EventRequest, Request: f})
			if a := n.shard.aheads[0]; a.waiter == nil || n.answered(f) {
				t.Fatal("the reader does not wait for what is being read")
			}
		}
		im := c.image.WithoutTopic("t")
		im.Version = c.image.Version + 1
		c.image = im
		n.before(Event{Kind: EventImage, Image: im})
		if len(n.shard.aheads) != 0 {
			t.Error("a deleted partition is read ahead")
		}
		c.run()
		if waits {
			if !n.answered(f) {
				t.Error("the reader that waited is not answered")
			}
			f.dropData()
		}
		c.advance(30 * core.Second)
		n.arena.Seal()
		if _, live := n.arena.Stats(); live != 0 || n.shard.aheadBytes != 0 {
			t.Errorf("waits %v: %d bytes of payload memory are live, %d read ahead", waits, live, n.shard.aheadBytes)
		}
	}
}

// TestReadingAheadGivesWayToReads: what nobody has come for is dropped when a read
// finds no memory.
func TestReadingAheadGivesWayToReads(t *testing.T) {
	c := newCluster(t, 1)
	n, id := segmented(c, 300)
	_, at := readFrom(n, id, 0, 100_000)
	readFrom(n, id, at, 100_000)
	if n.shard.aheadBytes == 0 {
		t.Fatal("nothing was read ahead")
	}
	c.now += 2 * core.Second
	for {
		if _, err := n.arena.Alloc(1 << 20); err != nil {
			break
		}
	}
	if got, _ := readFrom(n, id, 0, 1<<20); len(got) == 0 || got[0] != 0 {
		t.Errorf("got %v", got)
	}
	if len(n.shard.aheads) != 0 {
		t.Error("what was read ahead is kept while a read finds no memory")
	}
}

// TestReadingAheadGivesWayToWhatArrives: neither a request that finds no memory nor a
// command of a coordinator waits for readers that may never come back.
func TestReadingAheadGivesWayToWhatArrives(t *testing.T) {
	for name, arrives := range map[string]func(n *testNode) bool{
		"a request": func(n *testNode) bool { return n.shard.MakeRoom(1000) },
		"a command": func(n *testNode) bool { _, err := n.shard.alloc(1000); return err == nil },
	} {
		c := newCluster(t, 1)
		n, id := segmented(c, 300)
		_, at := readFrom(n, id, 0, 100_000)
		readFrom(n, id, at, 100_000)
		if n.shard.aheadBytes == 0 {
			t.Fatal("nothing was read ahead")
		}
		n.arena.Seal()
		for n.shard.opts.Logs.Evict(n.arena, 1<<20) {
			if _, err := n.arena.Alloc(1 << 20); err != nil {
				t.Fatal(err)
			}
		}
		for {
			if _, err := n.arena.Alloc(1 << 20); err != nil {
				break
			}
		}
		if !arrives(n) {
			t.Errorf("%s finds no memory beside what was read ahead", name)
		}
	}
}

// TestAFailedReadAhead: a reader that waits for it hears of it; one that does not
// reads again.
func TestAFailedReadAhead(t *testing.T) {
	for _, waits := range []bool{false, true} {
		c := newCluster(t, 1)
		n, id := segmented(c, 300)
		f := fetchFrom(id, readingAhead(n, id, true))
		if waits {
			n.before(Event{Kind: EventRequest, Request: f})
		}
		c.run()
		if !waits {
			n.ask(f)
		}
		if err := f.Parts[0].Err; !n.answered(f) || errors.Is(err, core.ErrStorageFailed) != waits || waits != (f.Parts[0].Data.Bytes == 0) {
			t.Errorf("waits %v: answered %v, %v, %d bytes", waits, n.answered(f), err, f.Parts[0].Data.Bytes)
		}
		f.dropData()
	}
}
