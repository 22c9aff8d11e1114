package raftlog

import (
	"errors"

	"millrace/core"
)

// findWork is a Job that looks up a timestamp in the indexes of segments.
type findWork struct {
	l    *Log
	segs []segInfo // as far as flushed
	ms   int64
	upTo core.Offset
	from core.Offset // log start
	max  bool        // look for the largest timestamp instead
	tail TimeResult  // what the entries that are not flushed answer
}

// FindTimestamp finds the first batch whose max timestamp is at or above ms,
// below upTo. Nothing found: Found is false.
func (l *Log) FindTimestamp(ms int64, upTo core.Offset) (TimeResult, *Job, error) {
	if l.damaged != nil {
		return TimeResult{}, nil, l.damaged
	}
	w := &findWork{l: l, ms: ms, upTo: upTo, from: l.logStart}
	w.tail = l.scanMetas(func(m *entryMeta, best *TimeResult) bool { return m.maxTs >= ms }, upTo, true)
	w.addSegments(func(g *segInfo) bool { return g.maxTs >= ms })
	return w.answer()
}

// FindMaxTimestamp finds the batch with the largest max timestamp below upTo;
// the first of several.
func (l *Log) FindMaxTimestamp(upTo core.Offset) (TimeResult, *Job, error) {
	if l.damaged != nil {
		return TimeResult{}, nil, l.damaged
	}
	w := &findWork{l: l, upTo: upTo, from: l.logStart, max: true}
	w.tail = l.scanMetas(func(m *entryMeta, best *TimeResult) bool { return !best.Found || m.maxTs > best.MaxTimestamp }, upTo, false)
	w.addSegments(func(g *segInfo) bool {
		return !w.tail.Found || g.maxTs >= w.tail.MaxTimestamp // an earlier batch wins a tie
	})
	return w.answer()
}

// scanMetas goes through the unflushed batches in [logStart, upTo).
func (l *Log) scanMetas(take func(*entryMeta, *TimeResult) bool, upTo core.Offset, first bool) (best TimeResult) {
	for i := max(l.flushed+1, l.metaBase); i <= l.last; i++ {
		m := l.meta(i)
		if !m.isBatch() || m.nextOffset() <= l.logStart {
			continue
		}
		if m.baseOffset >= upTo {
			break
		}
		if take(m, &best) {
			best = TimeResult{true, m.baseOffset, m.maxTs, m.term}
			if first {
				break
			}
		}
	}
	return best
}

func (w *findWork) addSegments(want func(*segInfo) bool) {
	for _, g := range w.l.segs {
		if g.id == w.l.flushedSeg.id {
			g = w.l.flushedSeg
		}
		if g.id <= w.l.flushedSeg.id && g.nextOffset > w.from && g.baseOffset < w.upTo && g.rows > 0 && want(&g) {
			w.segs = append(w.segs, g)
		}
	}
}

func (w *findWork) answer() (TimeResult, *Job, error) {
	if len(w.segs) == 0 {
		return w.tail, nil, nil
	}
	return TimeResult{}, &Job{Log: w.l, CatchUp: true, work: w}, nil
}

func (w *findWork) run(j *Job) error {
	var best TimeResult
	for i := range w.segs {
		g := &w.segs[i]
		if w.max && best.Found && g.maxTs <= best.MaxTimestamp {
			continue
		}
		r, err := w.search(g)
		if errors.Is(err, ErrNotExist) {
			continue // retention removed it meanwhile
		}
		if err != nil {
			return damagedAt(w.l.id, "segment %d: %v", g.id, err)
		}
		if r.Found && (!best.Found || r.MaxTimestamp > best.MaxTimestamp) {
			best = r
			if !w.max {
				break
			}
		}
	}
	if w.tail.Found && (!best.Found || w.max && w.tail.MaxTimestamp > best.MaxTimestamp) {
		best = w.tail
	}
	j.Found = best
	return nil
}

func (w *findWork) search(g *segInfo) (r TimeResult, err error) {
	ix, err := openIndex(w.l.set.store, w.l.id, g)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ix.close()) }()
	ms := w.ms
	if w.max {
		ms = g.maxTs
		if g.nextOffset > w.upTo || g.baseOffset < w.from {
			ms = -1 << 62 // the largest may be outside
		}
	}
	n, err := ix.findTime(ms)
	for ; err == nil && n < ix.rows; n++ {
		var row indexRow
		if row, err = ix.row(n); err != nil || row.baseOffset >= w.upTo {
			break
		}
		if row.nextOffset() <= w.from || row.maxTs < ms {
			continue
		}
		if !r.Found || row.maxTs > r.MaxTimestamp {
			r = TimeResult{true, row.baseOffset, row.maxTs, core.Term(row.term)}
		}
		if !w.max || row.maxTs == g.maxTs {
			break
		}
	}
	return r, err
}

func (w *findWork) finish(*Job) {}
