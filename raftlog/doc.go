// Package raftlog is what is on disk: one journal per device shared by all
// shards, and per partition the segments with their index.
//
// A Log is owned by its shard's loop and never blocks: what must touch the disk
// leaves as a Turn for the journal or as a Job for the caller's I/O pool, and
// comes back as a completion event (LogSet.Done, Job.Finish). Journal.Run has a
// goroutine of its own, which alone writes the journal, and starts one that
// prepares its files; Job.Run may be on any goroutine. The simulator calls
// Journal.Commit, Journal.Prepare and Job.Run from its scheduler instead.
//
// Promises: when a Turn completes without error, its entries, hard states and
// log starts are on stable storage and Open finds them again, whatever
// else is lost. A torn tail is cut; damage before the tail is reported per
// group and never passed over. A write or sync that fails ends the journal; a
// device that is full does not. docs/FORMATS.md has the formats.
//
// An entry's way: Log.Append, LogSet.Collect, Journal.Submit, Journal.Commit,
// LogSet.Done; later Log.startFlush to a segment. Read Turn first, then Log,
// Journal.Commit, and replay in recover.go.
package raftlog
