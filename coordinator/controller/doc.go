// Package controller is the cluster's metadata as a replicated state machine:
// topics, partitions and their placement, configs, brokers and blocks of
// producer IDs.
//
// The loop of the shard that owns the metadata partition runs it; nothing here
// blocks, reads a clock or draws chance. What it promises to be durable is what
// its log holds: a reply leaves when the records behind it are committed, and
// Replay of the log rebuilds the same Image. Read Controller.Handle first.
package controller
