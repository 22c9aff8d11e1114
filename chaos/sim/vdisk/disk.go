package vdisk

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"millrace/raftlog"
)

// Options make a Disk.
type Options struct {
	SectorBytes   int // unit of torn writes: 512 or 4096
	CapacityBytes int64
	Direct        bool // what FS.Direct answers; asks for aligned I/O
	// Rand draws faults and latencies; nil: no faults, no latency.
	Rand *rand.Rand
}

// Faults are probabilities per operation, 0 for never.
type Faults struct {
	ReadEIO, WriteEIO, SyncEIO float64
	// Misdirect writes a buffer to another place of the same file.
	Misdirect float64
	// Stall adds StallUs to an operation's time.
	Stall   float64
	StallUs int64
	// WriteUs and SyncUs are the usual times of an operation, drawn up to twice
	// the figure.
	WriteUs, SyncUs int64
}

// Stats count what happened on a Disk in its life.
type Stats struct {
	Writes, Syncs, Reads, DirOps   int
	Renames, Removes               int
	NoSpace, EIO, Misdirected      int
	Crashes, SectorsLost, TornDirs int
	BitsFlipped                    int
}

// PowerCut is what an operation panics with when the disk has reached the point
// set by CutAt. The owner of the process recovers it, drops all volatile state
// and calls Crash.
type PowerCut struct {
	Point int
	Op    string // that was not begun
}

func (p *PowerCut) Error() string { return fmt.Sprintf("power cut at point %d", p.Point) }

// Disk is the device. Directory entries and file contents exist twice: as
// written, and as durable.
type Disk struct {
	opts   Options
	Faults Faults
	Stats  Stats
	// Trace, when set, is told of every mutation and sync.
	Trace func(point int, op string)
	// OnWrite, when set, is told of every write before it happens.
	// OnMisdirect is told of a write of n bytes for off that went to another place.
	OnMisdirect func(name string, off, to, n int64)
	// OnFault is told of every operation on a file that fails or goes astray.
	OnFault func(name string)
	OnWrite func(name string, off, n int64)

	root    *tree
	durable *tree
	pending []*dirOp // in order of their making

	point     int
	cutAt     int // 0: never
	mount     int // handles of older mounts are dead
	latencyUs int64
	nextInode int
	used      int64 // bytes of the files in root
}

// tree maps clean paths to inodes; directories have an inode without content.
type tree struct{ entries map[string]*inode }

func (t *tree) clone() *tree {
	c := &tree{entries: make(map[string]*inode, len(t.entries))}
	for k, v := range t.entries {
		c.entries[k] = v
	}
	return c
}

type dirOpKind uint8

const (
	opLink dirOpKind = iota // create, mkdir
	opUnlink
	opRename
)

// dirOp is one change of directory entries that is not durable yet.
type dirOp struct {
	kind     dirOpKind
	name, to string
	ino      *inode
	// unsynced are the directories whose sync is still missing.
	unsynced []string
}

func (o *dirOp) touches(name string) bool { return o.name == name || o.to != "" && o.to == name }

func (o *dirOp) dependsOn(earlier *dirOp) bool {
	return earlier.touches(o.name) || o.to != "" && earlier.touches(o.to)
}

func (o *dirOp) apply(t *tree) {
	switch o.kind {
	case opLink:
		t.entries[o.name] = o.ino
	case opUnlink:
		delete(t.entries, o.name)
	case opRename:
		delete(t.entries, o.name)
		t.entries[o.to] = o.ino
	}
}

// New makes an empty disk.
func New(o Options) *Disk {
	if o.SectorBytes != 512 && o.SectorBytes != 4096 {
		panic("BUG: sector size must be 512 or 4096")
	}
	rootDir := &inode{dir: true}
	return &Disk{
		opts:    o,
		root:    &tree{entries: map[string]*inode{".": rootDir}},
		durable: &tree{entries: map[string]*inode{".": rootDir}},
		mount:   1,
	}
}

// FS is the file system as the process that runs now sees it. After Crash it is
// dead: a call is a bug of the harness.
func (d *Disk) FS() raftlog.FS { return &mounted{d: d, mount: d.mount} }

// Points counts the mutations and syncs so far.
func (d *Disk) Points() int { return d.point }

// CutAt makes the operation that would be point n panic with *PowerCut before it
// does anything; 0: never.
func (d *Disk) CutAt(n int) { d.cutAt = n }

// SetCapacity changes the size of the device.
func (d *Disk) SetCapacity(bytes int64) { d.opts.CapacityBytes = bytes }

// Capacity is the size of the device.
func (d *Disk) Capacity() int64 { return d.opts.CapacityBytes }

// Used is the bytes taken by linked files.
func (d *Disk) Used() int64 { return d.used }

// countUsed counts them anew.
func (d *Disk) countUsed() {
	d.used = 0
	for _, ino := range d.root.entries {
		ino.linked = true
		d.used += ino.allocated()
	}
}

// resized counts what a file has become larger or smaller.
func (d *Disk) resized(f *inode, before int64) {
	if f.linked {
		d.used += f.allocated() - before
	}
}

// TakeLatency returns the virtual microseconds that operations took since the
// last call.
func (d *Disk) TakeLatency() int64 {
	n := d.latencyUs
	d.latencyUs = 0
	return n
}

func (d *Disk) roll(p float64) bool {
	return p > 0 && d.opts.Rand != nil && d.opts.Rand.Float64() < p
}

func (d *Disk) spend(us int64) {
	if d.opts.Rand == nil {
		return
	}
	if us > 0 {
		d.latencyUs += us/2 + d.opts.Rand.Int64N(us*3/2+1)
	}
	if d.roll(d.Faults.Stall) {
		d.latencyUs += d.Faults.StallUs
	}
}

// step numbers a mutation or sync, and cuts the power where it was asked for.
func (d *Disk) step(format string, args ...any) {
	d.point++
	if d.cutAt != 0 && d.point >= d.cutAt {
		cut := &PowerCut{Point: d.point, Op: fmt.Sprintf(format, args...)}
		d.cutAt = 0
		panic(cut)
	}
	if d.Trace != nil {
		d.Trace(d.point, fmt.Sprintf(format, args...))
	}
}

func clean(name string) string {
	c := path.Clean(strings.TrimPrefix(name, "/"))
	if strings.HasPrefix(c, "..") {
		panic("BUG: path outside the data directory: " + name)
	}
	return c
}

func pathErr(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// parentDir finds the directory that holds name; an error if there is none.
func (d *Disk) parentDir(op, name string) (string, error) {
	dir := path.Dir(name)
	if ino := d.root.entries[dir]; ino == nil || !ino.dir {
		return "", pathErr(op, name, fs.ErrNotExist)
	}
	return dir, nil
}

func (d *Disk) newInode(dir bool) *inode {
	d.nextInode++
	return &inode{id: d.nextInode, dir: dir, sector: int64(d.opts.SectorBytes)}
}

func (d *Disk) change(op *dirOp) {
	d.Stats.DirOps++
	d.pending = append(d.pending, op)
	d.unlink(op.name)
	d.unlink(op.to)
	op.apply(d.root)
	if op.kind == opRename {
		op.ino.name = op.to
	}
	if op.kind != opUnlink {
		op.ino.linked = true
		d.used += op.ino.allocated()
	}
}

// unlink stops counting the file of that name, if there is one.
func (d *Disk) unlink(name string) {
	if ino := d.root.entries[name]; ino != nil {
		ino.linked = false
		d.used -= ino.allocated()
	}
}

// flushDir makes the entries of dir durable.
func (d *Disk) flushDir(dir string) {
	for _, op := range d.pending {
		op.unsynced = slices.DeleteFunc(op.unsynced, func(s string) bool { return s == dir })
	}
	// What a durable change builds on is durable with it.
	for i := len(d.pending) - 1; i >= 0; i-- {
		if len(d.pending[i].unsynced) > 0 {
			continue
		}
		for _, earlier := range d.pending[:i] {
			if d.pending[i].dependsOn(earlier) {
				earlier.unsynced = nil
			}
		}
	}
	d.pending = slices.DeleteFunc(d.pending, func(op *dirOp) bool {
		if len(op.unsynced) > 0 {
			return false
		}
		op.apply(d.durable)
		return true
	})
}

// Files lists the paths of all files as written, sorted.
func (d *Disk) Files() []string {
	var out []string
	for name, ino := range d.root.entries {
		if !ino.dir {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
