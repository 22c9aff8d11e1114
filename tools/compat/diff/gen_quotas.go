package main

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaEntity names whose quotas a request is about: users and client ids of the
// sequence, or with shared also those that sequences have in common.
func (g *gen) quotaEntity(shared bool) (all []kmsg.AlterClientQuotasRequestEntryEntity) {
	types := mostly(g, 85, []string{"user"}, []string{"client-id"}, []string{"user", "client-id"}, []string{"ip"}, []string{}, []string{"user", "user"}, []string{"x"}, []string{"User"}, []string{""}, []string{"ip", "user"})
	if g.chance(35) {
		types = oneOf(g, []string{"client-id"}, []string{"user", "client-id"})
	}
	for _, typ := range types {
		e := kmsg.NewAlterClientQuotasRequestEntryEntity()
		e.Type, e.Name = typ, kmsg.StringPtr(prefixToken+oneOf(g, "-u0", "-u1", " u/ü"))
		if shared && g.chance(40) {
			e.Name = oneOf(g, nil, kmsg.StringPtr(""), kmsg.StringPtr("127.0.0.1"), kmsg.StringPtr("::1"), kmsg.StringPtr("300.1.1.1"))
		}
		all = append(all, e)
	}
	return all
}

func (g *gen) alterQuotas() {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.ValidateOnly = g.chance(35)
	for range mostly(g, 85, 1, 2, 0) {
		e := kmsg.NewAlterClientQuotasRequestEntry()
		e.Entity = g.quotaEntity(req.ValidateOnly)
		for range mostly(g, 75, 1, 2, 0) {
			op := kmsg.NewAlterClientQuotasRequestEntryOp()
			op.Key = mostly(g, 85, oneOf(g, "consumer_byte_rate", "producer_byte_rate", "request_percentage", "controller_mutation_rate"),
				"connection_creation_rate", "x", "", "Consumer_Byte_Rate")
			op.Value = mostly(g, 70, float64(1000+g.r.IntN(3)), 0, -1, 0.5, 1e300, math.Inf(1), math.NaN(), 1e18)
			op.Remove = g.chance(25)
			e.Ops = append(e.Ops, op)
		}
		req.Entries = append(req.Entries, e)
	}
	g.add(req)
}

func (g *gen) describeQuotas() {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = g.chance(40)
	for _, entity := range g.quotaEntity(false) {
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType, c.Match = entity.Type, entity.Name
		c.MatchType = kmsg.QuotasMatchType(mostly(g, 60, int8(0), 1, 2, 2, 3, -1))
		if g.chance(70) != (c.MatchType == 0) {
			c.Match = nil
		}
		req.Components = append(req.Components, c)
	}
	g.add(req)
}

// reassign asks for replicas where they are already, or where there is no broker.
func (g *gen) reassign() {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = timeoutMs
	req.AllowReplicationFactorChange = g.chance(70)
	for range mostly(g, 85, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = name
		for range mostly(g, 85, 1, 2, 0) {
			p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			p.Partition = g.partition(partitions)
			p.Replicas = mostly(g, 45, []int32{1}, nil, []int32{}, []int32{2}, []int32{1, 1}, []int32{1, 2}, []int32{-1})
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) listReassignments() {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = timeoutMs
	for range mostly(g, 70, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic = name
		for range mostly(g, 85, 1, 2, 0) {
			t.Partitions = append(t.Partitions, g.partition(partitions))
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

// unregisterBroker names brokers that there are not: without its own the run is over.
func (g *gen) unregisterBroker() {
	if _, ok := g.advertised[int16(kmsg.UnregisterBroker)]; !ok {
		return
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = oneOf[int32](g, 2, 99, -1, 0, math.MaxInt32, math.MinInt32)
	g.add(req)
}
