package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"millrace/core"
	"millrace/core/arena"
)

// readHints remember where the last segment reads ended, so that readers that
// go on from there need not look into the index.
type readHints struct {
	items [4]readHint
	next  uint8
}

type readHint struct {
	offset core.Offset
	seg    uint32
	pos    uint32
	batch  uint32 // bytes of the last batch before
}

func (h *readHints) find(o core.Offset) (readHint, bool) {
	for _, it := range h.items {
		if it.seg != 0 && it.offset == o {
			return it, true
		}
	}
	return readHint{}, false
}

func (h *readHints) add(it readHint) {
	h.items[h.next%uint8(len(h.items))] = it
	h.next++
}

// flushedSegment is the segment that holds offset o, as far as it is flushed.
func (l *Log) flushedSegment(o core.Offset) (segInfo, bool) {
	k := sort.Search(len(l.segs), func(k int) bool { return l.segs[k].nextOffset > o })
	if k == len(l.segs) {
		return segInfo{}, false
	}
	g := l.segs[k]
	if g.id == l.flushedSeg.id {
		g = l.flushedSeg
	}
	return g, g.id <= l.flushedSeg.id && o < g.nextOffset
}

// segmentRead is a Job that reads whole batches from one segment, straight into
// the memory that is handed out.
type segmentRead struct {
	l *Log
	// dsts are filled one after the other. Each begins and ends at a block border in
	// memory, and gets whole blocks of the segment: the one in which the next batch
	// begins, and what follows.
	dsts     []arena.Buf
	g        segInfo
	from     core.Offset
	upTo     core.Offset
	maxBytes int
	minOne   bool
	at       int64 // where the batch of from begins; -1: ask the index
	batch    int64 // what batches there are expected to have; 0: no idea

	term0  core.Term // of what lies before the first epoch
	epochs []EpochStart

	parts []arena.Buf // what was taken of dsts; shares their references
	large []byte      // one batch that did not fit a dst
	used  int
	end   readHint
}

func (l *Log) readSegments(dst *arena.Arena, from, upTo core.Offset, maxBytes int, minOne bool) (ReadResult, *Job, error) {
	g, ok := l.flushedSegment(from)
	if !ok {
		return ReadResult{}, nil, damagedAt(l.id, "no segment holds offset %d", from)
	}
	w := &segmentRead{l: l, g: g, from: from, upTo: upTo, maxBytes: maxBytes, minOne: minOne, at: -1, term0: l.term0, epochs: slices.Clone(l.epochs)}
	left := g.bytes
	j := &Job{Log: l, CatchUp: true, work: w}
	if h, ok := l.hints.find(from); ok && (h.seg == g.id && int64(h.pos) < g.bytes || from == g.baseOffset) {
		w.at, w.batch, j.GoesOn = int64(h.pos), int64(h.batch), true
	}
	if from == g.baseOffset {
		w.at = 0
	}
	if w.at >= 0 {
		left -= w.at
	}
	want := min(max(int64(maxBytes), w.batch, core.BatchHeaderBytes), ReadJobBytesMax, left)
	for got := int64(0); got < want; {
		buf, err := allocBlocks(dst, want-got+BlockBytes, w.batch+BlockBytes)
		if err != nil {
			if got > 0 {
				break // less will do
			}
			return ReadResult{}, nil, err
		}
		w.dsts = append(w.dsts, buf)
		got += int64(buf.Len())
	}
	return ReadResult{}, j, nil
}

// allocBlocks returns memory that direct I/O can read into: for n bytes, or for as
// many as a chunk of the arena holds, but not fewer than least.
func allocBlocks(a *arena.Arena, n, least int64) (arena.Buf, error) {
	size := int(max(min(alignUp(n), arena.ChunkBytes), alignUp(least)))
	buf, err := a.Alloc(size)
	if err != nil || aligned(buf.Bytes()) {
		return buf, err
	}
	buf.Release()
	// Smaller ones lie anywhere in a chunk.
	buf, err = a.Alloc(min(size+BlockBytes, arena.ChunkBytes))
	if err != nil || aligned(buf.Bytes()) {
		return buf, err
	}
	skip := misaligned(buf.Bytes())
	return buf.Slice(skip, skip+int(alignDown(int64(buf.Len()-skip)))), nil
}

func (w *segmentRead) run(j *Job) (err error) {
	defer func() {
		// A segment that retention removed meanwhile is not damage.
		if errors.Is(err, ErrNotExist) {
			err = fmt.Errorf("%w: %d was removed", core.ErrOffsetOutOfRange, w.from)
		} else if err != nil && !errors.Is(err, core.ErrStorageFailed) {
			err = damagedAt(w.l.id, "segment %d: %v", w.g.id, err)
		}
	}()
	s := w.l.set.store
	if w.at < 0 {
		if err := w.lookUp(s); err != nil {
			return err
		}
	}
	r := fileReader{store: s, id: w.l.id}
	defer func() { err = errors.Join(err, r.close()) }()
	j.Read.Next = w.from
	for i := range w.dsts {
		more, err := w.fill(&r, j, w.dsts[i])
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if j.Read.Bytes > 0 || !w.minOne {
		return nil
	}
	return w.readLarge(&r, j)
}

// fill reads blocks into dst and takes the batches that are whole. It answers
// whether there may be more of them.
func (w *segmentRead) fill(r *fileReader, j *Job, dst arena.Buf) (more bool, err error) {
	at := w.at + int64(w.used)
	from := alignDown(at)
	skip := at - from
	n := min(int64(dst.Len()), alignUp(w.g.bytes)-from)
	if most := max(int64(w.maxBytes-w.used), w.batch); most < n-skip {
		n = alignUp(skip + most)
	}
	if w.batch > 0 && w.batch < n-skip {
		// Of batches of one size as many as fit: the rest would be read again.
		n = min(n, alignUp(skip+(n-skip)/w.batch*w.batch))
	}
	f, err := r.file(&piece{seg: w.g.id})
	if err != nil {
		return false, err
	}
	if err := readFull(f, dst.Bytes()[:n], from); err != nil {
		return false, fmt.Errorf("reading [%d, %d): %w", from, from+n, err)
	}
	before := w.used
	more, err = w.cut(j, dst.Bytes()[skip:min(n, w.g.bytes-from)])
	if taken := w.used - before; taken > 0 {
		w.parts = append(w.parts, dst.Slice(int(skip), int(skip)+taken))
	}
	return more && w.used > before && w.at+int64(w.used) < w.g.bytes, err
}

func (w *segmentRead) lookUp(s *Store) (err error) {
	ix, err := openIndex(s, w.l.id, &w.g)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.close()) }()
	n, err := ix.find(func(r indexRow) bool { return r.nextOffset() > w.from })
	if err != nil {
		return err
	}
	if n == ix.rows {
		return fmt.Errorf("%w: no row for offset %d", errBadIndex, w.from)
	}
	row, err := ix.row(n)
	w.at = int64(row.pos)
	return err
}

// cut takes whole batches off p as long as they are wanted and verifies each. It
// answers whether those behind p may be wanted.
func (w *segmentRead) cut(j *Job, p []byte) (more bool, err error) {
	next := core.Offset(-1)
	if w.used > 0 {
		next = j.Read.Next
	}
	for len(p) >= core.BatchHeaderBytes {
		b, rest, err := core.NextBatch(p)
		if err != nil {
			n := batchBytes(p)
			if n >= core.BatchHeaderBytes && w.at+int64(w.used)+n <= w.g.bytes {
				return true, nil // it goes on behind what was read
			}
			return false, damagedAt(w.l.id, "offset %d: %v", j.Read.Next, err)
		}
		if err := w.checkPlace(b, next); err != nil {
			return false, err
		}
		if b.BaseOffset() >= w.upTo || w.used+len(b) > w.maxBytes && !(w.minOne && w.used == 0) {
			return false, nil
		}
		if err := w.checkSum(b); err != nil {
			return false, err
		}
		w.take(j, b)
		next, p = j.Read.Next, rest
	}
	return true, nil
}

func (w *segmentRead) take(j *Job, b core.Batch) {
	w.used += len(b)
	j.Read.Bytes = w.used
	j.Read.Next = b.LastOffset() + 1
	w.batch = int64(len(b))
	w.end = readHint{j.Read.Next, w.g.id, uint32(w.at + int64(w.used)), uint32(len(b))}
}

// checkPlace compares what the checksum of a batch does not cover, its base
// offset and leader epoch, with what must be there; next is -1 for the first.
func (w *segmentRead) checkPlace(b core.Batch, next core.Offset) error {
	first, end := b.BaseOffset(), b.LastOffset()+1
	if next >= 0 && first != next || next < 0 && (first > w.from || end <= w.from) || end > w.g.nextOffset {
		return damagedAt(w.l.id, "segment %d has a batch of offsets [%d, %d) at %d", w.g.id, first, end, w.at+int64(w.used))
	}
	if e := int32(w.termAt(first)); b.LeaderEpoch() != e {
		return damagedAt(w.l.id, "segment %d, offset %d: leader epoch %d, want %d", w.g.id, first, b.LeaderEpoch(), e)
	}
	return nil
}

// termAt is the term of the batch that begins at offset o.
func (w *segmentRead) termAt(o core.Offset) core.Term {
	k := sort.Search(len(w.epochs), func(k int) bool { return w.epochs[k].Offset > o })
	if k == 0 {
		return w.term0
	}
	return w.epochs[k-1].Term
}

func (w *segmentRead) checkSum(b core.Batch) error {
	if err := b.Verify(); err != nil {
		return damagedAt(w.l.id, "segment %d, offset %d: %v", w.g.id, b.BaseOffset(), err)
	}
	return nil
}

// readLarge fetches a first batch that is larger than the buffer.
func (w *segmentRead) readLarge(r *fileReader, j *Job) error {
	w.used, w.parts = 0, nil
	head := make([]byte, core.BatchHeaderBytes)
	if w.at+int64(len(head)) > w.g.bytes {
		return damagedAt(w.l.id, "segment %d ends at %d inside a batch", w.g.id, w.at)
	}
	if err := r.read([]piece{{seg: w.g.id, off: w.at, n: len(head)}}, head); err != nil {
		return err
	}
	n := batchBytes(head)
	if n < core.BatchHeaderBytes || w.at+n > w.g.bytes {
		return damagedAt(w.l.id, "segment %d has no batch at %d", w.g.id, w.at)
	}
	w.large = make([]byte, n)
	if err := r.read([]piece{{seg: w.g.id, off: w.at, n: int(n)}}, w.large); err != nil {
		return err
	}
	b := core.Batch(w.large)
	if err := w.checkPlace(b, -1); err != nil {
		return err
	}
	if b.BaseOffset() < w.upTo {
		if err := w.checkSum(b); err != nil {
			return err
		}
		w.take(j, b)
	}
	return nil
}

func (w *segmentRead) finish(j *Job) {
	kept := 0
	if j.Err == nil && j.Read.Bytes > 0 {
		w.l.hints.add(w.end)
		if w.large != nil {
			j.Read.Bufs = []arena.Buf{arena.Foreign(w.large)}
		} else {
			j.Read.Bufs, kept = w.parts, len(w.parts)
		}
	}
	for _, b := range w.dsts[kept:] {
		b.Release()
	}
	w.dsts, w.parts = nil, nil
}

// batchBytes is what the length field of a batch header says, in all.
func batchBytes(p []byte) int64 {
	return int64(int32(uint32(p[8])<<24|uint32(p[9])<<16|uint32(p[10])<<8|uint32(p[11]))) + 12
}
