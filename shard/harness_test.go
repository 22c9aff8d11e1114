package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/chaos/sim/vdisk"
	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/core/records"
	"millrace/raftlog"
)

// cluster drives the shards of a few nodes, one shard each, over simulated
// disks: the same loop as in production, one turn at a time.
type cluster struct {
	t     testing.TB
	now   core.Tick
	nodes []*testNode
	image *meta.Image
	// drop says which frames are lost.
	drop func(from, to core.NodeID) bool
	// tweak changes the settings of every topic.
	tweak  func(*TopicConfig)
	limits Limits
	nextID core.PartitionID
	cut    map[core.NodeID]bool // for drop
}

type testNode struct {
	c      *cluster
	id     core.NodeID
	disk   *vdisk.Disk
	store  *raftlog.Store
	arena  *arena.Arena
	shard  *Shard
	events []Event
	done   []Request
	next   core.Tick
	fatal  error
	down   bool
	// hold keeps turns from being written, until release.
	hold    bool
	space   raftlog.SpaceState
	machine func(id core.PartitionID, topic string, num int32) StateMachine
	images  []*meta.Image
}

var testLimits = Limits{
	InflightBytesMax: 1 << 20, FetchWaitersMax: 100, ProducersMax: 1000, ShardProducersMax: 100_000, ProducerExpirationMs: 86400000, JobsMax: 8,
}

func newCluster(t testing.TB, nodes int) *cluster {
	c := &cluster{t: t, now: core.Second, limits: testLimits, nextID: core.FirstPartition, image: &meta.Image{}}
	for i := range nodes {
		n := &testNode{c: c, id: core.NodeID(i + 1), disk: vdisk.New(vdisk.Options{SectorBytes: 4096, CapacityBytes: 1 << 30, Rand: rand.New(rand.NewPCG(uint64(i), 1))})}
		c.nodes = append(c.nodes, n)
	}
	return c
}

// start opens every node's store and makes its shard.
func (c *cluster) start() *cluster {
	c.t.Helper()
	for _, n := range c.nodes {
		n.start()
	}
	c.run()
	return c
}

func (n *testNode) start() {
	n.c.t.Helper()
	store, _, err := raftlog.Open(n.disk.FS(), raftlog.Options{
		ShardCount: 1, JournalFileBytes: 1 << 20, JournalSpare: 1, DirectBytes: 1 << 20, Logf: n.logf,
	}, func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.store, n.arena, n.down, n.fatal = store, arena.NewHeap(64<<20), false, nil
	var voters []core.NodeID
	for _, m := range n.c.nodes {
		voters = append(voters, m.id)
	}
	n.shard, err = New(Options{
		ID: 0, Count: 1, Node: n.id, Logs: store.LogSet(0), Arena: n.arena, Seed: uint64(n.id),
		Machine:        func(id core.PartitionID, topic string, num int32) StateMachine { return n.newMachine(id, topic, num) },
		TopicConfig:    n.c.topicConfig,
		Limits:         n.c.limits,
		MetadataVoters: voters,
		SpaceState:     func() raftlog.SpaceState { return n.space },
		Logf:           n.logf,
	})
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.events = []Event{{Kind: EventTimer}}
	if n.c.image.Version > 0 {
		n.events = append(n.events, Event{Kind: EventImage, Image: n.c.image})
	}
}

func (n *testNode) newMachine(id core.PartitionID, topic string, num int32) StateMachine {
	if n.machine == nil {
		return nil
	}
	return n.machine(id, topic, num)
}

func (n *testNode) logf(format string, args ...any) {
	n.c.t.Logf("%v node %d: %s", n.c.now, n.id, fmt.Sprintf(format, args...))
}

func (c *cluster) topicConfig(*meta.Image, *meta.Topic) TopicConfig {
	cfg := TopicConfig{
		Log: raftlog.LogConfig{
			SegmentBytes: 1 << 20, SegmentMs: 1 << 40, RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: 1 << 20, Delete: true,
		},
		MaxMessageBytes: 1 << 20, MinInsyncReplicas: 1, TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 3600000,
	}
	if c.tweak != nil {
		c.tweak(&cfg)
	}
	return cfg
}

// topic makes a topic with n partitions replicated on all nodes and publishes
// the image.
func (c *cluster) topic(name string, n int) []core.PartitionID {
	var replicas []core.NodeID
	for _, m := range c.nodes {
		replicas = append(replicas, m.id)
	}
	t := &meta.Topic{Name: name, ID: core.TopicID{15: byte(c.nextID)}, Internal: name[0] == '_'}
	var ids []core.PartitionID
	for i := range n {
		t.Partitions = append(t.Partitions, &meta.Partition{ID: c.nextID, Num: int32(i), Replicas: replicas, Leader: &meta.LeaderCell{}})
		ids = append(ids, c.nextID)
		c.nextID++
	}
	c.publish(c.image.WithTopic(t))
	return ids
}

func (c *cluster) publish(im *meta.Image) {
	im.Version = c.image.Version + 1
	c.image = im
	for _, n := range c.nodes {
		n.send(Event{Kind: EventImage, Image: im})
	}
}

func (n *testNode) send(ev Event) {
	if n.down {
		if ev.Kind == EventPeerFrame {
			ev.Frame.Release()
		}
		return
	}
	n.events = append(n.events, ev)
}

// run takes turns until nobody has an event left.
func (c *cluster) run() {
	c.t.Helper()
	for round := 0; ; round++ {
		if round > 100000 {
			c.t.Fatal("the cluster does not come to rest")
		}
		busy := false
		for _, n := range c.nodes {
			if !n.down && len(n.events) > 0 {
				n.turn()
				busy = true
			}
		}
		if !busy {
			return
		}
	}
}

// turn is one turn of a node's loop.
func (n *testNode) turn() {
	var out Effects
	events := n.events
	n.events = nil
	for _, ev := range events {
		n.shard.Step(n.c.now, ev, &out)
	}
	n.shard.Finish(n.c.now, &out)
	if out.Turn != nil {
		n.store.Journal().Submit(out.Turn)
	}
	for _, send := range out.PeerSends {
		n.route(send)
	}
	for _, j := range out.Jobs {
		j.Run()
		n.events = append(n.events, Event{Kind: EventJobDone, Job: j})
	}
	if out.Image != nil {
		n.images = append(n.images, out.Image)
	}
	n.done = append(n.done, out.Done...)
	n.next, n.fatal = out.NextTimer, out.Fatal
	if !n.hold {
		n.commit()
	}
}

func (n *testNode) commit() {
	for _, t := range n.store.Journal().Commit() {
		n.events = append(n.events, Event{Kind: EventPersisted, Turn: t})
	}
	for {
		more, err := n.store.Journal().Prepare()
		if err != nil && n.disk.Faults == (vdisk.Faults{}) {
			n.c.t.Fatal(err)
		}
		if err != nil || !more {
			return
		}
	}
}

func (n *testNode) release() {
	n.hold = false
	n.commit()
	n.c.run()
}

func (n *testNode) route(send PeerSend) {
	size := len(send.Header)
	for _, b := range send.Bufs {
		size += b.Len()
	}
	to := n.c.nodes[send.To-1]
	lost := to.down || n.c.drop != nil && n.c.drop(n.id, send.To)
	var frame arena.Buf
	if !lost {
		var err error
		if frame, err = to.arena.Alloc(size); err != nil {
			n.c.t.Fatal(err)
		}
		at := copy(frame.Bytes(), send.Header)
		for _, b := range send.Bufs {
			at += copy(frame.Bytes()[at:], b.Bytes())
		}
	}
	for _, b := range send.Bufs {
		b.Release()
	}
	if !lost {
		to.send(Event{Kind: EventPeerFrame, From: n.id, Frame: frame})
	}
}

// advance lets time pass; timers fire when they are due.
func (c *cluster) advance(d core.Tick) {
	c.t.Helper()
	for end := c.now + d; ; {
		c.run()
		due := end
		for _, n := range c.nodes {
			if !n.down && n.next > 0 && n.next < due {
				due = max(n.next, c.now)
			}
		}
		c.now = due
		fired := false
		for _, n := range c.nodes {
			if !n.down && n.next > 0 && n.next <= c.now {
				n.events = append(n.events, Event{Kind: EventTimer})
				fired = true
			}
		}
		c.run()
		if c.now == end && !fired {
			return
		}
		if !fired && due == end {
			return
		}
		if due == end && c.quiet() {
			return
		}
	}
}

// quiet says that no timer is due any more.
func (c *cluster) quiet() bool {
	for _, n := range c.nodes {
		if !n.down && n.next > 0 && n.next <= c.now {
			return false
		}
	}
	return true
}

// crash stops a node: what was not written is lost.
func (n *testNode) crash() {
	n.down, n.events, n.hold = true, nil, false
	n.disk.Crash(func(int) int { return 0 })
	for _, m := range n.c.nodes {
		if m != n {
			m.send(Event{Kind: EventNode, From: n.id, Up: false})
		}
	}
}

func (n *testNode) restart() {
	n.start()
	for _, m := range n.c.nodes {
		if m != n {
			m.send(Event{Kind: EventNode, From: n.id, Up: true})
			if m.down {
				n.send(Event{Kind: EventNode, From: m.id, Up: false})
			}
		}
	}
	n.c.run()
}

// leader is the node that serves a partition; it fails the test if there is
// none.
func (c *cluster) leader(id core.PartitionID) *testNode {
	c.t.Helper()
	for _, n := range c.nodes {
		if !n.down && n.shard.partitions[id] != nil && n.shard.partitions[id].serving {
			return n
		}
	}
	c.t.Fatalf("nobody serves partition %d", id)
	return nil
}

// ask sends a request and lets the cluster run. The request may still wait.
func (n *testNode) ask(r Request) {
	n.c.t.Helper()
	n.send(Event{Kind: EventRequest, Request: r})
	n.c.run()
}

func (n *testNode) answered(r Request) bool { return slices.Contains(n.done, r) }

// must asks and wants an answer without an error.
func (n *testNode) must(r Request) {
	n.c.t.Helper()
	n.ask(r)
	if !n.answered(r) {
		n.c.t.Fatalf("%T is not answered", r)
	}
	if err := r.Base().Err; err != nil {
		n.c.t.Fatalf("%T: %v", r, err)
	}
}

// batchOf makes a batch of n records with values of size bytes, at ms.
func batchOf(n, size int, ms int64) core.Batch {
	rs := make([]core.Record, n)
	for i := range rs {
		rs[i] = core.Record{Key: []byte(fmt.Sprint(i)), Value: make([]byte, size)}
	}
	return records.Encode(make([]byte, records.Size(rs)), rs, ms)
}

func idempotent(b core.Batch, id int64, epoch int16, seq int32) core.Batch {
	b.SetProducer(id, epoch, seq)
	b.Seal()
	return b
}

// produceTo makes a Produce of b in the node's arena.
func (n *testNode) produceTo(id core.PartitionID, b []byte) *Produce {
	buf, err := n.arena.Alloc(len(b))
	if err != nil {
		n.c.t.Fatal(err)
	}
	copy(buf.Bytes(), b)
	return &Produce{Partition: id, Records: buf, Acks: -1}
}

func fetchFrom(id core.PartitionID, offset core.Offset) *Fetch {
	return &Fetch{MinBytes: 1, MaxBytes: 1 << 20, Parts: []FetchPart{{
		Partition: id, Offset: offset, MaxBytes: 1 << 20, CurrentEpoch: -1, LastEpoch: -1, KnownHighWatermark: -1,
	}}}
}

// offsetsOf lists the base offsets of what a part has read.
func offsetsOf(part *FetchPart) []core.Offset {
	var out []core.Offset
	err := eachBatch(part.Data, func(b core.Batch, _ arena.Buf) error { out = append(out, b.BaseOffset()); return b.Verify() })
	if err != nil {
		panic(err)
	}
	return out
}
