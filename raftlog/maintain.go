package raftlog

import (
	"errors"
	"fmt"
	"strings"

	"millrace/core"
	"millrace/core/arena"
)

const (
	// rewriteBytesMax is what a log under journal pressure has at most to be
	// written to the journal again instead of to a segment: two small files with
	// their syncs cost more.
	rewriteBytesMax = 4 << 10
	scanEvery       = 5 * core.Second
	maintainIdle    = core.Second
	maintainBusy    = 20 * core.Millisecond
	// A rewrite that cannot read the journal is tried again, because a failed read
	// may pass; after so many in a row the log counts as damaged.
	rewriteRetry    = 500 * core.Millisecond
	rewriteTriesMax = 10
)

// Maintain hands out flush, roll, index and removal Jobs that are due: under
// journal pressure, over FlushBytesMax, by segment age, or after a log start
// moved. At most max jobs; next is when to call again.
func (s *LogSet) Maintain(now core.Tick, max int, jobs []*Job) (out []*Job, next core.Tick) {
	s.now = now
	if now-s.scannedAt >= scanEvery {
		s.scannedAt = now
		for _, l := range s.All() {
			l.checkAge(now)
		}
	}
	pressure := uint32(s.store.journal.Pressure())
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
	pinned := l.pin != 0 && l.pin <= pressure && !l.statePending()
	small := l.pendingBytes <= rewriteBytesMax
	if l.pendingBytes >= l.cfg.FlushBytesMax || pinned && !small {
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
		n++
	}
	if n == 0 {
		return
	}
	if n == len(l.segs) {
		l.rollNext = true
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

// rewriteBufs are payloads that wait to be written to the journal again.
type rewriteBufs struct {
	first core.Index // of bufs[0]
	bufs  []arena.Buf
}

// payload is the payload of entry i, from memory or read back.
func (l *Log) payload(i core.Index) arena.Buf {
	if i >= l.bufBase && l.bufs.len() > 0 {
		return *l.bufs.at(int(i - l.bufBase))
	}
	if r := l.rewrite; r != nil && i >= r.first && int(i-r.first) < len(r.bufs) {
		return r.bufs[i-r.first]
	}
	panic(fmt.Sprintf("BUG: the payload of entry %d of partition %d is not in memory", i, l.id))
}

// startRewrite lets the state and all entries above flushed be written to the
// journal again, so that older files need not be kept for them. It returns a
// Job where payloads must be read first.
func (l *Log) startRewrite() *Job {
	from := l.flushed + 1
	if from > l.last {
		l.markState()
		return nil
	}
	l.busy = true
	end := l.last + 1
	if l.bufs.len() > 0 {
		end = max(min(end, l.bufBase), from)
	}
	if from == end {
		l.rewriteFrom(from)
		return nil
	}
	w := &rewriteWork{l: l, from: from, pins: filePins{j: l.set.store.journal}}
	for i := from; i < end; i++ {
		m := l.meta(i)
		at := len(w.pieces)
		if m.length > 0 {
			w.pieces = l.addPieces(w.pieces, &w.pins, m)
		}
		w.want = append(w.want, rewriteWant{int(m.length), len(w.pieces) - at, m.term})
	}
	return &Job{Log: l, work: w}
}

func (l *Log) rewriteFrom(from core.Index) {
	l.collected = from - 1
	l.rewriting = true
	l.markState()
}

// rewriteWork is a Job that reads payloads back from the journal.
type rewriteWork struct {
	l      *Log
	from   core.Index
	pins   filePins
	pieces []piece
	want   []rewriteWant
	out    []arena.Buf
}

type rewriteWant struct {
	length, pieces int
	term           core.Term
}

func (w *rewriteWork) run(*Job) (err error) {
	defer w.pins.release()
	r := fileReader{store: w.l.set.store, id: w.l.id}
	defer func() { err = errors.Join(err, r.close()) }()
	ps := w.pieces
	for _, want := range w.want {
		buf := make([]byte, want.length)
		for at := 0; want.pieces > 0; want.pieces-- {
			if err := r.read(ps, buf[at:at+ps[0].n]); err != nil {
				return damagedAt(w.l.id, "reading the journal back: %v", err)
			}
			at += ps[0].n
			ps = ps[1:]
		}
		w.out = append(w.out, arena.Foreign(buf))
	}
	return nil
}

func (w *rewriteWork) finish(j *Job) {
	l := w.l
	l.busy = false
	if l.closed {
		l.tryRemoveDir()
		return
	}
	if j.Err != nil {
		l.rewriteAt = l.set.now + rewriteRetry
		if l.rewriteTries++; l.rewriteTries >= rewriteTriesMax {
			l.damaged = j.Err
			l.markState()
		}
		return
	}
	l.rewriteTries = 0
	// Entries may have been replaced or evicted meanwhile; then the next call of
	// Maintain begins again.
	n := core.Index(len(w.out))
	for i := range n {
		m := l.meta(w.from + i)
		if m == nil || m.term != w.want[i].term {
			return
		}
	}
	covered := w.from+n > l.last || l.bufs.len() > 0 && l.bufBase <= w.from+n
	if !covered || l.flushed+1 != w.from {
		return
	}
	l.busy = true
	l.rewrite = &rewriteBufs{first: w.from, bufs: w.out}
	l.rewriteFrom(w.from)
}

// removal is a set of files to delete: segments of a partition, or all of it.
type removal struct {
	l     *Log
	segs  []uint32
	whole bool
	sweep []uint32 // segments that live; others are leftovers of a crash
	below uint32   // only below this number
}

func (s *LogSet) handOutRemovals(n int, jobs []*Job, left *int) []*Job {
	for len(s.removals) > 0 && n > 0 {
		r := s.removals[0]
		s.removals = s.removals[1:]
		jobs = append(jobs, &Job{Log: r.l, work: &removeWork{removal: r, fs: s.store.fs}})
		n--
	}
	if len(s.removals) == 0 {
		s.removals = nil
	}
	*left = n
	return jobs
}

// tryRemoveDir queues the removal of a deleted log's files, once its tombstone
// is durable and no Job writes there.
func (l *Log) tryRemoveDir() {
	if l.tombstoned && !l.busy && !l.removing {
		l.removing = true
		l.set.removals = append(l.set.removals, removal{l: l, whole: true})
	}
}

// removeDropped queues the removal of segments that the durable state no longer
// names.
func (l *Log) removeDropped(segs []uint32) {
	if len(segs) == 0 {
		return
	}
	r := removal{l: l, segs: segs}
	if !l.swept {
		l.swept = true
		r.below = l.nextSeg
		for i := range l.segs {
			r.sweep = append(r.sweep, l.segs[i].id)
		}
		r.sweep = append(r.sweep, l.dropping...)
	}
	l.set.removals = append(l.set.removals, r)
}

type removeWork struct {
	removal
	fs FS
}

func (w *removeWork) run(*Job) error {
	dir := partitionDir(w.l.id)
	if w.whole {
		return removeDir(w.fs, dir)
	}
	for _, seg := range w.segs {
		for _, name := range []string{indexName(w.l.id, seg), segmentName(w.l.id, seg)} {
			if err := w.fs.Remove(name); err != nil && !errors.Is(err, ErrNotExist) {
				return err
			}
		}
	}
	if w.below > 0 {
		if err := w.sweepDir(dir); err != nil {
			return err
		}
	}
	if err := w.fs.SyncDir(dir); err != nil && !errors.Is(err, ErrNotExist) {
		return err
	}
	return nil
}

// sweepDir removes segments that a crash left behind between the state that
// dropped them and their removal.
func (w *removeWork) sweepDir(dir string) error {
	names, err := w.fs.List(dir)
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	live := map[uint32]bool{}
	for _, seg := range w.sweep {
		live[seg] = true
	}
	for _, name := range names {
		var seg uint32
		if _, err := fmt.Sscanf(strings.SplitN(name, ".", 2)[0], "%08x", &seg); err != nil || seg >= w.below || live[seg] {
			continue
		}
		if err := w.fs.Remove(dir + "/" + name); err != nil && !errors.Is(err, ErrNotExist) {
			return err
		}
	}
	return nil
}

func (w *removeWork) finish(j *Job) {
	if j.Err != nil {
		w.l.set.store.opts.Logf("removing files of partition %d: %v; trying again later", w.l.id, j.Err)
		w.l.set.removals = append(w.l.set.removals, w.removal)
		return
	}
	if w.whole {
		w.l.movePin(0)
		w.l.set.oldest.Store(w.l.set.pins.oldest())
	}
}
