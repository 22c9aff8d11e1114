package raftlog

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/mutant"
)

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
		w.want = append(w.want, rewriteWant{wantBatch{m.baseOffset, m.nextOffset(), int(m.length), len(w.pieces) - at, m.term}, m.isBatch()})
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

// rewriteWant is what an entry that is read back must look like.
type rewriteWant struct {
	wantBatch
	batch bool
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
		// Damage must not be given a new checksum of the journal's.
		if want.batch {
			if err := verifyBatch(w.l.id, buf, &want.wantBatch); err != nil && !mutant.On(mutant.RewriteUnverified) {
				return err
			}
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
		l.readFailed(j.Err)
		return
	}
	l.readTries = 0
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

// readFailed notes that what the log has could not be read. It is tried again
// later; after readTriesMax in a row the log counts as damaged.
func (l *Log) readFailed(err error) {
	l.retryAt = l.set.now + readRetry
	if l.readTries++; l.readTries >= readTriesMax {
		l.damaged = damagedAt(l.id, "%v", err)
		l.markState()
	}
}
