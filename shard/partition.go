package shard

import (
	"fmt"

	"go.etcd.io/raft/v3"

	"millrace/core"
	"millrace/core/meta"
	"millrace/raftlog"
)

// partition is one partition on this node: its raft group, its log, and who
// waits for it. Owned by the shard's loop.
type partition struct {
	// Immutable.
	id  core.PartitionID
	log *raftlog.Log

	// From the cluster image; set before the group starts.
	num    int32
	topic  *meta.Topic // nil for the metadata partition
	cell   *meta.LeaderCell
	cfg    *TopicConfig // shared by the topic's partitions
	voters []uint64     // raft IDs, which are node IDs, as listed in the image

	// Raft group.
	node    *raft.RawNode // nil until the image names the voters, or when damaged
	storage storage
	leader  core.NodeID
	term    core.Term
	leading bool // raft says so; its first entry may not be committed yet
	// serving is leading, and the first entry of the term is committed: the high
	// watermark covers all that any earlier leader served.
	serving bool
	beat    bool // the next nudge sends a heartbeat in any case
	// heard are the voters that answered a heartbeat sent with beatCommit.
	heard      uint64
	beatCommit core.Index
	dirty      bool // in Shard.dirty
	warned     bool // a message that was refused has been logged
	gone       bool // deleted; jobs and acknowledgements may still name it
	hard       raftlog.HardState
	timer      timer // campaign, or while leading, nudge
	stash      []peerEntry
	sending    []*catchUp // reads for followers that are behind, at most one each

	// Committed state.
	applied core.Index
	high    core.Offset // high watermark; never goes back
	tail    tail        // entries in the log and not applied yet
	// committedBytes counts the bytes of batches committed since start.
	committedBytes uint64
	lastAppend     core.Tick
	// cold is above an offset that had to be read from disk: what is below it is
	// history, as the oldest entries leave memory first.
	cold   core.Offset
	broken error // not nil: not served

	// Clients.
	producers producers
	waits     []waitRef
	lookups   []*timeQuery // wait for their turn
	aheads    []*readAhead
	host      *host // the state machine; nil for ordinary partitions
}

// entry is one entry of the log that is not applied yet, with what its commit
// will change and who waits for it.
type entry struct {
	index core.Index
	term  core.Term
	kind  raftlog.EntryKind
	bytes int32
	// base and last are the offsets of a batch; for a log start, base is the
	// new start.
	base, last core.Offset
	producerID int64 // -1: none
	seq        sequence
	request    Request   // *Produce or *DeleteRecords; nil when nobody waits
	again      []Request // the same batch, sent again
}

// tail is the queue of entries that are appended and not applied.
type tail struct {
	entries []entry // entries[head:]
	head    int
}

func (q *tail) len() int { return len(q.entries) - q.head }

func (q *tail) push(e entry) { q.entries = append(q.entries, e) }

func (q *tail) at(i int) *entry { return &q.entries[q.head+i] }

func (q *tail) pop() {
	q.entries[q.head] = entry{}
	q.head++
	switch {
	case q.head == len(q.entries):
		q.head = 0
		if q.entries = q.entries[:0]; cap(q.entries) > tailKept {
			q.entries = nil
		}
	case q.head >= tailKept && q.head*2 >= len(q.entries):
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
}

// cut drops the entries from index on.
func (q *tail) cut(from core.Index) {
	n := len(q.entries)
	for n > q.head && q.entries[n-1].index >= from {
		n--
	}
	clear(q.entries[n:])
	q.entries = q.entries[:n]
}

// find returns the entry of a batch with that base offset; nil if there is none.
func (q *tail) find(base core.Offset) *entry {
	for i := q.len() - 1; i >= 0; i-- {
		if e := q.at(i); e.kind == raftlog.EntryBatch && e.base <= base {
			if e.base == base {
				return e
			}
			return nil
		}
	}
	return nil
}

// internal says whether clients do not write here: metadata and the topics of
// the coordinators.
func (p *partition) internal() bool { return p.topic == nil || p.topic.Internal }

// live says whether the partition's group takes part.
func (p *partition) live() bool { return p.node != nil && !p.gone && p.broken == nil }

// name is the partition as a person knows it.
func (p *partition) name() string {
	if p.topic == nil {
		return fmt.Sprintf("partition %d", p.id)
	}
	return fmt.Sprintf("%s-%d", p.topic.Name, p.num)
}

// publish tells the node who leads.
func (p *partition) publish() {
	if p.cell == nil {
		return
	}
	leader := p.leader
	if p.leading && !p.serving {
		leader = core.NoNode
	}
	p.cell.Set(leader, p.term)
}

// find returns a partition that can be asked. Errors: core.ErrUnknownPartition,
// core.ErrStorageFailed.
func (s *Shard) find(id core.PartitionID) (*partition, error) {
	p := s.partitions[id]
	if p == nil {
		return nil, fmt.Errorf("%w: partition %d is not on this node", core.ErrUnknownPartition, id)
	}
	if p.broken != nil {
		return nil, fmt.Errorf("%w: %s: %v", core.ErrStorageFailed, p.name(), p.broken)
	}
	return p, nil
}

// lead returns a partition that this node leads and that serves. Errors: those
// of find, core.ErrNotLeader, core.ErrNoLeader.
func (s *Shard) lead(id core.PartitionID) (*partition, error) {
	p, err := s.find(id)
	if err != nil {
		return p, err
	}
	return p, p.mustServe()
}

func (p *partition) mustServe() error {
	switch {
	case p.serving:
		return nil
	case p.leading || p.leader == core.NoNode:
		return fmt.Errorf("%w: %s, term %d", core.ErrNoLeader, p.name(), p.term)
	}
	return fmt.Errorf("%w: %s is led by node %d in term %d", core.ErrNotLeader, p.name(), p.leader, p.term)
}
