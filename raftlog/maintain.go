package raftlog

import (
	"fmt"

	"millrace/core"
	"millrace/core/mutant"
)

const (
	// rewriteBytesMax is what a log under journal pressure has at most to be
	// written to the journal again instead of to a segment: two small files with
	// their syncs cost more.
	rewriteBytesMax = 4 << 10
	scanEvery       = 5 * core.Second
	maintainIdle    = core.Second
	maintainBusy    = 20 * core.Millisecond
	// A flush or a rewrite that cannot read what the log has is tried again, because
	// a failed read may pass; after so many in a row the log counts as damaged.
	readRetry    = 500 * core.Millisecond
	readTriesMax = 10
)

// Maintain hands out flush, roll, index and removal Jobs that are due: under
// journal pressure, over FlushBytesMax, by segment age, or after a log start
// moved. At most max jobs; next is when to call again.
func (s *LogSet) Maintain(now core.Tick, max int, jobs []*Job) (out []*Job, next core.Tick) {
	s.now = now
	s.releaseIdle()
	if now-s.scannedAt >= scanEvery {
		s.scannedAt = now
		for _, l := range s.All() {
			l.checkAge(now)
		}
	}
	pressure := uint32(s.store.journal.Pressure())
	s.flushSlots = s.store.journal.flushSlots()
	if pressure > 0 && s.pins.oldest() <= pressure {
		for _, l := range s.All() {
			if l.pin != 0 && l.pin <= pressure {
				s.markDue(l)
			}
		}
	}
	jobs = s.handOutRemovals(max, jobs, &max)
	due := s.due
	s.due = nil
	for i, l := range due {
		l.due = false
		if l.closed {
			continue
		}
		if max == 0 {
			s.due = append(s.due, l)
			l.due = true
			continue
		}
		if j := l.maintain(pressure); j != nil {
			jobs = append(jobs, j)
			max--
		}
		due[i] = nil
	}
	if len(s.due) > 0 || len(s.removals) > 0 || pressure > 0 {
		return jobs, now + maintainBusy
	}
	return jobs, now + maintainIdle
}

// checkAge rolls the active segment by SegmentMs.
func (l *Log) checkAge(now core.Tick) {
	n := len(l.segs)
	if n == 0 || l.damaged != nil {
		return
	}
	g := &l.segs[n-1]
	if g.createdMs <= 0 {
		g.createdMs = now.Millis()
	}
	if g.id == l.flushedSeg.id && l.flushedSeg.createdMs <= 0 {
		l.flushedSeg.createdMs = g.createdMs
	}
	if now.Millis()-g.createdMs >= l.cfg.SegmentMs && g.bytes > 0 {
		l.rollNext = true
	}
}

func (l *Log) checkFlushDue() {
	if l.pendingBytes >= l.cfg.FlushBytesMax && l.flushed < min(l.durable, l.hs.Commit) {
		l.set.markDue(l)
	}
}

// maintain does what is due for one log; it may return one Job.
func (l *Log) maintain(pressure uint32) *Job {
	if l.damaged != nil {
		if l.pin != 0 && l.pin <= pressure && !l.statePending() {
			l.markState()
		}
		return nil
	}
	if l.busy || l.set.failed != nil {
		return nil
	}
	l.trim()
	if l.set.now < l.retryAt {
		l.set.markDue(l)
		return nil
	}
	pinned := l.pin != 0 && l.pin <= pressure && !l.statePending()
	small, full := l.pendingBytes <= rewriteBytesMax, l.pendingBytes >= l.cfg.FlushBytesMax
	if full || pinned && !small {
		if int(l.set.store.flushing.Load()) >= l.set.flushSlots {
			l.set.markDue(l)
			return nil
		}
		if l.set.store.noFlush.Load() {
			l.set.markDue(l) // there is no room in segments, nor for much in the journal
			pinned = pinned && small
		} else if j := l.startFlush(); j != nil {
			return j
		}
	}
	if pinned {
		return l.startRewrite()
	}
	return nil
}

// statePending says that a state is on its way: its completion moves the pin.
func (l *Log) statePending() bool { return l.stateDirty || l.stateGen != l.stateDone }

// trim takes whole segments below the log start out of the table. Their files
// are removed once a state without them is durable.
func (l *Log) trim() {
	n := 0
	for n < len(l.segs) {
		g := &l.segs[n]
		if g.nextOffset > l.logStart || g.id > l.flushedSeg.id || g.id == l.flushedSeg.id && g.bytes != l.flushedSeg.bytes {
			break
		}
		l.dropping = append(l.dropping, g.id)
		l.leaving = append(l.leaving, g.id)
		n++
	}
	if n == 0 {
		return
	}
	if n == len(l.segs) {
		l.rollNext = true
	}
	if mutant.On(mutant.SegmentRemovedEarly) {
		l.removeDropped(l.dropping)
	}
	l.segs = append([]segInfo(nil), l.segs[n:]...)
	first := l.flushed + 1
	if len(l.segs) > 0 {
		first = min(first, l.segs[0].baseIndex)
	}
	if first > l.first {
		term, err := l.Term(first - 1)
		if err != nil {
			panic(fmt.Sprintf("BUG: partition %d has no term for entry %d: %v", l.id, first-1, err))
		}
		l.term0, l.first = term, first
		k := 0
		for k+1 < len(l.epochs) && l.epochs[k+1].Index <= first-1 {
			k++
		}
		l.epochs = append([]EpochStart(nil), l.epochs[k:]...)
	}
	l.markState()
}
