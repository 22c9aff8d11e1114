//go:build !race

// The race detector allocates too, and makes pools forget what they keep.

package shard

import "testing"

// TestFetchFromMemoryAllocates counts what a shard allocates for a Fetch of 16
// batches at the tail: the list of their buffers.
func TestFetchFromMemoryAllocates(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	for range 16 {
		n.must(n.produceTo(id, batchOf(1, 1000, 0)))
	}
	var out Effects
	f := fetchFrom(id, 0)
	allocs := testing.AllocsPerRun(100, func() {
		n.shard.Step(c.now, Event{Kind: EventRequest, Request: f}, &out)
		n.shard.Finish(c.now, &out)
		if len(out.Done) != 1 || len(f.Parts[0].Data.Bufs) != 16 {
			t.Fatalf("%d done, %d buffers", len(out.Done), len(f.Parts[0].Data.Bufs))
		}
		f.dropData()
		out.Reset()
	})
	if allocs > 1 {
		t.Errorf("%v allocations, want 1", allocs)
	}
}
