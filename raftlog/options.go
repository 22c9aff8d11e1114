package raftlog

import (
	"errors"
	"fmt"
	"math"

	"millrace/core"
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
	SegmentBytes   int64 // roll after this many bytes; at most SegmentBytesMax
	SegmentMs      int64 // roll after this age, in ms
	RetentionBytes int64 // per partition; negative: no limit
	RetentionMs    int64 // by max timestamp; negative: no limit
	FlushBytesMax  int64 // unflushed bytes after which a flush to segments starts
	Delete         bool  // cleanup.policy holds "delete"
}

// SegmentBytesMax bounds SegmentBytes; positions in a segment have 32 bits.
const SegmentBytesMax = 1<<31 - 1

// defaultLogConfig holds until the owner calls SetConfig: nothing is deleted, and
// nothing flushed for its size, so that a start is not held up by what a crash
// left in the journal.
var defaultLogConfig = LogConfig{
	SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600 * 1000,
	RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: math.MaxInt64,
}

// defaultFlushBytes is for a LogConfig that does not say.
const defaultFlushBytes = 8 << 20

// normalise puts bounds on what a topic may ask.
func (c LogConfig) normalise() LogConfig {
	if c.SegmentBytes <= 0 || c.SegmentBytes > SegmentBytesMax {
		c.SegmentBytes = defaultLogConfig.SegmentBytes
	}
	if c.SegmentMs <= 0 {
		c.SegmentMs = defaultLogConfig.SegmentMs
	}
	if c.FlushBytesMax <= 0 {
		c.FlushBytesMax = defaultFlushBytes
	}
	return c
}

// Options configure a Store. Zero fields take the defaults named.
type Options struct {
	ShardCount       int
	JournalFileBytes int64 // size of one journal file, a multiple of BlockBytes (64 MiB)
	JournalSpare     int   // pre-written files kept ready (1)
	JournalFilesMax  int   // files in use above which data is flushed to free them (16)
	// FrameBytes is where a Commit begins another frame of the journal (8 MiB). One
	// record, and what one log writes again, is in one frame, whatever its size.
	FrameBytes   int
	DirectBytes  int   // a partition's bytes in one turn from which they go straight to the segment
	CacheBytes   int64 // payloads in segments that each shard keeps in memory (128 MiB); an eighth of it when idle
	ReserveBytes int64 // free space below which appends of clients are refused (256 MiB)
	Logf         func(format string, args ...any)

	// NodeID and ClusterID are written into a new directory and compared with an
	// old one. 0 and "" take what is there.
	NodeID    core.NodeID
	ClusterID string
	// InstanceID is the identity of a new journal; a random number.
	InstanceID uint64
}

// DefaultDirectBytes is where writing twice costs more than a second sync, as measured
// with the whole broker.
const DefaultDirectBytes = 512 << 10

const (
	defaultJournalFileBytes = 64 << 20
	journalFileBytesMin     = 64 << 10
	journalFileBytesMax     = 1 << 30
	defaultFrameBytes       = 8 << 20
	defaultReserveBytes     = 256 << 20
	defaultCacheBytes       = 128 << 20
)

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.ShardCount, 1)
	setDefault(&o.JournalFileBytes, defaultJournalFileBytes)
	setDefault(&o.JournalSpare, 1)
	setDefault(&o.JournalFilesMax, 16)
	setDefault(&o.FrameBytes, defaultFrameBytes)
	setDefault(&o.DirectBytes, DefaultDirectBytes)
	setDefault(&o.CacheBytes, defaultCacheBytes)
	setDefault(&o.ReserveBytes, defaultReserveBytes)
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	var errs []error
	if o.JournalFileBytes < journalFileBytesMin || o.JournalFileBytes > journalFileBytesMax || o.JournalFileBytes%BlockBytes != 0 {
		errs = append(errs, fmt.Errorf("journal file size %d: want a multiple of %d in [%d, %d]",
			o.JournalFileBytes, BlockBytes, journalFileBytesMin, journalFileBytesMax))
	}
	if o.ShardCount < 0 || o.JournalSpare < 0 || o.JournalFilesMax < 2 || o.ReserveBytes < 0 || o.CacheBytes < 0 {
		errs = append(errs, errors.New("shard count, spare files, files, cache and reserve must not be negative"))
	}
	if o.FrameBytes < frameHeaderBytes || o.FrameBytes > journalFileBytesMax {
		errs = append(errs, fmt.Errorf("frames of %d bytes: want a number in [%d, %d]", o.FrameBytes, frameHeaderBytes, journalFileBytesMax))
	}
	if o.DirectBytes < BlockBytes {
		errs = append(errs, fmt.Errorf("direct writes from %d bytes: want at least %d", o.DirectBytes, BlockBytes))
	}
	return o, errors.Join(errs...)
}

func setDefault[T int | int64](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}
