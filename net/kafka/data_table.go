package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// dataAPIs are the rows of the table that the shards of partitions answer, and
// those with which clients find them.
func dataAPIs() []api {
	return []api{
		{key: kmsg.Produce, min: 0, max: 13, serve: serveProduce, raw: true},
		{key: kmsg.Fetch, min: 4, max: 18, serve: serveFetch},
		{key: kmsg.ListOffsets, min: 1, max: 11, serve: serveListOffsets},
		{key: kmsg.Metadata, min: 0, max: 13, serve: serveMetadata},
		{key: kmsg.FindCoordinator, min: 0, max: 6, serve: serveFindCoordinator},
		{key: kmsg.ApiVersions, min: 0, max: 5, serve: serveApiVersions},
		{key: kmsg.DeleteRecords, min: 0, max: 2, serve: serveDeleteRecords},
		{key: kmsg.InitProducerID, min: 0, max: 5, serve: serveInitProducerID},
		{key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4, serve: serveOffsetForLeaderEpoch},
		{key: kmsg.DescribeProducers, min: 0, max: 0, serve: serveDescribeProducers},
		{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, serve: serveDescribeTopicPartitions},
	}
}
