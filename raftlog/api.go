package raftlog

import (
	"context"

	"millrace/core"
	"millrace/core/arena"
)

// EntryKind says what an entry's payload is.
type EntryKind uint8

const (
	// EntryEmpty is a leader's first entry of a term: no payload, no offset.
	EntryEmpty EntryKind = iota
	// EntryBatch is one Kafka record batch in wire format; it takes offsets.
	EntryBatch
	// EntryConfChange is a raft membership change; no offset.
	EntryConfChange
	// EntryLogStart moves the log start; payload is one big-endian int64; no offset.
	EntryLogStart
)

// Entry is one raft entry with its payload.
type Entry struct {
	Index core.Index
	Term  core.Term
	Kind  EntryKind
	// BaseOffset and LastOffset are the first and last offset of a batch; for
	// the other kinds BaseOffset is the next offset and LastOffset one less.
	BaseOffset, LastOffset core.Offset
	MaxTimestamp           int64 // of a batch, else -1
	// Payload is owned by the Log once appended (one reference is taken over).
	Payload arena.Buf
}

// HardState is what raft must find again after a crash.
type HardState struct {
	Term   core.Term
	Vote   core.NodeID // NoNode if none
	Commit core.Index  // may lag behind; never ahead
}

// EpochStart is one row of the epoch table: the first index and offset of a term.
type EpochStart struct {
	Term   core.Term
	Index  core.Index
	Offset core.Offset
}

// LogConfig is what a topic's settings ask of its logs. Zero is never
// "unlimited": negative is.
type LogConfig struct {
	SegmentBytes   int64 // roll after this many bytes
	SegmentMs      int64 // roll after this age, in ms
	RetentionBytes int64 // per partition; negative: no limit
	RetentionMs    int64 // by max timestamp; negative: no limit
	FlushBytesMax  int64 // unflushed bytes after which a flush to segments starts
	Delete         bool  // cleanup.policy holds "delete"
}

// Options configure a Store.
type Options struct {
	ShardCount       int
	JournalFileBytes int64 // size of one journal file, a multiple of BlockBytes
	JournalSpare     int   // pre-written files kept ready
	DirectBytes      int   // a partition's bytes in one turn from which they go straight to the segment
	ReserveBytes     int64 // free space below which appends of clients are refused
	Logf             func(format string, args ...any)
}

// Store is a data directory: the journal and the logs found in it.
//
//	store, recovery, err := Open(fs, opts)
//	set := store.LogSet(shard)            // one per shard, handed to its loop
//	go store.Journal().Run(ctx, done)     // or Commit from a scheduler
type Store struct{ impl storeImpl }

// Recovery tells what Open found.
type Recovery struct {
	Groups        int
	JournalBytes  int64 // replayed
	TornTailBytes int64 // cut
	// Damaged names the groups whose log has a hole or a bad checksum before
	// its tail, with the reason. Their Log.Damaged says the same; they are
	// neither served nor allowed to vote.
	Damaged map[core.PartitionID]error
}

// SpaceState is how full the device is.
type SpaceState int32

const (
	SpaceOK SpaceState = iota
	// SpaceLow refuses clients' appends; deletes, trims, hard states and the
	// internal partitions go on.
	SpaceLow
)

// Open recovers the data directory behind fs: replays the journal from its
// oldest needed file, verifies checksums, cuts a torn tail. shardOf maps groups
// to shards. Blocks; startup only.
func Open(fs FS, opts Options, shardOf func(core.PartitionID) core.ShardID) (*Store, *Recovery, error) {
	panic("BUG")
}

// Journal is the device's one journal.
func (s *Store) Journal() *Journal { panic("BUG") }

// LogSet is the logs of one shard; owned by that shard's loop from then on.
func (s *Store) LogSet(shard core.ShardID) *LogSet { panic("BUG") }

// SpaceState is read by any goroutine; the Store refreshes it after every Job
// and in CheckSpace.
func (s *Store) SpaceState() SpaceState { panic("BUG") }

// CheckSpace asks the file system; called about once a second off the loops.
func (s *Store) CheckSpace() SpaceState { panic("BUG") }

// Close stops after what was submitted has been written. Blocks.
func (s *Store) Close() error { panic("BUG") }

// Discard frees the memory of a store whose process is taken for dead, without
// touching the file system or waiting. Simulations only.
func (s *Store) Discard() { panic("BUG") }

// Turn is what one turn of one shard wants durable: the pending entries, hard
// states and log starts of its dirty logs. LogSet.Collect fills it.
type Turn struct {
	Shard core.ShardID
	Seq   uint64 // per shard, from 1
	Err   error  // set when done; not nil means the device is not to be trusted
	impl  turnImpl
}

// Empty says that nothing needs writing.
func (t *Turn) Empty() bool { panic("BUG") }

// Journal merges the turns of all shards into one write and one sync at a time.
type Journal struct{ impl journalImpl }

// Submit queues a turn; never blocks. At most one queue slot per shard and
// turn in flight is used: a shard submits its next turn when it likes, and the
// writer takes all that are queued (bounded by the shard's bytes in flight).
func (j *Journal) Submit(t *Turn) { panic("BUG") }

// Commit writes what is queued: direct segment writes and their sync first,
// then one frame and its sync. It returns the turns done, in order. Blocks.
// Run calls it in production, the scheduler in simulation.
func (j *Journal) Commit() []*Turn { panic("BUG") }

// Run commits whatever is submitted, on the calling goroutine, until ctx ends and
// all that was submitted before is written. done gets the turns of each Commit,
// in order; it must not block. Production only.
func (j *Journal) Run(ctx context.Context, done func([]*Turn)) { panic("BUG") }

// Prepare pre-writes spare files and recycles what is no longer needed. Blocks;
// called off the commit path. It returns false when there was nothing to do.
func (j *Journal) Prepare() (bool, error) { panic("BUG") }

// Pressure is the oldest journal file that should be freed soon: groups with
// data at or below it are to be flushed. 0 when there is none. Atomic.
func (j *Journal) Pressure() uint64 { panic("BUG") }

// LogSet is one shard's logs.
type LogSet struct{ impl logSetImpl }

// Get finds a log; nil if there is none.
func (s *LogSet) Get(id core.PartitionID) *Log { panic("BUG") }

// All lists the logs by ID.
func (s *LogSet) All() []*Log { panic("BUG") }

// Create makes an empty log whose first entry has index 1 and offset 0. Durable
// with the first turn that holds something of it.
func (s *LogSet) Create(id core.PartitionID, cfg LogConfig) (*Log, error) { panic("BUG") }

// Delete forgets a log: a tombstone joins the next turn, and its files are
// removed by Jobs that Maintain hands out afterwards.
func (s *LogSet) Delete(id core.PartitionID) { panic("BUG") }

// Collect moves what is pending in dirty logs into a turn.
func (s *LogSet) Collect() *Turn { panic("BUG") }

// Done applies a completed turn on the shard's loop.
func (s *LogSet) Done(t *Turn) { panic("BUG") }

// Maintain hands out flush, roll, index and removal Jobs that are due: under
// journal pressure, over FlushBytesMax, by segment age, or after a log start
// moved. At most max jobs; next is when to call again.
func (s *LogSet) Maintain(now core.Tick, max int, jobs []*Job) (out []*Job, next core.Tick) {
	panic("BUG")
}

// Evict drops payloads from memory, oldest first, until the arena has room for
// n more bytes; their entries stay readable from journal or segment. It returns
// false when everything left is still being written.
func (s *LogSet) Evict(n int) bool { panic("BUG") }

// Job is one blocking piece of I/O. The loop starts it, a pool (or the
// simulator) calls Run, the loop then calls Finish.
type Job struct {
	Log *Log // nil where it concerns none
	// CatchUp is true for history reads: lower priority.
	CatchUp bool
	// Err is set by Run; Finish has already taken note of it.
	Err error
	// Read is the result of a job made by Log.Read.
	Read ReadResult
	// Found is the result of a job made by FindTimestamp or FindMaxTimestamp.
	Found TimeResult
	Owner any // the caller's own

	impl jobImpl
}

// Run does the I/O. Blocks; any goroutine.
func (j *Job) Run() { panic("BUG") }

// Finish applies the outcome to the Log; the shard's loop only.
func (j *Job) Finish() { panic("BUG") }

// ReadResult is a run of whole batches, in order, contiguous in offsets but for
// what compaction removed. The receiver releases Bufs.
type ReadResult struct {
	Bufs  []arena.Buf
	Bytes int
	Next  core.Offset // the offset after the last batch
}

// TimeResult is the batch that answers a timestamp query.
type TimeResult struct {
	Found        bool
	BaseOffset   core.Offset
	MaxTimestamp int64
	Term         core.Term
}

// Log is one partition's raft log. Owned by its shard's loop; no method blocks
// but ScanHeaders.
type Log struct{ impl logImpl }

// ID is the partition.
func (l *Log) ID() core.PartitionID { panic("BUG") }

// Damaged is not nil when the log must not be served.
func (l *Log) Damaged() error { panic("BUG") }

// HardState is the newest one set, durable or not.
func (l *Log) HardState() HardState { panic("BUG") }

// SetHardState joins the next turn.
func (l *Log) SetHardState(hs HardState) { panic("BUG") }

// FirstIndex and LastIndex bound the entries present, [first, last]; an empty
// log has last = first-1. The term of first-1 is known.
func (l *Log) FirstIndex() core.Index { panic("BUG") }

// LastIndex is the newest entry appended, durable or not.
func (l *Log) LastIndex() core.Index { panic("BUG") }

// LogStart is the first offset that may be read; NextOffset the next to be given.
func (l *Log) LogStart() core.Offset { panic("BUG") }

// NextOffset is the log end offset.
func (l *Log) NextOffset() core.Offset { panic("BUG") }

// Term of an entry, for [FirstIndex-1, LastIndex]. Errors: ErrCompacted, ErrUnavailable.
func (l *Log) Term(i core.Index) (core.Term, error) { panic("BUG") }

// Entry describes entry i without its payload bytes (Payload is empty where
// they are not in memory). ok is false where only segments know it.
func (l *Log) Entry(i core.Index) (e Entry, ok bool) { panic("BUG") }

// OffsetOf translates: the offset after the last record at or below index i.
func (l *Log) OffsetOf(i core.Index) (core.Offset, error) { panic("BUG") }

// Append adds entries at the end, or replaces from entries[0].Index on when
// that is at or below LastIndex (raft 5.3, conflict). They join the next turn.
func (l *Log) Append(entries []Entry) { panic("BUG") }

// SetLogStart moves the log start up, on commit of an EntryLogStart. Whole
// segments below it are removed by later Jobs.
func (l *Log) SetLogStart(o core.Offset) { panic("BUG") }

// SetConfig applies new topic settings.
func (l *Log) SetConfig(cfg LogConfig) { panic("BUG") }

// SetCheckpoint hands over the owner's state (producer state) as of applied
// index i; it is written with the log's own state when the log is flushed, and
// Checkpoint returns the newest durable one after a restart. The owner is asked
// for it through NeedCheckpoint before a flush.
func (l *Log) SetCheckpoint(i core.Index, state []byte) { panic("BUG") }

// NeedCheckpoint is called on the loop before a flush; it calls SetCheckpoint.
func (l *Log) NeedCheckpoint(f func()) { panic("BUG") }

// Checkpoint is the state found by Open and the index it was taken at.
func (l *Log) Checkpoint() (core.Index, []byte) { panic("BUG") }

// ScanHeaders calls fn for every entry from index i on with the first
// BatchHeaderBytes of a batch (nil for other kinds). Blocks; startup only.
func (l *Log) ScanHeaders(i core.Index, fn func(e Entry, header []byte) error) error { panic("BUG") }

// Epochs is the epoch table, oldest first.
func (l *Log) Epochs() []EpochStart { panic("BUG") }

// Read returns whole batches that hold offsets of [from, upTo), at most
// maxBytes (but at least one batch when minOne). From memory it answers at
// once; otherwise job is not nil and is to be run, its Read is the answer.
// dst supplies the memory for a job. Errors: core.ErrOffsetOutOfRange,
// core.ErrStorageFailed, arena.ErrFull.
func (l *Log) Read(dst *arena.Arena, from, upTo core.Offset, maxBytes int, minOne bool) (ReadResult, *Job, error) {
	panic("BUG")
}

// FindTimestamp finds the first batch whose max timestamp is at or above ms,
// below upTo.
func (l *Log) FindTimestamp(ms int64, upTo core.Offset) (TimeResult, *Job, error) { panic("BUG") }

// FindMaxTimestamp finds the batch with the largest max timestamp below upTo.
func (l *Log) FindMaxTimestamp(upTo core.Offset) (TimeResult, *Job, error) { panic("BUG") }

// RetentionStart is the log start that the retention settings ask for at now;
// ok is false when nothing should move. It never passes limit (the high
// watermark).
func (l *Log) RetentionStart(now core.Tick, limit core.Offset) (start core.Offset, ok bool) {
	panic("BUG")
}

// SizeBytes is what the log holds on disk, segments and unflushed entries.
func (l *Log) SizeBytes() int64 { panic("BUG") }

type (
	storeImpl   struct{}
	turnImpl    struct{}
	journalImpl struct{}
	logSetImpl  struct{}
	jobImpl     struct{}
	logImpl     struct{}
)
