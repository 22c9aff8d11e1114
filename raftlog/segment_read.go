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
	// memory, and gets whole blocks of the segment, which lie behind headroom bytes in
	// all but the first: there goes the beginning of a batch that the one before ends
	// with. So one is read while the batches of the one before are verified.
	dsts     []arena.Buf
	headroom int64
	g        segInfo
	from     core.Offset
	upTo     core.Offset
	maxBytes int
	minOne   bool
	at       int64       // where the batch of from begins; -1: ask the index
	base     core.Offset // that this batch begins with
	batch    int64       // what batches there are expected to have; 0: no idea

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
	w := &segmentRead{l: l, g: g, from: from, upTo: upTo, maxBytes: maxBytes, minOne: minOne, at: -1, base: from, term0: l.term0, epochs: slices.Clone(l.epochs)}
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
	w.headroom = alignUp(max(w.batch, headroomMin))
	if w.headroom > headroomMax {
		w.headroom = 0
	}
	for got, head := int64(0), int64(0); got < want; head = w.headroom {
		buf, err := allocBlocks(dst, want-got+BlockBytes+head, w.batch+BlockBytes+head)
		if errors.Is(err, arena.ErrFull) && w.batch+BlockBytes > arena.ChunkBytes {
			// The arena may never have that much, and the next batch may be smaller: if
			// it is not, readLarge fetches it.
			w.batch, w.headroom = 0, 0
			buf, err = allocBlocks(dst, want-got+BlockBytes, BlockBytes)
		}
		if err != nil {
			if got > 0 {
				break // less will do
			}
			return ReadResult{}, nil, err
		}
		w.dsts = append(w.dsts, buf)
		got += int64(buf.Len()) - head
	}
	return ReadResult{}, j, nil
}

// Where batches are larger than headroomMax, the blocks in which the next one begins
// are read again instead.
const (
	headroomMin = 4 << 10
	headroomMax = 256 << 10
)

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
		if err != nil && !errors.Is(err, ErrNotExist) && !errors.Is(err, core.ErrStorageFailed) {
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
	if err := w.fill(&r, j); err != nil {
		return err
	}
	if j.Read.Bytes > 0 || !w.minOne {
		return nil
	}
	return w.readLarge(&r, j)
}

// blockRead is a read of whole blocks into a dst, behind headroom bytes.
type blockRead struct {
	dst      arena.Buf
	at, n    int64 // position in the segment, bytes
	headroom int64
	done     chan error // nil: not begun, wait does it
}

// begin sets how much is read, up to end or what fits, and reads beside the caller
// where a journal runs; elsewhere wait does it.
func (b *blockRead) begin(s *Store, f File, dst arena.Buf, end int64) {
	b.dst = dst
	b.n = min(alignDown(int64(dst.Len())-b.headroom), end-b.at)
	if !s.journal.running.Load() {
		return
	}
	b.done = make(chan error, 1)
	go func(done chan<- error) { done <- readFull(f, b.bytes(), b.at) }(b.done)
}

func (b *blockRead) next() int64 { return b.at + b.n }

func (b *blockRead) bytes() []byte { return b.dst.Bytes()[b.headroom : b.headroom+b.n] }

func (b *blockRead) wait(f File) error {
	if b.done == nil {
		return readFull(f, b.bytes(), b.at)
	}
	err := <-b.done
	b.done = nil
	return err
}

// end waits for a read whose bytes nobody wants any more.
func (b *blockRead) end() {
	if b.done != nil {
		<-b.done
		b.done = nil
	}
}

// readsBeside is how many dsts are read beside the one whose batches are verified.
const readsBeside = 2

// fill reads into the dsts and takes the batches that are whole.
func (w *segmentRead) fill(r *fileReader, j *Job) error {
	f, err := r.file(&piece{seg: w.g.id})
	if err != nil {
		return err
	}
	reads := make([]blockRead, len(w.dsts))
	begun := 0 // reads whose place is known
	// The memory is given back when the Job is done, so nothing may be reading then.
	defer func() {
		for i := range reads[:begun] {
			reads[i].end()
		}
	}()
	end := w.readEnd()
	var carry []byte // the beginning of a batch, from the dst before
	for i := range reads {
		if begun == i {
			reads[i].at = alignDown(w.at + int64(w.used))
			begun = i + 1
			reads[i].begin(w.l.set.store, f, w.dsts[i], end)
		}
		for w.headroom > 0 && begun < min(i+1+readsBeside, len(reads)) && reads[begun-1].next() < end {
			reads[begun].at, reads[begun].headroom = reads[begun-1].next(), w.headroom
			reads[begun].begin(w.l.set.store, f, w.dsts[begun], end)
			begun++
		}
		b := &reads[i]
		if err := b.wait(f); err != nil {
			return fmt.Errorf("reading [%d, %d): %w", b.at, b.next(), err)
		}
		begin := b.headroom - int64(len(carry))
		if b.headroom == 0 {
			begin = w.at + int64(w.used) - b.at
		}
		p := b.dst.Bytes()[begin : b.headroom+min(b.n, w.g.bytes-b.at)]
		copy(p, carry)
		before := w.used
		more, err := w.cut(j, p)
		taken := w.used - before
		if taken > 0 {
			w.parts = append(w.parts, b.dst.Slice(int(begin), int(begin)+taken))
		}
		if err != nil || !more || w.at+int64(w.used) >= w.g.bytes || b.next() >= end {
			return err
		}
		carry = p[taken:]
		if w.headroom == 0 {
			carry = nil
		}
		// Every dst but the last gives a part: finish tells them apart by their number.
		if int64(len(carry)) > w.headroom || taken == 0 {
			return nil // the reader goes on from here
		}
	}
	return nil
}

// readEnd is where the last block ends that is worth reading.
func (w *segmentRead) readEnd() int64 {
	most := max(int64(w.maxBytes), w.batch)
	if w.batch > 0 {
		most = most / w.batch * w.batch // of batches of one size as many as fit
	}
	return min(alignUp(w.g.bytes), alignUp(w.at+most))
}

func (w *segmentRead) lookUp(s *Store) error {
	row, err := w.firstRow(s)
	w.at, w.base = int64(row.pos), row.baseOffset
	return err
}

// firstRow is what the index says of the batch that holds offset from.
func (w *segmentRead) firstRow(s *Store) (row indexRow, err error) {
	ix, err := openIndex(s, w.l.id, &w.g)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, ix.close()) }()
	n, err := ix.find(func(r indexRow) bool { return r.nextOffset() > w.from })
	if err != nil {
		return row, err
	}
	if n == ix.rows {
		return row, fmt.Errorf("%w: no row for offset %d", errBadIndex, w.from)
	}
	return ix.row(n)
}

// cut takes whole batches off p as long as they are wanted and verifies each. It
// answers whether those behind p may be wanted.
func (w *segmentRead) cut(j *Job, p []byte) (more bool, err error) {
	next := w.base
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
// offset and leader epoch, with what must be there.
func (w *segmentRead) checkPlace(b core.Batch, base core.Offset) error {
	first, end := b.BaseOffset(), b.LastOffset()+1
	if first != base || end <= w.from || end > w.g.nextOffset {
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

// readLarge fetches a first batch that is larger than the buffer. How large it is the
// index says, whose rows have a checksum: a damaged length must not take as much memory
// as there is segment.
func (w *segmentRead) readLarge(r *fileReader, j *Job) error {
	w.used, w.parts = 0, nil
	row, err := w.firstRow(w.l.set.store)
	if err != nil {
		return err
	}
	n := int64(row.length)
	if int64(row.pos) != w.at || w.at+n > w.g.bytes {
		return damagedAt(w.l.id, "segment %d ends at %d inside a batch", w.g.id, w.at)
	}
	head := make([]byte, core.BatchHeaderBytes)
	if err := r.read([]piece{{seg: w.g.id, off: w.at, n: len(head)}}, head); err != nil {
		return err
	}
	if batchBytes(head) != n {
		return damagedAt(w.l.id, "segment %d has no batch of %d bytes at %d", w.g.id, n, w.at)
	}
	w.large = make([]byte, n)
	if err := r.read([]piece{{seg: w.g.id, off: w.at, n: int(n)}}, w.large); err != nil {
		return err
	}
	b := core.Batch(w.large)
	if err := w.checkPlace(b, row.baseOffset); err != nil {
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
	j.Err = w.l.judgeMissing(w.from, j.Err)
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
