package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// eachError calls count for every error code in a response, in the version that
// is set: those of the response as a whole, and those of its parts. 0 is no error
// and is passed on too.
func eachError(resp kmsg.Response, count func(code int16)) {
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		count(r.ErrorCode)
	case *kmsg.SASLHandshakeResponse:
		count(r.ErrorCode)
	case *kmsg.SASLAuthenticateResponse:
		count(r.ErrorCode)
	case *kmsg.JoinGroupResponse:
		count(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		count(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		count(r.ErrorCode)
	case *kmsg.ListGroupsResponse:
		count(r.ErrorCode)
	case *kmsg.DescribeClusterResponse:
		count(r.ErrorCode)
	case *kmsg.ListConfigResourcesResponse:
		count(r.ErrorCode)
	case *kmsg.ListPartitionReassignmentsResponse:
		count(r.ErrorCode)
	case *kmsg.DescribeClientQuotasResponse:
		count(r.ErrorCode)
	case *kmsg.AlterClientQuotasResponse:
		each(r.Entries, func(e *kmsg.AlterClientQuotasResponseEntry) { count(e.ErrorCode) })
	case *kmsg.InitProducerIDResponse:
		count(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		count(r.ErrorCode)
		if r.Version >= 3 { // KIP-345
			each(r.Members, func(m *kmsg.LeaveGroupResponseMember) { count(m.ErrorCode) })
		}
	case *kmsg.FindCoordinatorResponse:
		if r.Version < 4 { // KIP-699
			count(r.ErrorCode)
			return
		}
		each(r.Coordinators, func(c *kmsg.FindCoordinatorResponseCoordinator) { count(c.ErrorCode) })
	case *kmsg.DescribeGroupsResponse:
		each(r.Groups, func(g *kmsg.DescribeGroupsResponseGroup) { count(g.ErrorCode) })
	case *kmsg.DeleteGroupsResponse:
		each(r.Groups, func(g *kmsg.DeleteGroupsResponseGroup) { count(g.ErrorCode) })
	case *kmsg.CreateTopicsResponse:
		each(r.Topics, func(t *kmsg.CreateTopicsResponseTopic) { count(t.ErrorCode) })
	case *kmsg.DeleteTopicsResponse:
		each(r.Topics, func(t *kmsg.DeleteTopicsResponseTopic) { count(t.ErrorCode) })
	case *kmsg.CreatePartitionsResponse:
		each(r.Topics, func(t *kmsg.CreatePartitionsResponseTopic) { count(t.ErrorCode) })
	case *kmsg.DescribeConfigsResponse:
		each(r.Resources, func(t *kmsg.DescribeConfigsResponseResource) { count(t.ErrorCode) })
	case *kmsg.AlterConfigsResponse:
		each(r.Resources, func(t *kmsg.AlterConfigsResponseResource) { count(t.ErrorCode) })
	case *kmsg.IncrementalAlterConfigsResponse:
		each(r.Resources, func(t *kmsg.IncrementalAlterConfigsResponseResource) { count(t.ErrorCode) })
	case *kmsg.DescribeLogDirsResponse:
		if r.Version >= 3 {
			count(r.ErrorCode)
		}
		each(r.Dirs, func(d *kmsg.DescribeLogDirsResponseDir) { count(d.ErrorCode) })
	default:
		eachPartitionError(resp, count)
	}
}

// eachPartitionError is eachError for responses whose errors stand at the
// partitions.
func eachPartitionError(resp kmsg.Response, count func(code int16)) {
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		each(r.Topics, func(t *kmsg.MetadataResponseTopic) {
			count(t.ErrorCode)
			each(t.Partitions, func(p *kmsg.MetadataResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.DescribeTopicPartitionsResponse:
		each(r.Topics, func(t *kmsg.DescribeTopicPartitionsResponseTopic) {
			count(t.ErrorCode)
			each(t.Partitions, func(p *kmsg.DescribeTopicPartitionsResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.ListOffsetsResponse:
		each(r.Topics, func(t *kmsg.ListOffsetsResponseTopic) {
			each(t.Partitions, func(p *kmsg.ListOffsetsResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.OffsetForLeaderEpochResponse:
		each(r.Topics, func(t *kmsg.OffsetForLeaderEpochResponseTopic) {
			each(t.Partitions, func(p *kmsg.OffsetForLeaderEpochResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.DeleteRecordsResponse:
		each(r.Topics, func(t *kmsg.DeleteRecordsResponseTopic) {
			each(t.Partitions, func(p *kmsg.DeleteRecordsResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.DescribeProducersResponse:
		each(r.Topics, func(t *kmsg.DescribeProducersResponseTopic) {
			each(t.Partitions, func(p *kmsg.DescribeProducersResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.AlterPartitionAssignmentsResponse:
		count(r.ErrorCode)
		each(r.Topics, func(t *kmsg.AlterPartitionAssignmentsResponseTopic) {
			each(t.Partitions, func(p *kmsg.AlterPartitionAssignmentsResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.OffsetCommitResponse:
		each(r.Topics, func(t *kmsg.OffsetCommitResponseTopic) {
			each(t.Partitions, func(p *kmsg.OffsetCommitResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.OffsetDeleteResponse:
		count(r.ErrorCode)
		each(r.Topics, func(t *kmsg.OffsetDeleteResponseTopic) {
			each(t.Partitions, func(p *kmsg.OffsetDeleteResponseTopicPartition) { count(p.ErrorCode) })
		})
	case *kmsg.OffsetFetchResponse:
		eachOffsetFetchError(r, count)
	default:
		panic("BUG: nobody counts the errors of " + kmsg.Key(resp.Key()).Name())
	}
}

func eachOffsetFetchError(r *kmsg.OffsetFetchResponse, count func(code int16)) {
	if r.Version < 8 { // KIP-709
		if r.Version >= 2 {
			count(r.ErrorCode)
		}
		each(r.Topics, func(t *kmsg.OffsetFetchResponseTopic) {
			each(t.Partitions, func(p *kmsg.OffsetFetchResponseTopicPartition) { count(p.ErrorCode) })
		})
		return
	}
	each(r.Groups, func(g *kmsg.OffsetFetchResponseGroup) {
		count(g.ErrorCode)
		each(g.Topics, func(t *kmsg.OffsetFetchResponseGroupTopic) {
			each(t.Partitions, func(p *kmsg.OffsetFetchResponseGroupTopicPartition) { count(p.ErrorCode) })
		})
	})
}

func each[T any](list []T, f func(*T)) {
	for i := range list {
		f(&list[i])
	}
}
