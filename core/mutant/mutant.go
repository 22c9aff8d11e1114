// Package mutant names known-bad variants of the broker: faults put there on
// purpose, so that it can be seen that the simulation finds their kind.
//
// Without the build tag mutants On is the constant false, and the compiler leaves
// nothing of a variant in the program. With it one variant can be chosen by name
// before anything else runs; from then on every goroutine may ask. Nothing blocks
// and nothing is durable here. Read On first; chaos/sim/mutants runs them all.
package mutant

// ID is one variant.
type ID uint8

// The variants. Each stands where its name is used, and nowhere else.
const (
	None ID = iota

	// AckBeforeSync: the journal syncs before it writes a frame, not after.
	AckBeforeSync
	// SyncRetried: a sync of the journal that failed is repeated, and believed.
	SyncRetried
	// NoReplayChecksum: the replay takes a frame without looking at its checksum.
	NoReplayChecksum
	// TornTailAccepted: a frame whose checksum is wrong is taken if it can be parsed.
	TornTailAccepted
	// ReplayStopsEarly: the replay leaves out the last record of a section.
	ReplayStopsEarly
	// RecycledTakenForNew: a frame of a file's former use counts as one of now.
	RecycledTakenForNew
	// ReadBackNotDurable: recovery does not make durable what it has read.
	ReadBackNotDurable
	// PinReleasedEarly: a log lets go of the journal once all entries are in segments,
	// though the state that says so is in the journal too.
	PinReleasedEarly
	// JournalReadUnverified: batches read back from the journal go to clients
	// unchecked.
	JournalReadUnverified
	// RewriteUnverified: entries are read back and written to the journal again
	// unchecked, under a new checksum.
	RewriteUnverified
	// RewriteSplit: entries that are written to the journal again are split where a
	// frame is full.
	RewriteSplit

	// DirectAckedEarly: a large append is acknowledged before its bytes in the
	// segment are synced.
	DirectAckedEarly
	// DirectWriteUnheard: a direct write that fails counts as done.
	DirectWriteUnheard
	// IndexBeforeData: the last part of a flush is indexed and not written.
	IndexBeforeData
	// UnsyncedSegment: a flush does not sync the segment before the state names it.
	UnsyncedSegment
	// FlushWriteUnheard: a write of a flush that fails counts as done.
	FlushWriteUnheard
	// RetentionTooEarly: the last but one segment goes when both together are large
	// enough, not when the last one alone is.
	RetentionTooEarly
	// SegmentRemovedEarly: the files of a segment are removed before it is durable
	// that the log begins behind it.
	SegmentRemovedEarly
	// LogStartLost: a new log start does not join the turn.
	LogStartLost

	// HighBeforeCommit: consumers are given what is appended and not committed.
	HighBeforeCommit
	// ProducerStateLost: the state of producers is empty after a restart.
	ProducerStateLost
	// RepeatAckedEarly: a repeat of a batch in flight is acknowledged at once.
	RepeatAckedEarly
	// OffsetReplyEarly: a reply of a group's coordinator, such as that to an offset
	// commit, does not wait for its records.
	OffsetReplyEarly

	count
)
