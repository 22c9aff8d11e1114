package logsim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/chaos/sim/vdisk"
	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// upkeepRounds is how many times a damaged journal's logs are tended. Each round
// writes a frame, so that files fill and what is in old ones must leave them.
const upkeepRounds = 80

// flipRunning damages a batch header in the journal under a process that has the
// log open and nothing of it in memory, lets that process flush and write again
// what it finds there, and opens what comes of it. What then counts as whole must
// be: damage is never given a new checksum of the journal's.
func (r *run) flipRunning(bit uint) (err error) {
	model := r.saveModel()
	defer model.restore(r)
	r.disk.Crash(vdisk.KeepAll)
	if err := r.openHealthy(); err != nil {
		return fmt.Errorf("opening what is not damaged: %w", err)
	}
	name, off, ok := r.pickHeader()
	if !ok {
		r.closeStore()
		return nil
	}
	r.disk.FlipBit(name, off, bit)
	r.trace("flip bit %d of byte %d of %s under the running process", bit, off, name)
	if err := r.guard(r.upkeepDamaged); err != nil {
		return fmt.Errorf("bit %d of byte %d of %s flipped under a running process: %w", bit, off, name, err)
	}
	r.stats.FlipsRunning++
	r.jobs, r.ran, r.done = nil, nil, nil
	r.disk.Crash(vdisk.KeepAll)
	if err := r.guard(r.openTended); err != nil {
		return fmt.Errorf("bit %d of byte %d of %s flipped under a process before this one: %w", bit, off, name, err)
	}
	return nil
}

// savedModel is the model as it was.
type savedModel struct {
	groups []group
	shards []shardModel
	now    core.Tick
}

func (r *run) saveModel() (m savedModel) {
	m.now = r.now
	for _, g := range r.groups {
		m.groups = append(m.groups, *g)
	}
	for _, s := range r.shards {
		c := *s
		c.snaps = slices.Clone(s.snaps)
		m.shards = append(m.shards, c)
	}
	return m
}

func (m savedModel) restore(r *run) {
	r.now = m.now
	r.jobs, r.ran, r.done = nil, nil, nil
	for i := range m.groups {
		*r.groups[i] = m.groups[i]
	}
	for i := range m.shards {
		*r.shards[i] = m.shards[i]
	}
}

func (r *run) openHealthy() error {
	store, rec, err := raftlog.Open(r.disk.FS(), r.opts, r.shardOf)
	if err != nil {
		return err
	}
	r.store = store
	for id, why := range rec.Damaged {
		if !r.deleted[id] {
			return fmt.Errorf("group %d: %w", id, why)
		}
	}
	for _, g := range r.groups {
		r.log(g).SetConfig(g.cfg)
		r.checkpointHook(g, r.log(g))
	}
	return nil
}

// pickHeader finds a byte of a batch header of some group in the journal.
func (r *run) pickHeader() (name string, off int64, ok bool) {
	files := slices.DeleteFunc(r.disk.Files(), func(f string) bool { return !strings.HasSuffix(f, ".jnl") })
	for range 10 {
		g := r.pick()
		if g == nil || len(g.cur.entries) == 0 {
			continue
		}
		e := &g.cur.entries[len(g.cur.entries)-1-r.rng.IntN(min(8, len(g.cur.entries)))]
		if e.kind != raftlog.EntryBatch {
			continue
		}
		for _, f := range files {
			at := bytes.Index(r.disk.Bytes(f), e.payload[:core.BatchHeaderBytes])
			if at >= 0 {
				return f, int64(at + r.rng.IntN(core.BatchHeaderBytes)), true
			}
		}
	}
	return "", 0, false
}

// upkeepDamaged lets the logs be flushed and written again.
func (r *run) upkeepDamaged() error {
	for range upkeepRounds {
		r.now += 300 * core.Millisecond
		for _, g := range r.groups {
			if r.log(g).Damaged() == nil {
				g.cur.hs.Term++
				r.log(g).SetHardState(g.cur.hs)
			}
		}
		for s := range r.shards {
			shard := core.ShardID(s)
			jobs, _ := r.set(shard).Maintain(r.now, 4, nil)
			for _, j := range jobs {
				if j.Run(); j.Err != nil && !errors.Is(j.Err, core.ErrStorageFailed) && !strings.Contains(j.Err.Error(), "reading back") {
					return fmt.Errorf("job: %w", j.Err)
				}
				j.Finish()
			}
			if err := r.collect(shard); err != nil {
				return err
			}
		}
		for _, t := range r.store.Journal().Commit() {
			if t.Err != nil {
				return t.Err
			}
			r.shards[t.Shard].completed(t.Seq)
			r.set(t.Shard).Done(t)
		}
		if _, err := r.store.Journal().Prepare(); err != nil {
			return err
		}
	}
	return nil
}

// openTended opens the disk; logs that are not reported as damaged must have the
// headers that they had, also where nobody reads the batches.
func (r *run) openTended() error {
	r.closeStore()
	for i := range r.arenas {
		r.arenas[i] = arena.NewHeap(4 << 20)
	}
	store, rec, err := raftlog.Open(r.disk.FS(), r.opts, r.shardOf)
	if err != nil {
		r.trace("refused: %v", err)
		return nil
	}
	r.store = store
	defer r.closeStore()
	for _, id := range slices.Sorted(maps.Keys(rec.Damaged)) {
		r.stats.FlipsFound++
		r.trace("group %d is damaged: %v", id, rec.Damaged[id])
	}
	for _, g := range r.groups {
		l := r.log(g)
		if l == nil {
			return fmt.Errorf("group %d is not there", g.id)
		}
		if l.Damaged() != nil {
			continue
		}
		if err := matchLog(l, &g.cur); err != nil {
			return fmt.Errorf("group %d is not reported as damaged: %w", g.id, err)
		}
		at, _ := l.Checkpoint()
		if err := r.scanFrom(g, max(at+1, l.FirstIndex())); err != nil {
			return err
		}
	}
	return nil
}
