package main

import (
	"context"

	"millrace/coordinator/group"
	"millrace/core"
	"millrace/net/admin"
	"millrace/net/listener"
)

// coordinators are the group machines of one shard, by partition. The map is
// touched when a machine is made and when metrics are read, both on the shard's
// loop (or before the loop runs). Machines of deleted partitions are dropped when
// metrics are read.
type coordinators struct {
	machines map[core.PartitionID]*group.Machine
}

// addCoordinator remembers a machine that was made for a partition.
func (b *broker) addCoordinator(id core.PartitionID, m *group.Machine) {
	c := &b.coordinators[core.ShardOf(id, len(b.coordinators))]
	if c.machines == nil {
		c.machines = make(map[core.PartitionID]*group.Machine)
	}
	c.machines[id] = m
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
			for id, m := range c.machines {
				if _, exists := im.Locate(id); !exists {
					delete(c.machines, id)
					continue
				}
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
}
