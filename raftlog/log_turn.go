package raftlog

import "millrace/core/mutant"

// collect adds what is pending to a turn.
func (l *Log) collect(logs []turnLog) []turnLog {
	if l.closed && l.stateFile == 0 && l.stateGen == 0 {
		return logs // never written
	}
	if n := len(logs); n < cap(logs) {
		logs = logs[:n+1] // keep the slices of an earlier turn
	} else {
		logs = append(logs, turnLog{})
	}
	tl := &logs[len(logs)-1]
	*tl = turnLog{log: l, id: l.id, entries: tl.entries[:0], extents: tl.extents[:0]}
	if l.closed {
		tl.deleted = true
		return logs
	}
	switch {
	case l.stateDirty:
		l.stateGen++
		tl.state, tl.stateGen = l.state(), l.stateGen
		tl.dropped, l.dropping = l.dropping, nil
		tl.rewrite, l.rewriting = l.rewriting, false
	default:
		tl.hasHS, tl.hs = l.hsDirty, l.hs
		tl.hasLogStart, tl.logStart = l.startDirty && !mutant.On(mutant.LogStartLost), l.logStart
	}
	l.hsDirty, l.startDirty, l.stateDirty = false, false, false
	for i := max(l.collected+1, l.metaBase); i <= l.last; i++ {
		tl.entries = append(tl.entries, turnEntry{index: i, meta: *l.meta(i), buf: l.payload(i).Retain()})
	}
	l.rewrite = nil
	l.collected = l.last
	l.chooseDirect(tl)
	if len(tl.entries) == 0 && tl.state == nil && !tl.hasHS && !tl.hasLogStart {
		logs = logs[:len(logs)-1]
	}
	return logs
}

// chooseDirect finds runs of batches in one segment that are worth writing
// there at once.
func (l *Log) chooseDirect(tl *turnLog) {
	es := tl.entries
	for i := 0; i < len(es); {
		if !es[i].meta.isBatch() {
			i++
			continue
		}
		x := turnExtent{from: i, x: extent{seg: es[i].meta.seg, pos: es[i].meta.pos}}
		for ; i < len(es); i++ {
			m := &es[i].meta
			if !m.isBatch() {
				continue
			}
			if m.seg != x.x.seg || int64(m.pos) != x.x.end() {
				break
			}
			x.x.length += m.length
			x.to = i + 1
		}
		if int64(x.x.length) < int64(l.set.store.opts.DirectBytes) {
			continue
		}
		x.x.split()
		x.path, x.dir = segmentName(l.id, x.x.seg), ""
		if g := l.segment(x.x.seg); g == nil || !g.named {
			x.dir = partitionDir(l.id)
		}
		for k := x.from; k < x.to; k++ {
			es[k].meta.direct = es[k].meta.isBatch()
			l.meta(es[k].index).placed = es[k].meta.isBatch()
		}
		x.stage(l.set.store.journal, es[x.from:x.to])
		tl.extents = append(tl.extents, x)
	}
}

// state describes all but the entries above flushed.
func (l *Log) state() *groupState {
	s := &groupState{
		hs: l.hs, logStart: l.logStart, firstIndex: l.first, firstTerm: l.term0,
		flushed: l.flushed, flushedOffset: l.flushedOffset, last: max(l.collected, l.flushed), nextSeg: l.nextSeg,
		checkpointIndex: l.checkpointIndex, checkpoint: l.checkpoint,
	}
	if l.damaged != nil {
		s.damaged = l.damaged.Error()
	}
	for _, e := range l.epochs {
		if e.Index <= l.flushed {
			s.epochs = append(s.epochs, e)
		}
	}
	for i := range l.segs {
		switch g := &l.segs[i]; {
		case g.id < l.flushedSeg.id:
			s.segs = append(s.segs, *g)
		case g.id == l.flushedSeg.id:
			s.segs = append(s.segs, l.flushedSeg)
		}
	}
	return s
}

// done applies the log's part of a completed turn.
func (l *Log) done(tl *turnLog) {
	for k := range tl.entries {
		e := &tl.entries[k]
		m := l.meta(e.index)
		if m == nil || m.term != e.meta.term {
			continue // replaced since
		}
		m.file, m.jpos, m.direct = e.meta.file, e.meta.jpos, e.meta.direct
		l.durable = max(l.durable, e.index)
	}
	for k := range tl.extents {
		x := &tl.extents[k]
		if x.inline {
			continue
		}
		if g := l.segment(x.x.seg); g != nil && x.x.length > uint32(x.x.head)+uint32(x.x.tail) {
			g.named = true // the writer made the file for the blocks inside
		}
		if m := l.meta(tl.entries[x.from].index); m != nil && m.term == tl.entries[x.from].meta.term {
			l.cutExtents(x.x.seg, int64(x.x.pos))
			l.extents.push(x.x)
		}
	}
	if tl.state != nil {
		l.stateFile, l.stateDone = tl.stateFile, tl.stateGen
		l.applyDurableState(tl.state)
		l.removeDropped(tl.dropped)
		if tl.rewrite {
			l.busy = false
		}
	}
	l.repin()
	l.checkFlushDue()
}

// repin tells the pin table the oldest journal file that the log needs.
func (l *Log) repin() {
	pin := l.stateFile
	if mutant.On(mutant.PinReleasedEarly) && l.flushed == l.last {
		l.movePin(0)
		return
	}
	if m := l.meta(max(l.stateFlushed+1, l.metaBase)); m != nil && m.file != 0 && l.stateFlushed < l.last {
		pin = min(pin, m.file)
	}
	l.movePin(pin)
}

// movePin changes what the pin table counts the log under; 0 is nothing.
func (l *Log) movePin(pin uint32) {
	if pin == l.pin {
		return
	}
	if pin != 0 {
		l.set.pins.add(pin)
	}
	if l.pin != 0 {
		l.set.pins.remove(l.pin)
	}
	l.pin = pin
}
