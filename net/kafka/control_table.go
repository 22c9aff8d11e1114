package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// controlAPIs are the rows of the table that change or describe the cluster, and
// those that coordinators answer.
func controlAPIs() []api {
	return []api{
		{key: kmsg.OffsetCommit, min: 2, max: 10, serve: serveOffsetCommit},
		{key: kmsg.OffsetFetch, min: 1, max: 10, serve: serveOffsetFetch},
		{key: kmsg.JoinGroup, min: 0, max: 9, serve: serveJoinGroup},
		{key: kmsg.Heartbeat, min: 0, max: 4, serve: serveHeartbeat},
		{key: kmsg.LeaveGroup, min: 0, max: 5, serve: serveLeaveGroup},
		{key: kmsg.SyncGroup, min: 0, max: 5, serve: serveSyncGroup},
		{key: kmsg.DescribeGroups, min: 0, max: 6, serve: serveDescribeGroups},
		{key: kmsg.ListGroups, min: 0, max: 5, serve: serveListGroups},
		{key: kmsg.SASLHandshake, min: 0, max: 1, serve: serveSASLHandshake},
		{key: kmsg.CreateTopics, min: 2, max: 7, serve: serveCreateTopics},
		{key: kmsg.DeleteTopics, min: 1, max: 6, serve: serveDeleteTopics},
		{key: kmsg.DescribeConfigs, min: 1, max: 4, serve: serveDescribeConfigs},
		{key: kmsg.AlterConfigs, min: 0, max: 2, serve: serveAlterConfigs},
		{key: kmsg.DescribeLogDirs, min: 1, max: 5, serve: serveDescribeLogDirs},
		{key: kmsg.SASLAuthenticate, min: 0, max: 2, serve: serveSASLAuthenticate},
		{key: kmsg.CreatePartitions, min: 0, max: 3, serve: serveCreatePartitions},
		{key: kmsg.DeleteGroups, min: 0, max: 3, serve: serveDeleteGroups},
		{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, serve: serveIncrementalAlterConfigs},
		{key: kmsg.AlterPartitionAssignments, min: 0, max: 1, serve: serveAlterPartitionReassignments},
		{key: kmsg.ListPartitionReassignments, min: 0, max: 0, serve: serveListPartitionReassignments},
		{key: kmsg.DescribeClientQuotas, min: 0, max: 1, serve: serveDescribeClientQuotas},
		{key: kmsg.AlterClientQuotas, min: 0, max: 1, serve: serveAlterClientQuotas},
		{key: kmsg.OffsetDelete, min: 0, max: 0, serve: serveOffsetDelete},
		{key: kmsg.DescribeCluster, min: 0, max: 2, serve: serveDescribeCluster},
		{key: kmsg.ListConfigResources, min: 0, max: 1, serve: serveListConfigResources},
	}
}
