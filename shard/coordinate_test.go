package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
)

// counter is a state machine that adds up the numbers it is given. Adding 0
// waits in the machine until the next number; adding nothing ("now") is answered
// at once.
type counter struct {
	sum      int
	led      int
	resigned int
	failed   int
	waiting  []*core.Command
	replays  int
	deadline core.Tick
	timers   int
	size     int64
	publish  bool
	trim     core.Offset
}

func (m *counter) Handle(now core.Tick, cmd *core.Command, out *core.Output) {
	if sizes, ok := cmd.Body.([]int); ok { // one Write of each size, each adds 1
		for _, n := range sizes {
			v := append(binary.BigEndian.AppendUint64(nil, 1), make([]byte, n)...)
			out.Writes = append(out.Writes, core.Write{Records: []core.Record{{Value: v}}})
		}
		out.Writes[len(sizes)-1].Replies = []*core.Command{cmd}
		return
	}
	n, ok := cmd.Body.(int)
	if !ok { // "now"
		cmd.Reply = m.sum
		out.Replies = append(out.Replies, cmd)
		return
	}
	if n == 0 {
		m.waiting = append(m.waiting, cmd)
		return
	}
	cmd.Reply = m.sum + n
	for _, w := range m.waiting {
		w.Reply = m.sum + n
	}
	if n < 0 { // a question: no records
		cmd.Reply = m.sum
		out.Writes = append(out.Writes, core.Write{Replies: []*core.Command{cmd}})
		return
	}
	out.Writes = append(out.Writes, core.Write{
		Records: []core.Record{{Key: []byte("add"), Value: binary.BigEndian.AppendUint64(nil, uint64(n))}},
		Replies: append(m.waiting, cmd), Cookie: n,
	})
	m.waiting = nil
	if m.publish {
		out.Image = &meta.Image{Version: uint64(m.sum + n)}
	}
	out.TrimBelow, m.trim = m.trim, 0
}

func (m *counter) Replay(base core.Offset, rs []core.Record) {
	m.replays++
	for _, r := range rs {
		m.sum += int(binary.BigEndian.Uint64(r.Value))
	}
}
func (m *counter) Failed(core.Tick, any, error)                { m.failed++ }
func (m *counter) Lead(core.Tick, core.Term, *core.Output)     { m.led++ }
func (m *counter) Timer(now core.Tick, out *core.Output)       { m.timers++; m.deadline = 0 }
func (m *counter) Deadline() core.Tick                         { return m.deadline }
func (m *counter) LogSize(start, next core.Offset, size int64) { m.size = size }
func (m *counter) Reset()                                      { m.sum = 0 }
func (m *counter) Resign(now core.Tick, out *core.Output) {
	m.resigned++
	for _, c := range m.waiting {
		c.Reply = "resigned"
		out.Writes = append(out.Writes, core.Write{Replies: []*core.Command{c}})
	}
	m.waiting = nil
}

func counting(c *cluster) []*counter {
	ms := make([]*counter, len(c.nodes))
	for i, n := range c.nodes {
		n.machine = func(id core.PartitionID, topic string, num int32) StateMachine {
			if topic != "_counter" {
				return nil
			}
			ms[i] = &counter{}
			return ms[i]
		}
	}
	return ms
}

func add(id core.PartitionID, n int) *Coordinate {
	return &Coordinate{Partition: id, Command: core.Command{Body: n}}
}

func TestCoordinatorRepliesWaitForTheCommit(t *testing.T) {
	c := newCluster(t, 1)
	ms := counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	n.hold = true
	one, question, two := add(id, 1), add(id, -1), add(id, 2)
	for _, r := range []*Coordinate{one, question, two} {
		n.ask(r)
		if n.answered(r) {
			t.Fatal("answered before the commit")
		}
	}
	now := &Coordinate{Partition: id, Command: core.Command{Body: "now"}}
	n.ask(now)
	if !n.answered(now) || now.Command.Reply != 3 {
		t.Fatalf("what need not wait waits: %v", now.Command.Reply)
	}
	if ms[0].sum != 3 {
		t.Fatalf("the leader does not see its own records: %d", ms[0].sum)
	}
	n.release()
	if one.Command.Reply != 1 || question.Command.Reply != 1 || two.Command.Reply != 3 {
		t.Fatalf("%v %v %v", one.Command.Reply, question.Command.Reply, two.Command.Reply)
	}
	at := func(r Request) int { return slices.Index(n.done, r) }
	if at(one) < 0 || at(question) < at(one) || at(two) < at(question) {
		t.Fatalf("order of replies: %d %d %d", at(one), at(question), at(two))
	}
}

// A command of several Writes is answered with the last, so that it does not succeed
// where one in the middle finds no memory.
func TestNothingIsAppendedBehindWhatCouldNotBe(t *testing.T) {
	c := newCluster(t, 1)
	ms := counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(add(id, 1))
	for {
		if _, err := n.arena.Alloc(arena.ChunkBytes); err != nil {
			break
		}
	}
	q := &Coordinate{Partition: id, Command: core.Command{Body: []int{10, 2 << 20, 10}}}
	n.ask(q)
	if !n.answered(q) || !errors.Is(q.Command.Err, core.ErrOverloaded) {
		t.Errorf("answered %v with %v", n.answered(q), q.Command.Err)
	}
	if ms[0].sum != 2 || ms[0].failed != 2 {
		t.Errorf("a sum of %d, %d Writes failed", ms[0].sum, ms[0].failed)
	}
}

func TestCoordinatorIsRebuiltFromItsLog(t *testing.T) {
	c := newCluster(t, 1)
	ms := counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	for i := 1; i <= 100; i++ {
		n.must(add(id, i))
	}
	n.crash()
	n.restart()
	c.advance(core.Second)
	question := add(id, -1)
	n.must(question)
	if question.Command.Reply != 5050 || ms[0].led != 1 {
		t.Fatalf("sum %v after the restart, Lead called %d times", question.Command.Reply, ms[0].led)
	}
}

func TestCoordinatorTrimsPublishesAndKeepsTime(t *testing.T) {
	c := newCluster(t, 1)
	ms := counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	n.must(add(id, 1))
	n.must(add(id, 2))
	ms[0].trim, ms[0].publish, ms[0].deadline = 2, true, c.now+core.Second
	n.hold = true
	r := add(id, 3)
	n.ask(r)
	if len(n.images) != 0 {
		t.Fatal("an image is published before the commit")
	}
	n.release()
	if len(n.images) != 1 || n.images[0].Version != 6 {
		t.Fatalf("images: %v", n.images)
	}
	d := &Describe{Partition: id}
	n.must(d)
	if d.LogStart != 2 {
		t.Fatalf("log start %d, want 2", d.LogStart)
	}
	c.advance(2 * core.Second)
	if ms[0].timers != 1 {
		t.Fatalf("Timer was called %d times", ms[0].timers)
	}
}

func TestShutdownAnswersWaitingCommands(t *testing.T) {
	c := newCluster(t, 1)
	counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.run()
	n := c.leader(id)
	w := add(id, 0)
	n.ask(w)
	n.send(Event{Kind: EventShutdown})
	c.run()
	if !n.answered(w) || w.Command.Reply != "resigned" {
		t.Fatalf("answered %v: %v", n.answered(w), w.Command.Reply)
	}
	late := add(id, 1)
	n.ask(late)
	if !errors.Is(late.Err, core.ErrShuttingDown) || !errors.Is(late.Command.Err, core.ErrShuttingDown) {
		t.Fatalf("after the shutdown: %v", late.Err)
	}
}

func TestNewLeaderOfACoordinatorKnowsEverythingCommitted(t *testing.T) {
	c := newCluster(t, 3)
	ms := counting(c)
	c.start()
	id := c.topic("_counter", 1)[0]
	c.advance(3 * core.Second)
	old := c.leader(id)
	for i := 1; i <= 10; i++ {
		old.must(add(id, i))
	}
	waits := add(id, 0)
	old.ask(waits)
	old.crash()
	c.advance(5 * core.Second)
	n := c.leader(id)
	q := add(id, -1)
	n.must(q)
	if n == old || q.Command.Reply != 55 {
		t.Fatalf("node %d says %v", n.id, q.Command.Reply)
	}
	elsewhere := c.nodes[0]
	for _, m := range c.nodes {
		if m != n && !m.down {
			elsewhere = m
		}
	}
	r := add(id, 1)
	elsewhere.ask(r)
	if !errors.Is(r.Err, core.ErrNotCoordinator) {
		t.Fatal(r.Err)
	}
	if got := fmt.Sprint(ms[elsewhere.id-1].sum); got != "55" {
		t.Fatalf("a follower has replayed %s", got)
	}
}

func TestMetadataIsRebuiltFromItsLogOnDisk(t *testing.T) {
	c := newCluster(t, 1)
	var m *counter
	n := c.nodes[0]
	n.machine = func(id core.PartitionID, topic string, num int32) StateMachine {
		m = &counter{}
		return m
	}
	c.start()
	for i := 1; i <= 10; i++ {
		n.must(add(core.MetadataPartition, i))
	}
	n.crash()
	n.restart()
	c.advance(core.Second)
	question := add(core.MetadataPartition, -1)
	n.must(question)
	if question.Command.Reply != 55 || m.led != 1 {
		t.Fatalf("sum %v after the restart, Lead called %d times", question.Command.Reply, m.led)
	}
}
