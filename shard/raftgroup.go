package shard

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// Sizes of a group's RawNode. They count descriptors, not payloads: what a
// message may carry is bounded in peers.go.
const (
	descriptorBytes    = 8    // of a descriptor, about
	appendMessageBytes = 1024 // about a hundred descriptors
	applyBytesMax      = 16 << 10
	appendsInflightMax = 4

	electionTicks  = 10 // never ticked: the shard campaigns
	heartbeatTicks = 1
)

// tailKept is the capacity that an idle partition's queue may keep.
const tailKept = 4

// ack is what a turn's completion lets out: the messages that raft made to
// depend on it.
type ack struct {
	p         *partition
	responses []pb.Message
}

// startGroup makes the RawNode of a partition whose voters are known.
func (s *Shard) startGroup(p *partition) {
	p.storage = storage{log: p.log, voters: p.voters, commit: p.applied}
	node, err := raft.NewRawNode(&raft.Config{
		ID:                        uint64(s.opts.Node),
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   &p.storage,
		Applied:                   uint64(p.applied),
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             appendMessageBytes,
		MaxCommittedSizePerReady:  applyBytesMax,
		MaxInflightMsgs:           appendsInflightMax,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		Logger:                    &s.raftLog,
	})
	if err != nil {
		panic("BUG: raft refuses the group's settings: " + err.Error())
	}
	p.node, p.leader = node, core.NoNode
	p.hard = p.log.HardState()
	p.term = p.hard.Term
	p.publish()
	s.campaignSoon(p)
	s.ready(p)
}

// ready notes that a group may have something to do at the end of the turn.
func (s *Shard) ready(p *partition) {
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, p)
	}
}

// propose appends one entry to the log of a partition that this node leads. The
// payload's reference passes to the log, unless an error is returned:
// core.ErrNotLeader.
func (s *Shard) propose(p *partition, e entry, payload arena.Buf) (*entry, error) {
	if err := p.node.Propose(nil); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", core.ErrNotLeader, p.name(), err)
	}
	e.index, e.term = p.log.LastIndex()+1, p.term
	le := raftlog.Entry{
		Index: e.index, Term: e.term, Kind: e.kind, MaxTimestamp: -1, Payload: payload,
		BaseOffset: p.log.NextOffset(), LastOffset: p.log.NextOffset() - 1,
	}
	if e.kind == raftlog.EntryBatch {
		le.BaseOffset, le.LastOffset, le.MaxTimestamp = e.base, e.last, e.seq.maxMs
	}
	p.log.Append([]raftlog.Entry{le})
	p.tail.push(e)
	p.lastAppend = s.now
	s.maintainSoon(payload.Len())
	s.nudgeLater(p)
	s.ready(p)
	return p.tail.at(p.tail.len() - 1), nil
}

// settle drains what raft has ready: messages to peers, entries and hard state
// for the log, committed entries.
func (s *Shard) settle(p *partition) {
	for p.live() && p.node.HasReady() {
		// Before the entries: a new leader's may replace what clients wait for.
		if st := p.node.BasicStatus(); st.Term != uint64(p.term) || st.Lead != raftID(p.leader) || (st.RaftState == raft.StateLeader) != p.leading {
			s.roleChanged(p, core.Term(st.Term), nodeID(st.Lead), st.RaftState == raft.StateLeader)
		}
		rd := p.node.Ready()
		// The log first: the messages to peers take their payloads from there.
		for i := range rd.Messages {
			if m := &rd.Messages[i]; m.Type == pb.MsgStorageAppend {
				s.storeAppend(p, m)
			}
		}
		for i := range rd.Messages {
			switch m := &rd.Messages[i]; m.Type {
			case pb.MsgStorageAppend:
			case pb.MsgStorageApply:
				s.apply(p, m.Entries)
				for j := range m.Responses {
					s.stepLocal(p, m.Responses[j])
				}
			default:
				s.sendPeer(p, m)
			}
		}
	}
}

// storeAppend moves entries and hard state into the log; what depends on them
// waits for the turn.
func (s *Shard) storeAppend(p *partition, m *pb.Message) {
	appended := len(m.Entries) > 0
	for i := range m.Entries {
		// A leader's own proposals are in the log already.
		e := &m.Entries[i]
		if t, err := p.log.Term(core.Index(e.Index)); e.Index > uint64(p.log.LastIndex()) || err != nil || uint64(t) != e.Term {
			s.appendRest(p, m.Entries[i:])
			break
		}
	}
	if m.Term != 0 || m.Vote != 0 || m.Commit != 0 {
		hs := raftlog.HardState{Term: core.Term(m.Term), Vote: nodeID(m.Vote), Commit: core.Index(m.Commit)}
		// A commit alone is not worth a write: it is found again by the next
		// election, and travels with the next entries.
		appended = appended || hs.Term != p.hard.Term || hs.Vote != p.hard.Vote
		p.hard = hs
	}
	if appended {
		p.log.SetHardState(p.hard)
	}
	if len(m.Responses) > 0 {
		s.acks = append(s.acks, ack{p, m.Responses})
	}
}

// appendRest appends entries that are not in the log yet: the first entry of a
// leader's term, or what a leader sent, which may replace a tail that diverged.
func (s *Shard) appendRest(p *partition, entries []pb.Entry) {
	first := core.Index(entries[0].Index)
	next := p.log.NextOffset()
	if first <= p.log.LastIndex() {
		var err error
		if next, err = p.log.OffsetOf(first - 1); err != nil {
			panic(fmt.Sprintf("BUG: %s: offset at index %d: %v", p.name(), first-1, err))
		}
		s.truncate(p, first)
	}
	les := make([]raftlog.Entry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		le := raftlog.Entry{Index: core.Index(e.Index), Term: core.Term(e.Term), MaxTimestamp: -1, BaseOffset: next, LastOffset: next - 1}
		t := entry{index: le.Index, term: le.Term, producerID: -1}
		if pe := p.stashed(le.Index, le.Term); pe != nil {
			le.Kind, le.Payload = pe.kind, pe.payload.Retain()
			t.kind = le.Kind
			fillEntry(&t, le.Payload.Bytes())
			if le.Kind == raftlog.EntryBatch {
				if t.base != next {
					panic(fmt.Sprintf("BUG: %s: the leader's batch at index %d has offset %d, want %d", p.name(), le.Index, t.base, next))
				}
				le.BaseOffset, le.LastOffset, le.MaxTimestamp = t.base, t.last, t.seq.maxMs
				next = t.last + 1
			}
		}
		les = append(les, le)
		p.tail.push(t)
	}
	p.log.Append(les)
	p.lastAppend = s.now
}

// fillEntry takes from a payload what its commit will need.
func fillEntry(t *entry, payload []byte) {
	switch t.kind {
	case raftlog.EntryBatch:
		b := core.Batch(payload)
		t.base, t.last, t.bytes = b.BaseOffset(), b.LastOffset(), int32(len(payload))
		t.producerID, t.seq = sequenceOf(b)
	case raftlog.EntryLogStart:
		if len(payload) == 8 {
			t.base = offsetAt(payload)
		}
	}
}

// truncate drops the entries from index on out of the tail. Only a follower
// does so, and its clients were answered when it stopped leading.
func (s *Shard) truncate(p *partition, from core.Index) {
	if from <= p.applied {
		panic(fmt.Sprintf("BUG: %s: entry %d is applied and would be replaced", p.name(), from))
	}
	p.tail.cut(from)
}

// stepLocal hands a message to the group itself.
func (s *Shard) stepLocal(p *partition, m pb.Message) {
	if err := p.node.Step(m); err != nil && err != raft.ErrProposalDropped {
		panic(fmt.Sprintf("BUG: %s: stepping %s: %v", p.name(), m.Type, err))
	}
}

// deliver lets out what waited for a turn.
func (s *Shard) deliver(acks []ack) {
	for i := range acks {
		p := acks[i].p
		if !p.live() {
			continue
		}
		for j := range acks[i].responses {
			if m := &acks[i].responses[j]; m.To == uint64(s.opts.Node) {
				s.stepLocal(p, *m)
			} else {
				s.sendPeer(p, m)
			}
		}
		s.ready(p)
	}
}

// roleChanged follows raft's idea of the leader.
func (s *Shard) roleChanged(p *partition, term core.Term, leader core.NodeID, leading bool) {
	if p.leading && (!leading || term != p.term) {
		s.timers.stop(&p.timer)
		s.resign(p)
	}
	p.term, p.leader, p.leading = term, leader, leading
	if leader != core.NoNode {
		s.timers.stop(&p.timer)
	}
	switch {
	case leading:
		s.stats.Elections++
		p.heard, p.beatCommit = 0, 0
		s.nudgeLater(p)
	case leader == core.NoNode:
		s.campaignLater(p)
	}
	p.publish()
	s.wakeAll(p)
}

// serve starts serving: the first entry of this leader's term is committed.
func (s *Shard) serve(p *partition) {
	p.serving = true
	s.leaders++
	p.publish()
	s.awaitDirty = true
	if p.host != nil {
		s.hostServes(p)
	}
}

// resign answers everyone who waits for a commit that this node can no longer
// vouch for. The entries stay in the log: the next leader decides on them.
func (s *Shard) resign(p *partition) {
	if p.serving {
		p.serving = false
		s.leaders--
	}
	p.leading = false
	err := fmt.Errorf("%w: %s: the leadership was lost before the commit", core.ErrNotLeader, p.name())
	s.failTail(p, err)
	before := p.producers.len()
	p.producers.dropInflight()
	s.producersChanged(p, before)
	s.dropCatchUps(p)
	if p.host != nil {
		s.hostResigns(p, err)
	}
}

// failTail answers all requests in the tail with err.
func (s *Shard) failTail(p *partition, err error) {
	for i := 0; i < p.tail.len(); i++ {
		e := p.tail.at(i)
		if _, ok := e.request.(*Produce); ok {
			s.inflightBytes -= int64(e.bytes)
		}
		if e.request != nil {
			s.fail(e.request, err)
		}
		for _, r := range e.again {
			s.fail(r, err)
		}
		e.request, e.again = nil, nil
	}
}

func raftID(n core.NodeID) uint64 {
	if n == core.NoNode {
		return raft.None
	}
	return uint64(n)
}

func nodeID(id uint64) core.NodeID {
	if id == raft.None {
		return core.NoNode
	}
	return core.NodeID(id)
}
