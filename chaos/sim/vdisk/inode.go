package vdisk

import "slices"

// inode is a file's content, or a directory.
type inode struct {
	id     int
	name   string // of a file, by which it was opened or to which it was renamed last
	dir    bool
	sector int64
	linked bool // counted in the disk's used bytes

	cur []byte // as written; its length is the size as written
	// sectors[n] is what is not durable of sector n. It may be shorter than the
	// file, or longer.
	sectors []dirtySector
	dirty   []int64 // numbers of the sectors that have something, in no order
	// sizes are the sizes that the file has had since the last sync, the durable
	// one first; empty while the size is durable.
	sizes []int64
}

type dirtySector struct {
	// old is what the sector was before: old[0] is durable, the others were written
	// since and written over. Empty: the sector is durable as it is.
	old [][]byte
	// dropped: a failed sync has marked the sector as clean without writing it.
	dropped bool
}

func (f *inode) size() int64 { return int64(len(f.cur)) }

func (f *inode) allocated() int64 {
	if f.dir {
		return 0
	}
	return (f.size() + f.sector - 1) / f.sector * f.sector
}

// touch notes the content of the sectors of [off, off+n) before they change.
func (f *inode) touch(off, n int64) {
	if n <= 0 {
		return
	}
	first, last := off/f.sector, (off+n-1)/f.sector
	if int(last) >= len(f.sectors) {
		f.sectors = append(f.sectors, make([]dirtySector, int(last)+1-len(f.sectors))...)
	}
	from := first * f.sector
	var before []byte // of [from, ...); what is beyond the end was nothing
	if from < f.size() {
		before = slices.Clone(f.cur[from:min((last+1)*f.sector, f.size())])
	}
	for s := first; s <= last; s++ {
		d := &f.sectors[s]
		if len(d.old) == 0 {
			f.dirty = append(f.dirty, s)
		}
		k := min(int64(len(before)), f.sector)
		d.old = append(d.old, before[:k:k])
		d.dropped = false
		before = before[k:]
	}
}

func (f *inode) resize(size int64) {
	if size == f.size() {
		return
	}
	f.sizes = append(f.sizes, f.size())
	if size < f.size() {
		f.touch(size, f.size()-size)
		f.cur = f.cur[:size]
		return
	}
	old := f.size()
	f.cur = slices.Grow(f.cur, int(size-old))[:size]
	clear(f.cur[old:])
}

func (f *inode) write(p []byte, off int64) {
	f.touch(off, int64(len(p)))
	if end := off + int64(len(p)); end > f.size() {
		f.resize(end)
	}
	copy(f.cur[off:], p)
}

// sync makes the content durable, but for the sectors that a failed sync has
// dropped before.
func (f *inode) sync() {
	left := f.dirty[:0]
	for _, n := range f.dirty {
		if d := &f.sectors[n]; d.dropped {
			left = append(left, n)
		} else {
			d.clean()
		}
	}
	f.dirty, f.sizes = left, nil
}

func (d *dirtySector) clean() {
	clear(d.old)
	d.old, d.dropped = d.old[:0], false
}

// dropDirty is what a failed sync does: the sectors count as clean from now on,
// and whether they reached the medium is open.
func (f *inode) dropDirty() {
	for _, n := range f.dirty {
		f.sectors[n].dropped = true
	}
}

// crash leaves of what is not durable what choose picks. choose(n) returns one
// of [0, n), where n-1 is the newest state and 0 the durable one.
func (f *inode) crash(choose func(n int) int) (lost int) {
	size := f.size()
	if len(f.sizes) > 0 {
		options := append(slices.Clone(f.sizes), f.size())
		options = slices.Compact(options)
		size = options[choose(len(options))]
	}
	if len(f.dirty) == 0 && size == f.size() {
		f.sizes = nil
		return 0
	}
	content := slices.Grow(f.cur, int(max(0, size-f.size())))[:size]
	if old := f.size(); size > old {
		clear(content[old:])
	}
	slices.Sort(f.dirty) // so that the same seed makes the same choices
	for _, s := range f.dirty {
		from := s * f.sector
		if from >= size {
			continue
		}
		old := f.sectors[s].old
		pick := choose(len(old) + 1)
		if pick == len(old) {
			continue
		}
		lost++
		part := content[from:min(from+f.sector, size)]
		clear(part)
		copy(part, old[pick])
	}
	f.cur, f.sizes = content, nil
	f.allDurable()
	return lost
}

// allDurable forgets what the sectors were.
func (f *inode) allDurable() {
	for _, n := range f.dirty {
		f.sectors[n].clean()
	}
	f.dirty = f.dirty[:0]
}

func (f *inode) clone() *inode {
	c := *f
	c.cur = slices.Clone(f.cur)
	c.sizes = slices.Clone(f.sizes)
	c.dirty = slices.Clone(f.dirty)
	c.sectors = slices.Clone(f.sectors)
	for i := range c.sectors {
		c.sectors[i].old = slices.Clone(c.sectors[i].old)
	}
	return &c
}
