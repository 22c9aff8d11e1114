// Package shard is the per-core reactor: raft groups, partitions, waiters and
// timers of one slice of the partitions, as one deterministic state machine.
//
//	Step(now, event, effects)
//
// One goroutine, the shard's loop, calls everything here. Nothing blocks, reads
// a clock, draws chance or starts a goroutine: the production loop
// (net/listener) and the simulator (chaos/sim) are two drivers of the same
// code. One turn is: Step for each event at hand, then Finish, then the driver
// carries the effects out in the order journal, peers, shards, replies.
//
// A reply to a Produce leaves when its entry is committed by raft, which means
// fdatasync'ed on a majority. A partition serves once the first entry of its
// leader's term is committed: its high watermark then covers all that any
// earlier leader served.
//
// Raft (raftgroup.go, raftstorage.go) orders bare descriptors; payloads are
// appended to the Log when they are proposed, and messages to peers take them
// from there (peers.go, catchup.go). Groups are never ticked: the shard campaigns
// and nudges (elections.go), so that an idle group costs nothing.
//
// Read Step in shard.go, then Produce's stages in produce.go, then settle in
// raftgroup.go and apply in commit.go.
package shard
