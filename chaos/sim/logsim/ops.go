package logsim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"millrace/chaos/check"
	"millrace/chaos/sim/wire"
	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

const groupsMax = 6

// operation does one random thing.
func (r *run) operation() error {
	r.now += core.Tick(r.rng.IntN(200)) * core.Millisecond
	g := r.pick()
	if g == nil {
		return r.create()
	}
	if r.upkeep && r.rng.IntN(3) > 0 {
		return r.tend(g)
	}
	switch n := r.rng.IntN(100); {
	case n < 26:
		return r.append(g)
	case n < 29:
		return r.truncate(g)
	case n < 35:
		return r.hardState(g)
	case n < 37:
		return r.logStart(g)
	case n < 52:
		return r.collect(core.ShardID(r.rng.IntN(len(r.shards))))
	case n < 66:
		return r.commit()
	case n < 76:
		return r.maintain()
	case n < 84:
		return r.jobStep()
	case n < 88:
		_, err := r.store.Journal().Prepare()
		if err != nil && !r.bearable(err) {
			return fmt.Errorf("prepare: %w", err)
		}
		return nil
	case n < 93:
		return r.readSome(g)
	case n < 95:
		r.set(g.shard).Evict(r.arenas[g.shard], r.rng.IntN(4<<20))
		return nil
	case n < 97 && len(r.groups) < groupsMax:
		return r.create()
	case n < 98:
		return r.delete(g)
	default:
		return r.find(g)
	}
}

// tend does what lets a log be flushed, written again and trimmed.
func (r *run) tend(g *group) error {
	switch n := r.rng.IntN(20); {
	case n < 5:
		return r.append(g)
	case n < 8:
		if err := r.collect(g.shard); err != nil {
			return err
		}
		return r.commit()
	case n < 11:
		return r.hardState(g)
	case n < 12:
		return r.logStart(g)
	case n < 16:
		return r.maintain()
	default:
		return r.jobStep()
	}
}

func (r *run) create() error {
	id := r.nextID
	r.nextID++
	g := &group{id: id, shard: r.shardOf(id), cfg: raftlog.LogConfig{
		SegmentBytes:   int64(16+r.rng.IntN(100)) << 10,
		SegmentMs:      int64(1000 + r.rng.IntN(20000)),
		RetentionBytes: -1,
		RetentionMs:    -1,
		FlushBytesMax:  int64(8+r.rng.IntN(40)) << 10,
		Delete:         true,
	}}
	if r.rng.IntN(3) == 0 {
		g.cfg.RetentionBytes = int64(32+r.rng.IntN(200)) << 10
	}
	log, err := r.set(g.shard).Create(id, g.cfg)
	if err != nil {
		return fmt.Errorf("create %d: %w", id, err)
	}
	r.trace("create %d on shard %d", id, g.shard)
	r.stats.Creates++
	g.cur.exists = true
	r.checkpointHook(g, log)
	r.groups = append(r.groups, g)
	// A group begins with a term of its own.
	g.cur.hs = raftlog.HardState{Term: 1, Vote: 1}
	log.SetHardState(g.cur.hs)
	return nil
}

// checkpointHook answers NeedCheckpoint with bytes that tell group and index.
func (r *run) checkpointHook(g *group, log *raftlog.Log) {
	log.NeedCheckpoint(func() {
		i := g.committed
		if i > 0 {
			log.SetCheckpoint(i, checkpointOf(g.id, i))
		}
	})
}

func checkpointOf(id core.PartitionID, i core.Index) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(id))
	b = binary.BigEndian.AppendUint64(b, uint64(i))
	for range i % 50 {
		b = append(b, byte(i))
	}
	return b
}

func (r *run) delete(g *group) error {
	r.trace("delete %d", g.id)
	r.stats.Deletes++
	r.set(g.shard).Delete(g.id)
	r.deleted[g.id], r.committed[g.id] = true, g.committed
	g.cur = state{}
	r.drop(g)
	return nil
}

// makeEntry builds the next entry of a log in the given term.
func (r *run) makeEntry(g *group, s *state, term core.Term) entry {
	next := s.nextOffset()
	if r.rng.IntN(10) == 0 {
		return entry{term: term, kind: raftlog.EntryEmpty, base: next, last: next - 1, maxTs: -1}
	}
	if r.rng.IntN(25) == 0 {
		return entry{term: term, kind: raftlog.EntryConfChange, base: next, last: next - 1, maxTs: -1, payload: []byte("conf change")}
	}
	sizes := make([]int, 1+r.rng.IntN(4))
	for i := range sizes {
		switch r.rng.IntN(8) {
		case 0:
			sizes[i] = r.rng.IntN(30000)
		default:
			sizes[i] = r.rng.IntN(1500)
		}
	}
	ms := r.now.Millis() - int64(r.rng.IntN(1000))
	b, _ := wire.Make(wire.Spec{First: check.Key{Producer: int32(g.id), Seq: g.nextSeq}, ValueBytes: sizes, Ms: ms, ProducerID: -1})
	g.nextSeq += int64(len(sizes))
	b.SetBase(next, int32(term))
	return entry{term: term, kind: raftlog.EntryBatch, base: next, last: next + core.Offset(len(sizes)) - 1, maxTs: ms, payload: b}
}

// give appends entries to the log under test and to the model.
func (r *run) give(g *group, entries []entry) error {
	log := r.log(g)
	first := g.cur.lastIndex() + 1
	out := make([]raftlog.Entry, len(entries))
	for i, e := range entries {
		buf, err := r.alloc(g.shard, e.payload)
		if err != nil {
			for _, o := range out[:i] {
				o.Payload.Release()
			}
			if errors.Is(err, arena.ErrFull) {
				return nil
			}
			return err
		}
		out[i] = raftlog.Entry{Index: first + core.Index(i), Term: e.term, Kind: e.kind, BaseOffset: e.base, LastOffset: e.last, MaxTimestamp: e.maxTs, Payload: buf}
	}
	log.Append(out)
	g.cur.entries = append(g.cur.entries, entries...)
	r.trace("append %d [%d, %d] term %d, next offset %d", g.id, first, g.cur.lastIndex(), entries[0].term, g.cur.nextOffset())
	return nil
}

func (r *run) alloc(shard core.ShardID, p []byte) (arena.Buf, error) {
	a := r.arenas[shard]
	buf, err := a.Alloc(len(p))
	if errors.Is(err, arena.ErrFull) && r.set(shard).Evict(a, len(p)) {
		buf, err = a.Alloc(len(p))
	}
	if err != nil {
		return buf, err
	}
	copy(buf.Bytes(), p)
	return buf, nil
}

func (r *run) append(g *group) error {
	if r.store.SpaceState() == raftlog.SpaceLow {
		return nil // as a shard refuses its clients
	}
	n := 1 + r.rng.IntN(4)
	scratch := g.cur
	scratch.entries = slices.Clone(g.cur.entries)
	var entries []entry
	for range n {
		e := r.makeEntry(g, &scratch, g.cur.hs.Term)
		entries = append(entries, e)
		scratch.entries = append(scratch.entries, e)
	}
	return r.give(g, entries)
}

// truncate replaces a suffix that is not committed, as a new leader's append does.
func (r *run) truncate(g *group) error {
	if g.cur.lastIndex() <= g.committed {
		return nil
	}
	from := g.committed + 1 + core.Index(r.rng.IntN(int(g.cur.lastIndex()-g.committed)))
	r.trace("truncate %d from %d", g.id, from)
	r.stats.Truncates++
	if g.cur.hs.Term == g.cur.term(g.cur.lastIndex()) { // a leader replaces nothing of its own term
		g.cur.hs.Term++
		r.log(g).SetHardState(g.cur.hs)
	}
	g.cur.truncate(from)
	scratch := g.cur
	e := r.makeEntry(g, &scratch, g.cur.hs.Term)
	before := g.cur.lastIndex()
	if err := r.give(g, []entry{e}); err != nil {
		return err
	}
	if g.cur.lastIndex() == before {
		return errCrash // no memory for it, and the model has truncated already
	}
	return nil
}

func (r *run) hardState(g *group) error {
	hs := g.cur.hs
	durable := r.shards[g.shard].durableState(g.id)
	switch r.rng.IntN(4) {
	case 0:
		hs.Term++
		hs.Vote = core.NodeID(1 + r.rng.IntN(3))
	default:
		// Only what is durable here, and still there, counts as committed.
		last := durable.lastIndex()
		for last > 0 && (last > g.cur.lastIndex() || !sameEntry(&durable.entries[last-1], &g.cur.entries[last-1])) {
			last--
		}
		if last > g.committed {
			g.committed += core.Index(1 + r.rng.IntN(int(last-g.committed)))
		}
		hs.Commit = g.committed
	}
	g.cur.hs = hs
	r.log(g).SetHardState(hs)
	r.trace("hard state %d term %d vote %d commit %d", g.id, hs.Term, hs.Vote, hs.Commit)
	return nil
}

func sameEntry(a, b *entry) bool {
	return a.term == b.term && a.base == b.base && a.last == b.last && len(a.payload) == len(b.payload) &&
		(len(a.payload) == 0 || &a.payload[0] == &b.payload[0])
}

func (r *run) logStart(g *group) error {
	limit := g.cur.offsetAt(g.committed)
	o := g.cur.logStart
	if start, ok := r.log(g).RetentionStart(r.now, limit); ok {
		if start <= o || start > limit {
			return fmt.Errorf("group %d: retention asks for log start %d between %d and limit %d", g.id, start, o, limit)
		}
		if left := g.bytesFrom(start); g.cfg.RetentionBytes >= 0 && left < g.cfg.RetentionBytes {
			return fmt.Errorf("group %d: retention asks for log start %d, which leaves %d bytes of the %d to be kept", g.id, start, left, g.cfg.RetentionBytes)
		}
		r.stats.Retained++
		o = start
	} else if limit > o {
		o += core.Offset(1 + r.rng.IntN(int(limit-o)))
	}
	if o == g.cur.logStart {
		return nil
	}
	g.cur.logStart = o
	r.log(g).SetLogStart(o)
	r.trace("log start %d at %d", g.id, o)
	return nil
}

// bytesFrom is how many bytes the batches from offset o on have.
func (g *group) bytesFrom(o core.Offset) (n int64) {
	for i := range g.cur.entries {
		if e := &g.cur.entries[i]; e.kind == raftlog.EntryBatch && e.base >= o {
			n += int64(len(e.payload))
		}
	}
	return n
}

func (r *run) collect(shard core.ShardID) error {
	t := r.set(shard).Collect()
	if t == nil || t.Empty() {
		return nil
	}
	m := r.shards[shard]
	snap := snapshot{seq: t.Seq, states: map[core.PartitionID]state{}}
	for _, g := range r.groups {
		if g.shard == shard {
			snap.states[g.id] = g.cur
		}
	}
	m.snaps = append(m.snaps, snap)
	r.trace("submit turn %d of shard %d", t.Seq, shard)
	r.store.Journal().Submit(t)
	r.stats.Turns++
	return nil
}

func (r *run) commit() error {
	if r.rng.IntN(3) > 0 || len(r.done) == 0 {
		turns := r.store.Journal().Commit()
		for _, t := range turns {
			r.trace("turn %d of shard %d done: %v", t.Seq, t.Shard, t.Err)
			if t.Err != nil {
				if r.cfg.Kind != KindEIO || !r.bearable(t.Err) {
					return fmt.Errorf("turn %d of shard %d failed: %w", t.Seq, t.Shard, t.Err)
				}
				return errCrash
			}
			r.shards[t.Shard].completed(t.Seq)
		}
		r.done = append(r.done, turns...)
	}
	for n := r.rng.IntN(len(r.done) + 1); n > 0; n-- {
		t := r.done[0]
		r.done = r.done[1:]
		r.set(t.Shard).Done(t)
	}
	return nil
}

func (r *run) maintain() error {
	shard := core.ShardID(r.rng.IntN(len(r.shards)))
	before := len(r.jobs)
	r.jobs, _ = r.set(shard).Maintain(r.now, 1+r.rng.IntN(4), r.jobs)
	if n := len(r.jobs) - before; n > 0 {
		r.trace("maintain shard %d: %d jobs", shard, n)
	}
	return nil
}

// jobStep runs one job, or finishes one that has run.
func (r *run) jobStep() error {
	if len(r.ran) > 0 && (len(r.jobs) == 0 || r.rng.IntN(2) == 0) {
		i := r.rng.IntN(len(r.ran))
		j := r.ran[i]
		r.ran = slices.Delete(r.ran, i, i+1)
		j.Finish()
		return nil
	}
	if len(r.jobs) == 0 {
		return nil
	}
	i := r.rng.IntN(len(r.jobs))
	j := r.jobs[i]
	r.jobs = slices.Delete(r.jobs, i, i+1)
	j.Run()
	r.stats.Jobs++
	r.trace("job ran: %v", j.Err)
	if j.Err != nil && !r.bearable(j.Err) {
		return fmt.Errorf("job: %w", j.Err)
	}
	r.ran = append(r.ran, j)
	return nil
}

// drain completes everything in flight.
func (r *run) drain() error {
	for range 40 {
		for s := range r.shards {
			if err := r.collect(core.ShardID(s)); err != nil {
				return err
			}
		}
		if err := r.commit(); err != nil {
			return err
		}
		if err := r.maintain(); err != nil {
			return err
		}
		for range 4 {
			if err := r.jobStep(); err != nil {
				return err
			}
		}
	}
	return nil
}
