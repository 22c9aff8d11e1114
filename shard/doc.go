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
// A reply of acks=all leaves when its entries are committed by raft and that
// means fdatasync'ed on a majority. Read Step, then Produce's stages in
// produce.go.
package shard
