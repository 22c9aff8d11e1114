package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// removal is a set of files to delete: segments of a partition, or all of it.
type removal struct {
	l     *Log
	segs  []uint32
	whole bool
	sweep []uint32 // segments that a durable state may name; others are leftovers of a crash
	below uint32   // only below this number; 0: none
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
// names, and once those that a crash left behind. These are below the segment of the
// last batch flushed. From there on, segments that are not in the table any more had
// entries that have been replaced: until the replacement is durable, a crash brings
// them back.
func (l *Log) removeDropped(segs []uint32) {
	if len(segs) == 0 {
		return
	}
	l.leaving = slices.DeleteFunc(l.leaving, func(seg uint32) bool { return slices.Contains(segs, seg) })
	r := removal{l: l, segs: segs}
	if !l.swept {
		l.swept = true
		r.below = l.flushedSeg.id
		for i := range l.segs {
			r.sweep = append(r.sweep, l.segs[i].id)
		}
		r.sweep = append(r.sweep, l.leaving...)
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
