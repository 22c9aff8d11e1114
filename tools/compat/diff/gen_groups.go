package main

import (
	"cmp"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// genMember is a member as far as the generator knows.
type genMember struct {
	group      string
	client     string
	conn       int
	step       int // the JoinGroup whose answer has its id
	instance   *string
	generation int32
	leader     bool
	joined     bool
	waiting    bool // its JoinGroup is under way
}

// groupStep moves a group on: mostly what clients do, in an order that needs no
// time to pass.
func (g *gen) groupStep() {
	waiting := g.waiting()
	switch n := g.r.IntN(100); {
	case n < 34 && len(waiting) > 0:
		g.rejoinRest()
	case n < 30 || len(g.members) == 0:
		g.joinNew()
	case n < 46:
		g.syncGroup(g.member())
	case n < 56:
		g.heartbeat(g.member())
	case n < 62:
		g.leaveGroup(g.member())
	case n < 76:
		g.offsetCommit()
	case n < 86:
		g.offsetFetch()
	case n < 91:
		g.describeGroups()
	case n < 94:
		g.listGroups()
	case n < 96:
		g.deleteGroups()
	case n < 98:
		g.offsetDelete()
	default:
		g.rejoin(g.member())
	}
}

func (g *gen) waiting() (all []*genMember) {
	for _, m := range g.members {
		if m.waiting {
			all = append(all, m)
		}
	}
	return all
}

func (g *gen) member() *genMember {
	if len(g.members) == 0 {
		return &genMember{group: g.group(), conn: g.freeConn(), step: stepsMax - 1, generation: -1}
	}
	return g.members[g.r.IntN(len(g.members))]
}

func (g *gen) newJoin(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group = group
	req.SessionTimeoutMillis = mostly(g, 94, int32(60000), 10, 1<<30, 0, -1)
	req.RebalanceTimeoutMillis = 60000 // a shorter one would end at some time or other
	req.ProtocolType = mostly(g, 94, "consumer", "", "connect")
	for _, name := range mostly(g, 85, []string{"range"}, []string{"range", "roundrobin"}, []string{"sticky"}, nil, []string{"range", "range"}) {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, oneOf(g, subscription, []byte{0, 1, 2}, nil, []byte{})
		req.Protocols = append(req.Protocols, p)
	}
	if g.chance(15) {
		req.Reason = kmsg.StringPtr("because")
	}
	return req
}

var subscription = func() []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = 1
	m.Topics = []string{"t0"}
	return m.AppendTo(nil)
}()

// joinNew lets a member join: the first one alone, later ones while the others
// have yet to come back, so that their answers come later. From version 4 on it
// takes two requests.
func (g *gen) joinNew() {
	m := &genMember{group: g.group(), generation: 1, client: fmt.Sprintf("m%d", len(g.members))}
	others := g.alive(m.group)
	if len(others) >= connsMax-1 {
		return
	}
	m.conn = g.freeConn()
	req := g.newJoin(m.group)
	req.Version = g.version(kmsg.JoinGroup)
	if g.chance(15) {
		m.instance = kmsg.StringPtr(oneOf(g, "i0", "i1"))
	}
	req.InstanceID = m.instance
	m.step = g.nextID()
	if req.Version >= 4 && (m.instance == nil || req.Version < 5) {
		g.addAs(req, m.conn).Client = m.client // MEMBER_ID_REQUIRED
		second := copyRequest(req).(*kmsg.JoinGroupRequest)
		second.MemberID = memberOf(m.step)
		req = second
	}
	st := g.addAs(req, m.conn)
	st.Client = m.client
	m.step = st.ID
	if second := st.ID - 1; second >= 0 && req.MemberID == memberOf(second) {
		m.step = second
	}
	m.joined = true
	m.leader = len(others) == 0
	if len(others) > 0 {
		m.waiting, st.Later = true, true
		g.busy[m.conn] = true
	}
	g.members = append(g.members, m)
}

// alive are the members of a group that have joined.
func (g *gen) alive(group string) (all []*genMember) {
	for _, m := range g.members {
		if m.group == group && m.joined {
			all = append(all, m)
		}
	}
	return all
}

// rejoinRest lets the members that others wait for join again, one by one; the
// last one ends the rebalance.
func (g *gen) rejoinRest() {
	group := g.waiting()[0].group
	var rest []*genMember
	for _, m := range g.alive(group) {
		if !m.waiting {
			rest = append(rest, m)
		}
	}
	for i, m := range rest {
		st := g.rejoinStep(m)
		if i < len(rest)-1 {
			st.Later = true
			m.waiting, g.busy[m.conn] = true, true
		}
	}
	for _, m := range g.alive(group) {
		m.waiting, g.busy[m.conn] = false, false
		m.generation++
	}
}

func (g *gen) rejoin(m *genMember) {
	st := g.rejoinStep(m)
	if len(g.alive(m.group)) > 1 {
		st.Later = true
		m.waiting, g.busy[m.conn] = true, true
	} else {
		m.generation++
	}
}

func (g *gen) rejoinStep(m *genMember) *Step {
	req := g.newJoin(m.group)
	req.Version = g.version(kmsg.JoinGroup)
	req.MemberID, req.InstanceID = memberOf(m.step), m.instance
	st := g.addAs(req, m.conn)
	st.Client = m.client
	return st
}

func (g *gen) generation(m *genMember) int32 {
	return mostly(g, 90, m.generation, m.generation+1, m.generation-1, -1)
}

func (g *gen) memberID(m *genMember) string {
	return mostly(g, 94, memberOf(m.step), "", "nobody", prefixToken)
}

func (g *gen) syncGroup(m *genMember) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = g.version(kmsg.SyncGroup)
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.group, g.generation(m), g.memberID(m), m.instance
	req.ProtocolType = mostly(g, 90, kmsg.StringPtr("consumer"), nil, kmsg.StringPtr("connect"))
	req.Protocol = mostly(g, 90, kmsg.StringPtr("range"), nil, kmsg.StringPtr("sticky"))
	if m.leader {
		for _, other := range g.alive(m.group) {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = memberOf(other.step), oneOf(g, []byte{0, 1}, []byte{}, []byte("assignment"))
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	st := g.addAs(req, m.conn)
	if !m.leader { // answered when the leader syncs
		st.Later = true
	}
}

func (g *gen) heartbeat(m *genMember) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = g.version(kmsg.Heartbeat)
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.group, g.generation(m), g.memberID(m), m.instance
	g.addAs(req, g.freeConn())
}

func (g *gen) leaveGroup(m *genMember) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.group, g.memberID(m)
	for range mostly(g, 85, 1, 2, 0) {
		e := kmsg.NewLeaveGroupRequestMember()
		e.MemberID, e.InstanceID = g.memberID(m), m.instance
		if g.chance(10) {
			e.MemberID = ""
		}
		if g.chance(10) {
			e.Reason = kmsg.StringPtr("gone")
		}
		req.Members = append(req.Members, e)
	}
	g.add(req)
	if g.chance(80) {
		m.joined = false
	}
}

func (g *gen) offsetCommit() {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = g.group(), -1
	if len(g.members) > 0 && g.chance(60) {
		m := g.member()
		req.Group, req.Generation, req.MemberID, req.InstanceID = m.group, g.generation(m), g.memberID(m), m.instance
	} else if g.chance(10) {
		req.Generation, req.MemberID = oneOf[int32](g, 0, 1, -1), oneOf(g, "nobody", "")
	}
	req.Group = cmp.Or(req.Group, prefixToken+"-g0") // a group "" would be shared by sequences
	req.RetentionTimeMillis = mostly(g, 90, int64(-1), 3600_000, 0)
	for range mostly(g, 85, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = name, topicIDOf(name)
		for range mostly(g, 80, 1, 2, 0) {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = g.partition(partitions), mostly(g, 85, g.r.Int64N(100), -1, -2, 1<<40)
			p.LeaderEpoch = mostly(g, 70, int32(-1), 0, 3)
			p.Metadata = mostly(g, 70, kmsg.StringPtr("note"), nil, kmsg.StringPtr(""), kmsg.StringPtr(longMetadata))
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

var longMetadata = string(make([]byte, 4097))

func (g *gen) offsetFetch() {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = g.group(), g.chance(30)
	for range mostly(g, 75, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = name, []int32{g.partition(partitions)}
		req.Topics = append(req.Topics, t)
	}
	if g.chance(15) {
		req.Topics = nil
	}
	for range mostly(g, 85, 1, 2) {
		e := kmsg.NewOffsetFetchRequestGroup()
		e.Group = g.group()
		e.MemberEpoch = mostly(g, 95, int32(-1), 0, 1)
		for _, t := range req.Topics {
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.TopicID, gt.Partitions = t.Topic, topicIDOf(t.Topic), t.Partitions
			e.Topics = append(e.Topics, gt)
		}
		req.Groups = append(req.Groups, e)
	}
	g.add(req)
}

func (g *gen) describeGroups() {
	req := kmsg.NewPtrDescribeGroupsRequest()
	for range mostly(g, 80, 1, 2, 0) {
		req.Groups = append(req.Groups, g.group())
	}
	req.IncludeAuthorizedOperations = g.chance(30)
	g.add(req)
}

func (g *gen) listGroups() {
	req := kmsg.NewPtrListGroupsRequest()
	if g.chance(50) {
		req.StatesFilter = oneOf(g, []string{"Stable"}, []string{"empty", "PreparingRebalance"}, []string{"CompletingRebalance", "Dead"}, []string{"nonsense"}, []string{""})
	}
	if g.chance(40) {
		req.TypesFilter = oneOf(g, []string{"classic"}, []string{"Consumer"}, []string{"nonsense"}, []string{"CLASSIC", "share"}, []string{""})
	}
	g.add(req)
}

func (g *gen) deleteGroups() {
	req := kmsg.NewPtrDeleteGroupsRequest()
	for range mostly(g, 80, 1, 2, 0) {
		req.Groups = append(req.Groups, g.group())
	}
	g.add(req)
}

func (g *gen) offsetDelete() {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = g.group()
	for range mostly(g, 85, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = name
		for range mostly(g, 85, 1, 2, 0) {
			p := kmsg.NewOffsetDeleteRequestTopicPartition()
			p.Partition = g.partition(partitions)
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}
