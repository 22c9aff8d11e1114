package shard

import (
	"cmp"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"millrace/core"
)

// Pace of elections. Nothing here ticks: a group that has a leader and has
// replicated everything costs nothing.
const (
	// A wave campaigns for waveGroups groups every waveStep.
	waveGroups = 256
	waveStep   = 5 * core.Millisecond
	// campaignRank keeps the voters of a group apart: the one listed first, of
	// those alive, goes first.
	campaignRank   = 200 * core.Millisecond
	campaignJitter = 50 * core.Millisecond
	// campaignRetry, plus as much jitter, is when an undecided candidate tries
	// again.
	campaignRetry = core.Second
	// nudgeEvery is when a leader asks followers that lag for news; it makes up
	// for lost messages.
	nudgeEvery = 300 * core.Millisecond
)

// wave hands out the slots of a paced wave.
type wave struct {
	at    core.Tick
	taken int
}

func (w *wave) slot(now core.Tick) core.Tick {
	if w.at < now {
		w.at, w.taken = now, 0
	}
	if w.taken == waveGroups {
		w.at, w.taken = w.at+waveStep, 0
	}
	w.taken++
	return w.at
}

// campaignSoon gives a group without a leader its place in the wave.
func (s *Shard) campaignSoon(p *partition) {
	rank := s.rank(p)
	if rank < 0 || s.stopping {
		return
	}
	at := s.wave.slot(s.now)
	if len(p.voters) > 1 {
		at += core.Tick(rank)*campaignRank + s.chance.below(campaignJitter)
	}
	if at <= s.now {
		s.timers.stop(&p.timer)
		p.onTimer(s, s.now)
		return
	}
	s.timers.set(&p.timer, p, at)
}

// campaignLater lets an election that someone else began be decided first.
func (s *Shard) campaignLater(p *partition) {
	if p.timer.armed() || s.rank(p) < 0 || s.stopping || len(p.voters) == 1 {
		return
	}
	s.timers.set(&p.timer, p, s.now+campaignRetry+s.chance.below(campaignRetry))
}

// rank is this node's place among the voters that are alive; -1 if it has no
// vote.
func (s *Shard) rank(p *partition) int {
	rank := 0
	for _, v := range p.voters {
		if v == uint64(s.opts.Node) {
			return rank
		}
		if s.peer(nodeID(v)).up {
			rank++
		}
	}
	return -1
}

// onTimer campaigns for a group without a leader; as the leader it nudges
// followers that lag.
func (p *partition) onTimer(s *Shard, now core.Tick) {
	switch {
	case !p.live():
	case p.leading:
		s.nudge(p)
	case p.leader == core.NoNode && !s.stopping:
		if err := p.node.Campaign(); err != nil {
			s.opts.Logf("campaign for %s: %v", p.name(), err)
		}
		s.ready(p)
		s.campaignLater(p)
	}
}

// nudgeLater arms the nudge of a leader that has followers.
func (s *Shard) nudgeLater(p *partition) {
	if len(p.voters) > 1 && !p.timer.armed() {
		s.timers.set(&p.timer, p, s.now+nudgeEvery)
	}
}

// nudge sends a heartbeat while a follower that is up lags behind the log or may
// not have heard of the commit. It stops when all have answered since.
func (s *Shard) nudge(p *partition) {
	last := uint64(p.log.LastIndex())
	wanted := p.beat
	p.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != uint64(s.opts.Node) && s.peer(nodeID(id)).up && (pr.Match < last || !p.heardBy(id)) {
			wanted = true
		}
	})
	if !wanted {
		return
	}
	if p.beat = false; p.beatCommit != p.applied {
		p.beatCommit, p.heard = p.applied, 0
	}
	s.stepLocal(p, pb.Message{Type: pb.MsgBeat, From: raft.LocalAppendThread})
	s.ready(p)
	s.nudgeLater(p)
}

// heardBy says whether a follower has answered a heartbeat that told it of all
// that is committed.
func (p *partition) heardBy(id uint64) bool {
	return p.beatCommit == p.applied && p.heard&p.voterBit(id) != 0
}

// voterBit is a voter's bit in heard; voters beyond the 64th share one.
func (p *partition) voterBit(id uint64) uint64 {
	return 1 << min(slices.Index(p.voters, id), 63)
}

// handOver transfers a leadership to the follower that is furthest on: a stop
// should not cost an election timeout.
func (s *Shard) handOver(p *partition) {
	if !p.live() || !p.leading || len(p.voters) < 2 {
		return
	}
	to, best := uint64(raft.None), uint64(0)
	p.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != uint64(s.opts.Node) && s.peer(nodeID(id)).up && (pr.Match > best || pr.Match == best && id < to) {
			to, best = id, pr.Match
		}
	})
	if to != raft.None {
		p.node.TransferLeader(to)
		s.ready(p)
	}
}

// peer finds or makes what the shard knows of another node. A node is taken to
// be up until the failure detector says otherwise.
func (s *Shard) peer(id core.NodeID) *peer {
	i, ok := slices.BinarySearchFunc(s.peers, id, func(p *peer, id core.NodeID) int { return cmp.Compare(p.id, id) })
	if !ok {
		s.peers = slices.Insert(s.peers, i, &peer{id: id, up: true})
	}
	return s.peers[i]
}

// onNode follows the node-level failure detector.
func (s *Shard) onNode(id core.NodeID, up bool) {
	if id == s.opts.Node {
		return
	}
	s.peer(id).up = up
	var orphans []*partition
	for _, p := range s.order {
		if !p.live() || !slices.Contains(p.voters, uint64(id)) {
			continue
		}
		switch {
		case p.leading && up:
			p.beat = true
			s.timers.set(&p.timer, p, s.wave.slot(s.now))
		case p.leading:
			p.node.ReportUnreachable(uint64(id))
			s.checkQuorum(p)
			s.ready(p)
		case !up && p.leader == id:
			// Without it the lease of CheckQuorum, which nobody ticks, would
			// refuse votes for ever.
			if err := p.node.ForgetLeader(); err != nil {
				s.opts.Logf("forgetting the leader of %s: %v", p.name(), err)
			}
			s.settle(p)
			orphans = append(orphans, p)
		case up && p.leader == core.NoNode:
			orphans = append(orphans, p)
		}
	}
	// Groups with traffic first.
	slices.SortStableFunc(orphans, func(a, b *partition) int { return cmp.Compare(b.lastAppend, a.lastAppend) })
	for _, p := range orphans {
		s.campaignSoon(p)
	}
}

// checkQuorum deposes this leader when most voters are down: raft's own check
// hangs on ticks, and its first run only clears the marks of activity.
func (s *Shard) checkQuorum(p *partition) {
	if s.alive(p)*2 > len(p.voters) {
		return
	}
	for range 2 {
		s.stepLocal(p, pb.Message{Type: pb.MsgCheckQuorum, From: raft.LocalAppendThread})
	}
}

// alive counts the voters that are up: this node, and peers that are heard.
func (s *Shard) alive(p *partition) (n int) {
	for _, v := range p.voters {
		if v == uint64(s.opts.Node) || s.peer(nodeID(v)).up {
			n++
		}
	}
	return n
}
