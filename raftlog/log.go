package raftlog

import (
	"errors"
	"fmt"
	"sort"

	"millrace/core"
	"millrace/core/arena"
)

// Errors of Term and OffsetOf.
var (
	ErrCompacted   = errors.New("the entry is below the log's first index")
	ErrUnavailable = errors.New("the entry is not there")
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

// Log is one partition's raft log. Owned by its shard's loop; no method blocks
// but ScanHeaders.
//
// Entries live in up to three places at a time: [bufBase, last] in memory,
// [stateFlushed+1, durable] in the journal, [first, flushed] in segments. metas
// describes [metaBase, last], which is all that is not in segments alone.
type Log struct {
	// Immutable.
	id  core.PartitionID
	set *LogSet

	// Owned by the shard's loop.
	cfg      LogConfig
	damaged  error
	hs       HardState
	first    core.Index
	last     core.Index
	logStart core.Offset
	next     core.Offset
	term0    core.Term // of first-1
	epochs   []EpochStart

	metaBase core.Index
	metas    fifo[entryMeta] // at(i) is entry metaBase+i
	bufBase  core.Index
	bufs     fifo[arena.Buf] // at(i) is entry bufBase+i
	extents  fifo[extent]    // durable direct writes not yet covered by a durable state

	collected core.Index // moved into a turn
	durable   core.Index // in the journal

	segs     []segInfo // the last one takes appends; counts what is still to be flushed
	nextSeg  uint32
	rollNext bool // the next batch starts a segment

	flushed       core.Index
	flushedOffset core.Offset
	flushedSeg    segInfo // the segment of the last batch flushed, as far as flushed; id 0 if none
	stateFlushed  core.Index
	pendingBytes  int64 // payload bytes above flushed

	checkpointIndex core.Index
	checkpoint      []byte
	needCheckpoint  func()

	stateFile uint32 // journal file of the newest durable state
	pin       uint32 // what the pin table counts us under; 0 for none
	stateGen  uint64 // of the newest state collected
	stateDone uint64 // of the newest state durable

	rewrite *rewriteBufs // payloads read back for re-appending
	// retryAt is when a flush or a rewrite may be tried, readTries how many in a
	// row could not read what the log has.
	retryAt   core.Tick
	readTries int
	headers   *headerTable // of recovered batches, until ScanHeaders

	// Flags.
	dirty, due, closed, tombstoned, removing bool
	hsDirty, startDirty, stateDirty          bool
	busy                                     bool // a flush Job or a rewrite is under way
	rewriting                                bool // the next state collected ends it
	swept                                    bool // strangers in its directory are removed
	hints                                    readHints
	dropping                                 []uint32 // segments out of the table, removed once that is durable
	leaving                                  []uint32 // these, and those whose state is on its way
}

func newLog(s *LogSet, id core.PartitionID) *Log {
	return &Log{
		id: id, set: s, cfg: defaultLogConfig, hs: HardState{Vote: core.NoNode},
		first: 1, metaBase: 1, bufBase: 1, nextSeg: 1,
	}
}

// ID is the partition.
func (l *Log) ID() core.PartitionID { return l.id }

// Damaged is not nil when the log must not be served.
func (l *Log) Damaged() error { return l.damaged }

// HardState is the newest one set, durable or not.
func (l *Log) HardState() HardState { return l.hs }

// SetHardState joins the next turn.
func (l *Log) SetHardState(hs HardState) {
	if hs.Commit > l.last {
		panic(fmt.Sprintf("BUG: commit %d of partition %d is above its last entry %d", hs.Commit, l.id, l.last))
	}
	if hs == l.hs {
		return
	}
	l.hs = hs
	l.hsDirty = true
	l.set.markDirty(l)
	l.checkFlushDue()
}

// FirstIndex and LastIndex bound the entries present, [first, last]; an empty
// log has last = first-1. The term of first-1 is known.
func (l *Log) FirstIndex() core.Index { return l.first }

// LastIndex is the newest entry appended, durable or not.
func (l *Log) LastIndex() core.Index { return l.last }

// DurableIndex is the newest entry that a completed turn has made durable, as
// far as Done was told.
func (l *Log) DurableIndex() core.Index { return l.durable }

// LogStart is the first offset that may be read; NextOffset the next to be given.
func (l *Log) LogStart() core.Offset { return l.logStart }

// NextOffset is the log end offset.
func (l *Log) NextOffset() core.Offset { return l.next }

// Term of an entry, for [FirstIndex-1, LastIndex]. Errors: ErrCompacted, ErrUnavailable.
func (l *Log) Term(i core.Index) (core.Term, error) {
	if i+1 < l.first {
		return 0, ErrCompacted
	}
	if i > l.last {
		return 0, ErrUnavailable
	}
	if i+1 == l.first {
		return l.term0, nil
	}
	k := sort.Search(len(l.epochs), func(k int) bool { return l.epochs[k].Index > i })
	if k == 0 {
		return l.term0, nil
	}
	return l.epochs[k-1].Term, nil
}

func (l *Log) lastTerm() core.Term {
	if n := len(l.epochs); n > 0 {
		return l.epochs[n-1].Term
	}
	return l.term0
}

// meta returns the description of entry i, nil where only segments know it.
func (l *Log) meta(i core.Index) *entryMeta {
	if i < l.metaBase || i > l.last {
		return nil
	}
	return l.metas.at(int(i - l.metaBase))
}

// Entry describes entry i without its payload bytes (Payload is empty where
// they are not in memory). ok is false where only segments know it. The Payload
// is lent: Retain it to keep it beyond the turn.
func (l *Log) Entry(i core.Index) (e Entry, ok bool) {
	m := l.meta(i)
	if m == nil {
		return e, false
	}
	e = m.entry(i)
	if i >= l.bufBase && l.bufs.len() > 0 {
		e.Payload = *l.bufs.at(int(i - l.bufBase))
	}
	return e, true
}

func (m *entryMeta) entry(i core.Index) Entry {
	return Entry{
		Index: i, Term: m.term, Kind: m.kind,
		BaseOffset: m.baseOffset, LastOffset: m.nextOffset() - 1, MaxTimestamp: m.maxTs,
	}
}

// OffsetOf translates: the offset after the last record at or below index i.
// Errors: ErrCompacted below FirstIndex-1, ErrUnavailable above LastIndex and
// where only segments know (below the last flush).
func (l *Log) OffsetOf(i core.Index) (core.Offset, error) {
	switch {
	case i == l.last:
		return l.next, nil
	case i > l.last:
		return 0, ErrUnavailable
	case i+1 < l.first:
		return 0, ErrCompacted
	case i >= l.metaBase:
		return l.meta(i).nextOffset(), nil
	case i+1 == l.metaBase:
		return l.meta(l.metaBase).baseOffset, nil
	case i == l.flushed:
		return l.flushedOffset, nil
	}
	return 0, ErrUnavailable
}

// Epochs is the epoch table, oldest first.
func (l *Log) Epochs() []EpochStart { return l.epochs }

// SetConfig applies new topic settings.
func (l *Log) SetConfig(cfg LogConfig) {
	l.cfg = cfg.normalise()
	l.checkFlushDue()
}

// SetCheckpoint hands over the owner's state (producer state) as of applied
// index i; it is written with the log's own state when the log is flushed, and
// Checkpoint returns the newest durable one after a restart. The owner is asked
// for it through NeedCheckpoint before a flush. The Log keeps state.
//
// A state of entries that are not durable here yet (a follower may have applied
// them) is passed over: a crash could leave it ahead of the log.
func (l *Log) SetCheckpoint(i core.Index, state []byte) {
	if i <= l.durable {
		l.checkpointIndex, l.checkpoint = i, state
	}
}

// NeedCheckpoint is called on the loop before a flush; it calls SetCheckpoint.
// Entries above the checkpoint are not flushed, so that after a restart
// ScanHeaders finds all that came after it, entries without records included.
func (l *Log) NeedCheckpoint(f func()) { l.needCheckpoint = f }

// Checkpoint is the state found by Open and the index it was taken at.
func (l *Log) Checkpoint() (core.Index, []byte) { return l.checkpointIndex, l.checkpoint }

// SizeBytes is what the log holds on disk, segments and unflushed entries.
func (l *Log) SizeBytes() int64 {
	var n int64
	for i := range l.segs {
		n += l.segs[i].bytes
	}
	return n
}

// markState lets the whole state join the next turn.
func (l *Log) markState() {
	l.stateDirty = true
	l.set.markDirty(l)
}
