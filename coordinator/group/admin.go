package group

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

const groupTypeClassic = "classic"

func (m *Machine) savedIDs() []string { return slices.Sorted(maps.Keys(m.saved)) }

// ids lists all groups, in order, those with nothing but offsets included.
func (m *Machine) groupIDs() []string {
	out := m.savedIDs()
	for id := range m.groups {
		if m.saved[id] == nil {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// view is a group as it is shown; one that has only offsets is empty.
func (m *Machine) view(id string) *liveGroup {
	if g := m.groups[id]; g != nil {
		return g
	}
	return &liveGroup{id: id}
}

// describeGroups answers DescribeGroups for the groups of this partition.
func (m *Machine) describeGroups(cmd *core.Command, req *kmsg.DescribeGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	bytes := 0
	for _, id := range req.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group = id
		switch {
		case m.exists(id) && bytes+m.view(id).bytes > answerBytesMax:
			m.refused++
			out.ErrorCode = kerr.UnknownServerError.Code
		case m.exists(id):
			bytes += m.view(id).bytes
			m.view(id).describe(&out)
		default:
			out.State = "Dead"
			if req.Version >= 6 {
				text := "Group " + id + " not found."
				out.ErrorCode, out.ErrorMessage = kerr.GroupIDNotFound.Code, &text
			}
		}
		resp.Groups = append(resp.Groups, out)
	}
	m.reply(cmd, resp)
}

func (g *liveGroup) describe(out *kmsg.DescribeGroupsResponseGroup) {
	out.State, out.ProtocolType = g.state.String(), g.protocolType
	if g.state == stateStable {
		out.Protocol = g.protocol
	}
	for _, mb := range g.members {
		om := kmsg.NewDescribeGroupsResponseGroupMember()
		om.MemberID, om.InstanceID, om.ClientID, om.ClientHost = mb.id, mb.instanceID(), mb.clientID, mb.clientHost
		om.ProtocolMetadata, om.MemberAssignment = []byte{}, mb.assignment
		if g.state == stateStable {
			om.ProtocolMetadata = mb.metadata(g.protocol)
		}
		out.Members = append(out.Members, om)
	}
}

// listGroups answers ListGroups with the groups of this partition.
func (m *Machine) listGroups(cmd *core.Command, req *kmsg.ListGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	among := func(filter []string, s string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, s) })
	}
	var wanted [stateStable + 1]bool // once for each state: a filter may be long
	for s := range wanted {
		wanted[s] = among(req.StatesFilter, groupState(s).String()) && among(req.TypesFilter, groupTypeClassic)
	}
	for _, id := range m.groupIDs() {
		g := m.view(id)
		if !wanted[g.state] {
			continue
		}
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType, out.GroupState, out.GroupType = id, g.protocolType, g.state.String(), groupTypeClassic
		resp.Groups = append(resp.Groups, out)
	}
	m.reply(cmd, resp)
}

// deleteGroups answers DeleteGroups: groups without members, with their offsets.
func (m *Machine) deleteGroups(cmd *core.Command, req *kmsg.DeleteGroupsRequest) {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	var records []core.Record
	deleted := make(map[string]bool)
	for _, id := range req.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group = id
		switch g := m.groups[id]; {
		case deleted[id] || !m.exists(id):
			out.ErrorCode = kerr.GroupIDNotFound.Code
		case g != nil && g.state != stateEmpty:
			out.ErrorCode = kerr.NonEmptyGroup.Code
		default:
			deleted[id] = true
			records = append(records, m.tombstones(id)...)
		}
		resp.Groups = append(resp.Groups, out)
	}
	cmd.Reply = resp
	m.writeBatches(records, cmd)
}

// tombstones are the records that remove a group.
func (m *Machine) tombstones(id string) []core.Record {
	var out []core.Record
	if s := m.saved[id]; s != nil {
		for _, at := range s.sortedOffsets() {
			out = append(out, encodeOffset(id, at, nil))
		}
	}
	return append(out, core.Record{Key: groupKey(id)})
}
