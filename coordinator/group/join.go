package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

const (
	// protocolsMax bounds what one member supports; clients have a few.
	protocolsMax = 100
	uuidBytes    = 37 // of a member ID, with its dash
)

// The life of a rebalance, by function:
//
//	joinGroup -> addMember / updateMember -> prepareRebalance
//	  ... members join, time out or leave ...
//	-> completeJoin (answers all JoinGroups) -> syncGroup of the leader
//	   (writes the assignment; answers all SyncGroups) -> stable

// joinGroup answers JoinGroup, now or when the rebalance completes.
func (m *Machine) joinGroup(cmd *core.Command, req *kmsg.JoinGroupRequest) {
	refuse := func(e *kerr.Error, memberID string) { m.reply(cmd, joinError(req, e.Code, memberID)) }
	if req.Version == 0 || req.RebalanceTimeoutMillis < 0 {
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	if req.Group == "" {
		refuse(kerr.InvalidGroupID, req.MemberID)
		return
	}
	if !joinFits(cmd, req) {
		refuse(kerr.UnknownServerError, req.MemberID) // as in Kafka
		return
	}
	if s := req.SessionTimeoutMillis; s < m.opts.MinSessionTimeoutMs || s > m.opts.MaxSessionTimeoutMs {
		refuse(kerr.InvalidSessionTimeout, req.MemberID)
		return
	}
	g := m.groups[req.Group]
	if g == nil {
		if req.MemberID != "" {
			e := kerr.UnknownMemberID
			if m.saved[req.Group] != nil && !new(liveGroup).supports(req) {
				e = kerr.InconsistentGroupProtocol // of a group that has offsets, as of an empty one
			}
			refuse(e, req.MemberID)
			return
		}
		if m.tooManyGroups(req.Group) {
			m.refused++
			refuse(kerr.CoordinatorNotAvailable, "")
			return
		}
		// It stays, empty, even if the member is refused below, until the next look
		// for expired offsets.
		g = newLiveGroup(req.Group, &m.bytes)
		g.stateMs = m.now.Millis()
		m.groups[req.Group] = g
	}
	if !m.accepts(g, cmd, req) {
		m.refused++
		m.forgetUnused(g) // what is refused for want of memory leaves nothing
		refuse(kerr.GroupMaxSizeReached, "")
		return
	}
	if !g.supports(req) || len(req.Protocols) > protocolsMax {
		refuse(kerr.InconsistentGroupProtocol, req.MemberID)
		return
	}
	if req.MemberID == "" {
		m.joinNew(g, cmd, req)
	} else {
		m.joinKnown(g, cmd, req)
	}
	if g.state == statePreparing && !g.wasEmpty && g.allJoined() {
		m.completeJoin(g)
	}
}

// accepts applies group.max.size and the bounds on memory.
func (m *Machine) accepts(g *liveGroup, cmd *core.Command, req *kmsg.JoinGroupRequest) bool {
	mb := g.byID[req.MemberID]
	back := mb // who has a place already
	if req.MemberID == "" && req.InstanceID != nil {
		back = g.byID[g.static[*req.InstanceID]]
	}
	bytes := joinBytes(cmd, req)
	if back != nil {
		bytes = back.growth(cmd, req)
	} else if m.members >= m.opts.MembersMax && g.pending[req.MemberID] == nil {
		return false
	}
	if g.bytes+bytes > m.opts.GroupBytesMax || m.bytes+bytes > m.opts.MemberBytesMax {
		return false
	}
	if back == nil {
		bytes += memberOverhead
	}
	if bytes > 0 && m.memoryFull(int64(bytes)) {
		return false
	}
	switch g.state {
	case statePreparing:
		return mb != nil && mb.join != nil || g.joining < m.opts.GroupSizeMax
	case stateCompleting, stateStable:
		return mb != nil || len(g.members) < m.opts.GroupSizeMax
	}
	return true
}

// growth is how much more member.bytes will be once the member has joined again: it
// keeps its assignment, and its ID unless it is a static one that has lost it. Who
// comes back as it was needs no memory, and is taken also where there is none left.
func (mb *member) growth(cmd *core.Command, req *kmsg.JoinGroupRequest) int {
	n := len(mb.id) + len(mb.instance) + len(mb.assignment) + len(cmd.Client.ClientID) + len(cmd.Client.Host)
	if req.MemberID == "" {
		n += len(mb.instance) + uuidBytes - len(mb.id)
	}
	for _, p := range req.Protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n - mb.bytes()
}

// joinBytes is what member.bytes of a new member will be, at most.
func joinBytes(cmd *core.Command, req *kmsg.JoinGroupRequest) int {
	n := 2*len(cmd.Client.ClientID) + len(cmd.Client.Host) + len(req.MemberID) + uuidBytes
	if req.InstanceID != nil {
		n += 2 * len(*req.InstanceID)
	}
	for _, p := range req.Protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

func (m *Machine) joinNew(g *liveGroup, cmd *core.Command, req *kmsg.JoinGroupRequest) {
	if req.InstanceID != nil {
		id := *req.InstanceID + "-" + m.ids.UUID().String()
		if old, ok := g.static[*req.InstanceID]; ok {
			m.replaceStatic(g, g.byID[old], id, cmd, req)
			return
		}
		m.addMember(g, id, cmd, req)
		return
	}
	id := cmd.Client.ClientID + "-" + m.ids.UUID().String()
	if req.Version < 4 {
		m.addMember(g, id, cmd, req)
		return
	}
	t := newTimer()
	g.pending[id] = t
	g.grow(len(id))
	m.members++
	m.timers.set(t, m.now+core.Tick(req.SessionTimeoutMillis)*core.Millisecond, func() { m.pendingGone(g, id) })
	m.reply(cmd, joinError(req, kerr.MemberIDRequired.Code, id))
}

// pendingGone drops a member that has not come back with the ID it was given.
func (m *Machine) pendingGone(g *liveGroup, id string) {
	t, ok := g.pending[id]
	if !ok {
		return
	}
	m.timers.cancel(t)
	m.dropPending(g, id)
	if g.state == statePreparing && !g.wasEmpty && g.allJoined() {
		m.completeJoin(g)
	}
}

func (m *Machine) dropPending(g *liveGroup, id string) {
	delete(g.pending, id)
	g.grow(-len(id))
	m.members--
}

// forgetUnused drops a group that has nothing: no member, no pending one, and
// nothing in the log.
func (m *Machine) forgetUnused(g *liveGroup) {
	if g.state == stateEmpty && len(g.pending) == 0 && len(g.members) == 0 {
		if s := m.saved[g.id]; s == nil || s.metadata == nil {
			m.dropGroup(g)
		}
	}
}

func (m *Machine) joinKnown(g *liveGroup, cmd *core.Command, req *kmsg.JoinGroupRequest) {
	if t, ok := g.pending[req.MemberID]; ok && req.InstanceID == nil {
		m.timers.cancel(t)
		m.dropPending(g, req.MemberID)
		m.addMember(g, req.MemberID, cmd, req)
		return
	}
	mb, e := g.find(req.MemberID, req.InstanceID)
	if e != nil {
		m.reply(cmd, joinError(req, e.Code, req.MemberID))
		return
	}
	switch g.state {
	case statePreparing:
		m.updateMember(g, mb, cmd, req)
	case stateCompleting:
		// The same protocols: the answer was lost, and is given again.
		if mb.matches(req) {
			m.reply(cmd, g.joined(req, mb, g.leader == mb.id))
		} else {
			m.updateMember(g, mb, cmd, req)
		}
	case stateStable:
		// The leader rejoins in order to have everything assigned anew.
		if g.leader == mb.id || !mb.matches(req) {
			m.updateMember(g, mb, cmd, req)
		} else {
			m.reply(cmd, g.joined(req, mb, false))
		}
	default:
		m.reply(cmd, joinError(req, kerr.UnknownMemberID.Code, req.MemberID))
	}
}

// find checks the identity of a member.
func (g *liveGroup) find(id string, instance *string) (*member, *kerr.Error) {
	if instance != nil {
		switch known, ok := g.static[*instance]; {
		case !ok:
			return nil, kerr.UnknownMemberID
		case known != id:
			return nil, kerr.FencedInstanceID
		}
	}
	mb := g.byID[id]
	if mb == nil {
		return nil, kerr.UnknownMemberID
	}
	return mb, nil
}

func (m *Machine) addMember(g *liveGroup, id string, cmd *core.Command, req *kmsg.JoinGroupRequest) {
	mb := &member{id: id, isNew: true, session: newTimer(), join: cmd}
	if req.InstanceID != nil {
		mb.static, mb.instance = true, *req.InstanceID
	}
	m.members++
	if g.state == statePreparing && g.wasEmpty {
		g.newMemberAdded = true
	}
	if g.state == stateEmpty {
		g.protocolType = req.ProtocolType
	}
	mb.learn(cmd, req)
	g.add(mb)
	m.keepAlive(g, mb)
	m.startRebalance(g)
}

// learn takes all of a member's properties from a JoinGroup.
func (mb *member) learn(cmd *core.Command, req *kmsg.JoinGroupRequest) {
	mb.clientID, mb.clientHost = cmd.Client.ClientID, cmd.Client.Host
	mb.sessionMs, mb.rebalanceMs = req.SessionTimeoutMillis, req.RebalanceTimeoutMillis
	mb.protocols = make([]protocol, len(req.Protocols))
	for i, p := range req.Protocols {
		mb.protocols[i] = protocol{p.Name, append([]byte{}, p.Metadata...)}
	}
	req.Protocols = nil // it may wait for long, and its bytes are not counted
}

func (m *Machine) updateMember(g *liveGroup, mb *member, cmd *core.Command, req *kmsg.JoinGroupRequest) {
	// The connection on which an earlier JoinGroup waits has been given up.
	m.answerJoin(mb, kerr.RebalanceInProgress.Code)
	g.change(mb, func() { mb.learn(cmd, req) })
	mb.setJoin(cmd)
	m.startRebalance(g)
}

// replaceStatic lets a static member come back under a new member ID (KIP-345).
func (m *Machine) replaceStatic(g *liveGroup, mb *member, id string, cmd *core.Command, req *kmsg.JoinGroupRequest) {
	m.answerJoin(mb, kerr.FencedInstanceID.Code)
	m.answerSync(mb, kerr.FencedInstanceID.Code)
	before, oldLeader := *mb, g.leader
	g.rename(mb, id)
	g.change(mb, func() { mb.learn(cmd, req) })
	mb.setJoin(cmd)
	m.keepAlive(g, mb)
	switch g.state {
	case stateStable:
		if g.protocol != g.selectProtocol() {
			m.startRebalance(g)
			return
		}
		mb.setJoin(nil)
		g.learnSubscriptions()
		resp := g.joined(req, mb, false)
		if leads := g.leader == id; req.Version >= 9 {
			resp.SkipAssignment = leads
			if leads {
				resp.Members = g.memberList()
			}
		} else {
			// It would assign if it were told that it leads; no rebalance is on.
			resp.LeaderID = oldLeader
		}
		cmd.Reply = resp
		m.write(undo(func() { m.undoReplace(g, mb, before) }), []core.Record{g.record()}, cmd)
	case stateCompleting:
		// The leader may be assigning to the old ID.
		m.startRebalance(g)
	}
}

// undoReplace gives a static member its old ID and properties back.
func (m *Machine) undoReplace(g *liveGroup, mb *member, before member) {
	if m.groups[g.id] != g || g.byID[mb.id] != mb || mb.join != nil {
		return
	}
	g.rename(mb, before.id)
	g.change(mb, func() {
		mb.clientID, mb.clientHost = before.clientID, before.clientHost
		mb.sessionMs, mb.rebalanceMs, mb.protocols = before.sessionMs, before.rebalanceMs, before.protocols
	})
	g.learnSubscriptions()
	m.keepAlive(g, mb)
}

// startRebalance begins one unless one is on.
func (m *Machine) startRebalance(g *liveGroup) {
	if g.state != statePreparing {
		m.prepareRebalance(g)
	}
}

func (m *Machine) prepareRebalance(g *liveGroup) {
	if g.state == stateCompleting {
		for _, mb := range g.members {
			g.assign(mb, nil)
			if mb.sync != nil {
				m.answerSync(mb, kerr.RebalanceInProgress.Code)
				m.keepAlive(g, mb)
			}
		}
	}
	clear(g.unsynced)
	m.timers.cancel(g.syncTimer)
	g.wasEmpty = g.state == stateEmpty
	g.enter(statePreparing, m.now)
	if g.wasEmpty {
		g.newMemberAdded = false
		delay := core.Tick(m.opts.InitialRebalanceDelayMs) * core.Millisecond
		m.initialDelay(g, delay, max(g.rebalanceTimeout()-delay, 0))
		return
	}
	if g.allJoined() {
		m.completeJoin(g)
		return
	}
	m.timers.set(g.joinTimer, m.now+g.rebalanceTimeout(), func() { m.completeJoin(g) })
}

// initialDelay waits for more members of a new group, again after each that
// came, but not beyond the rebalance timeout.
func (m *Machine) initialDelay(g *liveGroup, delay, remaining core.Tick) {
	m.timers.set(g.joinTimer, m.now+delay, func() {
		if g.newMemberAdded && remaining > 0 {
			g.newMemberAdded = false
			more := min(core.Tick(m.opts.InitialRebalanceDelayMs)*core.Millisecond, remaining)
			m.initialDelay(g, more, max(remaining-delay, 0))
			return
		}
		m.completeJoin(g)
	})
}

func (g *liveGroup) enter(s groupState, now core.Tick) { g.state, g.stateMs = s, now.Millis() }

// completeJoin ends the join phase: who has not rejoined is dropped, the rest
// are the next generation.
func (m *Machine) completeJoin(g *liveGroup) {
	m.timers.cancel(g.joinTimer)
	for _, mb := range append([]*member(nil), g.members...) {
		if mb.join == nil && !mb.static {
			m.removeMember(g, mb)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		// Only static members, and none is back yet. Their rebalance timeout may be 0.
		m.timers.set(g.joinTimer, m.now+max(g.rebalanceTimeout(), core.Second), func() { m.completeJoin(g) })
		return
	}
	g.generation++
	clear(g.unsynced)
	if len(g.members) == 0 {
		g.protocol = ""
		g.learnSubscriptions()
		g.enter(stateEmpty, m.now)
		// If this is lost, the members are restored by the next leader and time out.
		m.write(nil, []core.Record{g.record()})
		return
	}
	g.protocol = g.selectProtocol()
	g.learnSubscriptions()
	g.enter(stateCompleting, m.now)
	for _, mb := range g.members {
		g.unsynced[mb.id] = true
		if cmd := mb.join; cmd != nil {
			mb.setJoin(nil)
			m.reply(cmd, g.joined(cmd.Body.(*kmsg.JoinGroupRequest), mb, g.leader == mb.id))
		}
		mb.isNew = false
		m.keepAlive(g, mb)
	}
	generation := g.generation
	m.timers.set(g.syncTimer, m.now+g.rebalanceTimeout(), func() { m.syncMissing(g, generation) })
}

// electLeader makes sure that the leader has rejoined; false if nobody has.
func (g *liveGroup) electLeader() bool {
	if mb := g.byID[g.leader]; mb != nil && mb.join != nil {
		return true
	}
	for _, mb := range g.members {
		if mb.join != nil {
			g.leader = mb.id
			return true
		}
	}
	return false
}

// syncMissing drops the members that have not synced in time.
func (m *Machine) syncMissing(g *liveGroup, generation int32) {
	if g.generation != generation || g.state != stateCompleting && g.state != stateStable || len(g.unsynced) == 0 {
		return
	}
	for _, mb := range append([]*member(nil), g.members...) {
		if g.unsynced[mb.id] {
			m.removeMember(g, mb)
		}
	}
	m.prepareRebalance(g)
}

// joined is the answer to a JoinGroup that succeeded.
func (g *liveGroup) joined(req *kmsg.JoinGroupRequest, mb *member, withMembers bool) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	ptype, proto := g.protocolType, g.protocol
	resp.ProtocolType, resp.Protocol = &ptype, &proto
	resp.Generation, resp.LeaderID, resp.MemberID = g.generation, g.leader, mb.id
	if withMembers {
		resp.Members = g.memberList()
	}
	return resp
}

func (g *liveGroup) memberList() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, mb := range g.members {
		rm := kmsg.NewJoinGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ProtocolMetadata = mb.id, mb.instanceID(), mb.metadata(g.protocol)
		out = append(out, rm)
	}
	return out
}

func joinError(req *kmsg.JoinGroupRequest, code int16, memberID string) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation, resp.MemberID = code, -1, memberID
	if req.Version < 7 {
		resp.Protocol = new(string)
	}
	return resp
}

// answerJoin ends a member's wait in JoinGroup, if it waits.
func (m *Machine) answerJoin(mb *member, code int16) {
	if cmd := mb.join; cmd != nil {
		mb.setJoin(nil)
		m.reply(cmd, joinError(cmd.Body.(*kmsg.JoinGroupRequest), code, mb.id))
	}
}
