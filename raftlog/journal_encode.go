package raftlog

import (
	"math"

	"millrace/core/mutant"
)

// sectionCursor is how far a log's part of a turn is encoded, so that it can go
// on in the next frame.
type sectionCursor struct {
	headDone bool // tombstone, state, hard state and log start are written
	entry    int
	ext      int
}

const firstFrameBufBytes = 2 << 20

// encodeFrame fills one frame from the pending turns, up to Options.FrameBytes.
func (j *Journal) encodeFrame() {
	w := &j.w
	if w.frame.buf == nil {
		w.frame.buf = AlignedBuf(int(min(firstFrameBufBytes, j.fileMax)))
	}
	w.frame.n = frameHeaderBytes
	w.groups = bloom{}
	w.marks = w.marks[:0]
	w.frameSeq++
	for w.turn < len(w.pending) {
		t := w.pending[w.turn]
		for w.log < len(t.logs) {
			if w.frame.n > j.store.opts.FrameBytes || !j.encodeSection(t, &t.logs[w.log]) {
				w.frameReady = true
				return
			}
			w.log++
			w.cursor = sectionCursor{}
		}
		w.log = 0
		w.turn++
	}
	w.frameReady = true
}

// room makes sure that n more bytes fit the frame's buffer.
func (w *writer) room(n int) {
	if w.n+n <= len(w.buf)-BlockBytes {
		return
	}
	if int64(w.n)+int64(n) > math.MaxInt32 {
		panic("BUG: a journal frame of more than 2 GiB")
	}
	bigger := AlignedBuf(max(2*len(w.buf), w.n+n+2*BlockBytes))
	copy(bigger, w.buf[:w.n])
	freeAligned(w.buf)
	w.buf = bigger
}

// encodeSection writes one section; false when the frame is full before the
// log's part is complete. Entries that are written again stay in one frame: to
// recovery the first of them replaces all that were there from it on (raft 5.3), so
// a crash between two frames would lose entries that were durable before.
func (j *Journal) encodeSection(t *Turn, tl *turnLog) bool {
	w, f, c := &j.w, &j.w.frame, &j.w.cursor
	f.room(sectionHeaderBytes)
	start := f.n
	f.u64(uint64(tl.id))
	f.u64(w.lastOf[tl.id])
	f.u64(0) // length and count follow
	count := 0
	if !c.headDone {
		count += j.encodeHead(t, tl)
		c.headDone = true
	}
	complete := true
	for c.entry < len(tl.entries) {
		if f.n > j.store.opts.FrameBytes && count > 0 && (!tl.rewrite || mutant.On(mutant.RewriteSplit)) {
			complete = false
			break
		}
		if c.ext < len(tl.extents) && tl.extents[c.ext].from == c.entry && !tl.extents[c.ext].inline {
			x := &tl.extents[c.ext]
			count += j.encodeExtent(t, tl, c.ext)
			c.entry = x.to
			c.ext++
			continue
		}
		if c.ext < len(tl.extents) && tl.extents[c.ext].to <= c.entry+1 {
			c.ext++ // the last entry of one that became inline
		}
		e := &tl.entries[c.entry]
		e.meta.direct = false
		f.room(recordHeaderBytes + entryFixedBytes + e.buf.Len())
		e.meta.jpos = uint32(f.putEntry(e.index, &e.meta, e.buf.Bytes()))
		w.marks = append(w.marks, mark{turn: t, tl: tl, from: c.entry, to: c.entry + 1, ext: -1})
		count++
		c.entry++
	}
	head := writer{buf: f.buf, n: start + 16}
	head.u32(uint32(f.n - start - sectionHeaderBytes))
	head.u32(uint32(count))
	w.groups.add(tl.id)
	w.lastOf[tl.id] = w.frameSeq
	if tl.deleted && complete {
		delete(w.lastOf, tl.id)
	}
	return complete
}

func (j *Journal) encodeHead(t *Turn, tl *turnLog) (count int) {
	f := &j.w.frame
	if tl.state != nil {
		f.room(tl.state.size())
		f.putState(tl.state)
		count++
	}
	f.room(3*recordHeaderBytes + hardStateBytes + logStartBytes)
	if tl.hasHS {
		f.putHardState(tl.hs)
		count++
	}
	if tl.hasLogStart {
		f.putLogStart(tl.logStart)
		count++
	}
	if tl.deleted {
		f.recordHeader(recDeleted, 0, 0)
		count++
	}
	j.w.marks = append(j.w.marks, mark{turn: t, tl: tl, ext: -1, state: true})
	return count
}

// encodeExtent writes an extent and its entries, which stay in one frame.
func (j *Journal) encodeExtent(t *Turn, tl *turnLog, k int) (count int) {
	w, f, x := &j.w, &j.w.frame, &tl.extents[k]
	f.room(recordHeaderBytes + extentFixedBytes + int(x.x.head) + int(x.x.tail) +
		(x.to-x.from)*(recordHeaderBytes+entryFixedBytes+directExtraBytes))
	var edge [2 * BlockBytes]byte
	es := tl.entries[x.from:x.to]
	copyRange(edge[:x.x.head], es, 0)
	copyRange(edge[x.x.head:int(x.x.head)+int(x.x.tail)], es, int64(x.x.length)-int64(x.x.tail))
	headAt, tailAt := f.putExtent(&x.x, edge[:x.x.head], edge[x.x.head:int(x.x.head)+int(x.x.tail)])
	x.x.headAt, x.x.tailAt = uint32(headAt), uint32(tailAt)
	count++
	for i := range es {
		e := &es[i]
		if e.meta.isBatch() {
			f.putDirect(e.index, &e.meta, e.buf.Bytes())
		} else {
			f.room(recordHeaderBytes + entryFixedBytes + e.buf.Len())
			e.meta.jpos = uint32(f.putEntry(e.index, &e.meta, e.buf.Bytes()))
		}
		count++
	}
	w.marks = append(w.marks, mark{turn: t, tl: tl, from: x.from, to: x.to, ext: k})
	return count
}

// copyRange copies bytes from position at of the concatenated batches of es.
func copyRange(dst []byte, es []turnEntry, at int64) {
	for i := range es {
		if len(dst) == 0 {
			return
		}
		if !es[i].meta.isBatch() {
			continue
		}
		p := es[i].buf.Bytes()
		if at >= int64(len(p)) {
			at -= int64(len(p))
			continue
		}
		n := copy(dst, p[at:])
		dst, at = dst[n:], 0
	}
	if len(dst) > 0 {
		panic("BUG: an extent is longer than its batches")
	}
}
