package vdisk

import (
	"maps"
	"slices"
)

// inode is a file's content, or a directory.
type inode struct {
	id     int
	dir    bool
	sector int64

	cur []byte // as written; its length is the size as written
	// dirty holds, per sector number, what the sector was before: old[0] is
	// durable, the others were written since and written over.
	dirty map[int64]*dirtySector
	// sizes are the sizes that the file has had since the last sync, the durable
	// one first; empty while the size is durable.
	sizes []int64
}

type dirtySector struct {
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

// sectorBytes is a copy of sector n as written; nil beyond the end.
func (f *inode) sectorBytes(n int64) []byte {
	from := n * f.sector
	if from >= f.size() {
		return nil
	}
	return slices.Clone(f.cur[from:min(from+f.sector, f.size())])
}

// touch notes the content of the sectors of [off, off+n) before they change.
func (f *inode) touch(off, n int64) {
	if n <= 0 {
		return
	}
	if f.dirty == nil {
		f.dirty = map[int64]*dirtySector{}
	}
	for s := off / f.sector; s <= (off+n-1)/f.sector; s++ {
		d := f.dirty[s]
		if d == nil {
			d = &dirtySector{}
			f.dirty[s] = d
		}
		d.old = append(d.old, f.sectorBytes(s))
		d.dropped = false
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
	maps.DeleteFunc(f.dirty, func(_ int64, d *dirtySector) bool { return !d.dropped })
	f.sizes = nil
}

// dropDirty is what a failed sync does: the sectors count as clean from now on,
// and whether they reached the medium is open.
func (f *inode) dropDirty() {
	for _, d := range f.dirty {
		d.dropped = true
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
	content := make([]byte, size)
	copy(content, f.cur)
	for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
		from := s * f.sector
		if from >= size {
			continue
		}
		old := f.dirty[s].old
		pick := choose(len(old) + 1)
		if pick == len(old) {
			continue
		}
		lost++
		part := content[from:min(from+f.sector, size)]
		clear(part)
		copy(part, old[pick])
	}
	f.cur, f.dirty, f.sizes = content, nil, nil
	return lost
}

func (f *inode) clone() *inode {
	c := *f
	c.cur = slices.Clone(f.cur)
	c.sizes = slices.Clone(f.sizes)
	if f.dirty != nil {
		c.dirty = make(map[int64]*dirtySector, len(f.dirty))
		for s, d := range f.dirty {
			c.dirty[s] = &dirtySector{old: slices.Clone(d.old), dropped: d.dropped}
		}
	}
	return &c
}
