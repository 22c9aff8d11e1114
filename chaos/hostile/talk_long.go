package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// longAttacks are texts that the formats of requests can hold and those of the
// log of groups cannot: its strings end at 32767 bytes.
func longAttacks() []attack {
	const long = 40_000
	commit := func(group, metadata string) request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = topicName
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset, p.Metadata = 1, &metadata
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return encode(req, 8)
	}
	x := strings.Repeat("x", long)
	list := []attack{
		talk("OffsetCommit, a group of 40,000 characters", commit(x, "")),
		talk("OffsetCommit, a group of 32,767 characters", commit(x[:32767], "")),
		talk("OffsetCommit, metadata of 40,000 characters", commit("g", x)),
	}
	joins := []struct {
		name string
		edit func(*kmsg.JoinGroupRequest)
	}{
		{"a group of 40,000 characters", func(r *kmsg.JoinGroupRequest) { r.Group = x }},
		{"an instance id of 40,000 characters", func(r *kmsg.JoinGroupRequest) { r.InstanceID = &x }},
		{"a protocol type of 40,000 characters", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = x }},
		{"a protocol of 40,000 characters", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = x }},
		{"a client id of 32,767 characters", nil},
		{"metadata of 4 MiB", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = make([]byte, 4<<20) }},
	}
	for i, j := range joins {
		list = append(list, attack{name: "JoinGroup and SyncGroup, " + j.name, do: func(ctx context.Context, e *env) (outcome, error) {
			c, err := e.dial(ctx)
			if err != nil {
				return outcome{}, err
			}
			defer c.Close()
			req := joinGroup(fmt.Sprintf("long-%d", i), "", nil)
			if j.edit != nil {
				j.edit(req)
			}
			client := "hostile"
			if j.edit == nil {
				client = x[:32767]
			}
			return said(c.becomeLeader(req, client)), nil
		}})
	}
	return list
}

// becomeLeader joins, again with the ID that it is given, and assigns. It gives
// the last answer.
func (c *conn) becomeLeader(req *kmsg.JoinGroupRequest, client string) string {
	q := encode(req, 6).as(client)
	said := c.ask(q, answerWait)
	joined := q.resp.(*kmsg.JoinGroupResponse)
	if said == answered("MEMBER_ID_REQUIRED") {
		req.MemberID = joined.MemberID
		q = encode(req, 6).as(client)
		said = c.ask(q, answerWait)
		joined = q.resp.(*kmsg.JoinGroupResponse)
	}
	if said != answered("NONE") {
		return "JoinGroup: " + said
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID, sync.InstanceID = req.Group, joined.Generation, joined.MemberID, req.InstanceID
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = joined.MemberID, []byte("assignment")
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	return "SyncGroup: " + c.ask(encode(sync, 4).as(client), answerWait)
}
