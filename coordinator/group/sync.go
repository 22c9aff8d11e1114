package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// recordBytesMax bounds one group's metadata record: it goes into one batch.
const recordBytesMax = 900 << 10

// syncGroup answers SyncGroup: the leader's brings the assignment, the others
// wait for it.
func (m *Machine) syncGroup(cmd *core.Command, req *kmsg.SyncGroupRequest) {
	refuse := func(e *kerr.Error) { m.reply(cmd, syncError(req, e.Code)) }
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		refuse(kerr.InconsistentGroupProtocol)
		return
	}
	if req.Group == "" {
		refuse(kerr.InvalidGroupID)
		return
	}
	g := m.groups[req.Group]
	if g == nil {
		refuse(kerr.UnknownMemberID)
		return
	}
	mb, e := g.find(req.MemberID, req.InstanceID)
	switch {
	case e != nil:
		refuse(e)
		return
	case req.Generation != g.generation:
		refuse(kerr.IllegalGeneration)
		return
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType, req.Protocol != nil && *req.Protocol != g.protocol:
		refuse(kerr.InconsistentGroupProtocol)
		return
	}
	switch g.state {
	case stateEmpty:
		refuse(kerr.UnknownMemberID)
	case statePreparing:
		refuse(kerr.RebalanceInProgress)
	case stateCompleting:
		m.answerSync(mb, kerr.RebalanceInProgress.Code)
		mb.sync = cmd
		m.synced(g, mb)
		if g.leader == mb.id {
			m.assignAll(g, req)
		} else {
			req.GroupAssignment = nil // it may wait for long, and its bytes are not counted
		}
	case stateStable:
		m.synced(g, mb)
		m.keepAlive(g, mb)
		m.reply(cmd, g.assigned(req, mb))
	}
}

func (m *Machine) synced(g *liveGroup, mb *member) {
	delete(g.unsynced, mb.id)
	if len(g.unsynced) == 0 {
		m.timers.cancel(g.syncTimer)
	}
}

func (g *liveGroup) assign(mb *member, b []byte) {
	g.grow(len(b) - len(mb.assignment))
	mb.assignment = b
}

// assignAll takes the leader's assignment: the group is stable from here on, and
// the members hear of it when its record is committed.
func (m *Machine) assignAll(g *liveGroup, req *kmsg.SyncGroupRequest) {
	given := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		given[a.MemberID] = a.MemberAssignment
	}
	for _, mb := range g.members {
		g.assign(mb, append([]byte{}, given[mb.id]...))
	}
	before := g.stateMs
	g.stateMs = m.now.Millis()
	record := g.record()
	if g.bytes > m.opts.GroupBytesMax || m.bytes > m.opts.MemberBytesMax || m.memoryFull(0) || len(record.Value) > recordBytesMax {
		m.refused++
		g.stateMs = before
		for _, mb := range g.members {
			g.assign(mb, nil)
			if mb.sync != nil {
				m.answerSync(mb, kerr.UnknownServerError.Code)
				m.keepAlive(g, mb)
			}
		}
		m.prepareRebalance(g)
		return
	}
	g.enter(stateStable, m.now)
	var replies []*core.Command
	for _, mb := range g.members {
		if cmd := mb.sync; cmd != nil {
			mb.sync = nil
			cmd.Reply = g.assigned(cmd.Body.(*kmsg.SyncGroupRequest), mb)
			replies = append(replies, cmd)
			m.keepAlive(g, mb)
		}
	}
	generation := g.generation
	m.write(undo(func() { m.undoAssign(g, generation) }), []core.Record{record}, replies...)
}

// undoAssign makes the members rebalance again after their assignment could not
// be stored. Those that waited for it have been answered with the error.
func (m *Machine) undoAssign(g *liveGroup, generation int32) {
	if m.groups[g.id] != g || g.state != stateStable || g.generation != generation {
		return
	}
	for _, mb := range g.members {
		g.assign(mb, nil)
	}
	g.enter(stateCompleting, m.now)
	m.timers.set(g.joinTimer, m.now, func() {
		if g.state == stateCompleting && g.generation == generation {
			m.prepareRebalance(g)
		}
	})
}

func (g *liveGroup) assigned(req *kmsg.SyncGroupRequest, mb *member) *kmsg.SyncGroupResponse {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	ptype, proto := g.protocolType, g.protocol
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &ptype, &proto, mb.assignment
	return resp
}

func syncError(req *kmsg.SyncGroupRequest, code int16) *kmsg.SyncGroupResponse {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode, resp.MemberAssignment = code, []byte{}
	return resp
}

// answerSync ends a member's wait in SyncGroup, if it waits.
func (m *Machine) answerSync(mb *member, code int16) {
	if cmd := mb.sync; cmd != nil {
		mb.sync = nil
		m.reply(cmd, syncError(cmd.Body.(*kmsg.SyncGroupRequest), code))
	}
}
