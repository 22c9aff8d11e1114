// Package meta is the cluster's metadata as every node sees it: an immutable
// Image of topics, partitions, configs and brokers.
//
// The controller's state machine makes Images; everyone reads them through an
// atomic pointer, from any goroutine, without a lock. Only a partition's
// LeaderCell changes in place: the shard that owns the partition writes it.
// Nothing here is durable by itself: an Image is rebuilt from the controller's
// log. Read Image first.
package meta

import (
	"sync/atomic"

	"millrace/core"
)

// Image is one version of the metadata. It is never changed once published.
type Image struct {
	// Version counts published images; it grows by at least one for each.
	Version   uint64
	ClusterID string
	// Controller is the node that leads the metadata partition.
	Controller core.NodeID
	Brokers    []Broker // by NodeID
	topics     topicTable
	// ClusterConfigs are the dynamic cluster-wide broker configs (entity ""),
	// BrokerConfigs those of one broker.
	ClusterConfigs map[string]string
	BrokerConfigs  map[core.NodeID]map[string]string
	Quotas         Quotas
}

// Broker is one node as clients reach it.
type Broker struct {
	ID   core.NodeID
	Host string
	Port int32
	Rack string
}

// Topic is one topic; immutable.
type Topic struct {
	ID         core.TopicID
	Name       string
	Internal   bool
	Partitions []*Partition // by partition number
	// Configs are the topic's own settings, as the user gave them.
	Configs map[string]string
}

// Partition is one partition; immutable but for its Leader cell, which is the
// same object in every Image that holds the partition.
type Partition struct {
	ID       core.PartitionID
	Num      int32
	Replicas []core.NodeID
	Leader   *LeaderCell
}

// LeaderCell publishes what a node believes of a partition's leadership.
type LeaderCell struct {
	// Atomic; written by the owning shard: epoch<<32 | uint32(node), 0 = none.
	v atomic.Uint64
}

// Set publishes leader and epoch; NoNode with the epoch says that there is none.
func (c *LeaderCell) Set(leader core.NodeID, epoch core.Term) {
	if leader == core.NoNode {
		leader = 0
	}
	c.v.Store(uint64(epoch)<<32 | uint64(uint32(leader)))
}

// Get returns the leader (NoNode if none) and its epoch.
func (c *LeaderCell) Get() (core.NodeID, core.Term) {
	v := c.v.Load()
	n := core.NodeID(uint32(v))
	if n == 0 {
		n = core.NoNode
	}
	return n, core.Term(v >> 32)
}
