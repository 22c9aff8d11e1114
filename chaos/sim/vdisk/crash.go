package vdisk

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// Choice picks one of [0, n): n-1 is the newest state, 0 the durable one.
type Choice func(n int) int

// KeepAll loses nothing: all that was written is durable afterwards.
func KeepAll(n int) int { return n - 1 }

// LoseAll keeps what is durable and nothing else.
func LoseAll(int) int { return 0 }

// Sampled draws a way to lose things, and then what is lost: all, nothing, each
// with even odds, few, most.
func Sampled(r *rand.Rand) Choice {
	switch r.IntN(6) {
	case 0:
		return KeepAll
	case 1:
		return LoseAll
	case 2:
		return biased(r, 0.1)
	case 3:
		return biased(r, 0.9)
	default:
		return func(n int) int { return r.IntN(n) }
	}
}

// biased loses a state with probability lose.
func biased(r *rand.Rand, lose float64) Choice {
	return func(n int) int {
		if r.Float64() < lose {
			return r.IntN(n)
		}
		return n - 1
	}
}

// Enumerate calls f with every possible sequence of choices, at most limit
// times; it returns whether they were all tried. f must behave the same for the
// same choices.
func Enumerate(limit int, f func(choose Choice)) (all bool) {
	type pick struct{ at, of int }
	var picks []pick
	for range limit {
		i := 0
		f(func(n int) int {
			if i == len(picks) {
				picks = append(picks, pick{0, n})
			}
			p := picks[i]
			if p.of != n {
				panic("BUG: the enumerated choices are not repeatable")
			}
			i++
			return p.at
		})
		for len(picks) > 0 && picks[len(picks)-1].at == picks[len(picks)-1].of-1 {
			picks = picks[:len(picks)-1]
		}
		if len(picks) == 0 {
			return true
		}
		picks[len(picks)-1].at++
	}
	return false
}

// Crash ends the process that uses the disk. What was not durable is kept or
// lost as choose says: each directory change (only after the changes of the same
// names before it), each file's size, each sector. FS gives access to what is left.
func (d *Disk) Crash(choose Choice) {
	d.Stats.Crashes++
	d.cutAt = 0
	d.mount++
	d.latencyUs = 0
	var lost []*dirOp
	for _, op := range d.pending {
		blocked := slices.ContainsFunc(lost, op.dependsOn)
		if blocked || choose(2) == 0 {
			lost = append(lost, op)
			continue
		}
		op.apply(d.durable)
	}
	d.Stats.TornDirs += len(lost)
	d.pending = nil
	d.dropOrphans()
	for _, ino := range d.root.entries {
		ino.linked = false
	}
	d.root = d.durable.clone()
	for _, name := range slices.Sorted(maps.Keys(d.root.entries)) {
		if ino := d.root.entries[name]; !ino.dir {
			d.Stats.SectorsLost += ino.crash(choose)
		}
	}
	d.countUsed()
}

// Kill ends the process that uses the disk and nothing else: the system's cache
// survives, with all that is not durable yet, for a later Crash to lose.
func (d *Disk) Kill() {
	d.Stats.Crashes++
	d.cutAt = 0
	d.mount++
	d.latencyUs = 0
}

// dropOrphans removes entries below a directory that was itself lost.
func (d *Disk) dropOrphans() {
	for name := range d.durable.entries {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if d.durable.entries[dir] == nil {
				delete(d.durable.entries, name)
				break
			}
		}
	}
}

// Clone copies the disk with all that is durable and all that is not, so that
// one state can be crashed in many ways. Handles stay with the original.
func (d *Disk) Clone() *Disk {
	c := *d
	inodes := map[*inode]*inode{}
	copyOf := func(ino *inode) *inode {
		if inodes[ino] == nil {
			inodes[ino] = ino.clone()
		}
		return inodes[ino]
	}
	copyTree := func(t *tree) *tree {
		n := &tree{entries: make(map[string]*inode, len(t.entries))}
		for name, ino := range t.entries {
			n.entries[name] = copyOf(ino)
		}
		return n
	}
	c.root, c.durable = copyTree(d.root), copyTree(d.durable)
	c.pending = nil
	for _, op := range d.pending {
		dup := *op
		dup.ino = copyOf(op.ino)
		dup.unsynced = slices.Clone(op.unsynced)
		c.pending = append(c.pending, &dup)
	}
	c.Trace = nil
	return &c
}

// Bytes is the content of a file as written; nil if there is none. It is the
// disk's own memory: harnesses look for what to damage in it.
func (d *Disk) Bytes(name string) []byte {
	ino := d.root.entries[clean(name)]
	if ino == nil || ino.dir {
		return nil
	}
	return ino.cur
}

// FlipBit damages a stored byte of a file, durably and silently.
func (d *Disk) FlipBit(name string, off int64, bit uint) {
	ino := d.root.entries[clean(name)]
	ino.cur[off] ^= 1 << bit
	d.Stats.BitsFlipped++
	if n := off / ino.sector; n < int64(len(ino.sectors)) {
		for _, old := range ino.sectors[n].old {
			if i := off % ino.sector; i < int64(len(old)) {
				old[i] ^= 1 << bit
			}
		}
	}
}
