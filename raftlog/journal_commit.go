package raftlog

import (
	"errors"
	"fmt"
	"slices"

	"millrace/core"
	"millrace/core/mutant"
)

// commitState is what the committer owns.
type commitState struct {
	pending []*Turn // taken from the queue, in order
	// The next thing to encode: pending[turn].logs[log], at step.
	turn, log int
	cursor    sectionCursor

	frame      writer // header space and payload
	frameReady bool   // encoded and not yet written
	marks      []mark
	groups     bloom
	prev       [frameBlooms]bloom

	cur      *jfile
	pos      int64
	frameSeq uint64 // of the newest frame encoded
	lastOf   map[core.PartitionID]uint64
	unacked  []unackedTurns // by shard
	direct   directWriter
	noSpace  bool // the last attempt found the device full
}

// mark remembers entries whose payload position becomes known with the frame's.
type mark struct {
	turn     *Turn
	tl       *turnLog
	from, to int // entries
	ext      int // extent to place, -1 for none
	state    bool
}

type unackedTurns struct {
	seqs  []uint64
	files []uint32
}

func (j *Journal) stalled() bool { return j.w.noSpace }

// Commit writes what is queued: direct segment writes and their sync first,
// then one frame and its sync. It returns the turns done, in order. Blocks.
// Run calls it in production, the scheduler in simulation.
//
// A device that is full does not end the journal: nothing was acknowledged, so
// the frame is kept and tried again by the next Commit. Every other error is
// final.
func (j *Journal) Commit() []*Turn {
	w := &j.w
	j.take()
	if j.Failed() != nil {
		return j.failPending()
	}
	w.noSpace = false
	j.refreshMin()
	for {
		if !w.frameReady {
			if w.turn == len(w.pending) && !j.wantTailFrame() {
				break
			}
			j.encodeFrame()
		}
		err := j.writeFrame()
		if errors.Is(err, ErrNoSpace) {
			w.noSpace = true
			j.store.noteNoSpace("writing the journal")
			break
		}
		if err != nil {
			j.fail(err)
			return j.failPending()
		}
		j.placeMarks()
		w.frameReady = false
	}
	return j.finishTurns()
}

// take moves the queue to pending, oldest first, and does the direct writes.
func (j *Journal) take() {
	w := &j.w
	at := len(w.pending)
	for t := j.queue.Swap(nil); t != nil; t = t.next {
		w.pending = append(w.pending, t)
	}
	fresh := w.pending[at:]
	slices.Reverse(fresh)
	for _, t := range fresh {
		t.next = nil
	}
	if j.Failed() != nil {
		return
	}
	if err := w.direct.write(j, fresh); err != nil {
		j.fail(err)
	}
}

func (j *Journal) failPending() []*Turn {
	w := &j.w
	done := w.pending
	for _, t := range done {
		t.Err = j.Failed()
		t.release(j)
	}
	w.pending, w.turn, w.log, w.frameReady = nil, 0, 0, false
	w.cursor = sectionCursor{}
	return done
}

// finishTurns hands back the turns whose last frame is durable.
func (j *Journal) finishTurns() []*Turn {
	w := &j.w
	n := w.turn
	if w.frameReady && len(w.marks) > 0 {
		// The frame that waits holds the end of earlier turns.
		first := w.marks[0].turn
		n = min(n, slices.Index(w.pending, first))
	}
	if n == 0 {
		return nil
	}
	done := slices.Clone(w.pending[:n])
	for _, t := range done {
		t.release(j)
		if t.firstFile == 0 { // it was empty
			t.firstFile = ordNone
		}
		u := &w.unacked[t.Shard]
		u.seqs = append(u.seqs, t.Seq)
		u.files = append(u.files, t.firstFile)
	}
	w.pending = slices.Delete(w.pending, 0, n)
	w.turn -= n
	return done
}

// refreshMin computes the oldest file that some group needs. A loop publishes
// its own need before it publishes that a turn is applied, and we read them in
// the other order, so a turn's records are covered by one or the other.
func (j *Journal) refreshMin() {
	oldest := ordNone
	for i, set := range j.store.sets {
		u := &j.w.unacked[i]
		applied := set.doneSeq.Load()
		n := 0
		for n < len(u.seqs) && u.seqs[n] <= applied {
			n++
		}
		u.seqs, u.files = slices.Delete(u.seqs, 0, n), slices.Delete(u.files, 0, n)
		if len(u.files) > 0 {
			oldest = min(oldest, u.files[0])
		}
		oldest = min(oldest, set.oldest.Load())
	}
	j.minFile.Store(oldest)
}

// wantTailFrame says that a frame without sections is worth writing: it lets go
// of old files that no group needs, which an idle journal would keep.
func (j *Journal) wantTailFrame() bool {
	if j.firstLost.Load() != 0 {
		return false // it would let go of nothing
	}
	files := *j.files.Load()
	if len(files) < 2 || files[0].ord >= j.minFile.Load() || files[0].lastFrame < j.oldest.Load() {
		return false
	}
	return len(j.spares) == 0 || len(files) > j.store.opts.JournalFilesMax
}

// oldestFrame is the first frame that is needed.
func (j *Journal) oldestFrame() uint64 {
	if lost := j.firstLost.Load(); lost != 0 {
		return min(lost, j.oldestKept())
	}
	return j.oldestKept()
}

// oldestKept is the first frame of the oldest file needed.
func (j *Journal) oldestKept() uint64 {
	files := *j.files.Load()
	for _, f := range files {
		if (f.ord >= j.minFile.Load() || f == j.w.cur) && f.firstFrame != 0 {
			return f.firstFrame
		}
	}
	return j.w.frameSeq
}

// writeFrame puts the encoded frame into the current or the next file.
func (j *Journal) writeFrame() error {
	w := &j.w
	size := frameSize(w.frame.n - frameHeaderBytes)
	if err := j.chooseFile(size); err != nil {
		return err
	}
	// What this frame holds is needed from now on, also by the frames that this
	// very Commit writes after it.
	j.minFile.Store(min(j.minFile.Load(), w.cur.ord))
	h := frameHeader{
		Instance: j.instance, FileSeq: w.cur.seq, Seq: w.frameSeq,
		Oldest: j.oldestFrame(), PayloadLen: uint32(w.frame.n - frameHeaderBytes), Prev: w.prev,
	}
	buf := w.frame.buf
	clear(buf[w.frame.n:size])
	h.seal(buf[:w.frame.n])
	if mutant.On(mutant.AckBeforeSync) {
		if err := w.cur.f.Sync(); err != nil {
			return err
		}
	}
	if n, err := w.cur.f.WriteAt(buf[:size], w.pos); err != nil {
		return fmt.Errorf("writing %d bytes to the journal (%d written): %w", size, n, err)
	}
	if err := j.syncFrame(); err != nil {
		if errors.Is(err, ErrNoSpace) { // a failed sync is final, whatever it says
			return fmt.Errorf("syncing the journal: %v", err)
		}
		return fmt.Errorf("syncing the journal: %w", err)
	}
	if w.cur.firstFrame == 0 {
		w.cur.firstFrame = w.frameSeq
	}
	w.cur.lastFrame = w.frameSeq
	j.oldest.Store(h.Oldest)
	j.commits.Add(1)
	j.written.Add(uint64(size))
	j.frame.Store(size)
	if w.cur.growing {
		j.store.wrote(int(size))
	}
	copy(w.prev[1:], w.prev[:])
	w.prev[0] = w.groups
	return nil
}

func (j *Journal) syncFrame() error {
	if mutant.On(mutant.AckBeforeSync) {
		return nil
	}
	err := j.w.cur.f.Sync()
	if mutant.On(mutant.SyncRetried) && err != nil {
		err = j.w.cur.f.Sync()
	}
	return err
}

// placeMarks tells the entries of the frame just written where they are.
func (j *Journal) placeMarks() {
	w := &j.w
	size := frameSize(w.frame.n - frameHeaderBytes)
	for _, m := range w.marks {
		if m.turn.firstFile == 0 {
			m.turn.firstFile = w.cur.ord
		}
		if m.state {
			m.tl.stateFile = w.cur.ord
			continue
		}
		if m.ext >= 0 {
			x := &m.tl.extents[m.ext].x
			x.file = w.cur.ord
			x.headAt += uint32(w.pos)
			x.tailAt += uint32(w.pos)
		}
		for k := m.from; k < m.to; k++ {
			e := &m.tl.entries[k].meta
			e.file = w.cur.ord
			e.jpos += uint32(w.pos)
		}
	}
	w.marks = w.marks[:0]
	w.pos += size
	w.cur.end = w.pos
	j.publishUse()
}
