package sim

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/chaos/check"
	"millrace/coordinator/group"
	"millrace/core"
	"millrace/core/meta"
	"millrace/shard"
)

// groupTopic is the topic that groups consume; it is never deleted, because
// committed offsets go by a topic's name.
const groupTopic = "topic-0"

// groupMachine makes the coordinator of a partition of the internal topic.
func (n *node) groupMachine(topic string, num int32) shard.StateMachine {
	if topic != group.OffsetsTopic {
		return nil
	}
	c := group.DefaultConfig()
	c.InitialRebalanceDelayMs = 100
	c.MinSessionTimeoutMs = 100
	c.RewriteBytesMin = 20 << 10
	return group.New(group.Options{Partition: num, Seed: n.s.rng.Uint64(), Image: func() *meta.Image { return n.image }, Config: c})
}

func groupName(i int) string { return fmt.Sprintf("group-%d", i) }

// startGroups makes the internal topic, as the first FindCoordinator does, and
// then members that come and go.
func (s *Sim) startGroups() {
	if s.p.groups == 0 {
		return
	}
	s.makeOffsetsTopic()
	for g := range s.p.groups {
		for range 1 + s.rng.IntN(3) {
			s.after(s.between(core.Second, 3*core.Second), func() { s.newMember(groupName(g)) })
		}
	}
}

func (s *Sim) makeOffsetsTopic() {
	if s.ending || s.up() && s.node.image.Topic(group.OffsetsTopic) != nil {
		return
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = group.OffsetsTopic, 1+int32(s.rng.IntN(3)), 1
	req.Topics = append(req.Topics, rt)
	s.command(core.MetadataPartition, req, 3*core.Second, func(any, error) {
		s.after(100*core.Millisecond, s.makeOffsetsTopic)
	})
}

// coordinatorOf is the partition that coordinates a group; ok is false while the
// node is down or has no internal topic.
func (s *Sim) coordinatorOf(groupID string) (id core.PartitionID, ok bool) {
	if !s.up() {
		return 0, false
	}
	t := s.node.image.Topic(group.OffsetsTopic)
	if t == nil {
		return 0, false
	}
	return t.Partitions[core.GroupPartition(groupID, len(t.Partitions))].ID, true
}

// member is one consumer of a group.
type member struct {
	s          *Sim
	name       string
	group      string
	id         string // as the coordinator gave it
	generation int32
	conn       *conn
	readers    []*reader
	gone       bool
	round      int // of joining; what belongs to an older one is dropped
	leaps      int // of the clock, when the member asked to join
}

func (s *Sim) newMember(groupID string) {
	if s.ending {
		return
	}
	s.members++
	m := &member{s: s, name: fmt.Sprintf("member %d", s.members), group: groupID, conn: s.connect(), generation: -1}
	s.trace("%s enters %s", m.name, groupID)
	m.join()
	s.after(s.between(2*core.Second, 8*core.Second), m.end)
}

// end lets a member leave, or vanish; another one comes in its place.
func (m *member) end() {
	s := m.s
	if s.ending {
		return
	}
	m.stopReading()
	m.gone = true
	s.after(s.between(0, core.Second), func() { s.newMember(m.group) })
	if m.id == "" || s.chance(0.5) {
		s.trace("%s vanishes", m.name)
		return
	}
	s.trace("%s leaves", m.name)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 4, m.group
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = m.id
	req.Members = append(req.Members, lm)
	m.ask(req, core.Second, func(any, error) {})
}

func (m *member) stopReading() {
	m.round++
	for _, r := range m.readers {
		r.stopped = true
	}
	m.readers = nil
}

// ask sends a request to the group's coordinator.
func (m *member) ask(req kmsg.Request, timeout core.Tick, cb func(reply any, err error)) {
	p, ok := m.s.coordinatorOf(m.group)
	if !ok {
		m.s.after(m.s.between(10*core.Millisecond, 100*core.Millisecond), func() { cb(nil, errDown) })
		return
	}
	m.conn.command(p, req, timeout, cb)
}

// again joins once more after a pause.
func (m *member) again() {
	m.stopReading()
	round := m.round
	m.s.after(m.s.between(5*core.Millisecond, 150*core.Millisecond), func() {
		if round == m.round {
			m.join()
		}
	})
}

func (m *member) join() {
	if m.gone || m.s.ending {
		return
	}
	m.stopReading()
	round := m.round
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID = 9, m.group, m.id
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 800, 1500
	req.ProtocolType = "consumer"
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{groupTopic}
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name, proto.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, proto)
	m.s.stats.Joins++
	m.leaps = m.s.stats.ClockJumps
	m.ask(req, 5*core.Second, func(reply any, err error) {
		if m.gone || round != m.round {
			return
		}
		if err != nil {
			m.again()
			return
		}
		resp := reply.(*kmsg.JoinGroupResponse)
		switch {
		case resp.ErrorCode == kerr.MemberIDRequired.Code:
			m.id = resp.MemberID
			m.join()
		case resp.ErrorCode != 0:
			m.forgotten(resp.ErrorCode)
			m.again()
		default:
			m.id, m.generation = resp.MemberID, resp.Generation
			m.sync(resp)
		}
	})
}

// forgotten drops the identity where the coordinator does not know it any more.
func (m *member) forgotten(code int16) {
	if code == kerr.UnknownMemberID.Code {
		m.id = ""
	}
	m.generation = -1
}

// sync gives everyone's partitions to the coordinator, where this member leads,
// and gets its own.
func (m *member) sync(join *kmsg.JoinGroupResponse) {
	round := m.round
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, m.group, m.id, m.generation
	req.ProtocolType, req.Protocol = join.ProtocolType, join.Protocol
	if join.LeaderID == m.id {
		req.GroupAssignment = m.assign(join)
	}
	m.ask(req, 3*core.Second, func(reply any, err error) {
		if m.gone || round != m.round {
			return
		}
		if err != nil {
			m.again()
			return
		}
		resp := reply.(*kmsg.SyncGroupResponse)
		if resp.ErrorCode != 0 {
			m.forgotten(resp.ErrorCode)
			m.again()
			return
		}
		m.assigned(resp.MemberAssignment)
	})
}

func (m *member) assign(join *kmsg.JoinGroupResponse) []kmsg.SyncGroupRequestGroupAssignment {
	var ids []string
	for _, mb := range join.Members {
		ids = append(ids, mb.MemberID)
	}
	slices.Sort(ids)
	lists := make([][]int32, len(ids))
	if m.s.up() {
		if t := m.s.node.image.Topic(groupTopic); t != nil {
			for i := range t.Partitions {
				lists[i%len(ids)] = append(lists[i%len(ids)], int32(i))
			}
		}
	}
	var out []kmsg.SyncGroupRequestGroupAssignment
	for i, id := range ids {
		a := kmsg.NewConsumerMemberAssignment()
		at := kmsg.NewConsumerMemberAssignmentTopic()
		at.Topic, at.Partitions = groupTopic, lists[i]
		a.Topics = append(a.Topics, at)
		ga := kmsg.NewSyncGroupRequestGroupAssignment()
		ga.MemberID, ga.MemberAssignment = id, a.AppendTo(nil)
		out = append(out, ga)
	}
	return out
}

// assigned begins to consume what the member was given.
func (m *member) assigned(b []byte) {
	s := m.s
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(b); err != nil {
		s.fail(fmt.Errorf("%s: the assignment cannot be read: %w", m.name, err))
		return
	}
	s.stats.Rebalances++
	own := check.Ownership{At: int64(s.now), Group: m.group + m.era(), Member: m.id, Generation: m.generation}
	var parts []part
	for _, t := range a.Topics {
		for _, num := range t.Partitions {
			if !s.up() {
				m.again()
				return
			}
			mt := s.node.image.Topic(t.Topic)
			if mt == nil || int(num) >= len(mt.Partitions) {
				continue
			}
			p := partOf(mt, mt.Partitions[num])
			parts = append(parts, p)
			own.Parts = append(own.Parts, p.Part)
		}
	}
	if m.leaps == s.stats.ClockJumps { // else nobody knows of which life the generation is
		s.hist.Owners = append(s.hist.Owners, own)
	}
	s.trace("%s owns %v in generation %d", m.name, own.Parts, m.generation)
	m.heartbeat(m.round)
	for _, p := range parts {
		m.consume(p)
	}
}

// era tells apart the lives of a group: where the clock leaps over the sessions of
// all members, a group without committed offsets is forgotten, as in Kafka, and
// its generations begin anew.
func (m *member) era() string {
	if m.s.stats.ClockJumps == 0 {
		return ""
	}
	return fmt.Sprintf(" after %d leaps of the clock", m.s.stats.ClockJumps)
}

func (m *member) heartbeat(round int) {
	m.s.after(m.s.between(100*core.Millisecond, 250*core.Millisecond), func() {
		if m.gone || round != m.round {
			return
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.Generation = 4, m.group, m.id, m.generation
		m.ask(req, core.Second, func(reply any, err error) {
			if m.gone || round != m.round {
				return
			}
			if err == nil {
				if code := reply.(*kmsg.HeartbeatResponse).ErrorCode; code != 0 {
					if code != kerr.RebalanceInProgress.Code {
						m.forgotten(code)
					}
					m.again()
					return
				}
			}
			m.heartbeat(round)
		})
	})
}

// consume reads a partition from its committed offset on and commits.
func (m *member) consume(p part) {
	s, round := m.s, m.round
	s.fetchOffset(m.conn, m.group, p, func(offset int64, err error) {
		if m.gone || round != m.round {
			return
		}
		if err != nil {
			s.after(s.between(10*core.Millisecond, 100*core.Millisecond), func() {
				if round == m.round {
					m.consume(p)
				}
			})
			return
		}
		r := s.newReader(m.name, p, core.Offset(max(offset, 0)))
		m.readers = append(m.readers, r)
		polls, last, committing := 0, core.Offset(offset), false
		r.onRead = func() {
			polls++
			if committing || r.next <= last || polls%3 != 0 {
				return
			}
			committing = true
			last = r.next
			m.commit(p, int64(r.next), func() { committing = false })
		}
		r.poll()
	})
}

func (m *member) commit(p part, offset int64, done func()) {
	s, round := m.s, m.round
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 8, m.group, m.id, m.generation
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = p.topic
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = p.Num, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	c := &check.Commit{Span: check.Span{Invoke: int64(s.now), Return: check.Never}, Group: m.group, Member: m.id,
		Generation: m.generation, Part: p.Part, Offset: offset}
	s.hist.Commits = append(s.hist.Commits, c)
	m.ask(req, 2*core.Second, func(reply any, err error) {
		if err == nil {
			code := reply.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
			s.trace("%s commits %v at %d: code %d", m.name, p.Part, offset, code)
			c.Return = int64(s.now)
			c.Outcome = check.Failed
			if code == 0 {
				c.Outcome = check.Acked
				s.stats.OffsetCommits++
			}
		}
		if !m.gone && round == m.round {
			done()
		}
	})
}

// fetchOffset asks for a committed offset and records the answer.
func (s *Sim) fetchOffset(c *conn, groupID string, p part, cb func(offset int64, err error)) {
	coordinator, ok := s.coordinatorOf(groupID)
	if !ok {
		s.after(50*core.Millisecond, func() { cb(-1, errDown) })
		return
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = groupID
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = p.topic, []int32{p.Num}
	rg.Topics = append(rg.Topics, rt)
	req.Groups = append(req.Groups, rg)
	asked := s.now
	c.command(coordinator, req, 2*core.Second, func(reply any, err error) {
		if err != nil {
			cb(-1, err)
			return
		}
		g := reply.(*kmsg.OffsetFetchResponse).Groups[0]
		code := g.ErrorCode
		if code == 0 {
			code = g.Topics[0].Partitions[0].ErrorCode
		}
		if code != 0 {
			cb(-1, kerr.ErrorForCode(code))
			return
		}
		offset := g.Topics[0].Partitions[0].Offset
		s.hist.Fetches = append(s.hist.Fetches, check.OffsetFetch{
			Span: check.Span{Invoke: int64(asked), Return: int64(s.now)}, Group: groupID, Part: p.Part, Offset: offset,
		})
		cb(offset, nil)
	})
}

// finalOffsets reads every group's committed offsets once more; the result says
// whether that is done.
func (s *Sim) finalOffsets() func() bool {
	left := 0
	if s.node.image.Topic(group.OffsetsTopic) == nil {
		return func() bool { return true }
	}
	for g := range s.p.groups {
		for _, p := range s.parts() {
			if p.topic != groupTopic {
				continue
			}
			left++
			var try func()
			try = func() {
				s.fetchOffset(s.connect(), groupName(g), p, func(_ int64, err error) {
					if err != nil {
						s.after(50*core.Millisecond, try)
						return
					}
					left--
				})
			}
			try()
		}
	}
	return func() bool { return left == 0 }
}
