package check

import (
	"fmt"
	"sync"
)

// Outcome says what a client knows of an operation that changes something.
type Outcome uint8

const (
	// Unknown: no answer, or one that leaves it open (a timeout, a lost
	// connection). The operation may have happened or may yet happen.
	Unknown Outcome = iota
	// Acked: the broker said that it is done.
	Acked
	// Failed: the broker said that it did not and will not happen.
	Failed
)

// Never is the Return of an operation that got no answer.
const Never = int64(1)<<62 - 1

// Span is when a client began an operation and had its answer. The unit is the
// recorder's own (nanoseconds of one clock that never goes back, shared by all
// clients of the history); Return is Never while there is no answer.
type Span struct{ Invoke, Return int64 }

// before says that s had its answer before t began.
func (s Span) before(t Span) bool { return s.Return < t.Invoke }

// Part names a partition. Where a topic's name is used again after a deletion,
// Topic must hold something that tells the two apart (the topic ID).
type Part struct {
	Topic string
	Num   int32
}

func (p Part) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Num) }

// Key is the identity that a client gives to a record: it never sends two
// records with one Key, retries of the same record excepted.
type Key struct {
	Producer int32
	Seq      int64
}

func (k Key) String() string { return fmt.Sprintf("producer %d record %d", k.Producer, k.Seq) }

// Send is one batch, or one record, handed to a producer: records First,
// First+1, ... of Producer, in that order, to one partition.
type Send struct {
	Span
	Part     Part
	Producer int32
	First    int64
	// Sums are the checksums of the records' bytes, one per record.
	Sums []uint64
	// Attempts counts requests sent for it, retries included.
	Attempts int
	// Idempotent: the producer's sequence numbers forbid duplicates.
	Idempotent bool
	// Durable: an acknowledgement means that the records survive (acks=all).
	Durable bool
	Outcome Outcome
	// Base is the offset of the first record, -1 where the answer did not tell.
	Base int64
}

// Record is one record as read.
type Record struct {
	Offset int64
	Key    Key
	Sum    uint64
}

// Poll is one read of one partition by one reader, with or without records.
type Poll struct {
	Span
	Reader string
	Part   Part
	// From is the offset asked for; records below it are left out by the
	// client. -1: not known, and density at the front is not checked.
	From int64
	// LogStart and End (high watermark) are what the answer told; -1: nothing.
	LogStart, End int64
	// LogEnd is the offset after the last record, committed or not; 0: not told.
	LogEnd  int64
	Records []Record
	// Sparse: the topic is compacted, offsets may be missing.
	Sparse bool
}

// Final says that Reader has read all of a partition, from Start to End, after
// all producers had stopped and the broker had last been restarted. A partition
// whose storage is reported as damaged has none, unless it is served after all.
type Final struct {
	Part       Part
	Reader     string
	Start, End int64
}

// Damaged says that the broker reported a partition's storage as damaged.
type Damaged struct {
	At     int64
	Part   Part
	Reason string
}

// Flip says that the harness damaged stored bytes. Part is the partition whose
// bytes they were; the zero Part says that any may be concerned.
type Flip struct {
	At    int64
	Part  Part
	Where string
}

// Commit is an attempt to commit one partition's offset for a group.
type Commit struct {
	Span
	Group      string
	Member     string
	Generation int32
	Part       Part
	Offset     int64
	Outcome    Outcome
}

// OffsetFetch is a read of a committed offset; -1: none.
type OffsetFetch struct {
	Span
	Group  string
	Part   Part
	Offset int64
}

// Ownership says that a member was told to own Parts in a generation.
type Ownership struct {
	At         int64
	Group      string
	Member     string
	Generation int32
	Parts      []Part
}

// TopicOpKind tells the changes of the catalogue apart.
type TopicOpKind uint8

const (
	// TopicCreate makes topic Name with Partitions partitions.
	TopicCreate TopicOpKind = iota
	// TopicDelete removes topic Name, or the one of that ID where ID is set.
	TopicDelete
	// TopicGrow raises the number of partitions to Partitions.
	TopicGrow
	// TopicConfig sets ConfigKey to ConfigValue ("" removes the setting).
	TopicConfig
)

// TopicOp is one attempt to change the catalogue.
type TopicOp struct {
	Span
	Kind                   TopicOpKind
	Name                   string
	ID                     string // of the topic; "" where the answer did not tell
	Partitions             int32
	ConfigKey, ConfigValue string
	// Configs are the settings that TopicCreate gives.
	Configs map[string]string
	Outcome Outcome
}

// TopicState is a topic as a client sees it.
type TopicState struct {
	ID         string
	Partitions int32
	// Configs are the topic's own settings; nil: not asked for.
	Configs map[string]string
}

// TopicList is one view of the whole catalogue, internal topics left out.
type TopicList struct {
	Span
	Topics map[string]TopicState
}

// History is what the clients of one run did and saw. The order within the
// slices does not matter: spans carry the time.
type History struct {
	Sends     []*Send
	Polls     []*Poll
	Finals    []Final
	Damaged   []Damaged
	Flips     []Flip
	Commits   []*Commit
	Fetches   []OffsetFetch
	Owners    []Ownership
	TopicOps  []*TopicOp
	TopicSeen []TopicList
	// OneNode says that all polls were answered by one node while it led: the end
	// that it tells covers every acknowledgement that came before the question.
	OneNode bool
}

// Recorder collects a History from several goroutines. Pointers that are handed
// in may be filled further by their owner until the history is checked.
type Recorder struct {
	mu struct {
		sync.Mutex
		h History
	}
}

// Record runs f with the history under the recorder's lock; f must not block.
func (r *Recorder) Record(f func(h *History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.mu.h)
}

// History hands the history over; the recorder is empty afterwards.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.mu.h
	r.mu.h = History{}
	return &h
}

// Violation is one broken promise.
type Violation struct {
	// Kind is one of the Kind constants.
	Kind string
	// Where is a partition, group or topic.
	Where  string
	Detail string
}

func (v Violation) String() string { return v.Kind + " " + v.Where + ": " + v.Detail }

// Kinds of violations.
const (
	KindLost          = "lost"                 // acknowledged, gone from the middle of the log
	KindUnseen        = "unseen"               // acknowledged, at or above the end of the final read
	KindInvented      = "invented"             // read, never sent (or refused, or sent later)
	KindCorrupt       = "corrupt"              // read with other bytes than sent
	KindDuplicate     = "duplicate"            // read at more offsets than attempts allow
	KindInconsistent  = "inconsistent-offsets" // one offset, two records
	KindReorder       = "reorder"              // against the producer's order, or against real time
	KindHole          = "hole"                 // offsets missing from a read
	KindNonmonotonic  = "nonmonotonic"         // high watermark or log start went back
	KindBeyondEnd     = "beyond-end"           // read at or above the high watermark told with it
	KindStaleEnd      = "stale-end"            // the end told is below what was acknowledged before
	KindBounds        = "bounds"               // not log start <= high watermark <= log end
	KindFalseDamage   = "false-damage"         // reported damaged though nothing was damaged
	KindTwoOwners     = "two-owners"           // one partition, one generation, two members
	KindOffsetLost    = "offset-lost"          // an acknowledged commit is not there
	KindOffsetBack    = "offset-back"          // a committed offset seen once went back
	KindOffsetForged  = "offset-invented"      // a committed offset that nobody committed
	KindTopicLost     = "topic-lost"
	KindTopicBack     = "topic-resurrected"
	KindTopicInvented = "topic-invented"
	KindTopicShrunk   = "topic-shrunk" // fewer partitions than acknowledged or seen
	KindConfigLost    = "config-lost"  // a setting other than the acknowledged one
)

// All runs every checker. At most a few dozen violations of each kind and place
// are listed.
func All(h *History) []Violation {
	var out []Violation
	out = append(out, Log(h)...)
	out = append(out, Groups(h)...)
	out = append(out, Catalogue(h)...)
	return out
}

// list collects violations, bounded per kind.
type list struct {
	out   []Violation
	count map[string]int
}

const perKindMax = 20

func (l *list) add(kind, where, format string, args ...any) {
	if l.count == nil {
		l.count = map[string]int{}
	}
	if l.count[kind]++; l.count[kind] <= perKindMax {
		l.out = append(l.out, Violation{Kind: kind, Where: where, Detail: fmt.Sprintf(format, args...)})
	}
}
