package controller

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quota reads lines "KIND:NAME,KIND KEY=VALUE -KEY": a kind without a name means
// its default.
func (s *scenario) quota(t *testing.T, d *datadriven.TestData) *kmsg.AlterClientQuotasRequest {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.ValidateOnly = d.HasArg("validate")
	for _, f := range lines(d) {
		e := kmsg.NewAlterClientQuotasRequestEntry()
		for part := range strings.SplitSeq(f[0], ",") {
			if part == "nothing" {
				continue
			}
			p := kmsg.NewAlterClientQuotasRequestEntryEntity()
			kind, name, named := strings.Cut(part, ":")
			if p.Type = kind; named {
				p.Name = &name
			}
			e.Entity = append(e.Entity, p)
		}
		for _, op := range f[1:] {
			o := kmsg.NewAlterClientQuotasRequestEntryOp()
			if o.Key, o.Remove = strings.CutPrefix(op, "-"); !o.Remove {
				key, value, _ := strings.Cut(op, "=")
				o.Key = key
				scan(t, value, &o.Value)
			}
			e.Ops = append(e.Ops, o)
		}
		req.Entries = append(req.Entries, e)
	}
	return req
}

// reassign reads lines "TOPIC PARTITION REPLICAS": "none" cancels, "empty" is an
// empty list.
func (s *scenario) reassign(t *testing.T, d *datadriven.TestData) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.AllowReplicationFactorChange = 1, !d.HasArg("same-factor")
	for _, f := range lines(d) {
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic = f[0]
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		scan(t, f[1], &p.Partition)
		switch f[2] {
		case "none":
		case "empty":
			p.Replicas = []int32{}
		default:
			p.Replicas = nodes(t, f[2])
		}
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
	}
	return req
}
