package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// keepAlive gives a member a whole session timeout from now. A new one has more:
// it does not know its ID and cannot send heartbeats yet.
func (m *Machine) keepAlive(g *liveGroup, mb *member) {
	timeout := core.Tick(mb.sessionMs) * core.Millisecond
	if mb.isNew {
		timeout = newMemberTimeout
	}
	m.timers.set(mb.session, m.now+timeout, func() { m.sessionEnded(g, mb) })
}

// sessionEnded drops a member that was not heard of, unless it waits in
// JoinGroup or SyncGroup: it has no way of sending heartbeats then, and the
// answer starts its session anew.
func (m *Machine) sessionEnded(g *liveGroup, mb *member) {
	if g.byID[mb.id] != mb {
		return
	}
	if !mb.isNew && (mb.join != nil || mb.sync != nil) {
		return
	}
	m.removeMember(g, mb)
	m.afterLeave(g)
}

// removeMember takes a member out; afterLeave has to follow once all that leave
// are out. A new member that is still there joins again when it is answered so.
func (m *Machine) removeMember(g *liveGroup, mb *member) {
	if cmd := mb.join; cmd != nil {
		mb.setJoin(nil)
		m.reply(cmd, joinError(cmd.Body.(*kmsg.JoinGroupRequest), kerr.UnknownMemberID.Code, ""))
	}
	m.answerSync(mb, kerr.UnknownMemberID.Code)
	m.timers.cancel(mb.session)
	g.drop(mb)
	m.members--
}

func (m *Machine) afterLeave(g *liveGroup) {
	switch g.state {
	case stateStable, stateCompleting:
		m.prepareRebalance(g)
	case statePreparing:
		if !g.wasEmpty && g.allJoined() {
			m.completeJoin(g)
		}
	}
}

// heartbeat answers Heartbeat, at once as Kafka does: behind the group's commits
// the answer would wait for the disk, and the session would pass meanwhile.
func (m *Machine) heartbeat(cmd *core.Command, req *kmsg.HeartbeatRequest) {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	if e := m.checkHeartbeat(req); e != nil {
		resp.ErrorCode = e.Code
	}
	cmd.Reply = resp
	m.out.Replies = append(m.out.Replies, cmd)
}

func (m *Machine) checkHeartbeat(req *kmsg.HeartbeatRequest) *kerr.Error {
	if req.Group == "" {
		return kerr.InvalidGroupID
	}
	g := m.groups[req.Group]
	if g == nil {
		return kerr.UnknownMemberID
	}
	mb, e := g.find(req.MemberID, req.InstanceID)
	switch {
	case e != nil:
		return e
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == stateEmpty:
		return kerr.UnknownMemberID
	}
	m.keepAlive(g, mb)
	if g.state == statePreparing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// leaveGroup answers LeaveGroup: one member up to v2, several from v3 on.
func (m *Machine) leaveGroup(cmd *core.Command, req *kmsg.LeaveGroupRequest) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		m.reply(cmd, resp)
		return
	}
	leaving := req.Members
	if req.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = req.MemberID
		leaving = []kmsg.LeaveGroupRequestMember{one}
	}
	g := m.groups[req.Group]
	left := false
	for _, l := range leaving {
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID = l.MemberID, l.InstanceID
		gone, e := m.leave(g, &l)
		left = left || gone
		if e != nil {
			out.ErrorCode = e.Code
		}
		resp.Members = append(resp.Members, out)
	}
	if req.Version < 3 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	m.reply(cmd, resp)
	if left {
		m.afterLeave(g)
	}
}

// leave takes one member out, by member ID or (a static one, without an ID) by
// instance ID alone. gone says that afterLeave is due.
func (m *Machine) leave(g *liveGroup, l *kmsg.LeaveGroupRequestMember) (gone bool, e *kerr.Error) {
	if g == nil {
		return false, kerr.UnknownMemberID
	}
	if t, ok := g.pending[l.MemberID]; ok { // whatever instance ID comes with it
		m.timers.cancel(t)
		m.dropPending(g, l.MemberID)
		return true, nil // a group that is stable rebalances, as in Kafka, though nobody is missing
	}
	id := l.MemberID
	if id == "" && l.InstanceID != nil {
		id = g.static[*l.InstanceID]
	}
	mb, e := g.find(id, l.InstanceID)
	if e != nil {
		return false, e
	}
	m.removeMember(g, mb)
	return true, nil
}
