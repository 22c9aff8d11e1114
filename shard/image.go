package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"millrace/core"
	"millrace/core/meta"
	"millrace/raftlog"
)

// metadataLogConfig are the settings of the cluster's own log, which no image
// holds. The state machine trims it.
var metadataLogConfig = TopicConfig{
	Log: raftlog.LogConfig{
		SegmentBytes: 64 << 20, SegmentMs: 7 * 24 * 3600 * 1000,
		RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: 16 << 20,
	},
	MaxMessageBytes: 64 << 20,
}

// onImage follows the cluster's metadata: partitions of this shard are created,
// deleted or given new settings. Older images than the newest are ignored.
func (s *Shard) onImage(im *meta.Image) {
	if s.image != nil && im.Version <= s.image.Version {
		return
	}
	old := s.image
	s.image = im
	s.awaitDirty = true
	meta.Diff(old, im, func(before, after *meta.Topic) {
		if before != nil {
			s.topicShrinks(before, after)
		}
		if after != nil {
			s.topicIs(after)
		}
	})
	if old == nil {
		s.dropOrphans(im)
		s.opts.Logs.Complete()
	} else if !maps.Equal(old.ClusterConfigs, im.ClusterConfigs) || !maps.Equal(old.BrokerConfigs[s.opts.Node], im.BrokerConfigs[s.opts.Node]) {
		for _, t := range im.Topics() {
			s.topicIs(t)
		}
	}
}

// mine says whether this shard of this node holds a replica.
func (s *Shard) mine(mp *meta.Partition) bool {
	return core.ShardOf(mp.ID, s.opts.Count) == s.opts.ID && slices.Contains(mp.Replicas, s.opts.Node)
}

// topicIs creates a topic's partitions, or gives them its settings.
func (s *Shard) topicIs(t *meta.Topic) {
	var cfg *TopicConfig
	for _, mp := range t.Partitions {
		if !s.mine(mp) {
			continue
		}
		if cfg == nil {
			c := s.opts.TopicConfig(s.image, t)
			cfg = &c
		}
		p := s.partitions[mp.ID]
		if p == nil {
			p = s.create(mp.ID, cfg)
		}
		p.topic, p.num, p.cell, p.cfg = t, mp.Num, mp.Leader, cfg
		if p.broken != nil {
			p.publish()
			continue
		}
		p.log.SetConfig(cfg.Log)
		if p.node == nil {
			s.begin(p, mp.Replicas)
		}
	}
}

// topicShrinks deletes the partitions that a topic has no more.
func (s *Shard) topicShrinks(before, after *meta.Topic) {
	for i, mp := range before.Partitions {
		if after != nil && i < len(after.Partitions) && after.Partitions[i].ID == mp.ID {
			continue
		}
		if p := s.partitions[mp.ID]; p != nil {
			s.remove(p)
		}
	}
}

// create makes an empty log and its partition; a broken one where what there was of
// it is lost.
func (s *Shard) create(id core.PartitionID, cfg *TopicConfig) *partition {
	log, err := s.opts.Logs.Create(id, cfg.Log)
	p := &partition{id: id, log: log, leader: core.NoNode}
	if err != nil {
		p.broken = err
		s.opts.Logf("partition %d is not served: %v", id, err)
	} else {
		log.NeedCheckpoint(p.keepCheckpoint)
	}
	s.add(p)
	return p
}

func (s *Shard) add(p *partition) {
	s.partitions[p.id] = p
	i, _ := slices.BinarySearchFunc(s.order, p.id, func(p *partition, id core.PartitionID) int { return cmp.Compare(p.id, id) })
	s.order = slices.Insert(s.order, i, p)
	s.producersChanged(p, 0)
}

// begin starts the group of a partition whose place in the cluster is known,
// and its state machine if it has one.
func (s *Shard) begin(p *partition, replicas []core.NodeID) {
	p.voters = make([]uint64, len(replicas))
	for i, n := range replicas {
		p.voters[i] = uint64(n)
	}
	if m := s.machineOf(p); m != nil {
		p.host = &host{p: p, m: m, replayed: p.log.LogStart()}
	}
	s.startGroup(p)
	if p.host != nil {
		s.hostLoad(p.host)
	}
}

func (s *Shard) machineOf(p *partition) StateMachine {
	if s.opts.Machine == nil {
		return nil
	}
	if p.topic == nil {
		return s.opts.Machine(p.id, "", 0)
	}
	return s.opts.Machine(p.id, p.topic.Name, p.num)
}

// remove deletes a partition and its log; whoever waits is answered.
func (s *Shard) remove(p *partition) {
	err := fmt.Errorf("%w: %s was deleted", core.ErrUnknownPartition, p.name())
	s.wakeAll(p)
	s.abandon(p, err)
	s.dropAheads(p)
	p.gone = true
	delete(s.partitions, p.id)
	i, _ := slices.BinarySearchFunc(s.order, p.id, func(p *partition, id core.PartitionID) int { return cmp.Compare(p.id, id) })
	s.order = slices.Delete(s.order, i, i+1)
	if i < s.retentionAt {
		s.retentionAt--
	}
	s.producers -= p.producers.len()
	if p.log != nil {
		s.opts.Logs.Delete(p.id)
	}
	if p.cell != nil {
		p.cell.Set(core.NoNode, p.term)
	}
}

// abandon stops a partition's work: its clients get err.
func (s *Shard) abandon(p *partition, err error) {
	s.timers.stop(&p.timer)
	if p.leading {
		s.resign(p) // answers with ErrNotLeader whoever waits for a commit
	}
	s.failTail(p, err)
	if p.host != nil {
		s.timers.stop(&p.host.timer)
	}
}

// breakPartition stops serving a partition whose storage cannot be trusted.
func (s *Shard) breakPartition(p *partition, err error) {
	s.opts.Logf("%s is not served any more: %v", p.name(), err)
	p.broken = err
	s.wakeAll(p)
	s.abandon(p, fmt.Errorf("%w: %s: %v", core.ErrStorageFailed, p.name(), err))
	p.leader, p.leading = core.NoNode, false
	p.publish()
	s.awaitDirty = true
}

// dropOrphans deletes logs whose topic was deleted while this node was down.
// IDs are handed out in order and never again, so a log that the first image
// lacks is an orphan if the image knows of a later partition; if not, its topic
// may be newer than the image.
func (s *Shard) dropOrphans(im *meta.Image) {
	newest := core.PartitionID(0)
	for _, t := range im.Topics() {
		for _, mp := range t.Partitions {
			newest = max(newest, mp.ID)
		}
	}
	for _, p := range slices.Clone(s.order) {
		if p.id < core.FirstPartition || p.id >= newest {
			continue
		}
		if _, ok := im.Locate(p.id); !ok {
			s.opts.Logf("partition %d: its topic is gone; deleting the log", p.id)
			s.remove(p)
		}
	}
}
