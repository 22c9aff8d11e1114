package logsim

import (
	"slices"

	"millrace/core"
	"millrace/raftlog"
)

// entry is one entry of the model's log.
type entry struct {
	term       core.Term
	kind       raftlog.EntryKind
	base, last core.Offset
	maxTs      int64
	payload    []byte
}

// state is what one group holds. Values are never changed once they are in a
// snapshot: appending shares the backing array, truncation copies it.
type state struct {
	exists   bool
	hs       raftlog.HardState
	entries  []entry // entries[i] has index 1+i; nothing is ever dropped at the front
	logStart core.Offset
}

func (s *state) lastIndex() core.Index { return core.Index(len(s.entries)) }

func (s *state) term(i core.Index) core.Term {
	if i == 0 {
		return 0
	}
	return s.entries[i-1].term
}

func (s *state) nextOffset() core.Offset { return s.offsetAt(s.lastIndex()) }

// offsetAt is the offset after the last record at or below index i.
func (s *state) offsetAt(i core.Index) core.Offset {
	if i == 0 {
		return 0
	}
	return s.entries[i-1].last + 1
}

func (s *state) truncate(from core.Index) {
	s.entries = slices.Clip(s.entries[:from-1])
}

// group is one partition: what the log was told, and what is known of commits.
type group struct {
	id        core.PartitionID
	shard     core.ShardID
	cur       state
	committed core.Index // never truncated below; durable
	cfg       raftlog.LogConfig
	nextSeq   int64 // of the records made
}

// snapshot is the state of all groups of a shard after one of its turns.
type snapshot struct {
	seq    uint64
	states map[core.PartitionID]state
}

// shardModel knows which turns may be found again.
type shardModel struct {
	durable uint64
	// snaps[0] is the newest snapshot that is durable for certain.
	snaps []snapshot
	// busy says that a turn is in flight.
	busy bool
}

func (m *shardModel) completed(seq uint64) {
	m.durable = max(m.durable, seq)
	for len(m.snaps) > 1 && m.snaps[1].seq <= m.durable {
		m.snaps = m.snaps[1:]
	}
}

// durableState is the state of a group that is certainly on the disk.
func (m *shardModel) durableState(id core.PartitionID) state { return m.snaps[0].states[id] }
