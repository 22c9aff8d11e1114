package main

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *gen) adminStep() {
	steps := []func(){
		g.createTopics, g.createTopics, g.deleteTopics, g.createPartitions, g.incrementalAlter, g.incrementalAlter, g.alterConfigs,
		g.describeConfigs, g.describeConfigs, g.metadata, g.metadata, g.describeTopicPartitions, g.logDirs, g.describeCluster,
		g.listConfigResources, g.apiVersions, g.findCoordinator, g.alterQuotas, g.describeQuotas, g.reassign,
	}
	steps[g.r.IntN(len(steps))]()
}

// anyStep picks among all keys alike.
func (g *gen) anyStep() {
	steps := []func(){
		g.createTopics, g.deleteTopics, g.createPartitions, g.incrementalAlter, g.alterConfigs, g.describeConfigs, g.metadata,
		g.describeTopicPartitions, g.logDirs, g.describeCluster, g.listConfigResources, g.apiVersions, g.findCoordinator,
		g.produce, g.produce, g.fetch, g.fetch, g.sessionFetch, g.listOffsets, g.deleteRecords, g.leaderEpoch, g.describeProducers,
		g.initProducer, g.offsetCommit, g.offsetFetch, g.describeGroups, g.listGroups, g.deleteGroups, g.offsetDelete, g.joinNew,
		func() { g.syncGroup(g.member()) }, func() { g.heartbeat(g.member()) }, func() { g.leaveGroup(g.member()) },
		g.strangeFrame, g.sasl, g.sasl, g.plainOther, g.alterQuotas, g.describeQuotas, g.reassign, g.listReassignments, g.unregisterBroker,
	}
	steps[g.r.IntN(len(steps))]()
}

// timeoutMs is long: what Kafka does when it ends depends on how fast it is.
const timeoutMs = 30_000

func (g *gen) createTopics() {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = timeoutMs
	req.ValidateOnly = g.chance(25)
	for range mostly(g, 85, 1, 2, 0) {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, _ = g.topic()
		if g.chance(75) {
			t.Topic = prefixToken + oneOf(g, freshNames[:4]...)
		}
		t.NumPartitions = mostly(g, 75, int32(1), 2, -1, 0, -2, 3, math.MaxInt32)
		t.ReplicationFactor = mostly(g, 80, int16(1), -1, 0, 2, -2)
		if g.chance(15) {
			t.NumPartitions, t.ReplicationFactor = mostly(g, 85, int32(-1), 1), mostly(g, 85, int16(-1), 1)
			t.ReplicaAssignment = g.assignments()
		}
		for range mostly(g, 60, 0, 1, 2) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = g.topicSetting()
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) assignments() (all []kmsg.CreateTopicsRequestTopicReplicaAssignment) {
	for i := range 1 + g.r.Int32N(2) {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition = mostly(g, 90, i, 5, -1)
		a.Replicas = mostly(g, 75, []int32{1}, []int32{}, []int32{2}, []int32{1, 1}, []int32{1, 2}, []int32{-1})
		all = append(all, a)
	}
	return all
}

// topicSetting is the name of a topic setting with a value, right or wrong.
func (g *gen) topicSetting() (string, *string) {
	value := func(vs ...string) *string {
		if g.chance(4) {
			return nil
		}
		return kmsg.StringPtr(vs[g.r.IntN(len(vs))])
	}
	// Values that make records go are left out: when they go is a matter of time.
	keep := []string{"-1", "-2", "x", "", " -1 ", "9223372036854775807", "9223372036854775808", "1.5"}
	long := []string{"1", "0", "-1", "-2", "x", "", " 5 ", "9223372036854775807", "9223372036854775808", "3600000", "1.5"}
	integer := []string{"1", "0", "-1", "x", "", "2147483647", "2147483648", "1048576", "14", "13", "99"}
	boolean := []string{"true", "false", "TRUE", "x", "", " false"}
	switch g.r.IntN(20) {
	case 0:
		return "retention.ms", value(keep...)
	case 1:
		return "retention.bytes", value(keep...)
	case 2:
		return "segment.bytes", value(integer...)
	case 3:
		return "segment.ms", value(long...)
	case 4:
		return "max.message.bytes", value(integer...)
	case 5:
		return "message.timestamp.type", value("CreateTime", "LogAppendTime", "createtime", "x", "")
	case 6:
		return "message.timestamp.before.max.ms", value(long...)
	case 7:
		return "message.timestamp.after.max.ms", value(long...)
	case 8:
		return "min.insync.replicas", value(integer...)
	case 9:
		return "cleanup.policy", value("delete", "delete,delete", "Delete", "x", "delete,x", " delete", "delete,", ",")
	case 10:
		return "compression.type", value("producer", "Producer", "x", "")
	case 11:
		return "unclean.leader.election.enable", value("false", "x", "")
	case 12:
		return "preallocate", value(boolean...)
	case 13:
		return oneOf(g, "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "file.delete.delay.ms", "segment.jitter.ms", "flush.ms", "flush.messages"), value(long...)
	case 14:
		return oneOf(g, "index.interval.bytes", "segment.index.bytes"), value(integer...)
	case 15:
		return "min.cleanable.dirty.ratio", value("0", "0.5", "1", "1.1", "-0.1", "x", "", "NaN")
	case 16:
		return oneOf(g, "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"), value("*", "", "0:1", "0:1,1:1", "x", "0", "none")
	case 17:
		return oneOf(g, "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"), value("1", "-1", "0", "9", "10", "17", "18", "22", "23", "x")
	case 18:
		return oneOf(g, "local.retention.ms", "local.retention.bytes"), value(long...)
	}
	return oneOf(g, "no.such.setting", "", "Retention.ms", "message.format.version", "log.retention.ms", "cleanup.policy "), value("1", "x", "")
}

func (g *gen) deleteTopics() {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = timeoutMs
	for range mostly(g, 85, 1, 2, 0) {
		name, _ := g.topic()
		if g.chance(50) {
			name = prefixToken + oneOf(g, freshNames[:4]...)
		}
		req.TopicNames = append(req.TopicNames, name)
		t := kmsg.NewDeleteTopicsRequestTopic()
		switch g.r.IntN(8) {
		case 0, 1, 2:
			t.Topic = kmsg.StringPtr(name)
		case 3, 4, 5:
			t.TopicID = topicIDOf(name)
		case 6:
			t.Topic, t.TopicID = kmsg.StringPtr(name), topicIDOf(name)
		default:
			t.TopicID = oneOf(g, [16]byte{}, [16]byte{1, 2, 3})
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) createPartitions() {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = timeoutMs
	req.ValidateOnly = g.chance(25)
	for range mostly(g, 85, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic = name
		t.Count = mostly(g, 60, partitions+1, partitions, partitions-1, 0, -1, partitions+2, math.MaxInt32)
		if g.chance(30) {
			for range max(0, mostly(g, 80, min(t.Count, 10)-partitions, 1, 2)) {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = mostly(g, 75, []int32{1}, []int32{}, []int32{2}, []int32{1, 1})
				t.Assignment = append(t.Assignment, a)
			}
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

// resource picks what settings belong to. Broker settings of the whole cluster
// would reach other sequences, so they are never changed.
func (g *gen) resource() (kmsg.ConfigResourceType, string) {
	name, _ := g.topic()
	switch n := g.r.IntN(100); {
	case n < 88:
		return kmsg.ConfigResourceTypeTopic, name
	case n < 92:
		return kmsg.ConfigResourceType(oneOf[int8](g, 0, 1, 3, 5, 64, 127, -1)), name
	}
	return kmsg.ConfigResourceTypeTopic, prefixToken + "-none"
}

func (g *gen) incrementalAlter() {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = g.chance(20)
	for range mostly(g, 90, 1, 2, 0) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = g.resource()
		for range mostly(g, 75, 1, 2, 0) {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value = g.topicSetting()
			c.Op = kmsg.IncrementalAlterConfigOp(mostly(g, 65, int8(0), 1, 2, 3))
			if g.r.IntN(1000) == 0 { // rare: Kafka's controller steps down over it
				c.Op = kmsg.IncrementalAlterConfigOp(oneOf[int8](g, 4, -1))
			}
			if g.chance(15) {
				c.Op = kmsg.IncrementalAlterConfigOp(oneOf[int8](g, 2, 3))
				c.Name = oneOf(g, "cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
				c.Value = kmsg.StringPtr(oneOf(g, "delete", "0:1", "1:1", "*", "", "x"))
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	g.add(req)
}

func (g *gen) alterConfigs() {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.ValidateOnly = g.chance(20)
	for range mostly(g, 90, 1, 2, 0) {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = g.resource()
		for range mostly(g, 70, 1, 2, 0) {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = g.topicSetting()
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	g.add(req)
}

func (g *gen) describeConfigs() {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = g.chance(50), g.chance(20)
	for range mostly(g, 90, 1, 2, 0) {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = g.resource()
		if g.chance(8) {
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, oneOf(g, "1", "", "2", "x")
		}
		switch g.r.IntN(5) {
		case 0:
			r.ConfigNames = []string{}
		case 1, 2:
			name, _ := g.topicSetting()
			r.ConfigNames = []string{name, "retention.ms"}
		}
		req.Resources = append(req.Resources, r)
	}
	g.add(req)
}

func (g *gen) metadata() {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = g.chance(15)
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = g.chance(20), g.chance(20)
	if g.chance(8) { // null or none
		req.Topics = oneOf(g, nil, []kmsg.MetadataRequestTopic{})
		g.add(req)
		return
	}
	for range mostly(g, 70, 1, 2, 3) {
		name, _ := g.topic()
		t := kmsg.NewMetadataRequestTopic()
		switch g.r.IntN(10) {
		case 0, 1, 2:
			t.TopicID = topicIDOf(name)
		case 3:
			t.TopicID, t.Topic = topicIDOf(name), kmsg.StringPtr(name)
		case 4:
			t.TopicID = oneOf(g, [16]byte{}, [16]byte{9, 9})
		default:
			t.Topic = kmsg.StringPtr(name)
		}
		req.Topics = append(req.Topics, t)
	}
	st := g.add(req)
	if req.Version < 10 { // null names cannot be encoded there
		for i := range req.Topics {
			if req.Topics[i].Topic == nil {
				name, _ := g.topic()
				req.Topics[i].Topic = kmsg.StringPtr(name)
			}
		}
		st.Req = req
	}
}

func (g *gen) describeTopicPartitions() {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = mostly(g, 70, int32(2000), 1, 2, 0, -1)
	for range mostly(g, 60, 1, 2, 3, 0) {
		name, _ := g.topic()
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	if g.chance(30) {
		name, partitions := g.topic()
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = name, g.partition(partitions)
		req.Cursor = &c
	}
	g.add(req)
}

func (g *gen) logDirs() {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	for range mostly(g, 80, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic = name
		t.Partitions = []int32{g.partition(partitions)}
		req.Topics = append(req.Topics, t)
	}
	if g.chance(10) {
		req.Topics = nil
	}
	g.add(req)
}

func (g *gen) describeCluster() {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = g.chance(40)
	req.EndpointType = mostly(g, 85, int8(1), 0, 2, 3, -1)
	req.IncludeFencedBrokers = g.chance(30)
	g.add(req)
}

func (g *gen) listConfigResources() {
	req := kmsg.NewPtrListConfigResourcesRequest()
	for range mostly(g, 70, 1, 0, 2) {
		req.ResourceTypes = append(req.ResourceTypes, oneOf[int8](g, 2, 4, 8, 16, 32, 0, 1, -1, 99))
	}
	g.add(req)
}

func (g *gen) apiVersions() {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName = mostly(g, 80, "lib", "", "-x", "a b", "ü", "x.y-z", "x-")
	req.ClientSoftwareVersion = mostly(g, 85, "1.0", "", ".", "1..0")
	req.NodeID = mostly(g, 60, int32(-1), 1, 2)
	if g.chance(45) {
		req.ClusterID = kmsg.StringPtr(oneOf(g, clusterMark, clusterMark, "other", ""))
	}
	g.add(req)
}

func (g *gen) findCoordinator() {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType = mostly(g, 85, int8(0), 1, 2, 3, -1)
	req.CoordinatorKey = g.group()
	for range mostly(g, 80, 1, 2, 0) {
		req.CoordinatorKeys = append(req.CoordinatorKeys, g.group())
	}
	g.add(req)
}
