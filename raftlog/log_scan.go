package raftlog

import (
	"errors"

	"millrace/core"
	"millrace/core/arena"
)

// ScanHeaders calls fn for every entry from index i on with the first
// BatchHeaderBytes of a batch (nil for other kinds). The payload of an
// EntryLogStart is in the Entry. Entries below the last flush come from the
// index: batches only. Blocks; startup only, before the first Append. Header and
// payload are good until fn returns.
func (l *Log) ScanHeaders(i core.Index, fn func(e Entry, header []byte) error) error {
	if l.damaged != nil {
		return l.damaged
	}
	if i <= l.flushed {
		if err := l.scanSegments(i, fn); err != nil {
			return err
		}
	}
	for k := max(i, l.flushed+1); k <= l.last; k++ {
		m := l.meta(k)
		var h []byte
		if m.isBatch() {
			if h = l.headers.at(k); h == nil && k >= l.bufBase && l.bufs.len() > 0 {
				h = l.payload(k).Bytes()[:core.BatchHeaderBytes]
			}
			if h == nil {
				return damagedAt(l.id, "the header of entry %d is gone", k)
			}
		}
		e := m.entry(k)
		if p := l.headers.at(k); p != nil && m.kind == EntryLogStart {
			e.Payload = arena.Foreign(p[:min(len(p), int(m.length))])
		}
		if err := fn(e, h); err != nil {
			return err
		}
	}
	l.headers = nil
	return nil
}

func (l *Log) scanSegments(i core.Index, fn func(e Entry, header []byte) error) error {
	r := fileReader{store: l.set.store, id: l.id}
	err := func() error {
		for _, g := range l.segs {
			if g.id == l.flushedSeg.id {
				g = l.flushedSeg
			}
			if g.id > l.flushedSeg.id || g.nextOffset <= l.logStart {
				continue
			}
			if err := l.scanSegment(&r, &g, i, fn); err != nil {
				return err
			}
		}
		return nil
	}()
	return errors.Join(err, r.close())
}

func (l *Log) scanSegment(r *fileReader, g *segInfo, i core.Index, fn func(e Entry, header []byte) error) (err error) {
	ix, err := openIndex(l.set.store, l.id, g)
	if err != nil {
		return damagedAt(l.id, "segment %d: %v", g.id, err)
	}
	defer func() { err = errors.Join(err, ix.close()) }()
	n, err := ix.find(func(row indexRow) bool { return row.index >= i })
	head := make([]byte, core.BatchHeaderBytes)
	for ; err == nil && n < ix.rows; n++ {
		row, err := ix.row(n)
		if err == nil {
			ahead := []piece{{seg: g.id, off: int64(row.pos), n: len(head)}, {seg: g.id, off: int64(row.pos) + int64(len(head)), n: int(row.length) - len(head)}}
			err = r.read(ahead, head)
		}
		if err != nil {
			return damagedAt(l.id, "segment %d: %v", g.id, err)
		}
		e := Entry{
			Index: row.index, Term: core.Term(row.term), Kind: EntryBatch,
			BaseOffset: row.baseOffset, LastOffset: row.nextOffset() - 1, MaxTimestamp: row.maxTs,
		}
		if err := fn(e, head); err != nil {
			return err
		}
	}
	if err != nil {
		return damagedAt(l.id, "segment %d: %v", g.id, err)
	}
	return nil
}
