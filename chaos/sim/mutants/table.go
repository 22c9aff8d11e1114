package main

import "millrace/core/mutant"

// layer is what is simulated.
type layer string

const (
	node layer = "node" // one node with its clients
	log  layer = "log"  // raftlog alone
)

// row allows a mutant a number of seeds, from the first on.
type row struct {
	id    mutant.ID
	layer layer
	seeds uint64
}

// table has every mutant. The seeds allowed are about three times the most that was
// needed in several runs: each change of the simulator draws other histories.
var table = []row{
	{mutant.AckBeforeSync, node, 10},
	{mutant.SyncRetried, log, 600},
	{mutant.NoReplayChecksum, log, 90},
	{mutant.TornTailAccepted, log, 90},
	{mutant.ReplayStopsEarly, node, 10},
	{mutant.RecycledTakenForNew, node, 30},
	{mutant.ReadBackNotDurable, log, 90},
	{mutant.PinReleasedEarly, node, 30},
	{mutant.JournalReadUnverified, log, 90},
	{mutant.RewriteUnverified, log, 90},
	{mutant.RewriteSplit, log, 90},
	{mutant.DirectAckedEarly, node, 30},
	{mutant.DirectWriteUnheard, log, 600},
	{mutant.IndexBeforeData, node, 10},
	{mutant.UnsyncedSegment, node, 30},
	{mutant.FlushWriteUnheard, log, 900},
	{mutant.RetentionTooEarly, log, 300},
	{mutant.SegmentRemovedEarly, log, 300},
	{mutant.LogStartLost, log, 30},
	{mutant.HighBeforeCommit, node, 30},
	{mutant.ProducerStateLost, node, 300},
	{mutant.RepeatAckedEarly, node, 30},
	{mutant.OffsetReplyEarly, node, 120},
}
