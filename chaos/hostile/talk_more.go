package main

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func createTopic(name string, partitions int32, rf int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, rf
	return t
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = topics
	return req
}

func joinGroup(group, member string, metadata []byte) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", metadata
	req.Protocols = append(req.Protocols, p)
	return req
}

// nullAttacks leave out what must be there. A compact null is a single 0.
func nullAttacks() []attack {
	return []attack{
		talk("CreateTopics, null for the topics", rawRequest(kmsg.NewPtrCreateTopicsRequest(), 7, []byte{0, 0, 0, 0, 100, 0, 0})),
		talk("CreateTopics, null for a name", rawRequest(kmsg.NewPtrCreateTopicsRequest(), 7, []byte{2, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 100, 0, 0})),
		talk("JoinGroup, null for the group", rawRequest(kmsg.NewPtrJoinGroupRequest(), 6, []byte{0, 0, 0, 39, 16, 0, 0, 39, 16, 1, 0, 9, 'c', 'o', 'n', 's', 'u', 'm', 'e', 'r', 1, 0})),
		talk("JoinGroup, null for the protocols", rawRequest(kmsg.NewPtrJoinGroupRequest(), 6, []byte{2, 'g', 0, 0, 39, 16, 0, 0, 39, 16, 1, 0, 9, 'c', 'o', 'n', 's', 'u', 'm', 'e', 'r', 0, 0})),
		talk("Heartbeat, null for the group", rawRequest(kmsg.NewPtrHeartbeatRequest(), 4, []byte{0, 0, 0, 0, 1, 1, 0, 0})),
		talk("DeleteTopics, null for a name without an ID", rawRequest(kmsg.NewPtrDeleteTopicsRequest(), 6, append(append([]byte{2, 0}, make([]byte, 16)...), 0, 0, 0, 0, 100, 0))),
		talk("FindCoordinator, null for a key", rawRequest(kmsg.NewPtrFindCoordinatorRequest(), 4, []byte{0, 2, 0, 0})),
		talk("DescribeGroups, null for the groups", rawRequest(kmsg.NewPtrDescribeGroupsRequest(), 5, []byte{0, 0, 0})),
		talk("OffsetCommit, null for the topics", rawRequest(kmsg.NewPtrOffsetCommitRequest(), 8, []byte{2, 'g', 0, 0, 0, 0, 1, 0, 0, 0})),
	}
}

// textAttacks are names that are none.
func textAttacks() []attack {
	utf8 := "\xff\xfe\x80"
	metadata := func(name string) *kmsg.MetadataRequest {
		req := kmsg.NewPtrMetadataRequest()
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), true
		return req
	}
	client := apiVersions(0)
	client.frame = slices.Clone(client.frame)
	copy(client.frame[14:], utf8)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = utf8
	ct := kmsg.NewOffsetCommitRequestTopic()
	ct.Topic = topicName
	ct.Partitions = append(ct.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	commit.Topics = append(commit.Topics, ct)
	long := strings.Repeat("g", 40_000)
	return []attack{
		talk("a client id that is not UTF-8", client),
		talk("Metadata, a name that is not UTF-8", encode(metadata(utf8), 9)),
		talk("Metadata, a name of 300 characters", encode(metadata(strings.Repeat("x", 300)), 9)),
		talk("Metadata, a name of 100,000 characters", encode(metadata(strings.Repeat("x", 100_000)), 9)),
		talk("CreateTopics, a name that is not UTF-8", encode(createTopics(createTopic(utf8, 1, 1)), 7)),
		talk("CreateTopics, the name ..", encode(createTopics(createTopic("..", 1, 1)), 7)),
		talk("CreateTopics, -5 partitions", encode(createTopics(createTopic("p", -5, 1)), 7)),
		talk("CreateTopics, 2^31-1 partitions", encode(createTopics(createTopic("p", 1<<31-1, 1)), 7)),
		talk("CreateTopics, 32767 replicas", encode(createTopics(createTopic("p", 1, 32767)), 7)),
		talk("JoinGroup, a group that is not UTF-8", encode(joinGroup(utf8, "", nil), 3)),
		talk("JoinGroup, a group of 40,000 characters", encode(joinGroup(long, "", nil), 6)),
		talk("JoinGroup, an unknown member", encode(joinGroup("g", "nobody", nil), 3)),
		talk("JoinGroup, a session of -1", encode(func() *kmsg.JoinGroupRequest { r := joinGroup("g", "", nil); r.SessionTimeoutMillis = -1; return r }(), 3)),
		talk("OffsetCommit, a group that is not UTF-8", encode(commit, 7)),
	}
}

// twiceAttacks name something twice in one request.
func twiceAttacks() []attack {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis, fetch.MaxBytes = 100, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = topicName
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 1000
	ft.Partitions = append(ft.Partitions, fp, fp)
	fetch.Topics = append(fetch.Topics, ft)

	list := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = topicName
	lp := kmsg.NewListOffsetsRequestTopicPartition()
	lp.Timestamp = -1
	lt.Partitions = append(lt.Partitions, lp, lp)
	list.Topics = append(list.Topics, lt)

	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"nowhere", "nowhere"}

	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topicName
	describe := kmsg.NewPtrDescribeConfigsRequest()
	describe.Resources = append(describe.Resources, res, res)

	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{"nobody", "nobody"}

	offsets := kmsg.NewPtrOffsetFetchRequest()
	og := kmsg.NewOffsetFetchRequestGroup()
	og.Group = "nobody"
	offsets.Groups = append(offsets.Groups, og, og)

	ar := kmsg.NewIncrementalAlterConfigsRequestResource()
	ar.ResourceType, ar.ResourceName = kmsg.ConfigResourceTypeTopic, topicName
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = append(alter.Resources, ar, ar)

	records := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topicName
	rt.Partitions = append(rt.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition(), kmsg.NewDeleteRecordsRequestTopicPartition())
	records.Topics = append(records.Topics, rt)

	producers := kmsg.NewPtrDescribeProducersRequest()
	pt := kmsg.NewDescribeProducersRequestTopic()
	pt.Topic, pt.Partitions = topicName, []int32{0, 0}
	producers.Topics = append(producers.Topics, pt)

	dg := kmsg.NewPtrDeleteGroupsRequest()
	dg.Groups = []string{"nobody", "nobody"}

	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"nobody", "nobody"}

	logdirs := kmsg.NewPtrDescribeLogDirsRequest()
	dt := kmsg.NewDescribeLogDirsRequestTopic()
	dt.Topic, dt.Partitions = topicName, []int32{0, 0}
	logdirs.Topics = append(logdirs.Topics, dt)

	return []attack{
		talk("CreateTopics, a topic twice", encode(createTopics(createTopic("twice", 1, 1), createTopic("twice", 1, 1)), 7)),
		talk("DeleteTopics, a topic twice", encode(del, 5)),
		talk("Fetch, a partition twice", encode(fetch, 4)),
		talk("ListOffsets, a partition twice", encode(list, 7)),
		talk("DeleteRecords, a partition twice", encode(records, 2)),
		talk("DescribeConfigs, a topic twice", encode(describe, 4)),
		talk("DescribeGroups, a group twice", encode(groups, 5)),
		talk("DeleteGroups, a group twice", encode(dg, 2)),
		talk("OffsetFetch, a group twice", encode(offsets, 8)),
		talk("IncrementalAlterConfigs, a topic twice", encode(alter, 1)),
		talk("DescribeProducers, a partition twice", encode(producers, 0)),
		talk("FindCoordinator, a group twice", encode(find, 4)),
		talk("DescribeLogDirs, a partition twice", encode(logdirs, 4)),
	}
}
