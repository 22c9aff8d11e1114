package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func knownOfGroups() []known {
	return []known{
		{
			name: "who leads when the leader has left", keys: []kmsg.Key{kmsg.JoinGroup}, diverges: true,
			when: func(c *knownCase) bool {
				return leaderLeft(c) && (c.Path == "LeaderID" || strings.HasPrefix(c.Path, "Members") || c.Path == "SkipAssignment")
			},
			because: "When the leader of a group leaves",
		},
		{
			name: "a group without members and offsets",
			keys: []kmsg.Key{kmsg.OffsetDelete, kmsg.DescribeGroups, kmsg.DeleteGroups, kmsg.ListGroups, kmsg.OffsetCommit, kmsg.SyncGroup},
			when: func(c *knownCase) bool {
				gone := c.Millrace == absent || strings.Contains(c.Path, "ErrorCode") && (c.Millrace == "69" || c.Millrace == "22")
				for _, d := range c.all {
					gone = gone || strings.Contains(d.Path, "State") && d.Millrace == `"Dead"` || strings.Contains(d.Path, "ErrorCode") && d.Millrace == "69"
				}
				return gone && slices.ContainsFunc(c.before, fromOutside)
			}, diverges: true,
			because: "A group that has no members, and no offsets",
		},
		{
			name: "members of a group to which nothing was committed", keys: []kmsg.Key{kmsg.DescribeGroups, kmsg.ListGroups}, diverges: true,
			when: func(c *knownCase) bool {
				hidden := c.Kafka == absent && c.step.Req.Key() == int16(kmsg.ListGroups) || slices.ContainsFunc(c.all, func(d Difference) bool {
					return d.pattern() == "Groups.State" && d.Kafka == `"Dead"` || d.pattern() == "Groups.ErrorCode" && d.Kafka == "69"
				})
				return hidden && slices.ContainsFunc(c.before, fromOutside)
			},
			because: "shows no members that join it before one has synced",
		},
		{
			name: "the client id of a member that joins again", keys: []kmsg.Key{kmsg.DescribeGroups}, field: "Groups.Members.ClientID",
			when: func(c *knownCase) bool {
				return strings.Contains(c.Path, "Members[member i") || slices.ContainsFunc(c.before, func(st Step) bool {
					return slices.ContainsFunc(st.Mutations, func(m Mutation) bool { return m.Kind == clientID })
				})
			},
			because: "A member that joins again has the client id",
		},
		{
			name: "a protocol named twice", keys: []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.DescribeGroups, kmsg.Heartbeat, kmsg.LeaveGroup}, diverges: true,
			when: func(c *knownCase) bool {
				return namesProtocolTwice(*c.step) || slices.ContainsFunc(c.before, namesProtocolTwice)
			},
			quiet: func(st *Step, millrace outcome) bool {
				r, ok := millrace.resp.(*kmsg.JoinGroupResponse)
				return ok && r.ErrorCode == 0 && namesProtocolTwice(*st)
			},
			because: "JoinGroup with one protocol twice",
		},
		{
			name: "the subscription of a static member that joins again", keys: []kmsg.Key{kmsg.OffsetDelete},
			field: "Topics.Partitions.ErrorCode", diverges: true,
			when: func(c *knownCase) bool {
				subscribed := c.Kafka == "86" && c.Millrace == "0" || c.Kafka == "0" && c.Millrace == "86"
				return subscribed && staticAgain(c.step.Req.(*kmsg.OffsetDeleteRequest).Group, c.before)
			},
			because: "A static member that joins again with another subscription",
		},
		{
			name: "a protocol without a name", keys: []kmsg.Key{kmsg.JoinGroup}, field: "Protocol",
			when: func(c *knownCase) bool {
				return slices.ContainsFunc(c.step.Req.(*kmsg.JoinGroupRequest).Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return p.Name == "" })
			},
			because: "A group protocol without a name",
		},
	}
}

// leaderLeft says whether a member has left before a join that went well.
func leaderLeft(c *knownCase) bool {
	for _, d := range c.all {
		if d.Path == "ErrorCode" {
			return false
		}
	}
	return slices.ContainsFunc(c.before, func(st Step) bool { return st.Req.Key() == int16(kmsg.LeaveGroup) })
}

// fromOutside says whether a step commits offsets without being a member.
func fromOutside(st Step) bool {
	r, ok := st.Req.(*kmsg.OffsetCommitRequest)
	return ok && r.Generation < 0
}

// staticAgain says whether a static member has joined a group twice, not with the same
// protocols.
func staticAgain(group string, steps []Step) bool {
	protocols := make(map[string][]kmsg.JoinGroupRequestProtocol)
	for _, st := range steps {
		r, ok := st.Req.(*kmsg.JoinGroupRequest)
		if !ok || r.Group != group || r.InstanceID == nil {
			continue
		}
		if before, again := protocols[*r.InstanceID]; again && !reflect.DeepEqual(before, r.Protocols) {
			return true
		}
		protocols[*r.InstanceID] = r.Protocols
	}
	return false
}

// namesProtocolTwice says whether a step is a JoinGroup with one protocol twice.
func namesProtocolTwice(st Step) bool {
	r, ok := st.Req.(*kmsg.JoinGroupRequest)
	if !ok {
		return false
	}
	seen := make(map[string]bool)
	return slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		again := seen[p.Name]
		seen[p.Name] = true
		return again
	})
}
