package shard

import (
	"errors"
	"testing"

	"millrace/core"
)

func TestThreeReplicasElectReplicateAndFailOver(t *testing.T) {
	c := newCluster(t, 3).start()
	id := c.topic("t", 1)[0]
	c.advance(3 * core.Second)
	n := c.leader(id)
	for i := range 20 {
		p := n.produceTo(id, batchOf(2, 100, 0))
		n.must(p)
		if p.BaseOffset != core.Offset(2*i) {
			t.Fatalf("batch %d at offset %d", i, p.BaseOffset)
		}
	}
	c.advance(core.Second)
	for _, m := range c.nodes {
		p := m.shard.partitions[id]
		if p.high != 40 || p.leader != n.id {
			t.Errorf("node %d: high watermark %d, leader %d", m.id, p.high, p.leader)
		}
		if leader, epoch := p.cell.Get(); m == n && (leader != n.id || epoch != p.term) {
			t.Errorf("node %d publishes leader %d of epoch %d", m.id, leader, epoch)
		}
	}
	n.crash()
	c.advance(3 * core.Second)
	next := c.leader(id)
	p := next.produceTo(id, batchOf(1, 100, 0))
	next.must(p)
	if p.BaseOffset != 40 || next == n {
		t.Fatalf("after the failover: offset %d", p.BaseOffset)
	}
	f := fetchFrom(id, 0)
	next.must(f)
	if got := offsetsOf(&f.Parts[0]); len(got) != 21 {
		t.Fatalf("read %v", got)
	}
	f.dropData()
	n.restart()
	c.advance(5 * core.Second)
	if got := n.shard.partitions[id]; got.high != 41 || got.leader != next.id {
		t.Fatalf("the node that came back: high watermark %d, leader %d", got.high, got.leader)
	}
}

func TestShutdownHandsLeadershipOver(t *testing.T) {
	c := newCluster(t, 3).start()
	id := c.topic("t", 1)[0]
	c.advance(3 * core.Second)
	old := c.leader(id)
	old.must(old.produceTo(id, batchOf(1, 10, 0)))
	old.send(Event{Kind: EventShutdown})
	c.run() // no time passes
	n := c.leader(id)
	p := n.produceTo(id, batchOf(1, 10, 0))
	n.must(p)
	if n == old || p.BaseOffset != 1 {
		t.Fatalf("node %d leads after node %d was stopped; offset %d", n.id, old.id, p.BaseOffset)
	}
}

func TestDivergentTailIsTruncatedAndNeverServed(t *testing.T) {
	c := newCluster(t, 3).start()
	id := c.topic("t", 1)[0]
	c.advance(3 * core.Second)
	old := c.leader(id)
	old.must(old.produceTo(id, batchOf(1, 10, 0)))

	// The old leader is cut off and takes a batch that nobody else gets.
	c.drop = func(from, to core.NodeID) bool { return from == old.id || to == old.id }
	lost := old.produceTo(id, idempotent(batchOf(5, 10, 0), 9, 0, 0))
	old.ask(lost)
	if old.answered(lost) {
		t.Fatal("acknowledged without a majority")
	}
	for _, n := range c.nodes {
		if n != old {
			n.send(Event{Kind: EventNode, From: old.id, Up: false})
			old.send(Event{Kind: EventNode, From: n.id, Up: false})
		}
	}
	c.advance(3 * core.Second)
	if !old.answered(lost) || !errors.Is(lost.Err, core.ErrNotLeader) {
		t.Fatalf("the deposed leader's client: answered %v, %v", old.answered(lost), lost.Err)
	}
	n := c.leader(id)
	if n == old {
		t.Fatal("a leader without a majority still serves")
	}
	p := n.produceTo(id, batchOf(1, 10, 0))
	n.must(p)
	if p.BaseOffset != 1 {
		t.Fatalf("offset %d", p.BaseOffset)
	}

	c.drop = nil
	for _, m := range c.nodes {
		if m != old {
			m.send(Event{Kind: EventNode, From: old.id, Up: true})
			old.send(Event{Kind: EventNode, From: m.id, Up: true})
		}
	}
	c.advance(5 * core.Second)
	got := old.shard.partitions[id]
	if got.high != 2 || got.log.NextOffset() != 2 || got.producers.len() != 0 {
		t.Fatalf("the deposed leader: high watermark %d, log end %d, %d producers", got.high, got.log.NextOffset(), got.producers.len())
	}
}

func TestLostMessagesAreMadeUpFor(t *testing.T) {
	c := newCluster(t, 3).start()
	id := c.topic("t", 1)[0]
	c.advance(3 * core.Second)
	n := c.leader(id)
	lose := true
	c.drop = func(from, to core.NodeID) bool { return lose && (from == n.id || to == n.id) }
	p := n.produceTo(id, batchOf(1, 10, 0))
	n.ask(p)
	lose = false
	if n.answered(p) {
		t.Fatal("acknowledged although every message was lost")
	}
	c.advance(3 * core.Second)
	if !n.answered(p) || p.Err != nil {
		t.Fatalf("answered %v: %v", n.answered(p), p.Err)
	}
}

func TestFollowerFarBehindIsServedFromDisk(t *testing.T) {
	for _, flushBytes := range []int64{64 << 20, 256 << 10} { // from the journal, from segments
		c := newCluster(t, 3)
		c.tweak = func(cfg *TopicConfig) { cfg.Log.FlushBytesMax = flushBytes }
		c.start()
		id := c.topic("t", 1)[0]
		c.advance(3 * core.Second)
		n := c.leader(id)
		behind := c.nodes[n.id%3]
		behind.crash()
		for range 300 {
			n.must(n.produceTo(id, batchOf(1, 10000, 0)))
		}
		c.advance(2 * core.Second)
		n.store.LogSet(0).Evict(n.arena, 1<<30)
		behind.restart()
		c.advance(10 * core.Second)
		if got := behind.shard.partitions[id]; got.high != 300 {
			t.Fatalf("flush at %d: high watermark %d after catching up, want 300", flushBytes, got.high)
		}
	}
}
