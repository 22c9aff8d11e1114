package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"millrace/core"
)

// LogSet is one shard's logs. All methods belong to the shard's loop.
type LogSet struct {
	// Immutable.
	store *Store
	shard core.ShardID

	// Owned by the shard's loop.
	logs      map[core.PartitionID]*Log
	byID      []*Log // sorted; nil when it must be made anew
	dirty     []*Log // in order of becoming dirty
	due       []*Log // want Maintain's attention
	removals  []removal
	seq       uint64
	cache     payloadCache
	pins      pinTable
	now       core.Tick // of the last Maintain
	scannedAt core.Tick
	freeTurns []*Turn
	nothing   Turn
	// flushSlots is how many flush Jobs the store may have under way for this set to
	// begin another; asked of the journal by Maintain.
	flushSlots int
	failed     error
	// complete: Complete was called; completeSeq is the turn that makes it durable.
	complete    bool
	completeSeq uint64

	// Atomic; read by the journal.
	oldest  atomic.Uint32 // the oldest journal file needed, ordNone if none
	doneSeq atomic.Uint64
	pending atomic.Int64 // payload bytes of all logs that are to be flushed
}

func newLogSet(s *Store, shard core.ShardID) *LogSet {
	set := &LogSet{store: s, shard: shard, logs: map[core.PartitionID]*Log{}}
	set.oldest.Store(ordNone)
	return set
}

// Get finds a log; nil if there is none.
func (s *LogSet) Get(id core.PartitionID) *Log { return s.logs[id] }

// All lists the logs by ID.
func (s *LogSet) All() []*Log {
	if s.byID == nil {
		s.byID = make([]*Log, 0, len(s.logs))
		for _, l := range s.logs {
			s.byID = append(s.byID, l)
		}
		slices.SortFunc(s.byID, func(a, b *Log) int {
			if a.id < b.id {
				return -1
			}
			return 1
		})
	}
	return s.byID
}

// Create makes an empty log whose first entry has index 1 and offset 0. Durable
// with the first turn that holds something of it.
//
// Until Complete, damage to the journal may have taken all that there was of the
// partition. Then its log is returned with an error (core.ErrStorageFailed): it is a
// damaged one, which says so at every start until it is deleted.
func (s *LogSet) Create(id core.PartitionID, cfg LogConfig) (*Log, error) {
	if s.logs[id] != nil {
		return nil, fmt.Errorf("partition %d already has a log", id)
	}
	l := newLog(s, id)
	l.cfg = cfg.normalise()
	if !s.complete && s.store.mayBeLost(id) {
		l.damaged = fmt.Errorf("%w: what the journal held of partition %d is unreadable", core.ErrStorageFailed, id)
	}
	s.add(l)
	l.markState()
	return l, l.damaged
}

// Complete says that every partition of the shard that there was before the start has
// its log: those made from now on are new, whatever the journal has lost. Until all
// shards have said so, and what they made is durable, the journal's frames keep
// telling what was lost.
func (s *LogSet) Complete() {
	if s.complete {
		return
	}
	s.complete = true
	s.completeSeq = s.seq
	if len(s.dirty) > 0 {
		s.completeSeq++
	}
	if s.completeSeq == s.doneSeq.Load() {
		s.completeSeq = 0
		s.store.journal.completed()
	}
}

func (s *LogSet) add(l *Log) {
	s.logs[l.id] = l
	s.byID = nil
}

// Delete forgets a log: a tombstone joins the next turn, and its files are
// removed by Jobs that Maintain hands out afterwards.
func (s *LogSet) Delete(id core.PartitionID) {
	l := s.logs[id]
	if l == nil {
		return
	}
	l.dropBufs(l.last + 1)
	delete(s.logs, id)
	s.byID = nil
	l.addPending(-l.pendingBytes)
	l.closed = true
	s.markDirty(l)
}

func (s *LogSet) markDirty(l *Log) {
	if !l.dirty {
		l.dirty = true
		s.dirty = append(s.dirty, l)
	}
}

func (s *LogSet) markDue(l *Log) {
	if !l.due && !l.closed {
		l.due = true
		s.due = append(s.due, l)
	}
}

// Collect moves what is pending in dirty logs into a turn; an empty one is good
// until the next call.
func (s *LogSet) Collect() *Turn {
	if len(s.dirty) == 0 {
		return s.noTurn()
	}
	s.seq++
	t := s.newTurn()
	t.Shard, t.Seq = s.shard, s.seq
	for i, l := range s.dirty {
		l.dirty = false
		s.dirty[i] = nil
		t.logs = l.collect(t.logs)
	}
	s.dirty = s.dirty[:0]
	if t.Empty() {
		s.seq-- // an empty turn is not to be submitted
		if len(s.freeTurns) < freeTurnsMax {
			s.freeTurns = append(s.freeTurns, t)
		}
		return s.noTurn()
	}
	return t
}

// noTurn is an empty turn.
func (s *LogSet) noTurn() *Turn {
	s.nothing = Turn{Shard: s.shard}
	return &s.nothing
}

// newTurn reuses the slices of turns that are done.
func (s *LogSet) newTurn() *Turn {
	if n := len(s.freeTurns); n > 0 {
		t := s.freeTurns[n-1]
		s.freeTurns = s.freeTurns[:n-1]
		return t
	}
	return &Turn{}
}

const freeTurnsMax = 4

// Done applies a completed turn on the shard's loop. Turns of a shard are done
// in order.
func (s *LogSet) Done(t *Turn) {
	if t.Err != nil {
		s.failed = t.Err
		return
	}
	for i := range t.logs {
		tl := &t.logs[i]
		if tl.deleted {
			tl.log.tombstoned = true
			tl.log.movePin(tl.stateFile) // until its files are gone
			tl.log.tryRemoveDir()
		} else if !tl.log.closed {
			tl.log.done(tl)
		}
	}
	s.keepCached(s.store.opts.CacheBytes, false)
	s.oldest.Store(s.pins.oldest())
	s.doneSeq.Store(t.Seq)
	if s.completeSeq != 0 && t.Seq >= s.completeSeq {
		s.completeSeq = 0
		s.store.journal.completed()
	}
	if len(s.freeTurns) < freeTurnsMax && cap(t.logs) <= 1024 {
		logs := t.logs
		for i := range logs {
			clear(logs[i].entries)
			clear(logs[i].extents)
			logs[i] = turnLog{entries: logs[i].entries[:0], extents: logs[i].extents[:0]}
		}
		s.freeTurns = append(s.freeTurns, &Turn{logs: logs[:0]})
		t.logs = nil
	}
}

// Failed is the error that ended the trust in the journal's device, or nil. What
// was completed before it stays true; nothing more will be. The commit's turns
// come back with it, and this tells it where no turn is under way: a flush or
// the preparation of files may have found it. Only that a Journal was closed is
// no failure.
func (s *LogSet) Failed() error {
	if err := s.store.journal.Failed(); errors.Is(err, core.ErrStorageFailed) {
		return err
	}
	return nil
}

// pinTable counts the logs that need each journal file.
type pinTable struct {
	base   uint32 // counts[i] is for ordinal base+i
	counts []int32
}

func (p *pinTable) add(ord uint32) {
	if len(p.counts) == 0 {
		p.base = ord
	}
	if ord < p.base {
		grown := make([]int32, int(p.base-ord)+len(p.counts))
		copy(grown[p.base-ord:], p.counts)
		p.base, p.counts = ord, grown
	}
	for int(ord-p.base) >= len(p.counts) {
		p.counts = append(p.counts, 0)
	}
	p.counts[ord-p.base]++
}

func (p *pinTable) remove(ord uint32) {
	p.counts[ord-p.base]--
	if p.counts[ord-p.base] < 0 {
		panic("BUG: a journal file is needed by fewer than no logs")
	}
	n := 0
	for n < len(p.counts) && p.counts[n] == 0 {
		n++
	}
	p.base += uint32(n)
	p.counts = slices.Delete(p.counts, 0, n)
}

func (p *pinTable) oldest() uint32 {
	if len(p.counts) == 0 {
		return ordNone
	}
	return p.base
}
