package logsim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/chaos/sim/vdisk"
	"millrace/core"
	"millrace/raftlog"
)

// extent is a range of a file.
type extent struct {
	name     string
	from, to int64
}

func (e extent) has(name string, off int64) bool {
	return e.name == name && e.from <= off && off < e.to
}

const flipsPerRun = 30

// flips damages one bit at a time of copies of the disk, and opens them. Each
// log must be as it was, or be reported as damaged, when it is opened or at the
// latest when it is read. The last write of the journal is left alone: damage
// there looks like a torn tail.
func (r *run) flips() error {
	r.disk.CutAt(0)
	if err := r.guard(r.writeTail); err != nil {
		return err
	}
	disk := r.disk
	for range flipsPerRun {
		name, off, ok := r.pickByte(disk)
		if !ok {
			return nil
		}
		bit := uint(r.rng.IntN(8))
		r.disk = disk.Clone()
		if r.rng.IntN(3) == 0 {
			if err := r.flipRunning(bit); err != nil {
				r.disk = disk
				return err
			}
			continue
		}
		r.disk.Crash(vdisk.KeepAll)
		r.disk.FlipBit(name, off, bit)
		r.trace("flip bit %d of byte %d of %s", bit, off, name)
		found, err := false, error(nil)
		if err = r.guard(func() (err error) { found, err = r.openDamaged(); return err }); err != nil {
			r.disk = disk
			return fmt.Errorf("bit %d of byte %d of %s flipped: %w", bit, off, name, err)
		}
		if found {
			r.stats.FlipsFound++
		} else {
			r.stats.FlipsHarmless++
		}
	}
	r.disk = disk
	return nil
}

// writeTail gives the journal newer frames than any that will be damaged.
func (r *run) writeTail() error {
	if len(r.groups) == 0 {
		if err := r.create(); err != nil {
			return err
		}
	}
	r.disk.OnWrite = func(name string, off, n int64) { r.tail = append(r.tail, extent{name, off, off + n}) }
	defer func() { r.disk.OnWrite = nil }()
	for range 3 {
		r.tail = nil
		for _, g := range r.groups {
			g.cur.hs.Term++
			r.log(g).SetHardState(g.cur.hs)
		}
		for s := range r.shards {
			if err := r.collect(core.ShardID(s)); err != nil {
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
	}
	return nil
}

func (r *run) pickByte(d *vdisk.Disk) (name string, off int64, ok bool) {
	var files []string
	for _, f := range d.Files() {
		if len(d.Bytes(f)) > 0 {
			files = append(files, f)
		}
	}
	for range 50 {
		name = files[r.rng.IntN(len(files))]
		b := d.Bytes(name)
		off = r.rng.Int64N(int64(len(b)))
		if b[off] == 0 && r.rng.IntN(4) > 0 || slices.ContainsFunc(r.tail, func(e extent) bool { return e.has(name, off) }) {
			continue
		}
		return name, off, true
	}
	return "", 0, false
}

// openDamaged opens the disk and compares what is not reported as damaged.
func (r *run) openDamaged() (found bool, err error) {
	r.closeStore()
	store, rec, err := raftlog.Open(r.disk.FS(), r.opts, r.shardOf)
	if err != nil {
		r.trace("refused: %v", err)
		if strings.Contains(err.Error(), "BUG") {
			return true, err
		}
		return true, nil
	}
	r.store = store
	defer r.closeStore()
	found = len(rec.Damaged) > 0
	for s, m := range r.shards {
		want := m.snaps[len(m.snaps)-1]
		logs := r.set(core.ShardID(s)).All()
		if len(logs) != len(want.states) && !found {
			return false, fmt.Errorf("shard %d has %d logs, want %d, and no damage is reported", s, len(logs), len(want.states))
		}
		for _, l := range logs {
			st, ok := want.states[l.ID()]
			if l.Damaged() != nil { // it may even be one whose deletion was lost
				found = true
				r.trace("group %d is damaged: %v", l.ID(), l.Damaged())
				continue
			}
			if !ok {
				return found, fmt.Errorf("group %d is back from its deletion", l.ID())
			}
			if err := matchLog(l, &st); err != nil {
				return found, fmt.Errorf("group %d is not reported as damaged: %w", l.ID(), err)
			}
		}
	}
	for _, g := range r.groups {
		l := r.log(g)
		if l == nil || l.Damaged() != nil {
			continue
		}
		if err := r.readAll(g); errors.Is(err, core.ErrStorageFailed) {
			r.trace("found on reading: %v", err)
			found = true
		} else if err != nil {
			return found, err
		}
	}
	return found, nil
}
