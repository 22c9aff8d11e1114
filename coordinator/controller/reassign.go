package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// alterPartitionReassignments answers AlterPartitionReassignments (KIP-455). Each
// partition is judged by itself. One node holds all replicas, so that what passes
// the checks is what is so already, and a move is never under way.
func alterPartitionReassignments(ch *change, req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	if len(req.Topics) == 0 { // Kafka's answer to nothing has the defaults
		resp.AllowReplicationFactorChange, resp.ErrorMessage = true, new(string)
	}
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = in.Topic
		for k := range in.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition = in.Partitions[k].Partition
			if no := reassign(ch.image(), in.Topic, &in.Partitions[k], req.AllowReplicationFactorChange); no != nil {
				p.ErrorCode = no.code
				if no.text != "" {
					p.ErrorMessage = &no.text
				}
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// reassign judges one partition. Its texts do not quote all of a long name: each
// partition has one, and the name stands before them.
func reassign(im *meta.Image, topic string, in *kmsg.AlterPartitionAssignmentsRequestTopicPartition, newFactor bool) *refusal {
	t := im.Topic(topic)
	if t == nil {
		return refuse(kerr.UnknownTopicOrPartition, "Unable to find a topic named %.50s.", topic)
	}
	if in.Partition < 0 || int(in.Partition) >= len(t.Partitions) {
		return refuse(kerr.UnknownTopicOrPartition, "Unable to find partition %.50s:%d.", topic, in.Partition)
	}
	if in.Replicas == nil { // cancel
		return &refusal{code: kerr.NoReassignmentInProgress.Code}
	}
	replicas, no := checkReplicas(im, in.Replicas, 0)
	if no != nil {
		return no
	}
	now := t.Partitions[in.Partition].Replicas
	switch {
	case !newFactor && len(replicas) != len(now):
		return refuse(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", len(now), len(replicas))
	case !sameNodes(replicas, now):
		return refuse(kerr.InvalidReplicaAssignment, "Replicas cannot be moved: %.50s:%d stays on %v.", topic, in.Partition, now)
	}
	return nil
}

func sameNodes(a, b []core.NodeID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
