package raftlog

import (
	"fmt"

	"millrace/core"
)

// Append adds entries at the end, or replaces from entries[0].Index on when
// that is at or below LastIndex (raft 5.3, conflict). They join the next turn.
func (l *Log) Append(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	if l.damaged != nil || l.closed {
		panic(fmt.Sprintf("BUG: append to partition %d, which is damaged or deleted", l.id))
	}
	if i := entries[0].Index; i <= l.last {
		l.truncate(i)
	}
	for k := range entries {
		l.appendOne(&entries[k])
	}
	l.set.markDirty(l)
}

func (l *Log) appendOne(e *Entry) {
	m := entryMeta{
		term: e.Term, baseOffset: e.BaseOffset, maxTs: e.MaxTimestamp,
		lastDelta: int32(e.LastOffset - e.BaseOffset), length: uint32(e.Payload.Len()), kind: e.Kind,
	}
	if e.Index != l.last+1 || e.BaseOffset != l.next || e.Term < l.lastTerm() || m.isBatch() != (m.lastDelta >= 0) {
		panic(fmt.Sprintf("BUG: entry %d of term %d with offsets [%d, %d] cannot follow entry %d of term %d, next offset %d, in partition %d",
			e.Index, e.Term, e.BaseOffset, e.LastOffset, l.last, l.lastTerm(), l.next, l.id))
	}
	l.push(e.Index, m)
	if l.bufs.len() == 0 {
		l.bufBase = e.Index
	}
	l.bufs.push(e.Payload)
	if e.Payload.Len() > 0 {
		l.set.cached(l.id, e.Index, e.Payload.Len())
	}
}

// push adds a description: segment place, epoch row, ends. Recovery uses it for
// entries that have their place already.
func (l *Log) push(i core.Index, m entryMeta) {
	if m.isBatch() {
		if m.seg == 0 {
			l.place(&m)
		}
		l.extendSegment(i, &m)
		l.addPending(int64(m.length))
	}
	if m.term > l.lastTerm() {
		l.epochs = append(l.epochs, EpochStart{m.term, i, m.baseOffset})
	}
	if l.metas.len() == 0 {
		l.metaBase = i
	}
	l.metas.push(m)
	l.last = i
	l.next = m.nextOffset()
}

// addPending counts payload bytes that are to be flushed, for the log and for the
// device.
func (l *Log) addPending(n int64) {
	l.pendingBytes += n
	l.set.pending.Add(n)
}

// place chooses the segment and the position of a new batch.
func (l *Log) place(m *entryMeta) {
	n := len(l.segs)
	if n == 0 || l.rollNext || l.segs[n-1].bytes > 0 && l.segs[n-1].bytes+int64(m.length) > l.cfg.SegmentBytes {
		m.seg, m.pos = l.nextSeg, 0
		return
	}
	m.seg, m.pos = l.segs[n-1].id, uint32(l.segs[n-1].bytes)
}

func (l *Log) extendSegment(i core.Index, m *entryMeta) {
	if n := len(l.segs); n == 0 || l.segs[n-1].id != m.seg {
		l.segs = append(l.segs, segInfo{
			id: m.seg, baseOffset: m.baseOffset, baseIndex: i, maxTs: -1, createdMs: l.set.now.Millis(),
		})
		l.nextSeg = max(l.nextSeg, m.seg+1)
		l.rollNext = false
	}
	g := &l.segs[len(l.segs)-1]
	g.bytes = int64(m.pos) + int64(m.length)
	g.rows++
	g.nextOffset = m.nextOffset()
	g.maxTs = max(g.maxTs, m.maxTs)
}

// segment finds a segment in the table.
func (l *Log) segment(id uint32) *segInfo {
	for k := len(l.segs) - 1; k >= 0 && l.segs[k].id >= id; k-- {
		if l.segs[k].id == id {
			return &l.segs[k]
		}
	}
	return nil
}

// truncate drops entries from index i on.
func (l *Log) truncate(i core.Index) {
	if i <= l.flushed || i <= l.hs.Commit {
		panic(fmt.Sprintf("BUG: entry %d of partition %d is committed and would be replaced", i, l.id))
	}
	n := int(i - l.metaBase)
	var dropped uint32 // the newest segment that loses an entry
	for k := n; k < l.metas.len(); k++ {
		m := l.metas.at(k)
		dropped = max(dropped, m.seg)
		if m.direct || m.placed {
			// Its bytes may be in the segment already: what replaces them must not
			// overwrite them before it is durable itself.
			l.rollNext = true
		}
		if m.isBatch() {
			l.addPending(-int64(m.length))
		}
	}
	l.next = l.metas.at(n).baseOffset
	l.metas.truncate(n)
	if i <= l.bufBase || l.bufs.len() == 0 {
		l.releaseBufs(l.bufs.len())
		l.bufBase = i
	} else if keep := int(i - l.bufBase); keep < l.bufs.len() {
		for k := keep; k < l.bufs.len(); k++ {
			l.releaseBuf(k)
		}
		l.bufs.truncate(keep)
	}
	l.last = i - 1
	l.collected = min(l.collected, l.last)
	l.durable = min(l.durable, l.last)
	for k := len(l.epochs); k > 0 && l.epochs[k-1].Index >= i; k-- {
		l.epochs = l.epochs[:k-1]
	}
	l.trimExtents()
	l.rebuildSegments()
	// A roll that a dropped entry had made still holds: the segment before it may
	// have been rolled because of direct bytes behind its end.
	if n := len(l.segs); n > 0 && dropped > l.segs[n-1].id {
		l.rollNext = true
	}
}

// trimExtents drops the extents that begin after the last entry. One that was cut
// in its middle stays: its readers ask for positions of entries only.
func (l *Log) trimExtents() {
	var seg uint32
	var end int64
	for k := l.metas.len() - 1; k >= 0; k-- {
		if m := l.metas.at(k); m.isBatch() {
			seg, end = m.seg, int64(m.pos)+int64(m.length)
			break
		}
	}
	l.cutExtents(seg, end)
}

// cutExtents drops the extents that begin at or after a place.
func (l *Log) cutExtents(seg uint32, pos int64) {
	n := l.extents.len()
	for n > 0 {
		x := l.extents.at(n - 1)
		if x.seg < seg || x.seg == seg && int64(x.pos) < pos {
			break
		}
		n--
	}
	l.extents.truncate(n)
}

// rebuildSegments recomputes the unflushed part of the segment table.
func (l *Log) rebuildSegments() {
	n := 0
	for n < len(l.segs) && l.segs[n].id < l.flushedSeg.id {
		n++
	}
	l.segs = l.segs[:n]
	if l.flushedSeg.id != 0 {
		l.segs = append(l.segs, l.flushedSeg)
	}
	roll := l.rollNext
	for i := max(l.flushed+1, l.metaBase); i <= l.last; i++ {
		if m := l.meta(i); m.isBatch() {
			l.extendSegment(i, m)
		}
	}
	l.rollNext = roll
}

// dropBufs releases payloads in memory below index end.
func (l *Log) dropBufs(end core.Index) {
	if end <= l.bufBase {
		return
	}
	l.releaseBufs(min(int(end-l.bufBase), l.bufs.len()))
	l.trimMetas()
}

func (l *Log) releaseBuf(k int) {
	b := l.bufs.at(k)
	if b.Len() > 0 {
		l.set.cache.count--
		l.set.cache.bytes -= int64(b.Len())
	}
	b.Release()
}

func (l *Log) releaseBufs(n int) {
	for k := range n {
		l.releaseBuf(k)
	}
	l.bufs.popFront(n)
	l.bufBase += core.Index(n)
}

// trimMetas forgets descriptions of entries that are durable in segments and
// not in memory.
func (l *Log) trimMetas() {
	keep := min(l.stateFlushed+1, l.bufBase)
	if l.bufs.len() == 0 {
		keep = l.stateFlushed + 1
	}
	if keep > l.metaBase && l.metas.len() > 0 {
		n := min(int(keep-l.metaBase), l.metas.len())
		l.metas.popFront(n)
		l.metaBase += core.Index(n)
	}
}

// SetLogStart moves the log start up, on commit of an EntryLogStart. Whole
// segments below it are removed by later Jobs.
func (l *Log) SetLogStart(o core.Offset) {
	o = min(o, l.next)
	if o <= l.logStart {
		return
	}
	l.logStart = o
	l.startDirty = true
	l.set.markDirty(l)
	l.set.markDue(l)
}
