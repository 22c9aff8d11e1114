package kafka

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// serveDescribeTopicPartitions lists partitions in order of topic name and
// number, from a cursor on and up to a limit of at least one; where more are left the
// answer says where they begin (KIP-966).
func serveDescribeTopicPartitions(r *Request) {
	req := r.Body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	if wrongCursor(req) {
		for i := range req.Topics {
			rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
			rt.Topic, rt.ErrorCode = &req.Topics[i].Topic, codeInvalidRequest
			resp.Topics = append(resp.Topics, rt)
		}
		r.Reply(resp)
		return
	}
	im := r.Image()
	names := describedNames(im, req)
	first := int32(0)
	if c := req.Cursor; c != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return n < c.Topic })
		if len(names) > 0 && names[0] == c.Topic {
			first = c.Partition
		}
	}
	left := min(r.Options().PartitionsPerDescribeMax, max(req.ResponsePartitionLimit, 1))
	for _, name := range names {
		if left <= 0 {
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		t := im.Topic(name)
		if t == nil {
			resp.Topics = append(resp.Topics, unknownDescribed(name))
			first = 0 // the cursor's topic has been deleted
			continue
		}
		end := min(int64(len(t.Partitions)), int64(first)+int64(left))
		resp.Topics = append(resp.Topics, describePartitions(im, t, int64(first), end))
		left -= int32(max(end-int64(first), 0))
		first = 0
		if end < int64(len(t.Partitions)) {
			resp.NextCursor = cursorAt(name, int32(end))
			break
		}
	}
	r.Reply(resp)
}

// wrongCursor says whether the cursor is in no partition, or in a topic that is not
// among those asked for.
func wrongCursor(req *kmsg.DescribeTopicPartitionsRequest) bool {
	c := req.Cursor
	if c == nil {
		return false
	}
	named := slices.ContainsFunc(req.Topics, func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == c.Topic })
	return c.Partition < 0 || len(req.Topics) > 0 && !named
}

// describedNames lists the topics of a request, or all, in order.
func describedNames(im *meta.Image, req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(names) == 0 {
		for _, t := range im.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}

func cursorAt(topic string, num int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, num
	return &c
}

func unknownDescribed(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
	rt.Topic, rt.ErrorCode = kmsg.StringPtr(name), codeUnknownTopicOrPartition
	rt.AuthorizedOperations = topicOperations
	if core.CheckTopicName(name) != "" {
		rt.ErrorCode = codeInvalidTopic
	}
	return rt
}

func describePartitions(im *meta.Image, t *meta.Topic, begin, end int64) kmsg.DescribeTopicPartitionsResponseTopic {
	rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
	rt.Topic, rt.TopicID, rt.IsInternal = kmsg.StringPtr(t.Name), t.ID, t.Internal
	rt.AuthorizedOperations = topicOperations
	for i := begin; i < end; i++ {
		p := t.Partitions[i]
		out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		leader, epoch := leaderOf(im, p)
		out.Partition, out.LeaderID, out.LeaderEpoch = p.Num, int32(leader), int32(epoch)
		if leader == core.NoNode {
			out.ErrorCode = codeLeaderNotAvailable
		}
		out.Replicas, out.ISR, out.OfflineReplicas = replicasOf(im, p)
		out.EligibleLeaderReplicas, out.LastKnownELR = []int32{}, []int32{}
		rt.Partitions = append(rt.Partitions, out)
	}
	return rt
}
