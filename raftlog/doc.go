// Package raftlog is what is on disk: one journal per device shared by all
// shards, and per partition the segments with their index.
//
// A Log is owned by its shard's loop and never blocks: what must touch the disk
// leaves as a Turn for the journal or as a Job for the I/O pool, and comes back
// as a completion event. Journal.Run has a goroutine of its own (the only
// caller of Sync on the journal); a Pool runs Jobs. The simulator calls the same
// Journal.Commit and Job.Run from its scheduler.
//
// Promises: when a Turn completes without error, its entries, hard states and
// log starts are on stable storage and Open finds them again, whatever
// else is lost. A torn tail is cut; damage before the tail is reported per
// group and never passed over. Read Turn first, then Log.
package raftlog
