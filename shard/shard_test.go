package shard

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"millrace/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAwait(t *testing.T) {
	c := newCluster(t, 1).start()
	n := c.nodes[0]
	r := &Await{MinVersion: 1, Partitions: []core.PartitionID{core.FirstPartition, core.FirstPartition + 1}, Deadline: c.now + core.Second}
	n.ask(r)
	if n.answered(r) {
		t.Fatal("answered before the image")
	}
	n.hold = true
	c.topic("t", 2)
	c.run()
	if n.answered(r) {
		t.Fatal("answered before the partitions lead")
	}
	n.release()
	if !n.answered(r) || r.Err != nil {
		t.Fatalf("answered %v, %v", n.answered(r), r.Err)
	}
	late := &Await{MinVersion: 7, Deadline: c.now + core.Second}
	n.ask(late)
	c.advance(2 * core.Second)
	if !n.answered(late) || !errors.Is(late.Err, core.ErrNoLeader) {
		t.Fatalf("at the deadline: %v", late.Err)
	}
	unknown := &Await{MinVersion: 1, Partitions: []core.PartitionID{999}, Deadline: c.now + core.Second}
	n.ask(unknown)
	if !errors.Is(unknown.Err, core.ErrUnknownPartition) {
		t.Fatalf("unknown partition: %v", unknown.Err)
	}
}

func TestFailedJournalStopsEverythingAndAcknowledgesNothing(t *testing.T) {
	c := newCluster(t, 1)
	counting(c)
	c.start()
	id, cid := c.topic("t", 1)[0], c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	f := fetchFrom(id, 0)
	f.Deadline = c.now + core.Second
	n.ask(f)
	n.hold = true
	p, cmd := n.produceTo(id, batchOf(1, 10, 0)), add(cid, 1)
	n.ask(p)
	n.ask(cmd)
	for _, turn := range n.store.Journal().Commit() {
		turn.Err = errors.New("sync: input/output error")
		n.send(Event{Kind: EventPersisted, Turn: turn})
	}
	c.run()
	if n.fatal == nil {
		t.Fatal("Effects do not say that it is fatal")
	}
	later := n.produceTo(id, batchOf(1, 10, 0))
	n.ask(later)
	for _, r := range []Request{p, f, cmd, later} {
		if !n.answered(r) || !errors.Is(r.Base().Err, core.ErrStorageFailed) && !errors.Is(r.Base().Err, core.ErrNotCoordinator) {
			t.Errorf("%T: answered %v, %v", r, n.answered(r), r.Base().Err)
		}
	}
	if leader, _ := n.shard.partitions[id].cell.Get(); leader != core.NoNode {
		t.Errorf("node %d is still published as the leader", leader)
	}
	c.advance(10 * core.Second)
}

func TestOrphanedLogIsDeletedAndANewerOneKept(t *testing.T) {
	c := newCluster(t, 1).start()
	a, b := c.topic("a", 1)[0], c.topic("b", 1)[0]
	last := c.topic("z", 1)[0]
	c.run()
	n := c.nodes[0]
	n.must(n.produceTo(a, batchOf(1, 10, 0)))
	n.must(n.produceTo(last, batchOf(1, 10, 0)))
	n.crash()
	// The node missed that topic a was deleted, and its first image is older
	// than topic z.
	c.image = c.image.WithoutTopic("a").WithoutTopic("z")
	n.restart()
	c.advance(core.Second)
	if n.shard.partitions[a] != nil {
		t.Error("the log of a deleted topic is kept")
	}
	if n.shard.partitions[b] == nil || n.shard.partitions[last] == nil {
		t.Error("a log that is not an orphan was deleted")
	}
}

func TestTopicSettingsFollowTheImage(t *testing.T) {
	c := newCluster(t, 1).start()
	id := c.topic("t", 1)[0]
	c.run()
	n := c.leader(id)
	c.tweak = func(cfg *TopicConfig) { cfg.MaxMessageBytes = 100 }
	im := *c.image
	im.ClusterConfigs = map[string]string{"message.max.bytes": "100"}
	c.publish(&im)
	c.run()
	p := n.produceTo(id, batchOf(1, 1000, 0))
	n.ask(p)
	if !errors.Is(p.Err, core.ErrBatchTooLarge) {
		t.Fatal(p.Err)
	}
	old := *c.image
	old.Version--
	n.send(Event{Kind: EventImage, Image: (&old).WithoutTopic("t")})
	c.run()
	if n.shard.partitions[id] == nil {
		t.Fatal("an older image was followed")
	}
}

func TestIdleGroupsArmNoTimers(t *testing.T) {
	c := newCluster(t, 3).start()
	c.topic("t", 50)
	c.advance(5 * core.Second)
	for _, n := range c.nodes {
		if got := len(n.shard.timers.heap); got > 2 {
			t.Errorf("node %d: %d timers are armed, want those of maintenance and retention", n.id, got)
		}
	}
	leaders := 0
	for _, n := range c.nodes {
		leaders += n.shard.Stats().Leaders
	}
	if leaders != 51 {
		t.Errorf("%d leaders of 51 groups", leaders)
	}
}

func TestTimersFireInOrder(t *testing.T) {
	var q timers
	c := chance{1}
	all := make([]note, 200)
	for round := range 20 {
		for i := range all {
			switch c.below(3) {
			case 0:
				q.stop(&all[i].timer)
			default:
				q.set(&all[i].timer, &all[i], core.Tick(c.below(1000)))
			}
		}
		armed, last := 0, core.Tick(-1)
		for i := range all {
			if all[i].armed() {
				armed++
			}
		}
		for o := q.due(2000, q.seq); o != nil; o = q.due(2000, q.seq) {
			at := o.(*note).timer.at
			if at < last {
				t.Fatalf("round %d: %d after %d", round, at, last)
			}
			last = at
			armed--
		}
		if armed != 0 || q.next() != 0 {
			t.Fatalf("round %d: %d timers are lost", round, armed)
		}
	}
}

// again arms itself whenever it fires.
type again struct {
	timer
	fired int
}

func (a *again) onTimer(s *Shard, now core.Tick) {
	a.fired++
	s.timers.set(&a.timer, a, now)
}

// TestATimerThatIsArmedForNowWaits: there are others, and it fires once for an event.
func TestATimerThatIsArmedForNowWaits(t *testing.T) {
	c := newCluster(t, 1).start()
	c.run()
	s := c.nodes[0].shard
	a, later := &again{}, make([]note, 20)
	s.timers.set(&a.timer, a, c.now)
	for i := range later {
		s.timers.set(&later[i].timer, &later[i], c.now+core.Second)
	}
	for i := range 3 {
		c.nodes[0].send(Event{Kind: EventTimer})
		c.nodes[0].turn()
		if a.fired != i+1 {
			t.Fatalf("fired %d times for %d events", a.fired, i+1)
		}
	}
}

type note struct{ timer }

func (*note) onTimer(*Shard, core.Tick) {}

func TestSameSeedSameRun(t *testing.T) {
	run := func() string {
		c := newCluster(t, 3).start()
		ids := c.topic("t", 20)
		c.advance(3 * core.Second)
		c.nodes[1].crash()
		c.advance(3 * core.Second)
		out := ""
		for _, id := range ids {
			p := c.leader(id).shard.partitions[id]
			out += fmt.Sprintln(id, p.leader, p.term, p.log.LastIndex())
		}
		return out
	}
	if a, b := run(), run(); a != b {
		t.Fatalf("two runs differ:\n%s\n%s", a, b)
	}
}
