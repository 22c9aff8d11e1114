package controller

import (
	"fmt"
	"maps"
	"slices"

	"millrace/core"
	"millrace/core/meta"
)

// change is a set of records and the state that they lead to.
type change struct {
	base          core.Offset
	records       []core.Record
	bytes         int
	state         state // its image is set by seal; before that see edit
	edit          *meta.Edit
	previous      *meta.Image // see Controller.previous
	newPartitions []core.PartitionID
}

func (c *Controller) begin() *change { return newChange(c.state, c.next) }

func newChange(s state, base core.Offset) *change {
	return &change{base: base, state: s, edit: s.image.Edit()}
}

// image is the metadata as changed so far. Topics in it are final; the plain
// fields are to be replaced, never written into.
func (ch *change) image() *meta.Image { return ch.edit.Image }

// seal ends the change. The Version is the offset after its last record, so
// that all nodes number Images alike.
func (ch *change) seal() {
	im := ch.edit.Done()
	im.Version = uint64(ch.base) + uint64(len(ch.records))
	ch.state.image = im
}

// put adds a record and applies it. The record goes through its encoding, so
// that a leader sees exactly what a replaying node will.
func (ch *change) put(r core.Record) {
	ch.records = append(ch.records, r)
	ch.bytes += recordBytes(r)
	ch.replay(r)
}

func (ch *change) putCluster(id string) { ch.put(encodeCluster(id)) }

func (ch *change) putController(n core.NodeID) { ch.put(encodeController(n)) }

func (ch *change) putBroker(b meta.Broker) { ch.put(encodeBroker(b)) }

func (ch *change) putCounters(partition core.PartitionID, producer int64) {
	ch.put(encodeCounters(partition, producer))
}

// replay applies one record. A record that cannot be understood means that the
// log was damaged or written by a newer version; going on would serve wrong
// metadata.
func (ch *change) replay(r core.Record) {
	d, err := decodeRecord(r)
	if err != nil {
		panic(fmt.Sprintf("FATAL: record of the metadata log after offset %d: %v", ch.base, err))
	}
	im := ch.image()
	switch d.kind {
	case kindCluster:
		im.ClusterID = d.text
	case kindController:
		im.Controller = d.node
	case kindBroker:
		ch.replayBroker(d)
	case kindTopic:
		ch.replayTopic(d)
	case kindConfigs:
		ch.replayConfigs(d)
	case kindQuotas:
		ch.edit.PutQuotas(d.entity, d.quotas)
	case kindCounters:
		ch.state.nextPartition, ch.state.nextProducer = d.nextPartition, d.nextProducer
	}
}

func (ch *change) replayBroker(d decoded) {
	im := ch.image()
	brokers := slices.Clone(im.Brokers)
	i, found := slices.BinarySearchFunc(brokers, d.node, func(b meta.Broker, n core.NodeID) int { return int(b.ID) - int(n) })
	switch {
	case d.deleted && found:
		brokers = slices.Delete(brokers, i, i+1)
	case d.deleted:
	case found:
		brokers[i] = d.broker
	default:
		brokers = slices.Insert(brokers, i, d.broker)
	}
	im.Brokers = brokers
}

// replayTopic adds, replaces or removes a topic. Partitions that stay keep
// their objects: their LeaderCells are shared by all Images.
func (ch *change) replayTopic(d decoded) {
	old := ch.image().TopicByID(d.topicID)
	if d.deleted {
		if old != nil {
			ch.edit.Remove(old.Name)
		}
		return
	}
	t := d.topic
	if old != nil {
		t.Configs = old.Configs
		if old.Name == t.Name && old.Internal == t.Internal && slices.EqualFunc(old.Partitions, t.Partitions, samePartition) {
			return // rewritten, not changed
		}
		for i := range min(len(old.Partitions), len(t.Partitions)) {
			was, is := old.Partitions[i], t.Partitions[i]
			if samePartition(was, is) {
				t.Partitions[i] = was
			} else if was.ID == is.ID {
				is.Leader = was.Leader
			}
		}
	}
	for i, p := range t.Partitions {
		if p.Leader == nil {
			t.Partitions[i] = ch.known(p)
		}
	}
	ch.edit.Put(t)
}

// known gives a partition the object, or at least the LeaderCell, that it had
// before a Reset; a new one gets a new cell.
func (ch *change) known(p *meta.Partition) *meta.Partition {
	if ch.previous != nil {
		if at, ok := ch.previous.Locate(p.ID); ok {
			was := at.Topic.Partitions[at.Num]
			if was.Num == p.Num && samePartition(was, p) {
				return was
			}
			p.Leader = was.Leader
			return p
		}
	}
	p.Leader = new(meta.LeaderCell)
	return p
}

func samePartition(a, b *meta.Partition) bool {
	return a.ID == b.ID && slices.Equal(a.Replicas, b.Replicas)
}

func (ch *change) replayConfigs(d decoded) {
	im := ch.image()
	switch d.resource {
	case resourceTopic:
		old := im.TopicByID(d.topicID)
		if old == nil || maps.Equal(old.Configs, d.configs) {
			return
		}
		t := *old
		t.Configs = d.configs
		ch.edit.Put(&t)
	case resourceBroker:
		next := maps.Clone(im.BrokerConfigs)
		if next == nil {
			next = make(map[core.NodeID]map[string]string, 1)
		}
		if len(d.configs) == 0 {
			delete(next, d.node)
		} else {
			next[d.node] = d.configs
		}
		im.BrokerConfigs = next
	case resourceCluster:
		im.ClusterConfigs = d.configs
	}
}
