package sim

import (
	"millrace/chaos/sim/count"
	"millrace/chaos/sim/vdisk"
)

// Stats count what happened in a history, so that it can be seen that the paths
// of interest are taken.
type Stats struct {
	VirtualNs int64
	Steps     int

	Starts, StartsRefused                   int
	Crashes, Kills, PowerCuts, Stops, Fatal int

	Sent, Acked, Refused, Retried, Lost     int // records sent, acknowledged; batches refused, retried, given up
	Polls, Records, OutOfRange              int
	Timeouts, Evictions, ArenaFull          int
	ReadsAhead                              int // of processes that ended
	Commits, Jobs, JobErrors, PrepareErrors int
	SpaceLow, Stalls, SlowCommits           int
	ConnsLost                               int
	DirectWrites, DirectCuts, DirectFaults  int // of the committer, straight to segments
	JournalFaults                           int
	TopicsMade, TopicsDeleted, TopicsGrown  int
	ConfigsSet, RecordsDeleted, Described   int
	Joins, Rebalances, OffsetCommits        int
	FlipsMade, FlipsFound, FlipsHarmless    int
	FlipsRunning, Undecidable, KillsWithin  int
	MetadataDamaged                         int
	DamagedParts, ClockJumps                int
	TornTails                               int
	Final                                   int // records in final reads

	Disk vdisk.Stats
}

// Add sums up.
func (s *Stats) Add(o *Stats) { count.Add(s, o) }

// String lists the counters that are not zero.
func (s *Stats) String() string { return count.String(s) }
