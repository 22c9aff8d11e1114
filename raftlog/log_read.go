package raftlog

import (
	"errors"
	"fmt"
	"sort"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/mutant"
)

// ReadJobBytesMax bounds what one read Job of segments fetches, and
// tailReadBytesMax one of the journal; both but for a single larger batch.
const (
	ReadJobBytesMax  = 4 << 20
	tailReadBytesMax = 1 << 20
)

// Read returns whole batches that hold offsets of [from, upTo), at most
// maxBytes (but at least one batch when minOne). From memory it answers at
// once; otherwise job is not nil and is to be run, its Read is the answer.
// dst supplies the memory for a job; one job reads at most ReadJobBytesMax, or one
// batch.
// Errors: core.ErrOffsetOutOfRange, core.ErrStorageFailed, arena.ErrFull.
func (l *Log) Read(dst *arena.Arena, from, upTo core.Offset, maxBytes int, minOne bool) (ReadResult, *Job, error) {
	if l.damaged != nil {
		return ReadResult{}, nil, l.damaged
	}
	if from < l.logStart || from > l.next {
		return ReadResult{}, nil, fmt.Errorf("%w: %d is not in [%d, %d]", core.ErrOffsetOutOfRange, from, l.logStart, l.next)
	}
	upTo = min(upTo, l.next)
	if from >= upTo || maxBytes <= 0 && !minOne {
		return ReadResult{Next: from}, nil, nil
	}
	if i, ok := l.findMeta(from); ok {
		if i >= l.bufBase && l.bufs.len() > 0 {
			return l.readMemory(i, from, upTo, maxBytes, minOne), nil, nil
		}
		return l.readJournal(dst, i, from, upTo, maxBytes, minOne)
	}
	return l.readSegments(dst, from, upTo, maxBytes, minOne)
}

// findMeta finds the described batch that holds offset o.
func (l *Log) findMeta(o core.Offset) (core.Index, bool) {
	if l.metas.len() == 0 || o < l.metas.at(0).baseOffset {
		return 0, false
	}
	k := sort.Search(l.metas.len(), func(k int) bool { return l.metas.at(k).nextOffset() > o })
	return l.metaBase + core.Index(k), k < l.metas.len()
}

func (l *Log) readMemory(i core.Index, from, upTo core.Offset, maxBytes int, minOne bool) ReadResult {
	r := ReadResult{Next: from}
	end, batches := i, 0
	for ; end <= l.last; end++ {
		m := l.meta(end)
		if !m.isBatch() {
			continue
		}
		if m.baseOffset >= upTo || r.Bytes+int(m.length) > maxBytes && !(minOne && r.Bytes == 0) {
			break
		}
		r.Bytes += int(m.length)
		r.Next = m.nextOffset()
		batches++
	}
	r.Bufs = make([]arena.Buf, 0, batches)
	for ; len(r.Bufs) < batches; i++ {
		if l.meta(i).isBatch() {
			r.Bufs = append(r.Bufs, l.bufs.at(int(i-l.bufBase)).Retain())
		}
	}
	return r
}

// tailRead is a Job that reads entries which are in the journal and not in
// memory.
type tailRead struct {
	l      *Log
	dst    arena.Buf
	large  int // bytes of one batch for which the arena had no room; 0: it is read into dst
	pins   filePins
	pieces []piece
	want   []wantBatch
	from   core.Offset
}

// wantBatch is what a batch that is read must look like.
type wantBatch struct {
	base   core.Offset
	next   core.Offset
	length int
	pieces int
	term   core.Term
}

func (l *Log) readJournal(dst *arena.Arena, i core.Index, from, upTo core.Offset, maxBytes int, minOne bool) (ReadResult, *Job, error) {
	work := &tailRead{l: l, from: from, pins: filePins{j: l.set.store.journal}}
	maxBytes = min(maxBytes, tailReadBytesMax)
	total := 0
	for ; i <= l.last && (i < l.bufBase || l.bufs.len() == 0); i++ {
		m := l.meta(i)
		if !m.isBatch() {
			continue
		}
		if m.baseOffset >= upTo || total+int(m.length) > maxBytes && !(minOne && total == 0) {
			break
		}
		at := len(work.pieces)
		work.pieces = l.addPieces(work.pieces, &work.pins, m)
		work.want = append(work.want, wantBatch{m.baseOffset, m.nextOffset(), int(m.length), len(work.pieces) - at, m.term})
		total += int(m.length)
	}
	if total == 0 {
		return ReadResult{Next: from}, nil, nil
	}
	buf, err := dst.Alloc(total)
	switch {
	case errors.Is(err, arena.ErrFull) && total > tailReadBytesMax:
		work.large = total // the arena may never have that much
	case err != nil:
		work.pins.release()
		return ReadResult{}, nil, err
	}
	work.dst = buf
	return ReadResult{}, &Job{Log: l, CatchUp: true, work: work}, nil
}

func (w *tailRead) run(j *Job) (err error) {
	defer w.pins.release()
	r := fileReader{store: w.l.set.store, id: w.l.id}
	defer func() { err = errors.Join(err, r.close()) }()
	if w.large > 0 {
		w.dst = arena.Foreign(make([]byte, w.large))
	}
	out, ps := w.dst.Bytes(), w.pieces
	for _, b := range w.want {
		batch := out[:b.length]
		for at := 0; b.pieces > 0; b.pieces-- {
			err := r.read(ps, batch[at:at+ps[0].n])
			if errors.Is(err, ErrNotExist) {
				return fmt.Errorf("offset %d: %w", b.base, err)
			}
			if err != nil {
				return damagedAt(w.l.id, "offset %d: %v", b.base, err)
			}
			at += ps[0].n
			ps = ps[1:]
		}
		if err := verifyBatch(w.l.id, batch, &b); err != nil && !mutant.On(mutant.JournalReadUnverified) {
			return err
		}
		out = out[b.length:]
	}
	j.Read = ReadResult{Bytes: w.dst.Len(), Next: w.want[len(w.want)-1].next}
	return nil
}

func (w *tailRead) finish(j *Job) {
	j.Err = w.l.judgeMissing(w.from, j.Err)
	if j.Err != nil {
		w.dst.Release()
		return
	}
	j.Read.Bufs = []arena.Buf{w.dst}
}

// judgeMissing says what it means that a Job, which was to read from an offset on, did
// not find a file: that the records were removed meanwhile, or damage.
func (l *Log) judgeMissing(from core.Offset, err error) error {
	if !errors.Is(err, ErrNotExist) {
		return err
	}
	if l.closed || from < l.logStart {
		return fmt.Errorf("%w: %d was removed", core.ErrOffsetOutOfRange, from)
	}
	return damagedAt(l.id, "offset %d: %v", from, err)
}

// verifyBatch checks a batch that was read against its description: what the
// batch's own checksum does not cover first, then the checksum.
func verifyBatch(id core.PartitionID, p []byte, want *wantBatch) error {
	b, rest, err := core.NextBatch(p)
	if err != nil || len(rest) != 0 {
		return damagedAt(id, "offset %d: no batch of %d bytes there", want.base, want.length)
	}
	if b.BaseOffset() != want.base || b.LastOffset()+1 != want.next {
		return damagedAt(id, "offset %d: found a batch of offsets [%d, %d]", want.base, b.BaseOffset(), b.LastOffset())
	}
	if b.LeaderEpoch() != int32(want.term) {
		return damagedAt(id, "offset %d: found leader epoch %d, want %d", want.base, b.LeaderEpoch(), want.term)
	}
	if err := b.Verify(); err != nil {
		return damagedAt(id, "offset %d: %v", want.base, err)
	}
	return nil
}
