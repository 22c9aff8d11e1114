package main

import (
	"context"

	"millrace/coordinator/group"
	"millrace/core"
	"millrace/core/meta"
	"millrace/net/admin"
	"millrace/net/listener"
)

// coordinators are the group machines of one shard, by partition. The map is
// touched when a machine is made and when metrics are read, both on the shard's
// loop (or before the loop runs). Machines of deleted partitions are dropped then.
type coordinators struct {
	machines map[core.PartitionID]*group.Machine
}

// addCoordinator remembers a machine that was made for a partition.
func (b *broker) addCoordinator(id core.PartitionID, m *group.Machine) {
	c := &b.coordinators[core.ShardOf(id, len(b.coordinators))]
	if c.machines == nil {
		c.machines = make(map[core.PartitionID]*group.Machine)
	}
	if b.srv != nil { // nothing is deleted while the shards are made
		c.dropDeleted(b.srv.Image())
	}
	c.machines[id] = m
}

// dropDeleted forgets the machines of partitions that im does not have, and gives
// their memory back. The newest image has every partition that has a machine.
func (c *coordinators) dropDeleted(im *meta.Image) {
	if im == nil {
		return
	}
	for id, m := range c.machines {
		if _, exists := im.Locate(id); !exists {
			delete(c.machines, id)
			m.Reset()
		}
	}
}

// groupStats counts groups over all partitions that this node coordinates, as
// far as the loops answer before ctx ends.
func (b *broker) groupStats(ctx context.Context) (sum group.Stats) {
	im := b.srv.Image()
	if im == nil {
		return sum
	}
	answers := make(chan group.Stats, len(b.coordinators))
	asked := 0
	for i := range b.coordinators {
		c := &b.coordinators[i]
		if b.srv.Post(core.ShardID(i), func(*listener.Loop) {
			var s group.Stats
			c.dropDeleted(im)
			for _, m := range c.machines {
				m.AddStats(&s)
			}
			answers <- s
		}) {
			asked++
		}
	}
	sum.Groups = make(map[string]int)
	for ; asked > 0; asked-- {
		select {
		case s := <-answers:
			for state, n := range s.Groups {
				sum.Groups[state] += n
			}
			sum.Members += s.Members
			sum.Offsets += s.Offsets
			sum.Refused += s.Refused
		case <-ctx.Done():
			return sum
		}
	}
	return sum
}

func (b *broker) collectGroups(ctx context.Context, e *admin.Emitter) {
	s := b.groupStats(ctx)
	for _, state := range []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"} {
		e.Set("millrace_groups", float64(s.Groups[state]), state)
	}
	e.Set("millrace_group_members", float64(s.Members))
	e.Set("millrace_group_offsets", float64(s.Offsets))
	e.Set("millrace_group_refused_total", float64(s.Refused))
	e.Set("millrace_group_memory_bytes", float64(b.groupMemory.UsedBytes()))
	e.Set("millrace_group_memory_bytes_limit", float64(b.groupMemory.LimitBytes()))
}
