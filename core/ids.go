package core

import "fmt"

// Offset is the position of a record in a partition's log, as Kafka counts it:
// dense, starting at 0, -1 where there is none.
type Offset int64

// Index is the position of an entry in a raft log, starting at 1. Entries that
// carry no records take an Index and no Offset.
type Index uint64

// Term is a raft term; a partition's leader epoch is its term.
type Term uint64

// NodeID names a broker, 1 or greater; NoNode means none.
type NodeID int32

// NoNode is the absence of a node, as Kafka writes it.
const NoNode NodeID = -1

// ShardID numbers the shards of one node from 0.
type ShardID int32

// PartitionID names a partition for the life of the cluster; it is never used
// again after its topic is deleted. It is also the raft group's ID.
type PartitionID uint64

// MetadataPartition is the raft group of the cluster controller.
const MetadataPartition PartitionID = 1

// FirstPartition is the lowest PartitionID that the controller hands out.
const FirstPartition PartitionID = 16

// Tick is a moment in nanoseconds since the Unix epoch, from a clock that never
// goes back within a process. Drivers make Ticks; nothing in core, raftlog,
// shard or coordinator reads a clock.
type Tick int64

// Millis converts to the milliseconds that Kafka writes into records.
func (t Tick) Millis() int64 { return int64(t) / 1e6 }

// Common spans of a Tick.
const (
	Millisecond Tick = 1e6
	Second      Tick = 1e9
)

// TopicID is the UUID of a topic; the zero value means none.
type TopicID [16]byte

// String writes the ID as a plain UUID.
func (t TopicID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", t[0:4], t[4:6], t[6:8], t[8:10], t[10:16])
}

// ShardOf says which of n shards owns a partition. It may change when n does:
// the journal is shared by all shards of a device, so nothing on disk depends
// on it.
func ShardOf(p PartitionID, n int) ShardID {
	if p == MetadataPartition || n <= 1 {
		return 0
	}
	return ShardID((uint64(p) * 0x9E3779B97F4A7C15 >> 32) % uint64(n))
}
