package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// firstError is the first error code in a response, 0 if there is none.
func firstError(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		return r.ErrorCode
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	case *kmsg.HeartbeatResponse:
		return r.ErrorCode
	case *kmsg.LeaveGroupResponse:
		return or(r.ErrorCode, firstOf(r.Members, func(m *kmsg.LeaveGroupResponseMember) int16 { return m.ErrorCode }))
	case *kmsg.ListGroupsResponse:
		return r.ErrorCode
	case *kmsg.DescribeClusterResponse:
		return r.ErrorCode
	case *kmsg.ListConfigResourcesResponse:
		return r.ErrorCode
	case *kmsg.InitProducerIDResponse:
		return r.ErrorCode
	case *kmsg.FindCoordinatorResponse:
		return or(r.ErrorCode, firstOf(r.Coordinators, func(c *kmsg.FindCoordinatorResponseCoordinator) int16 { return c.ErrorCode }))
	case *kmsg.DescribeGroupsResponse:
		return firstOf(r.Groups, func(g *kmsg.DescribeGroupsResponseGroup) int16 { return g.ErrorCode })
	case *kmsg.DeleteGroupsResponse:
		return firstOf(r.Groups, func(g *kmsg.DeleteGroupsResponseGroup) int16 { return g.ErrorCode })
	case *kmsg.CreateTopicsResponse:
		return firstOf(r.Topics, func(t *kmsg.CreateTopicsResponseTopic) int16 { return t.ErrorCode })
	case *kmsg.DeleteTopicsResponse:
		return firstOf(r.Topics, func(t *kmsg.DeleteTopicsResponseTopic) int16 { return t.ErrorCode })
	case *kmsg.CreatePartitionsResponse:
		return firstOf(r.Topics, func(t *kmsg.CreatePartitionsResponseTopic) int16 { return t.ErrorCode })
	case *kmsg.DescribeConfigsResponse:
		return firstOf(r.Resources, func(t *kmsg.DescribeConfigsResponseResource) int16 { return t.ErrorCode })
	case *kmsg.AlterConfigsResponse:
		return firstOf(r.Resources, func(t *kmsg.AlterConfigsResponseResource) int16 { return t.ErrorCode })
	case *kmsg.IncrementalAlterConfigsResponse:
		return firstOf(r.Resources, func(t *kmsg.IncrementalAlterConfigsResponseResource) int16 { return t.ErrorCode })
	case *kmsg.MetadataResponse:
		return firstOf(r.Topics, func(t *kmsg.MetadataResponseTopic) int16 { return t.ErrorCode })
	case *kmsg.DescribeTopicPartitionsResponse:
		return firstOf(r.Topics, func(t *kmsg.DescribeTopicPartitionsResponseTopic) int16 { return t.ErrorCode })
	case *kmsg.DescribeLogDirsResponse:
		return or(r.ErrorCode, firstOf(r.Dirs, func(d *kmsg.DescribeLogDirsResponseDir) int16 { return d.ErrorCode }))
	}
	return firstPartitionError(resp)
}

// firstPartitionError is firstError for responses whose errors stand at the
// partitions.
func firstPartitionError(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		return firstOf(r.Topics, func(t *kmsg.ProduceResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.ProduceResponseTopicPartition) int16 { return p.ErrorCode })
		})
	case *kmsg.FetchResponse:
		return or(r.ErrorCode, firstOf(r.Topics, func(t *kmsg.FetchResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.FetchResponseTopicPartition) int16 { return p.ErrorCode })
		}))
	case *kmsg.ListOffsetsResponse:
		return firstOf(r.Topics, func(t *kmsg.ListOffsetsResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.ListOffsetsResponseTopicPartition) int16 { return p.ErrorCode })
		})
	case *kmsg.OffsetForLeaderEpochResponse:
		return firstOf(r.Topics, func(t *kmsg.OffsetForLeaderEpochResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.OffsetForLeaderEpochResponseTopicPartition) int16 { return p.ErrorCode })
		})
	case *kmsg.DeleteRecordsResponse:
		return firstOf(r.Topics, func(t *kmsg.DeleteRecordsResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.DeleteRecordsResponseTopicPartition) int16 { return p.ErrorCode })
		})
	case *kmsg.DescribeProducersResponse:
		return firstOf(r.Topics, func(t *kmsg.DescribeProducersResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.DescribeProducersResponseTopicPartition) int16 { return p.ErrorCode })
		})
	case *kmsg.OffsetCommitResponse:
		return firstOf(r.Topics, func(t *kmsg.OffsetCommitResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.OffsetCommitResponseTopicPartition) int16 { return p.ErrorCode })
		})
	case *kmsg.OffsetDeleteResponse:
		return or(r.ErrorCode, firstOf(r.Topics, func(t *kmsg.OffsetDeleteResponseTopic) int16 {
			return firstOf(t.Partitions, func(p *kmsg.OffsetDeleteResponseTopicPartition) int16 { return p.ErrorCode })
		}))
	case *kmsg.OffsetFetchResponse:
		return or(r.ErrorCode, firstOf(r.Groups, func(g *kmsg.OffsetFetchResponseGroup) int16 { return g.ErrorCode }))
	}
	return codeNone
}

func or(a, b int16) int16 {
	if a != codeNone {
		return a
	}
	return b
}

func firstOf[T any](list []T, code func(*T) int16) int16 {
	for i := range list {
		if c := code(&list[i]); c != codeNone {
			return c
		}
	}
	return codeNone
}
