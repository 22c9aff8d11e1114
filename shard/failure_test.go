package shard

import (
	"errors"
	"testing"

	"millrace/core"
)

func TestFailedFlushStopsTheShardWithoutAnotherWrite(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(n.produceTo(id, batchOf(1, 100<<10, c.now.Millis())))
	c.advance(2 * core.Second)
	c.tweak = func(cfg *TopicConfig) { cfg.Log.FlushBytesMax = 4 << 10 }
	im := *c.image
	im.ClusterConfigs = map[string]string{"log.flush.bytes": "4096"}
	c.publish(&im)
	c.run()
	submitted := n.store.Journal().Stats().Commits
	n.disk.Faults.WriteEIO = 1
	c.advance(core.Second)
	if n.fatal == nil {
		t.Fatal("the shard goes on after a flush has failed")
	}
	if got := n.store.Journal().Stats().Commits; got != submitted {
		t.Fatalf("%d frames were written: it was they that told the shard", got-submitted)
	}
	for _, r := range []Request{n.produceTo(id, batchOf(1, 10, c.now.Millis())), fetchFrom(id, 0)} {
		n.ask(r)
		if !n.answered(r) || !errors.Is(r.Base().Err, core.ErrStorageFailed) {
			t.Errorf("%T: %v", r, r.Base().Err)
		}
	}
}

func TestShardHearsOfAFailureThatAnotherOneFound(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(n.produceTo(id, batchOf(1, 100, c.now.Millis())))
	c.advance(2 * core.Second)
	// The journal fails while nothing of this shard is on its way.
	n.disk.Faults.WriteEIO, n.disk.Faults.SyncEIO = 1, 1
	other := n.store.LogSet(0)
	l, err := other.Create(core.FirstPartition+100, c.topicConfig(nil, nil).Log)
	if err != nil {
		t.Fatal(err)
	}
	turn := other.Collect()
	n.store.Journal().Submit(turn)
	n.store.Journal().Commit()
	if n.fatal != nil || l.Damaged() != nil {
		t.Fatal("the test has told the shard itself")
	}
	c.advance(core.Second)
	if n.fatal == nil {
		t.Fatal("the shard has not noticed within a second")
	}
}

func TestFailedReadsWhileACoordinatorLoadsAreTriedAgain(t *testing.T) {
	c := newCluster(t, 1)
	ms := counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	for i := 1; i <= 20; i++ {
		n.must(add(id, i))
	}
	for _, lasting := range []bool{false, true} {
		n.crash()
		n.start()
		n.disk.Faults.ReadEIO = 1
		c.run()
		c.advance(800 * core.Millisecond)
		if p := n.shard.partitions[id]; p.broken != nil || p.host.led || p.host.tries == 0 {
			t.Fatalf("after failed reads: broken %v, led %v, %d tries", p.broken, p.host.led, p.host.tries)
		}
		if lasting {
			break
		}
		n.disk.Faults.ReadEIO = 0
		c.advance(core.Second)
		q := add(id, -1)
		n.must(q)
		if q.Command.Reply != 210 || ms[0].sum != 210 {
			t.Fatalf("after the reads came through: %v, sum %d", q.Command.Reply, ms[0].sum)
		}
	}
	c.advance(10 * core.Second)
	q := add(id, 1)
	n.ask(q)
	if !n.answered(q) || !errors.Is(q.Err, core.ErrStorageFailed) {
		t.Fatalf("while reads fail for good: %v", q.Err)
	}
}
