package raftlog

import (
	"millrace/core"
	"millrace/core/arena"
)

// Turn is what one turn of one shard wants durable: the pending entries, hard
// states and log starts of its dirty logs. LogSet.Collect fills it. From Submit
// to completion it belongs to the journal's writer.
type Turn struct {
	Shard core.ShardID
	Seq   uint64 // per shard, from 1
	Err   error  // set when done; not nil means the device is not to be trusted

	logs []turnLog
	next *Turn // in the queue

	// Set by the writer.
	firstFile uint32 // the file of the first record
}

// Empty says that nothing needs writing.
func (t *Turn) Empty() bool { return len(t.logs) == 0 }

// turnLog is one log's part of a Turn; its section in the journal.
type turnLog struct {
	log *Log // for Done on the loop; the writer does not look inside
	id  core.PartitionID

	entries []turnEntry
	extents []turnExtent // by from

	hasHS, hasLogStart, deleted bool
	hs                          HardState
	logStart                    core.Offset
	state                       *groupState // nil if not due
	stateGen                    uint64
	stateFile                   uint32   // set by the writer
	dropped                     []uint32 // segments that the state no longer names
	rewrite                     bool     // holds all entries above flushed again
}

// turnEntry is one entry to be written; it holds a reference on buf.
type turnEntry struct {
	index core.Index
	meta  entryMeta
	buf   arena.Buf
}

// turnExtent is a run of entries [from, to) that goes straight to a segment.
type turnExtent struct {
	x        extent
	from, to int
	path     string // of the segment
	dir      string // of the partition; empty once its entry is known durable
	inline   bool   // set by the writer: no space, the journal takes the payloads
	staged   []byte // the beginning of what goes there, in a buffer of Journal.staging
}

func (t *Turn) release(j *Journal) {
	for i := range t.logs {
		for k := range t.logs[i].extents {
			t.logs[i].extents[k].unstage(j)
		}
		es := t.logs[i].entries
		for k := range es {
			es[k].buf.Release()
			es[k].buf = arena.Buf{}
		}
	}
}
