package group

import (
	"slices"

	"millrace/core"
)

const (
	rewriteRatio   = 4         // log bytes per live byte at which the log is rewritten
	batchBytes     = 256 << 10 // records of one Write, but for a single larger one
	recordOverhead = 12        // lengths and deltas around one record of a batch
	// rewriteRetry is when a rewrite that failed is begun anew: what there was no room
	// for a moment ago has none now.
	rewriteRetry = 100 * core.Millisecond
)

// rewrite keeps the log short: once it holds much more than what is live, all
// live records are appended again, in several Writes, and then everything
// before the first of them is given up. It may stop anywhere: the records are
// ordinary ones that say what is so at the time they are appended, and the log
// start moves only after the last of them.
type rewrite struct {
	bytesMin int64
	counted  int64 // bytes of records seen since the last rewrite began
	owed     int64 // what counted was when it began
	reported int64 // LogSize

	running bool
	begin   core.Offset
	next    core.Tick
	groups  []string         // still to be written
	offsets []topicPartition // of groups[0], still to be written; nil: not begun
	begun   bool             // groups[0] has been begun
}

func (w *rewrite) reset(bytesMin int64) { *w = rewrite{bytesMin: max(bytesMin, 1)} }

// failed gives an unfinished rewrite up for a while.
func (w *rewrite) failed(now core.Tick) {
	if w.running {
		w.next = now + rewriteRetry
	}
	w.stop()
}

// stop gives an unfinished rewrite up; the log is as long as before, and more.
func (w *rewrite) stop() {
	if w.running {
		w.counted += w.owed
	}
	w.running, w.groups, w.offsets, w.begun = false, nil, nil, false
}

func recordBytes(r core.Record) int64 { return int64(len(r.Key) + len(r.Value) + recordOverhead) }

func (w *rewrite) count(records []core.Record) {
	w.counted += core.BatchHeaderBytes
	for _, r := range records {
		w.counted += recordBytes(r)
	}
}

// wants says whether a rewrite is under way or due. The log is cut in whole
// segments, so its size lags behind: both figures must agree.
func (w *rewrite) wants(live int64) bool {
	return w.running || min(w.counted, w.reported) > max(w.bytesMin, rewriteRatio*live)
}

// LogSize tells how much the log holds.
func (m *Machine) LogSize(_, _ core.Offset, bytes int64) { m.rewrite.reported = bytes }

// rewriteStep writes one batch of live records, or asks for the log start to
// move once all are written.
func (m *Machine) rewriteStep() {
	w := &m.rewrite
	if !w.wants(m.liveBytes) || m.now < w.next {
		return
	}
	// Records that this call has put out are not replayed yet: what is live has
	// to be looked up after them, or a tombstone would be undone.
	if slices.ContainsFunc(m.out.Writes, func(wr core.Write) bool { return len(wr.Records) > 0 }) {
		return
	}
	w.next = m.now
	if !w.running {
		w.running, w.begin, w.groups = true, m.next, m.savedIDs()
		w.owed, w.counted = w.counted, 0
	}
	if len(w.groups) == 0 {
		w.running = false
		m.out.TrimBelow = w.begin
		return
	}
	var records []core.Record
	bytes := int64(0)
	for len(w.groups) > 0 && bytes < batchBytes {
		for _, r := range m.rewriteGroup(w.groups[0], batchBytes-bytes) {
			bytes += recordBytes(r)
			records = append(records, r)
		}
	}
	if len(records) > 0 {
		m.write(nil, records)
	}
}

// rewriteGroup writes some of a group's records, and takes it off the list when
// all are written.
func (m *Machine) rewriteGroup(id string, room int64) []core.Record {
	w, s := &m.rewrite, m.saved[id]
	var out []core.Record
	if s != nil && !w.begun {
		w.begun, w.offsets = true, s.sortedOffsets()
		if s.metadata != nil {
			r := core.Record{Key: groupKey(id), Value: s.metadata.AppendTo(nil)}
			room -= recordBytes(r)
			out = append(out, r)
		}
	}
	for s != nil && len(w.offsets) > 0 && room > 0 {
		at := w.offsets[0]
		w.offsets = w.offsets[1:]
		if c := s.offsets[at]; c != nil {
			r := encodeOffset(id, at, c)
			room -= recordBytes(r)
			out = append(out, r)
		}
	}
	if s == nil || len(w.offsets) == 0 {
		w.groups, w.offsets, w.begun = w.groups[1:], nil, false
	}
	return out
}
