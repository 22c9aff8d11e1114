package shard

import (
	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/raftlog"
)

// StateMachine is a coordinator over a replicated log. All calls come from the
// shard's loop. Determinism as in the shard itself.
//
// On the leader, records are replayed as soon as they are appended, so the
// machine always sees its own latest decisions; replies wait for the commit, save
// for Output.Replies. A leader that loses its term is Reset and replayed from the
// log. On followers records are replayed as they commit.
type StateMachine interface {
	// Handle decides on a command. It changes no replicated state.
	Handle(now core.Tick, cmd *core.Command, out *core.Output)
	// Replay applies records; the only mutator of replicated state. base is the
	// offset of the first record.
	Replay(base core.Offset, records []core.Record)
	// Failed says that the records of a Write could not be appended and were not
	// replayed; its replies have been answered with err.
	Failed(now core.Tick, cookie any, err error)
	// Lead is called when the node leads the partition and the whole log has
	// been replayed.
	Lead(now core.Tick, term core.Term, out *core.Output)
	// Resign is called when it no longer leads: commands that wait are answered
	// through out with NOT_COORDINATOR or NOT_CONTROLLER.
	Resign(now core.Tick, out *core.Output)
	// Timer is called at or after the Tick that Deadline returned.
	Timer(now core.Tick, out *core.Output)
	// Deadline is when Timer wants to run next; 0 for never.
	Deadline() core.Tick
	// LogSize tells the machine how much its log holds, so that it can rewrite
	// its live records and set Output.TrimBelow.
	LogSize(start, next core.Offset, bytes int64)
	// Reset forgets all replicated state.
	Reset()
}

// Options make a Shard.
type Options struct {
	ID    core.ShardID
	Count int
	Node  core.NodeID
	Logs  *raftlog.LogSet
	Arena *arena.Arena
	Seed  uint64 // of the shard's own chance (campaign jitter)
	// Machine makes the state machine of a partition, or nil for ordinary ones.
	Machine func(id core.PartitionID, topic string, num int32) StateMachine
	// LogConfig translates a topic's settings, and Limits the rest.
	TopicConfig func(im *meta.Image, t *meta.Topic) TopicConfig
	Limits      Limits
	// MetadataVoters are the nodes that vote in the metadata partition; nil
	// means this node alone.
	MetadataVoters []core.NodeID
	// SpaceState is read before every append of a client.
	SpaceState func() raftlog.SpaceState
	Logf       func(format string, args ...any)
}

// TopicConfig is a topic's effective settings as the shard needs them.
type TopicConfig struct {
	Log                  raftlog.LogConfig
	MaxMessageBytes      int32
	MinInsyncReplicas    int32
	LogAppendTime        bool
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
}

// Limits bound what a shard keeps.
type Limits struct {
	InflightBytesMax     int64 // produce bytes appended and not yet persisted
	FetchWaitersMax      int
	ProducersMax         int   // per partition; the longest idle one is dropped
	ShardProducersMax    int   // of all partitions; those that have the most drop idle ones
	ProducerExpirationMs int64 // producer.id.expiration.ms
	JobsMax              int   // I/O jobs in flight
}

// EventKind tells the kinds of Event apart.
type EventKind uint8

const (
	EventRequest   EventKind = iota // Request
	EventCancel                     // Request: a Fetch or Await to be answered with what there is
	EventPersisted                  // Turn
	EventJobDone                    // Job
	EventTimer                      // time has reached Effects.NextTimer
	EventImage                      // Image
	EventPeerFrame                  // From, Frame
	EventNode                       // From, Up: the node-level failure detector changed its mind
	EventShutdown                   // stop campaigning, answer waiters
)

// Event is one input of a shard.
type Event struct {
	Kind    EventKind
	Request Request
	Turn    *raftlog.Turn
	Job     *raftlog.Job
	Image   *meta.Image
	From    core.NodeID
	Frame   arena.Buf
	Up      bool
}

// Effects are a turn's outputs, filled by Step and Finish. The driver carries
// them out once and calls Reset.
type Effects struct {
	Turn      *raftlog.Turn  // submit to the journal; nil if nothing is to be written
	PeerSends []PeerSend     // frames to other nodes
	Image     *meta.Image    // publish, then send EventImage to every shard of the node
	Jobs      []*raftlog.Job // run on the I/O pool
	Done      []Request      // give back to Request.call().Origin
	NextTimer core.Tick      // when to send EventTimer; 0 for never
	// Fatal is set once the journal has failed: everything is answered with
	// core.ErrStorageFailed from then on, and the process is to exit and replay.
	Fatal error
}

// PeerSend is one frame for the same shard of another node.
type PeerSend struct {
	To     core.NodeID
	Header []byte
	Bufs   []arena.Buf
}

// Reset empties e for the next turn and keeps its memory.
func (e *Effects) Reset() {
	clear(e.PeerSends)
	clear(e.Jobs)
	clear(e.Done)
	*e = Effects{PeerSends: e.PeerSends[:0], Jobs: e.Jobs[:0], Done: e.Done[:0]}
}

// Request is a request to the shard that owns a partition: *Produce, *Fetch,
// *ListOffset, *EpochEnd, *DeleteRecords, *Describe, *Coordinate, *Await. The
// same object comes back in Effects.Done, exactly once, with its results set.
type Request interface{ Base() *Call }

// Call is the part that all requests share.
type Call struct {
	Origin core.ShardID // whose loop gets the answer
	Owner  any          // the caller's own (what gathers the answers)
	Err    error        // result: nil or one that wraps a sentinel of core
}

// Base gives access to the shared part.
func (c *Call) Base() *Call { return c }

// Produce appends record batches to one partition (Kafka's Produce, one
// partition of it).
type Produce struct {
	Call
	Partition core.PartitionID
	// Records are one or more whole batches in arena memory; the request's
	// reference passes to the shard in every case.
	Records arena.Buf
	Acks    int16
	// Transactional is set when the request named a transactional id.
	Transactional bool

	// Results.
	BaseOffset    core.Offset
	AppendTimeMs  int64 // -1 unless the topic uses LogAppendTime or the batch is a repeat
	LogStart      core.Offset
	RecordErrors  []RecordError // offending records (KIP-467)
	CurrentLeader core.NodeID
	CurrentEpoch  core.Term
}

// RecordError names one refused record of a batch.
type RecordError struct {
	Index   int32
	Message string
}

// Fetch reads from partitions of one shard, waiting until MinBytes are there.
type Fetch struct {
	Call
	Parts    []FetchPart
	MinBytes int
	MaxBytes int // over all parts; the first batch found is returned even if larger
	Deadline core.Tick
	// ReadCommitted stops at the last stable offset.
	ReadCommitted bool

	// Results. Have is what counts towards MinBytes: the bytes read, and where
	// more are there than a limit let in, the limit. AtOnce says that the answer
	// would not have waited for more, however large MinBytes was: for an error, a
	// read of history, the deadline, or a shard that keeps no more waiters.
	Have   int
	AtOnce bool

	wait *fetchWait // nil, or own
	own  fetchWait
}

// FetchPart is one partition of a Fetch.
type FetchPart struct {
	Partition    core.PartitionID
	Offset       core.Offset
	MaxBytes     int
	CurrentEpoch int32 // -1: not checked
	LastEpoch    int32 // LastFetchedEpoch, -1: no divergence check
	// KnownHighWatermark is what the client's session was last told (KIP-227),
	// -1: none. As in Kafka it does not end the wait, which would defeat
	// MinBytes: the caller compares it with HighWatermark in the answer.
	KnownHighWatermark core.Offset

	// Results. The receiver releases Data.Bufs.
	Err           error
	Data          raftlog.ReadResult
	HighWatermark core.Offset
	LastStable    core.Offset
	LogStart      core.Offset
	Diverging     *EpochEndOffset
	Leader        core.NodeID
	LeaderEpoch   core.Term
}

// EpochEndOffset is an epoch and the offset where it ended.
type EpochEndOffset struct {
	Epoch core.Term
	End   core.Offset
}

// ListOffset answers one partition of Kafka's ListOffsets. Timestamp takes
// Kafka's special values -1 latest, -2 earliest, -3 max timestamp, -4 earliest
// local, -5 latest tiered, -6 earliest pending upload.
type ListOffset struct {
	Call
	Partition     core.PartitionID
	Timestamp     int64
	ReadCommitted bool
	CurrentEpoch  int32 // -1: not checked

	// Results; Offset -1 where nothing was found.
	Offset      core.Offset
	FoundTimeMs int64
	LeaderEpoch int32
}

// EpochEnd answers OffsetForLeaderEpoch for one partition.
type EpochEnd struct {
	Call
	Partition    core.PartitionID
	Epoch        int32
	CurrentEpoch int32 // -1: not checked

	// Results.
	End EpochEndOffset // Epoch NoEpoch and End -1 where unknown
}

// DeleteRecords moves the log start; Offset -1 means the high watermark. It is
// answered when the move is committed.
type DeleteRecords struct {
	Call
	Partition core.PartitionID
	Offset    core.Offset
	LogStart  core.Offset // result
}

// Describe reads a partition's state without waiting.
type Describe struct {
	Call
	Partition core.PartitionID
	Producers bool // fill Active

	// Results.
	SizeBytes     int64
	LogStart      core.Offset
	HighWatermark core.Offset
	LogEnd        core.Offset
	Leader        core.NodeID
	Epoch         core.Term
	// Serving says that this node leads and has committed an entry of its term:
	// the bounds cover all that was ever acknowledged. Otherwise they may lag.
	Serving bool
	Active  []ActiveProducer
}

// ActiveProducer is one row of DescribeProducers (KIP-664).
type ActiveProducer struct {
	ID            int64
	Epoch         int16
	LastSequence  int32
	LastTimestamp int64
	TxnStart      core.Offset // -1: none
	CoordinatorEp int32
}

// Coordinate hands a command to the state machine of a partition.
type Coordinate struct {
	Call
	Partition core.PartitionID
	Command   core.Command
}

// Await is answered when the shard has applied image MinVersion and each of
// Partitions has a leader that takes appends, or at Deadline with
// core.ErrNoLeader.
type Await struct {
	Call
	MinVersion uint64
	Partitions []core.PartitionID
	Deadline   core.Tick
}

// Stats of one shard.
type Stats struct {
	Partitions    int
	Leaders       int
	Appends       uint64
	AppendedBytes uint64
	InflightBytes int64
	FetchWaiters  int
	Lookups       int // of timestamps, that wait for their turn
	Producers     int
	// ProducersDropped were forgotten because the shard had too many.
	ProducersDropped uint64
	Refused          uint64 // for lack of budget
	Elections        uint64 // won
	PeerDropped      uint64 // messages of peers that were not taken or not sent
	RaftWarnings     uint64
	ReadsStarved     uint64 // found no payload memory
	ReadsAhead       uint64 // jobs that read history before it was asked for
}
