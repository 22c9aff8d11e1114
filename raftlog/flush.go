package raftlog

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/mutant"
)

// flushJobBytes bounds what one flush Job writes.
const flushJobBytes = 16 << 20

// errReadBack says that a Job could not read what the log has: that concerns one
// log, where a write or a sync that fails ends the trust in the device.
var errReadBack = errors.New("reading back")

// flushWork is a Job that moves committed entries from the journal to segments.
// It writes data, then index rows, each synced; the group state that refers to
// both joins a later turn.
type flushWork struct {
	l    *Log
	pins filePins
	segs []flushSegment

	// The log's flushed state when all is done.
	flushed       core.Index
	flushedOffset core.Offset
	bytes         int64
}

// flushSegment is one segment's part.
type flushSegment struct {
	info  segInfo // what is flushed before; run brings it up to date
	items []flushItem
	rows  []indexRow
	sync  bool // the directory entries of its files are not known to be durable
}

// flushItem is a piece with its place in the segment. A piece that is in that
// segment already (the inside of an extent) has seg set.
type flushItem struct {
	pos int64
	p   piece
}

// flushTarget is the last entry that may be flushed now.
func (l *Log) flushTarget() core.Index {
	t := min(l.durable, l.hs.Commit)
	if l.needCheckpoint != nil {
		t = min(t, l.checkpointIndex)
	}
	return t
}

// startFlush makes the Job for the next entries; nil when none may be flushed.
func (l *Log) startFlush() *Job {
	if l.needCheckpoint != nil {
		l.needCheckpoint()
	}
	to := l.flushTarget()
	if to <= l.flushed {
		return nil
	}
	w := &flushWork{l: l, pins: filePins{j: l.set.store.journal}, flushed: l.flushed, flushedOffset: l.flushedOffset}
	for i := l.flushed + 1; i <= to && w.bytes < flushJobBytes; i++ {
		m := l.meta(i)
		w.flushed, w.flushedOffset = i, m.nextOffset()
		if m.isBatch() {
			w.add(l, i, m)
		}
	}
	l.busy = true
	l.set.store.flushing.Add(1)
	return &Job{Log: l, work: w}
}

func (w *flushWork) add(l *Log, i core.Index, m *entryMeta) {
	if n := len(w.segs); n == 0 || w.segs[n-1].info.id != m.seg {
		g := flushSegment{sync: m.seg != l.flushedSeg.id}
		if n == 0 && l.flushedSeg.id == m.seg {
			g.info = l.flushedSeg
		} else {
			g.info = segInfo{id: m.seg, baseOffset: m.baseOffset, nextOffset: m.baseOffset, baseIndex: i, maxTs: -1}
			if known := l.segment(m.seg); known != nil {
				g.info.createdMs = known.createdMs
			}
		}
		w.segs = append(w.segs, g)
	}
	g := &w.segs[len(w.segs)-1]
	g.rows = append(g.rows, indexRow{m.baseOffset, i, m.maxTs, m.pos, m.length, uint32(m.lastDelta), uint32(m.term)})
	w.bytes += int64(m.length)
	g.items = l.addFlushItems(g.items, &w.pins, i, m)
}

// addFlushItems says where the bytes of entry i come from: memory where they
// are, else the journal.
func (l *Log) addFlushItems(items []flushItem, pins *filePins, i core.Index, m *entryMeta) []flushItem {
	inMemory := i >= l.bufBase && l.bufs.len() > 0
	if !inMemory || m.direct {
		var ps [3]piece
		pos, from := int64(m.pos), int64(0)
		for _, p := range l.addPieces(ps[:0], pins, m) {
			n := int64(p.n)
			if inMemory && p.seg == 0 {
				p = piece{buf: l.payload(i).Retain(), off: from, n: p.n}
			}
			items = append(items, flushItem{pos, p})
			pos, from = pos+n, from+n
		}
		return items
	}
	return append(items, flushItem{int64(m.pos), piece{buf: l.payload(i).Retain(), n: int(m.length)}})
}

func (w *flushWork) run(*Job) (err error) {
	defer w.release()
	s := w.l.set.store
	r := fileReader{store: s, id: w.l.id}
	defer func() { err = errors.Join(err, r.close()) }()
	for i := range w.segs {
		if err := w.flushSegment(s, &r, &w.segs[i]); err != nil {
			return fmt.Errorf("flushing segment %d of partition %d: %w", w.segs[i].info.id, w.l.id, err)
		}
	}
	return nil
}

func (w *flushWork) release() {
	w.pins.release()
	for i := range w.segs {
		for k := range w.segs[i].items {
			w.segs[i].items[k].p.buf.Release()
		}
		w.segs[i].items = nil
	}
}

func (w *flushWork) flushSegment(s *Store, r *fileReader, g *flushSegment) error {
	dir := partitionDir(w.l.id)
	data, madeData, err := openOrCreate(s.fs, dir, segmentName(w.l.id, g.info.id))
	if err != nil {
		return err
	}
	sw := segmentWriter{s: s, f: data, buf: s.bufs.get()}
	err = sw.write(r, g)
	s.bufs.put(sw.buf)
	if err == nil && !mutant.On(mutant.UnsyncedSegment) {
		err = data.Sync()
	}
	if err = errors.Join(err, data.Close()); err != nil {
		return err
	}
	index, madeIndex, err := openOrCreate(s.fs, dir, indexName(w.l.id, g.info.id))
	if err != nil {
		return err
	}
	err = w.writeRows(s, index, g)
	if err == nil {
		err = index.Sync()
	}
	if err = errors.Join(err, index.Close()); err != nil {
		return err
	}
	if g.sync || madeData || madeIndex {
		if err := syncPartitionDir(s.fs, dir); err != nil {
			return err
		}
	}
	last := &g.rows[len(g.rows)-1]
	g.info.rows += uint32(len(g.rows))
	g.info.bytes = int64(last.pos) + int64(last.length)
	g.info.nextOffset = last.nextOffset()
	for i := range g.rows {
		g.info.maxTs = max(g.info.maxTs, g.rows[i].maxTs)
	}
	return nil
}

// segmentWriter writes a segment in large aligned pieces. Blocks that the
// journal's writer has written are passed over; the block in which the flushed
// part ended is read and written again with the same beginning, so that a torn
// write of it harms nothing.
type segmentWriter struct {
	s   *Store
	f   File
	buf []byte
	// buf[:n] goes to position from, a multiple of BlockBytes.
	from int64
	n    int
}

func (sw *segmentWriter) write(r *fileReader, g *flushSegment) error {
	var ps []piece
	for i := range g.items {
		ps = append(ps, g.items[i].p)
	}
	for i := range g.items {
		it := &g.items[i]
		if it.p.seg != 0 { // in place
			if err := sw.flush(); err != nil {
				return err
			}
			continue
		}
		if sw.n == 0 {
			if err := sw.begin(it.pos); err != nil {
				return err
			}
		}
		if it.pos != sw.from+int64(sw.n) {
			panic(fmt.Sprintf("BUG: a flush jumps from %d+%d to %d", sw.from, sw.n, it.pos))
		}
		if err := sw.copy(r, ps[i:]); err != nil {
			return err
		}
	}
	if mutant.On(mutant.IndexBeforeData) {
		return nil
	}
	return sw.flush()
}

// begin starts to write at a position, keeping what is before it in its block.
func (sw *segmentWriter) begin(pos int64) error {
	sw.from = alignDown(pos)
	sw.n = int(pos - sw.from)
	if sw.n == 0 {
		return nil
	}
	if err := readFull(sw.f, sw.buf[:BlockBytes], sw.from); err != nil {
		return fmt.Errorf("%w: the last block: %w", errReadBack, err)
	}
	return nil
}

// copy takes in one piece, writing whenever the buffer is full.
func (sw *segmentWriter) copy(r *fileReader, ps []piece) error {
	p := ps[0]
	for done := 0; done < p.n; {
		k := min(p.n-done, len(sw.buf)-sw.n)
		part := append([]piece{{jf: p.jf, seg: p.seg, buf: p.buf, off: p.off + int64(done), n: k}}, ps[1:]...)
		if k == p.n {
			part = ps
		}
		if err := r.read(part, sw.buf[sw.n:sw.n+k]); err != nil {
			return fmt.Errorf("%w: %w", errReadBack, err)
		}
		sw.n, done = sw.n+k, done+k
		if sw.n == len(sw.buf) {
			if err := sw.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes the buffer, padded with zeros to a whole block.
func (sw *segmentWriter) flush() error {
	if sw.n == 0 {
		return nil
	}
	size := int(alignUp(int64(sw.n)))
	clear(sw.buf[sw.n:size])
	if err := sw.s.journal.writeAside(sw.f, sw.buf[:size], sw.from); err != nil && !mutant.On(mutant.FlushWriteUnheard) {
		return err
	}
	sw.s.wrote(size)
	sw.n = 0
	sw.from += int64(size)
	return nil
}

// writeRows appends index rows behind the info.rows that are there.
func (w *flushWork) writeRows(s *Store, f File, g *flushSegment) error {
	buf := s.bufs.get()
	defer s.bufs.put(buf)
	row, maxTs := int(g.info.rows), g.info.maxTs
	blocks := buf[:0]
	from := int64(row/indexBlockRows) * BlockBytes
	if row%indexBlockRows != 0 {
		blocks = buf[:BlockBytes]
		if err := readFull(f, blocks, from); err != nil {
			return fmt.Errorf("%w: the last block of the index: %w", errReadBack, err)
		}
	}
	for i := range g.rows {
		at := indexPlace{w.l.id, g.info.id, uint32(row / indexBlockRows)}
		if row%indexBlockRows == 0 {
			if len(blocks) == len(buf) {
				if _, err := f.WriteAt(blocks, from); err != nil {
					return err
				}
				from, blocks = from+int64(len(blocks)), buf[:0]
			}
			blocks = buf[:len(blocks)+BlockBytes]
			block := blocks[len(blocks)-BlockBytes:]
			clear(block)
			putIndexHeader(block, at, maxTs)
		}
		g.rows[i].put(blocks[len(blocks)-BlockBytes:], at, row%indexBlockRows)
		maxTs = max(maxTs, g.rows[i].maxTs)
		row++
	}
	_, err := f.WriteAt(blocks, from)
	s.wrote(len(blocks))
	return err
}

func (w *flushWork) finish(j *Job) {
	l := w.l
	l.busy = false
	l.set.store.flushing.Add(-1)
	if l.closed {
		l.tryRemoveDir()
		return
	}
	if errors.Is(j.Err, ErrNoSpace) {
		l.set.store.noteNoSpace("flushing to segments")
		l.set.markDue(l)
		return
	}
	if errors.Is(j.Err, errReadBack) {
		l.readFailed(j.Err)
		l.set.markDue(l)
		return
	}
	if j.Err != nil {
		l.set.store.journal.fail(j.Err)
		return
	}
	l.readTries = 0
	l.flushed, l.flushedOffset = w.flushed, w.flushedOffset
	l.addPending(-w.bytes)
	if n := len(w.segs); n > 0 {
		l.flushedSeg = w.segs[n-1].info
		for i := range w.segs {
			if g := l.segment(w.segs[i].info.id); g != nil {
				g.named = true
			}
		}
		l.flushedSeg.named = true
	}
	l.markState()
	l.checkFlushDue()
	l.set.markDue(l)
}

// applyDurableState is told that a state is in the journal: what it covers is
// no longer needed there.
func (l *Log) applyDurableState(st *groupState) {
	l.stateFlushed = st.flushed
	l.trimMetas()
	l.dropFlushedExtents()
}

// dropFlushedExtents forgets the extents that a durable state covers.
func (l *Log) dropFlushedExtents() {
	n := 0
	seg, pos := l.flushedPlace()
	if l.stateFlushed == l.last {
		n = l.extents.len()
	}
	for n < l.extents.len() {
		x := l.extents.at(n)
		if x.seg > seg || x.seg == seg && x.end() > pos {
			break
		}
		n++
	}
	l.extents.popFront(n)
}

// flushedPlace is where the durably flushed part ends.
func (l *Log) flushedPlace() (seg uint32, pos int64) {
	for i := max(l.stateFlushed+1, l.metaBase); i <= l.last; i++ {
		if m := l.meta(i); m.isBatch() {
			return m.seg, int64(m.pos)
		}
	}
	return l.flushedSeg.id, l.flushedSeg.bytes
}
