package shard

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/records"
)

var (
	modelSeed = flag.Uint64("model.seed", 0, "run the model test with this seed alone")
	modelRuns = flag.Uint64("model.runs", 8, "how many seeds the model test runs")
)

// TestRandomHistories runs idempotent producers and a reader against one and
// three nodes that crash, lose messages, stall and evict, and checks what was
// promised: an acknowledged batch is read at its offset for ever, exactly once,
// in its producer's order; what was read never changes.
func TestRandomHistories(t *testing.T) {
	seeds := []uint64{*modelSeed}
	if *modelSeed == 0 {
		seeds = seeds[:0]
		for s := range *modelRuns {
			seeds = append(seeds, 1000+s)
		}
	}
	for _, seed := range seeds {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("nodes=%d/seed=%d", nodes, seed), func(t *testing.T) {
				h := newHistory(t, nodes, seed)
				for range 400 {
					h.act()
				}
				h.settle()
			})
		}
	}
}

type modelProducer struct {
	id      int64
	epoch   int16
	seq     int32
	request *Produce // outstanding, nil if none
	at      *testNode
	acked   []core.Offset // by batch number
	newest  core.Term     // of the leaders that acknowledged
}

type history struct {
	t         *testing.T
	c         *cluster
	rng       *rand.Rand
	id        core.PartitionID
	producers []*modelProducer
	cut       map[[2]core.NodeID]bool
	read      map[core.Offset]uint64 // what was read: producer<<32 | sequence
	next      core.Offset
	fetch     *Fetch
	fetchAt   *testNode
}

func newHistory(t *testing.T, nodes int, seed uint64) *history {
	h := &history{t: t, c: newCluster(t, nodes), rng: rand.New(rand.NewPCG(seed, 1)), cut: map[[2]core.NodeID]bool{}, read: map[core.Offset]uint64{}}
	h.c.tweak = func(cfg *TopicConfig) { cfg.Log.FlushBytesMax = 256 << 10; cfg.Log.SegmentBytes = 1 << 20 }
	h.c.drop = func(from, to core.NodeID) bool { return h.cut[[2]core.NodeID{from, to}] || h.rng.IntN(50) == 0 }
	h.c.start()
	h.id = h.c.topic("t", 1)[0]
	h.c.advance(3 * core.Second)
	for i := range 3 {
		h.producers = append(h.producers, &modelProducer{id: int64(100 + i)})
	}
	return h
}

// anyNode is a node that is up, the serving one more often than others.
func (h *history) anyNode() *testNode {
	var up, serving []*testNode
	for _, n := range h.c.nodes {
		if n.down {
			continue
		}
		up = append(up, n)
		if p := n.shard.partitions[h.id]; p != nil && p.serving {
			serving = append(serving, n)
		}
	}
	if len(serving) > 0 && h.rng.IntN(10) > 0 {
		return serving[h.rng.IntN(len(serving))]
	}
	if len(up) == 0 {
		return nil
	}
	return up[h.rng.IntN(len(up))]
}

func (h *history) act() {
	switch n := h.c.nodes[h.rng.IntN(len(h.c.nodes))]; h.rng.IntN(24) {
	case 0:
		if !n.down && h.upCount() > len(h.c.nodes)/2 {
			n.crash()
		}
	case 1, 2:
		if n.down {
			n.restart()
		}
	case 3:
		h.setCut(n, true)
	case 4, 5:
		h.setCut(n, false)
	case 6:
		if !n.down {
			n.hold = true
		}
	case 7, 8:
		if n.hold {
			n.release()
		}
	case 9:
		if !n.down {
			n.store.LogSet(0).Evict(n.arena, 1<<30)
		}
	case 10, 11:
		h.c.advance(core.Tick(h.rng.IntN(2000)) * core.Millisecond)
	case 12, 13, 14:
		h.consume()
	default:
		h.produce(h.producers[h.rng.IntN(len(h.producers))])
	}
	h.c.run()
	h.collect()
}

func (h *history) upCount() int {
	up := 0
	for _, n := range h.c.nodes {
		if !n.down {
			up++
		}
	}
	return up
}

// setCut cuts a node off from the others, or heals it; the failure detectors
// notice most of the time.
func (h *history) setCut(n *testNode, cut bool) {
	for _, m := range h.c.nodes {
		if m == n || h.cut[[2]core.NodeID{n.id, m.id}] == cut {
			continue
		}
		h.cut[[2]core.NodeID{n.id, m.id}], h.cut[[2]core.NodeID{m.id, n.id}] = cut, cut
		if !cut || h.rng.IntN(4) > 0 {
			n.send(Event{Kind: EventNode, From: m.id, Up: !cut && !m.down})
			m.send(Event{Kind: EventNode, From: n.id, Up: !cut && !n.down})
		}
	}
}

// produce sends a producer's next batch, or the last one again.
func (h *history) produce(p *modelProducer) {
	n := h.anyNode()
	if n == nil || p.request != nil {
		return
	}
	rs := []core.Record{{Value: binary.BigEndian.AppendUint64(nil, uint64(p.id)<<32|uint64(p.seq))}, {Value: make([]byte, h.rng.IntN(20000))}}
	b := idempotent(records.Encode(make([]byte, records.Size(rs)), rs, 1000), p.id, p.epoch, p.seq)
	p.request, p.at = n.produceTo(h.id, b), n
	n.send(Event{Kind: EventRequest, Request: p.request})
}

// consume reads on from where the reader is.
func (h *history) consume() {
	n := h.anyNode()
	if n == nil || h.fetch != nil {
		return
	}
	h.fetch, h.fetchAt = fetchFrom(h.id, h.next), n
	h.fetch.Deadline = h.c.now + core.Second
	n.send(Event{Kind: EventRequest, Request: h.fetch})
}

// collect takes answers in. What a crashed node had is never answered.
func (h *history) collect() {
	for _, p := range h.producers {
		if p.request == nil {
			continue
		}
		switch {
		case p.at.answered(p.request):
			if err := p.request.Err; err == nil {
				p.acked = append(p.acked, p.request.BaseOffset)
				p.seq += 2
				p.newest = max(p.newest, p.request.CurrentEpoch)
			} else if !retriable(err) && p.request.CurrentEpoch >= p.newest {
				// A leader that does not know yet that it is deposed may say
				// anything; clients that have seen a newer one do not ask it.
				h.t.Fatalf("producer %d, sequence %d: %v", p.id, p.seq, err)
			}
			p.request = nil
		case p.at.down || p.at.restarted(p.request):
			p.request = nil
		}
	}
	if h.fetch != nil && h.fetchAt.answered(h.fetch) {
		if part := &h.fetch.Parts[0]; part.Err == nil {
			h.take(h.fetchAt, part)
		} else if !retriable(part.Err) {
			h.t.Fatalf("reading at %d from node %d: %v", h.next, h.fetchAt.id, part.Err)
		}
		h.fetch.dropData()
		h.fetch = nil
	} else if h.fetch != nil && h.fetchAt.down {
		h.fetch = nil
	}
	for _, n := range h.c.nodes {
		n.done = n.done[:0]
	}
}

// restarted says that the node forgot a request in a crash.
func (n *testNode) restarted(r *Produce) bool {
	p := n.shard.partitions[r.Partition]
	if p == nil {
		return true
	}
	for i := range p.tail.len() {
		e := p.tail.at(i)
		if e.request == Request(r) {
			return false
		}
		for _, a := range e.again {
			if a == Request(r) {
				return false
			}
		}
	}
	for _, ev := range n.events {
		if ev.Request == Request(r) {
			return false
		}
	}
	return true
}

func retriable(err error) bool {
	for _, e := range []error{core.ErrNotLeader, core.ErrNoLeader, core.ErrUnknownPartition, core.ErrOverloaded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// take checks what was read against what was read before.
func (h *history) take(n *testNode, part *FetchPart) {
	err := eachBatch(part.Data, func(b core.Batch, _ arena.Buf) error {
		if err := b.Verify(); err != nil {
			return err
		}
		what := uint64(b.ProducerID())<<32 | uint64(b.BaseSequence())
		if was, ok := h.read[b.BaseOffset()]; ok && was != what {
			h.t.Fatalf("node %d: offset %d holds %x, and once held %x", n.id, b.BaseOffset(), what, was)
		}
		if b.LastOffset() >= part.HighWatermark {
			h.t.Fatalf("node %d: offset %d read with the high watermark at %d", n.id, b.LastOffset(), part.HighWatermark)
		}
		h.read[b.BaseOffset()] = what
		h.next = max(h.next, b.LastOffset()+1)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// settle heals everything and checks the whole log on every node.
func (h *history) settle() {
	h.c.drop = nil
	for _, n := range h.c.nodes {
		h.setCut(n, false)
		if n.hold {
			n.release()
		}
		if n.down {
			n.restart()
		}
		for _, m := range h.c.nodes {
			if m != n {
				n.send(Event{Kind: EventNode, From: m.id, Up: true})
			}
		}
	}
	h.c.advance(10 * core.Second)
	h.collect()
	for _, p := range h.producers { // the last batch of each, once more
		for range 5 {
			if p.request = nil; len(p.acked) > int(p.seq)/2 {
				break
			}
			before := len(p.acked)
			h.produce(p)
			h.c.advance(2 * core.Second)
			h.collect()
			if len(p.acked) > before {
				break
			}
		}
		if len(p.acked)*2 != int(p.seq) || p.request != nil {
			h.t.Fatalf("producer %d is stuck at sequence %d", p.id, p.seq)
		}
	}
	leader := h.c.leader(h.id)
	all := h.readAll(leader)
	seen := map[uint64]core.Offset{}
	for _, b := range all {
		if _, twice := seen[b.what]; twice {
			h.t.Fatalf("%x is in the log twice", b.what)
		}
		seen[b.what] = b.base
	}
	for _, p := range h.producers {
		last := core.Offset(-1)
		for i, base := range p.acked {
			at, ok := seen[uint64(p.id)<<32|uint64(2*i)]
			if !ok || at != base || at <= last {
				h.t.Fatalf("producer %d: batch %d was acknowledged at offset %d, is at %d (found %v)", p.id, i, base, at, ok)
			}
			last = at
		}
	}
	for base, what := range h.read {
		if seen[what] != base {
			h.t.Fatalf("%x was read at offset %d and is at %d now", what, base, seen[what])
		}
	}
	for _, n := range h.c.nodes {
		if p := n.shard.partitions[h.id]; p.high != leader.shard.partitions[h.id].high {
			h.t.Errorf("node %d: high watermark %d, node %d has %d", n.id, p.high, leader.id, leader.shard.partitions[h.id].high)
		}
	}
	if len(all) == 0 {
		h.t.Error("nothing was written")
	}
}

type modelBatch struct {
	base core.Offset
	what uint64
}

func (h *history) readAll(n *testNode) (out []modelBatch) {
	for next := core.Offset(0); next < n.shard.partitions[h.id].high; {
		f := fetchFrom(h.id, next)
		n.must(f)
		if f.Parts[0].Err != nil || f.Parts[0].Data.Bytes == 0 {
			h.t.Fatalf("reading at %d: %v", next, f.Parts[0].Err)
		}
		if err := eachBatch(f.Parts[0].Data, func(b core.Batch, _ arena.Buf) error {
			if b.BaseOffset() != next {
				h.t.Fatalf("offset %d where %d is next", b.BaseOffset(), next)
			}
			out = append(out, modelBatch{b.BaseOffset(), uint64(b.ProducerID())<<32 | uint64(b.BaseSequence())})
			next = b.LastOffset() + 1
			return b.Verify()
		}); err != nil {
			h.t.Fatal(err)
		}
		f.dropData()
	}
	return out
}
