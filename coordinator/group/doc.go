// Package group is the group coordinator of one partition of
// __consumer_offsets as a replicated state machine: consumer groups of the
// classic protocol with static membership (KIP-62, KIP-345, KIP-394), and
// committed offsets with their expiry (KIP-211).
//
// The loop of the shard that owns the partition runs it; nothing here blocks,
// reads a clock or draws chance. Group metadata and offsets are durable when
// the reply that acknowledges them has left; who is joining right now is
// volatile and is rebuilt by the members, as in Kafka. Read Machine.Handle
// first, then join.go for the life of a rebalance.
package group
