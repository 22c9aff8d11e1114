package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/core"
	"millrace/core/mutant"
)

// groupReplay gathers what the journal holds of one group.
type groupReplay struct {
	id core.PartitionID

	base      *groupState
	baseFrame uint64
	baseFile  uint32
	hs        *HardState // newer than base
	logStart  core.Offset
	deleted   bool

	firstIndex core.Index // of metas[0]
	metas      []entryMeta
	frames     []uint64 // where each entry was read
	headers    []byte   // the first BatchHeaderBytes of each entry's payload
	extents    []extent

	lastFrame uint64
	lost      uint64 // the newest frame of ours known to be unreadable
	problem   string
}

// section applies one section of frame seq. at is the position of its body in
// file f; first is the first frame that was found at all.
func (g *groupReplay) section(f *jfile, seq, first uint64, s *section, at int64) error {
	if s.PrevFrame != g.lastFrame && s.PrevFrame >= first {
		g.lost = max(g.lost, s.PrevFrame)
	}
	g.lastFrame = seq
	if g.deleted { // a tombstone is the last word
		return nil
	}
	rest := s.Body
	for i := range s.Records {
		if mutant.On(mutant.ReplayStopsEarly) && i == s.Records-1 {
			return nil
		}
		pos := at + int64(len(s.Body)-len(rest))
		r, next, err := nextRecord(rest)
		if err != nil {
			return err
		}
		if err := g.record(f, seq, r, pos+recordHeaderBytes); err != nil {
			return err
		}
		rest = next
	}
	if len(rest) != 0 {
		return fmt.Errorf("%w: %d bytes after the last record", errBadRecord, len(rest))
	}
	return nil
}

func (g *groupReplay) record(f *jfile, seq uint64, r record, at int64) error {
	switch r.Kind {
	case recEntry, recDirect:
		i, m, extra, err := parseEntry(r)
		if err != nil {
			return err
		}
		m.file = f.ord
		if m.direct {
			extra = extra[8:]
		} else {
			m.jpos = uint32(at + entryFixedBytes)
		}
		g.entry(seq, i, m, extra)
	case recExtent:
		x, err := parseExtent(r)
		if err != nil {
			return err
		}
		x.file = f.ord
		x.headAt = uint32(at + extentFixedBytes)
		x.tailAt = x.headAt + uint32(x.head)
		for n := len(g.extents); n > 0; n-- {
			if y := &g.extents[n-1]; y.seg < x.seg || y.seg == x.seg && y.pos < x.pos {
				break
			}
			g.extents = g.extents[:n-1]
		}
		g.extents = append(g.extents, x)
	case recHardState:
		hs, err := parseHardState(r)
		if err != nil {
			return err
		}
		g.hs = &hs
	case recLogStart:
		o, err := parseLogStart(r)
		if err != nil {
			return err
		}
		g.logStart = max(g.logStart, o)
	case recState:
		st, err := parseState(r)
		if err != nil {
			return err
		}
		g.base, g.baseFrame, g.baseFile, g.hs, g.logStart = st, seq, f.ord, nil, st.logStart
	case recDeleted:
		*g = groupReplay{id: g.id, deleted: true, lastFrame: g.lastFrame}
	default:
		return fmt.Errorf("%w: kind %d", errBadRecord, r.Kind)
	}
	return nil
}

// entry adds entry i; it replaces whatever was there from i on (raft 5.3).
func (g *groupReplay) entry(seq uint64, i core.Index, m entryMeta, payload []byte) {
	if n := len(g.metas); n > 0 {
		switch {
		case i < g.firstIndex:
			n = 0
		case i > g.firstIndex+core.Index(n):
			g.problem = fmt.Sprintf("entries [%d, %d) are missing", g.firstIndex+core.Index(n), i)
			n = 0
		default:
			n = int(i - g.firstIndex)
		}
		g.metas, g.frames, g.headers = g.metas[:n], g.frames[:n], g.headers[:n*core.BatchHeaderBytes]
	}
	if len(g.metas) == 0 {
		g.firstIndex = i
	}
	g.metas = append(g.metas, m)
	g.frames = append(g.frames, seq)
	var h [core.BatchHeaderBytes]byte
	copy(h[:], payload)
	g.headers = append(g.headers, h[:]...)
}

// settle decides what is left of the group: its entries above base.flushed, or
// why it is damaged.
func (g *groupReplay) settle() {
	if g.base == nil {
		g.problem = "the journal has no state of it"
		return
	}
	drop := 0
	for drop < len(g.metas) && g.firstIndex+core.Index(drop) <= g.base.flushed {
		drop++
	}
	g.metas, g.frames, g.headers = g.metas[drop:], g.frames[drop:], g.headers[drop*core.BatchHeaderBytes:]
	g.firstIndex += core.Index(drop)
	if g.problem != "" && (len(g.metas) == 0 && g.base.last <= g.base.flushed || len(g.metas) > 0 && g.firstIndex <= g.base.flushed+1) && g.frameAfter(g.baseFrame) {
		g.problem = "" // the hole is below what the newest state covers
	}
	if g.base.damaged != "" {
		g.problem = g.base.damaged
	}
	if len(g.metas) > 0 && g.firstIndex != g.base.flushed+1 {
		g.problem = fmt.Sprintf("entries [%d, %d) are missing", g.base.flushed+1, g.firstIndex)
	}
	if len(g.metas) == 0 && g.base.last > g.base.flushed {
		g.problem = fmt.Sprintf("entries [%d, %d] are missing", g.base.flushed+1, g.base.last)
	}
	if g.lost > 0 && !g.covers(g.lost) {
		g.problem = fmt.Sprintf("journal frame %d, which held a part of it, cannot be read", g.lost)
	}
	g.checkOrder()
}

// covers says that nothing of frame f is needed: the newest state is younger, and
// so are all entries above what it covers, of which there must be some if there
// were any when the state was written.
func (g *groupReplay) covers(f uint64) bool {
	return g.baseFrame > f && g.frameAfter(f) && (len(g.metas) > 0 || g.base.last <= g.base.flushed)
}

// frameAfter says that no entry needed was read before frame f.
func (g *groupReplay) frameAfter(f uint64) bool { return len(g.frames) == 0 || g.frames[0] > f }

// checkOrder makes sure that the entries follow each other.
func (g *groupReplay) checkOrder() {
	term, next := core.Term(0), g.base.flushedOffset
	if n := len(g.base.epochs); n > 0 {
		term = g.base.epochs[n-1].Term
	}
	for k := range g.metas {
		m := &g.metas[k]
		if m.term < term || m.baseOffset != next {
			g.problem = fmt.Sprintf("entry %d does not follow the one before it", g.firstIndex+core.Index(k))
		}
		if g.problem != "" {
			g.metas = g.metas[:k] // what is good stays for inspection
			g.frames = g.frames[:k]
			g.headers = g.headers[:k*core.BatchHeaderBytes]
			return
		}
		term, next = m.term, m.nextOffset()
	}
}

// install makes the logs and gives them to their shards.
func (r *replay) install(shardOf func(core.PartitionID) core.ShardID) error {
	for i := range r.s.lost {
		for _, g := range r.groups {
			if g.lastFrame < r.s.lost[i].from && r.s.lost[i].may(g.id) {
				g.lost = max(g.lost, r.s.lost[i].to-1)
			}
		}
	}
	for _, id := range r.order {
		g := r.groups[id]
		if !g.deleted {
			r.j.w.lastOf[id] = g.lastFrame
		}
		if g.deleted || g.lastFrame < r.last.Oldest {
			continue // deleted: nothing of it is needed
		}
		g.settle()
		shard := shardOf(id)
		if shard < 0 || int(shard) >= len(r.s.sets) {
			return fmt.Errorf("partition %d belongs to shard %d of %d", id, shard, len(r.s.sets))
		}
		l := g.log(r.s.sets[shard])
		r.rec.Groups++
		if l.damaged != nil {
			r.rec.Damaged[id] = l.damaged
			r.s.opts.Logf("partition %d is damaged: %v", id, l.damaged)
		}
	}
	for _, set := range r.s.sets {
		set.oldest.Store(set.pins.oldest())
	}
	r.j.refreshMin()
	return r.removeDeleted()
}

// log makes the Log of a group.
func (g *groupReplay) log(set *LogSet) *Log {
	l := newLog(set, g.id)
	set.add(l)
	if b := g.base; b != nil {
		l.hs, l.logStart = b.hs, g.logStart
		l.first, l.term0 = b.firstIndex, b.firstTerm
		l.flushed, l.flushedOffset, l.stateFlushed = b.flushed, b.flushedOffset, b.flushed
		l.last, l.next, l.metaBase, l.bufBase = b.flushed, b.flushedOffset, b.flushed+1, b.flushed+1
		l.epochs, l.segs, l.nextSeg = b.epochs, b.segs, b.nextSeg
		l.checkpointIndex, l.checkpoint = b.checkpointIndex, b.checkpoint
		for i := range l.segs {
			l.segs[i].named = true
		}
		if n := len(l.segs); n > 0 {
			l.flushedSeg = l.segs[n-1]
		}
		l.stateFile, l.stateGen, l.stateDone = g.baseFile, 1, 1
		for k := range g.metas {
			l.push(g.firstIndex+core.Index(k), g.metas[k])
		}
	}
	if g.hs != nil {
		l.hs = *g.hs
	}
	l.hs.Commit = max(min(l.hs.Commit, l.last), l.flushed)
	if g.hs == nil && g.base == nil {
		l.hs = HardState{Vote: core.NoNode}
	}
	l.collected, l.durable = l.last, l.last
	l.extents.items = slices.Clone(g.extents)
	l.trimExtents()
	l.dropFlushedExtents()
	if g.problem != "" {
		l.damaged = fmt.Errorf("%w: %s", core.ErrStorageFailed, strings.TrimPrefix(g.problem, core.ErrStorageFailed.Error()+": "))
		l.markState() // so that the damage is remembered when old files are gone
	}
	if len(g.metas) > 0 {
		l.headers = &headerTable{first: g.firstIndex, bytes: g.headers}
	}
	l.repin()
	l.checkFlushDue()
	return l
}

// removeDeleted removes the directories of partitions whose tombstone is in the
// journal: it is kept there until they are gone. Any other directory that no
// group owns is left alone; without a tombstone nothing proves that it may go.
func (r *replay) removeDeleted() error {
	names, err := r.s.fs.List(partitionsDir)
	if err != nil && !errors.Is(err, ErrNotExist) {
		return fmt.Errorf("listing the partitions: %w", err)
	}
	if len(names) > 0 && r.first == 0 {
		return fmt.Errorf("%w: %s has partitions, but the journal is empty", ErrNotEmpty, partitionsDir)
	}
	for _, id := range r.order {
		if !r.groups[id].deleted {
			continue
		}
		if _, found := slices.BinarySearch(names, partitionBase(id)); found {
			if err := removeDir(r.s.fs, partitionDir(id)); err != nil {
				return fmt.Errorf("removing a deleted partition: %w", err)
			}
		}
	}
	return nil
}

// headerTable holds the batch headers of recovered entries, and what the other
// kinds carry, so that the owner can rebuild its state without reading the
// journal again.
type headerTable struct {
	first core.Index
	bytes []byte
}

func (h *headerTable) at(i core.Index) []byte {
	if h == nil || i < h.first {
		return nil
	}
	k := int(i-h.first) * core.BatchHeaderBytes
	if k+core.BatchHeaderBytes > len(h.bytes) {
		return nil
	}
	return h.bytes[k : k+core.BatchHeaderBytes : k+core.BatchHeaderBytes]
}
