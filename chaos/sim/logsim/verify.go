package logsim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// compareAll finds, per shard, the turn up to which everything was found again,
// and takes its state over into the model.
func (r *run) compareAll() error {
	old := r.groups
	r.groups = nil
	for s, m := range r.shards {
		if err := r.compareShard(core.ShardID(s), m, old); err != nil {
			return err
		}
	}
	slices.SortFunc(r.groups, func(a, b *group) int { return int(a.id) - int(b.id) })
	for _, g := range r.groups {
		if err := r.readAll(g); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) compareShard(shard core.ShardID, m *shardModel, old []*group) error {
	var reasons []error
	for i, snap := range m.snaps {
		err := r.matches(shard, snap)
		if err == nil {
			r.trace("shard %d is as after turn %d", shard, snap.seq)
			r.adopt(shard, m, snap, old)
			return nil
		}
		reasons = append(reasons, fmt.Errorf("not turn %d: %w", snap.seq, err))
		if i == 0 || r.opts.FrameBytes == 0 {
			continue // whole turns are in one frame
		}
		part, err := r.matchesPart(shard, m.snaps[i-1], snap)
		if err == nil {
			r.trace("shard %d is within turn %d", shard, snap.seq)
			r.stats.Parts++
			r.adopt(shard, m, part, old)
			return nil
		}
		reasons = append(reasons, fmt.Errorf("not within turn %d: %w", snap.seq, err))
	}
	return fmt.Errorf("shard %d: what was found again is no state of [turn %d, turn %d]: %w",
		shard, m.snaps[0].seq, m.snaps[len(m.snaps)-1].seq, errors.Join(reasons...))
}

// matches compares everything but the payloads.
func (r *run) matches(shard core.ShardID, snap snapshot) error {
	// A deletion may show as soon as it was asked for: from then on nothing keeps
	// the journal files that only this group needs. Shards delete what committed
	// metadata has deleted, so it is never wrong to have forgotten it early.
	for id := range snap.states {
		if r.set(shard).Get(id) == nil && !r.deleted[id] {
			return fmt.Errorf("group %d is not there", id)
		}
	}
	for _, l := range r.set(shard).All() {
		if r.deleted[l.ID()] && l.Damaged() != nil {
			continue // some of it was recycled already
		}
		s, ok := snap.states[l.ID()]
		if !ok {
			return fmt.Errorf("group %d should not be there", l.ID())
		}
		if err := matchLog(l, &s); err != nil {
			return fmt.Errorf("group %d: %w", l.ID(), err)
		}
	}
	return nil
}

// matchesPart says what was found where the frame that is the last lies within a
// turn: each log is as before the turn or as after it, but for one, which may have a
// part of the turn.
func (r *run) matchesPart(shard core.ShardID, before, after snapshot) (snapshot, error) {
	found := snapshot{seq: after.seq, states: map[core.PartitionID]state{}}
	for id := range before.states {
		if _, ok := after.states[id]; ok && r.set(shard).Get(id) == nil && !r.deleted[id] {
			return found, fmt.Errorf("group %d is not there", id)
		}
	}
	within := 0
	for _, l := range r.set(shard).All() {
		if r.deleted[l.ID()] && l.Damaged() != nil {
			continue // some of it was recycled already
		}
		a, wasThere := before.states[l.ID()]
		b, isThere := after.states[l.ID()]
		var reasons []error
		try := func(s state) bool {
			err := matchLog(l, &s)
			if err == nil {
				found.states[l.ID()] = s
			}
			reasons = append(reasons, err)
			return err == nil
		}
		switch {
		case wasThere && try(a) || isThere && try(b):
		case isThere && slices.ContainsFunc(partsOf(a, b), try):
			within++
		default:
			return found, fmt.Errorf("group %d: %w", l.ID(), errors.Join(reasons...))
		}
	}
	if within > 1 {
		return found, fmt.Errorf("%d groups have a part of it each", within)
	}
	return found, nil
}

// partsOf lists what a log may be after a part of its section: a turn that leads from
// a to b writes what is no entry first, and then the entries behind those that a has
// too, in order. What a has is never less for it, unless b replaces it.
func partsOf(a, b state) []state {
	same := 0
	for same < min(len(a.entries), len(b.entries)) && a.entries[same].term == b.entries[same].term {
		same++ // raft's log matching property
	}
	head := b
	head.entries = a.entries
	parts := []state{head}
	for n := same + 1; n < len(b.entries); n++ {
		p := b
		p.entries = b.entries[:n]
		parts = append(parts, p)
	}
	return parts
}

func matchLog(l *raftlog.Log, s *state) error {
	if err := l.Damaged(); err != nil {
		return fmt.Errorf("damaged: %w", err)
	}
	hs := l.HardState()
	if hs.Term != s.hs.Term || hs.Vote != s.hs.Vote || hs.Commit > s.hs.Commit {
		return fmt.Errorf("hard state %+v, want %+v", hs, s.hs)
	}
	if l.LastIndex() != s.lastIndex() {
		return fmt.Errorf("last index %d, want %d", l.LastIndex(), s.lastIndex())
	}
	if l.LogStart() != s.logStart || l.NextOffset() != s.nextOffset() {
		return fmt.Errorf("offsets [%d, %d), want [%d, %d)", l.LogStart(), l.NextOffset(), s.logStart, s.nextOffset())
	}
	return matchTerms(l, s)
}

func matchTerms(l *raftlog.Log, s *state) error {
	first := l.FirstIndex()
	if first < 1 || first > s.lastIndex()+1 {
		return fmt.Errorf("first index %d with last index %d", first, s.lastIndex())
	}
	if s.offsetAt(first-1) > s.logStart {
		return fmt.Errorf("first index %d begins at offset %d, above the log start %d", first, s.offsetAt(first-1), s.logStart)
	}
	for i := first - 1; i <= s.lastIndex(); i++ {
		if t, err := l.Term(i); err != nil || t != s.term(i) {
			return fmt.Errorf("term of %d is %d (%v), want %d", i, t, err, s.term(i))
		}
		o, err := l.OffsetOf(i)
		if _, known := l.Entry(max(i, first)); err != nil && !known && i < s.lastIndex() {
			continue // only segments know
		}
		if err != nil || o != s.offsetAt(i) {
			return fmt.Errorf("offset after %d is %d (%v), want %d", i, o, err, s.offsetAt(i))
		}
		if i < first {
			continue
		}
		if e, ok := l.Entry(i); ok {
			want := s.entries[i-1]
			if e.Index != i || e.Term != want.term || e.Kind != want.kind || e.BaseOffset != want.base || e.LastOffset != want.last || e.MaxTimestamp != want.maxTs {
				return fmt.Errorf("entry %d is %+v, want kind %d [%d, %d] of term %d at %d", i, e, want.kind, want.base, want.last, want.term, want.maxTs)
			}
		}
	}
	return matchEpochs(l, s)
}

// matchEpochs: each row of the epoch table that lies within the log says where
// the term begins, and every term of the log has its row.
func matchEpochs(l *raftlog.Log, s *state) error {
	rows := map[core.Term]raftlog.EpochStart{}
	for _, e := range l.Epochs() {
		rows[e.Term] = e
	}
	for i := l.FirstIndex(); i <= s.lastIndex(); i++ {
		if i > 1 && s.term(i) == s.term(i-1) {
			continue
		}
		want := raftlog.EpochStart{Term: s.term(i), Index: i, Offset: s.offsetAt(i - 1)}
		if rows[want.Term] != want {
			return fmt.Errorf("epoch table has %+v, want %+v", rows[want.Term], want)
		}
	}
	for term := range rows {
		if s.lastIndex() > 0 && term > s.term(s.lastIndex()) {
			return fmt.Errorf("epoch table has term %d beyond the last entry's %d", term, s.term(s.lastIndex()))
		}
	}
	return nil
}

// adopt makes what was found the state of the model.
func (r *run) adopt(shard core.ShardID, m *shardModel, snap snapshot, old []*group) {
	byID := map[core.PartitionID]*group{}
	for _, g := range old {
		byID[g.id] = g
	}
	for _, id := range slices.Sorted(maps.Keys(snap.states)) {
		g := byID[id]
		l := r.set(shard).Get(id)
		if l == nil || l.Damaged() != nil {
			continue
		}
		if g == nil { // deleted in the model, and the deletion was lost
			g = &group{id: id, shard: shard, nextSeq: 1 << 40, committed: r.committed[id], cfg: raftlog.LogConfig{
				SegmentBytes: 32 << 10, SegmentMs: 10000, RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: 16 << 10, Delete: true}}
		}
		g.cur = snap.states[id]
		g.cur.entries = slices.Clip(g.cur.entries)
		g.cur.hs.Commit = l.HardState().Commit
		g.committed = max(g.committed, snap.states[id].hs.Commit)
		g.committed = min(g.committed, g.cur.lastIndex())
		l.SetConfig(g.cfg)
		r.checkpointHook(g, l)
		r.groups = append(r.groups, g)
	}
	states := map[core.PartitionID]state{}
	for _, g := range r.groups {
		if g.shard == shard {
			states[g.id] = g.cur
		}
	}
	m.durable, m.snaps = 0, []snapshot{{states: states}}
}

// readAll reads a log from its start to its end and compares every byte.
func (r *run) readAll(g *group) error {
	l := r.log(g)
	if i, b := l.Checkpoint(); b != nil && (i > g.cur.lastIndex() || !bytes.Equal(b, checkpointOf(g.id, i))) {
		return fmt.Errorf("group %d: checkpoint at %d of %d bytes is not the one that was set", g.id, i, len(b))
	}
	for from := g.cur.logStart; from < g.cur.nextOffset(); {
		next, err := r.read(g, from, g.cur.nextOffset(), 1<<20)
		if err != nil {
			return err
		}
		from = next
	}
	return r.scanFrom(g, l.FirstIndex())
}

// scanFrom compares what a scan of the headers from entry first on tells.
func (r *run) scanFrom(g *group, first core.Index) error {
	seen := first
	err := r.log(g).ScanHeaders(first, func(e raftlog.Entry, header []byte) error {
		for seen < e.Index && g.mayLack(seen) {
			seen++
		}
		if e.Index != seen {
			return fmt.Errorf("index %d where %d should be", e.Index, seen)
		}
		want := g.cur.entries[seen-1]
		if e.Term != want.term || e.Kind != want.kind || e.BaseOffset != want.base || e.LastOffset != want.last {
			return fmt.Errorf("entry %d is %+v", seen, e)
		}
		if e.Kind == raftlog.EntryBatch && e.LastOffset >= g.cur.logStart && !bytes.Equal(header, want.payload[:core.BatchHeaderBytes]) {
			return fmt.Errorf("header of entry %d differs", seen)
		}
		seen++
		return nil
	})
	for g.mayLack(seen) {
		seen++
	}
	if err == nil && seen != g.cur.lastIndex()+1 {
		err = fmt.Errorf("ended before %d, last is %d", seen, g.cur.lastIndex())
	}
	if err != nil && !r.bearable(err) {
		return fmt.Errorf("group %d: scan of headers: %w", g.id, err)
	}
	return nil
}

// readSome reads a random range of what is committed.
func (r *run) readSome(g *group) error {
	limit := g.cur.offsetAt(g.committed)
	if limit <= g.cur.logStart {
		return nil
	}
	from := g.cur.logStart + core.Offset(r.rng.IntN(int(limit-g.cur.logStart)))
	_, err := r.read(g, from, limit, 1+r.rng.IntN(100_000))
	return err
}

// read reads once, runs the job if there is one, and compares.
func (r *run) read(g *group, from, upTo core.Offset, maxBytes int) (core.Offset, error) {
	l := r.log(g)
	r.stats.Reads++
	res, job, err := l.Read(r.arenas[g.shard], from, upTo, maxBytes, true)
	if errors.Is(err, arena.ErrFull) {
		r.set(g.shard).Evict(r.arenas[g.shard], maxBytes)
		res, job, err = l.Read(r.arenas[g.shard], from, upTo, maxBytes, true)
		if errors.Is(err, arena.ErrFull) {
			return upTo, nil // no memory to look at it
		}
	}
	if err == nil && job != nil {
		job.Run()
		job.Finish()
		res, err = job.Read, job.Err
	}
	if err != nil && r.bearable(err) {
		return upTo, nil
	}
	if err != nil {
		return 0, fmt.Errorf("group %d: reading [%d, %d): %w", g.id, from, upTo, err)
	}
	defer func() {
		for _, b := range res.Bufs {
			b.Release()
		}
	}()
	return r.sameBytes(g, from, upTo, maxBytes, res)
}

func (r *run) sameBytes(g *group, from, upTo core.Offset, maxBytes int, res raftlog.ReadResult) (core.Offset, error) {
	var got []byte
	for _, b := range res.Bufs {
		got = append(got, b.Bytes()...)
	}
	var want []byte
	next := from
	for _, e := range g.cur.entries {
		if e.kind != raftlog.EntryBatch || e.last < from || e.base >= upTo {
			continue
		}
		if len(want) == len(got) {
			break
		}
		want = append(want, e.payload...)
		next = e.last + 1
	}
	switch {
	case len(got) == 0:
		return 0, fmt.Errorf("group %d: reading [%d, %d) gave nothing", g.id, from, upTo)
	case len(got) != res.Bytes:
		return 0, fmt.Errorf("group %d: reading [%d, %d) gave %d bytes and says %d", g.id, from, upTo, len(got), res.Bytes)
	case !bytes.Equal(got, want):
		return 0, fmt.Errorf("group %d: reading [%d, %d) gave %d bytes that differ at byte %d (want %d bytes)", g.id, from, upTo, len(got), firstDifference(got, want), len(want))
	case res.Next != next:
		return 0, fmt.Errorf("group %d: reading [%d, %d) says that %d is next, want %d", g.id, from, upTo, res.Next, next)
	case len(got) > maxBytes && next > from && !r.oneBatch(g, from, len(got)):
		return 0, fmt.Errorf("group %d: reading [%d, %d) of at most %d bytes gave %d", g.id, from, upTo, maxBytes, len(got))
	}
	return next, nil
}

func (r *run) oneBatch(g *group, from core.Offset, n int) bool {
	return slices.ContainsFunc(g.cur.entries, func(e entry) bool {
		return e.kind == raftlog.EntryBatch && e.base <= from && from <= e.last && len(e.payload) == n
	})
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// find compares the time index with the model.
func (r *run) find(g *group) error {
	limit := g.cur.offsetAt(g.committed)
	if limit <= g.cur.logStart {
		return nil
	}
	ms := r.now.Millis() - int64(r.rng.IntN(20_000))
	var want, largest raftlog.TimeResult
	for _, e := range g.cur.entries {
		if e.kind != raftlog.EntryBatch || e.last < g.cur.logStart || e.base >= limit {
			continue
		}
		res := raftlog.TimeResult{Found: true, BaseOffset: e.base, MaxTimestamp: e.maxTs, Term: e.term}
		if e.maxTs >= ms && !want.Found {
			want = res
		}
		if !largest.Found || e.maxTs > largest.MaxTimestamp {
			largest = res
		}
	}
	got, job, err := r.log(g).FindTimestamp(ms, limit)
	if got, err = settle(got, job, err); err != nil && r.bearable(err) {
		return nil
	} else if err != nil || got != want {
		return fmt.Errorf("group %d: first batch at or after %d below %d is %+v (%v), want %+v", g.id, ms, limit, got, err, want)
	}
	got, job, err = r.log(g).FindMaxTimestamp(limit)
	if got, err = settle(got, job, err); err != nil && r.bearable(err) {
		return nil
	} else if err != nil || got != largest {
		return fmt.Errorf("group %d: batch with the largest timestamp below %d is %+v (%v), want %+v", g.id, limit, got, err, largest)
	}
	return nil
}

func settle(got raftlog.TimeResult, job *raftlog.Job, err error) (raftlog.TimeResult, error) {
	if err == nil && job != nil {
		job.Run()
		job.Finish()
		return job.Found, job.Err
	}
	return got, err
}

// mayLack says whether a scan of the headers may pass over entry i: segments hold
// batches alone, and those below the log start need not be there any more.
func (g *group) mayLack(i core.Index) bool {
	if i > g.cur.lastIndex() {
		return false
	}
	e := &g.cur.entries[i-1]
	return e.kind != raftlog.EntryBatch || e.last < g.cur.logStart
}
