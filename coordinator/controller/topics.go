package controller

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

const (
	// requestPartitionsMax bounds what one request may create, as in Kafka.
	requestPartitionsMax = 10_000
	// changeBytesMax bounds the records of one request: they are one batch.
	changeBytesMax = 900 << 10
)

// refusal is an error for one item of a request: a Kafka error code and a text
// for the person who asked.
type refusal struct {
	code int16
	text string
}

func refuse(e *kerr.Error, format string, args ...any) *refusal {
	return &refusal{e.Code, fmt.Sprintf(format, args...)}
}

// IsInternal says whether a topic name belongs to the broker itself.
func IsInternal(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}

// createTopics answers CreateTopics. Each topic is validated and made on its
// own; topics named twice are refused, all of them.
func (c *Controller) createTopics(ch *change, req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	named := make(map[string]int, len(req.Topics))
	total := 0
	for i := range req.Topics {
		t := &req.Topics[i]
		named[t.Topic]++
		total += requestedPartitions(t, int(c.opts.DefaultPartitions))
	}
	answered := make(map[string]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = t.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // not null
		var no *refusal
		switch {
		case named[t.Topic] > 1:
			if answered[t.Topic] {
				continue
			}
			answered[t.Topic] = true
			no = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		case total > requestPartitionsMax:
			no = refuse(kerr.PolicyViolation, "Excessively large number of partitions per request.")
		default:
			no = c.createTopic(ch, t, req.ValidateOnly, &out)
		}
		if no != nil {
			out.ErrorCode, out.ErrorMessage = no.code, &no.text
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func requestedPartitions(t *kmsg.CreateTopicsRequestTopic, byDefault int) int {
	switch {
	case len(t.ReplicaAssignment) > 0:
		return len(t.ReplicaAssignment)
	case t.NumPartitions == -1:
		return byDefault
	default:
		return max(int(t.NumPartitions), 0)
	}
}

func (c *Controller) createTopic(ch *change, t *kmsg.CreateTopicsRequestTopic, validateOnly bool, out *kmsg.CreateTopicsResponseTopic) *refusal {
	if t.Topic == "__cluster_metadata" {
		return refuse(kerr.InvalidRequest, "Creation of internal topic __cluster_metadata is prohibited.")
	}
	if text := core.CheckTopicName(t.Topic); text != "" {
		return refuse(kerr.InvalidTopicException, "%s", text)
	}
	if ch.image().Topic(t.Topic) != nil {
		return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", t.Topic)
	}
	if other := ch.image().Colliding(t.Topic); other != nil {
		return refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", t.Topic, other.Name)
	}
	configs, no := c.topicConfigs(t.Topic, t.Configs)
	if no != nil {
		return no
	}
	replicas, no := c.place(ch, t)
	if no != nil {
		return no
	}
	topic := &meta.Topic{ID: c.ids.UUID(), Name: t.Topic, Internal: IsInternal(t.Topic), Configs: configs}
	topic.Partitions, no = c.newPartitions(ch, 0, replicas)
	if no != nil {
		return no
	}
	out.NumPartitions, out.ReplicationFactor = int32(len(replicas)), int16(len(replicas[0]))
	for _, e := range c.opts.TopicConfigs(ch.image(), topic) {
		rc := kmsg.NewCreateTopicsResponseTopicConfig()
		rc.Name, rc.Value, rc.Source, rc.ReadOnly, rc.IsSensitive = e.Name, e.Value, e.Source, e.ReadOnly, e.Sensitive
		out.Configs = append(out.Configs, rc)
	}
	out.TopicID = topic.ID // also of a topic that is not made, as in Kafka
	if validateOnly {
		return nil
	}
	records := []core.Record{encodeTopic(topic)}
	if len(configs) > 0 {
		records = append(records, encodeConfigs(resourceTopic, topic.ID[:], configs))
	}
	if !ch.fits(records) {
		out.TopicID = core.TopicID{}
		return refuse(kerr.PolicyViolation, "The request is too large: create topic '%s' in a request of its own.", t.Topic)
	}
	ch.claimPartitions(topic.Partitions)
	for _, r := range records {
		ch.put(r)
	}
	return nil
}

// fits says whether the change may take these records too.
func (ch *change) fits(records []core.Record) bool {
	n := ch.bytes
	for _, r := range records {
		n += recordBytes(r)
	}
	return n <= changeBytesMax
}

// newPartitions makes partitions numbered from first, with IDs that claimPartitions
// will take.
func (c *Controller) newPartitions(ch *change, first int, replicas [][]core.NodeID) ([]*meta.Partition, *refusal) {
	if n := first + len(replicas); n > c.opts.TopicPartitionsMax {
		return nil, refuse(kerr.InvalidPartitions, "A topic may have at most %d partitions; %d were asked for.", c.opts.TopicPartitionsMax, n)
	}
	if n := ch.image().PartitionCount() + len(replicas); n > c.opts.PartitionsMax {
		return nil, refuse(kerr.PolicyViolation, "The cluster may have at most %d partitions; there would be %d.", c.opts.PartitionsMax, n)
	}
	out := make([]*meta.Partition, len(replicas))
	for i := range replicas {
		out[i] = &meta.Partition{ID: ch.state.nextPartition + core.PartitionID(i), Num: int32(first + i), Replicas: replicas[i]}
	}
	return out, nil
}

// claimPartitions makes the IDs of new partitions theirs for ever; finish
// records the counter, once for all of them.
func (ch *change) claimPartitions(parts []*meta.Partition) {
	for _, p := range parts {
		ch.newPartitions = append(ch.newPartitions, p.ID)
	}
	ch.state.nextPartition += core.PartitionID(len(parts))
}

// place finds the replicas of each partition of a new topic.
func (c *Controller) place(ch *change, t *kmsg.CreateTopicsRequestTopic) ([][]core.NodeID, *refusal) {
	if len(t.ReplicaAssignment) > 0 {
		return placeManually(ch.image(), t)
	}
	parts, rf := t.NumPartitions, t.ReplicationFactor
	if parts == -1 {
		parts = c.opts.DefaultPartitions
	}
	if rf == -1 {
		rf = c.opts.DefaultReplication
	}
	if rf < 1 {
		return nil, refuse(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if parts < 1 {
		return nil, refuse(kerr.InvalidPartitions, "Number of partitions must be larger than 0, or -1 to use the default value.")
	}
	return spread(ch, int(parts), int(rf))
}

// spread places partitions over the brokers round robin, racks alternating, and
// starts where the last topic ended.
func spread(ch *change, parts, rf int) ([][]core.NodeID, *refusal) {
	brokers := byRack(ch.image().Brokers)
	if rf > len(brokers) {
		return nil, refuse(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.", rf, rf, len(brokers))
	}
	start := int(ch.state.nextPartition % core.PartitionID(len(brokers)))
	out := make([][]core.NodeID, parts)
	for p := range out {
		out[p] = make([]core.NodeID, rf)
		for r := range out[p] {
			out[p][r] = brokers[(start+p+r)%len(brokers)]
		}
	}
	return out, nil
}

// byRack orders brokers so that neighbours are in different racks as far as
// possible: the first of each rack, then the second of each, and so on.
func byRack(brokers []meta.Broker) []core.NodeID {
	racks := make(map[string][]core.NodeID)
	for _, b := range brokers {
		racks[b.Rack] = append(racks[b.Rack], b.ID)
	}
	names := sortedKeys(racks)
	out := make([]core.NodeID, 0, len(brokers))
	for i := 0; len(out) < len(brokers); i++ {
		for _, n := range names {
			if i < len(racks[n]) {
				out = append(out, racks[n][i])
			}
		}
	}
	return out
}

func placeManually(im *meta.Image, t *kmsg.CreateTopicsRequestTopic) ([][]core.NodeID, *refusal) {
	if t.ReplicationFactor != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, refuse(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byNum := make(map[int32][]core.NodeID, len(t.ReplicaAssignment))
	rf := 0
	for _, a := range t.ReplicaAssignment {
		if _, twice := byNum[a.Partition]; twice {
			return nil, refuse(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		replicas, no := checkReplicas(im, a.Replicas, rf)
		if no != nil {
			return nil, no
		}
		rf = len(replicas)
		byNum[a.Partition] = replicas
	}
	out := make([][]core.NodeID, len(byNum))
	for i := range out {
		replicas, ok := byNum[int32(i)]
		if !ok {
			return nil, refuse(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		out[i] = replicas
	}
	return out, nil
}

// checkReplicas validates one partition's replicas; rf is what the others have,
// 0 if not known yet.
func checkReplicas(im *meta.Image, ids []int32, rf int) ([]core.NodeID, *refusal) {
	if len(ids) == 0 {
		return nil, refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	out := make([]core.NodeID, len(ids))
	for i, id := range ids {
		out[i] = core.NodeID(id)
		if slices.Contains(out[:i], out[i]) {
			return nil, refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
		if !hasBroker(im, out[i]) {
			return nil, refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
	}
	if rf != 0 && len(out) != rf {
		return nil, refuse(kerr.InvalidReplicaAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).", len(out), rf)
	}
	return out, nil
}

func hasBroker(im *meta.Image, id core.NodeID) bool {
	return slices.ContainsFunc(im.Brokers, func(b meta.Broker) bool { return b.ID == id })
}
