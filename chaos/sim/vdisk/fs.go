package vdisk

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"millrace/raftlog"
)

// mounted is the file system of one run of the process.
type mounted struct {
	d     *Disk
	mount int
}

func (m *mounted) alive() *Disk {
	if m.mount != m.d.mount {
		panic("BUG: a file system call by a process that has crashed")
	}
	return m.d
}

func (m *mounted) Create(name string) (raftlog.File, error) {
	d, name := m.alive(), clean(name)
	dir, err := d.parentDir("create", name)
	if err != nil {
		return nil, err
	}
	if d.root.entries[name] != nil {
		return nil, pathErr("create", name, fs.ErrExist)
	}
	d.step("create %s", name)
	if d.opts.CapacityBytes > 0 && d.Used() >= d.opts.CapacityBytes {
		d.Stats.NoSpace++
		return nil, pathErr("create", name, raftlog.ErrNoSpace)
	}
	ino := d.newInode(false)
	d.change(&dirOp{kind: opLink, name: name, ino: ino, unsynced: []string{dir}})
	ino.name = name
	return &file{m: m, ino: ino}, nil
}

func (m *mounted) Open(name string) (raftlog.File, error) {
	d, name := m.alive(), clean(name)
	ino := d.root.entries[name]
	if ino == nil {
		return nil, pathErr("open", name, fs.ErrNotExist)
	}
	if ino.dir {
		return nil, pathErr("open", name, syscall.EISDIR)
	}
	ino.name = name
	return &file{m: m, ino: ino}, nil
}

func (m *mounted) Rename(oldName, newName string) error {
	d, oldName, newName := m.alive(), clean(oldName), clean(newName)
	ino := d.root.entries[oldName]
	if ino == nil {
		return pathErr("rename", oldName, fs.ErrNotExist)
	}
	if ino.dir {
		panic("BUG: renaming a directory is not simulated")
	}
	from, err := d.parentDir("rename", oldName)
	if err != nil {
		return err
	}
	to, err := d.parentDir("rename", newName)
	if err != nil {
		return err
	}
	if oldName == newName {
		return nil
	}
	d.step("rename %s %s", oldName, newName)
	d.Stats.Renames++
	unsynced := []string{from}
	if to != from {
		unsynced = append(unsynced, to)
	}
	d.change(&dirOp{kind: opRename, name: oldName, to: newName, ino: ino, unsynced: unsynced})
	return nil
}

func (m *mounted) Remove(name string) error {
	d, name := m.alive(), clean(name)
	ino := d.root.entries[name]
	if ino == nil {
		return pathErr("remove", name, fs.ErrNotExist)
	}
	if ino.dir {
		if len(d.list(name)) > 0 {
			return pathErr("remove", name, syscall.ENOTEMPTY)
		}
	}
	d.step("remove %s", name)
	d.Stats.Removes++
	d.change(&dirOp{kind: opUnlink, name: name, ino: ino, unsynced: []string{path.Dir(name)}})
	return nil
}

func (m *mounted) MkdirAll(dir string) error {
	d, dir := m.alive(), clean(dir)
	if ino := d.root.entries[dir]; ino != nil {
		if !ino.dir {
			return pathErr("mkdir", dir, syscall.ENOTDIR)
		}
		return nil
	}
	if err := m.MkdirAll(path.Dir(dir)); err != nil {
		return err
	}
	d.step("mkdir %s", dir)
	d.change(&dirOp{kind: opLink, name: dir, ino: d.newInode(true), unsynced: []string{path.Dir(dir)}})
	return nil
}

func (d *Disk) list(dir string) []string {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	var out []string
	for name := range d.root.entries {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "." && rest != "" && !strings.Contains(rest, "/") {
			out = append(out, rest)
		}
	}
	slices.Sort(out)
	return out
}

func (m *mounted) List(dir string) ([]string, error) {
	d, dir := m.alive(), clean(dir)
	if ino := d.root.entries[dir]; ino == nil || !ino.dir {
		return nil, pathErr("list", dir, fs.ErrNotExist)
	}
	return d.list(dir), nil
}

func (m *mounted) SyncDir(dir string) error {
	d, dir := m.alive(), clean(dir)
	if ino := d.root.entries[dir]; ino == nil || !ino.dir {
		return pathErr("syncdir", dir, fs.ErrNotExist)
	}
	d.step("syncdir %s", dir)
	d.Stats.Syncs++
	d.spend(d.Faults.SyncUs)
	if d.roll(d.Faults.SyncEIO) {
		d.Stats.EIO++
		return pathErr("syncdir", dir, syscall.EIO)
	}
	d.flushDir(dir)
	return nil
}

func (m *mounted) Space() (free, total int64, err error) {
	d := m.alive()
	if d.opts.CapacityBytes <= 0 {
		return 1 << 50, 1 << 50, nil
	}
	return max(0, d.opts.CapacityBytes-d.Used()), d.opts.CapacityBytes, nil
}

func (m *mounted) Direct() bool { return m.alive().opts.Direct }

// file is one open handle.
type file struct {
	m      *mounted
	ino    *inode
	closed bool
}

func (f *file) disk() *Disk {
	d := f.m.alive()
	if f.closed {
		panic("BUG: use of closed file " + f.ino.name)
	}
	return d
}

// aligned asserts what direct I/O asks of its callers.
func (f *file) aligned(op string, p []byte, off int64) {
	if !f.m.d.opts.Direct || len(p) == 0 {
		return
	}
	const b = raftlog.BlockBytes
	if off%b != 0 || len(p)%b != 0 || uintptr(unsafe.Pointer(&p[0]))%b != 0 {
		panic(fmt.Sprintf("BUG: direct %s of %s is not aligned: offset %d, length %d, address modulo block %d",
			op, f.ino.name, off, len(p), uintptr(unsafe.Pointer(&p[0]))%b))
	}
}

func (d *Disk) fault(name string) {
	if d.OnFault != nil {
		d.OnFault(name)
	}
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	d := f.disk()
	f.aligned("read", p, off)
	d.Stats.Reads++
	d.spend(d.Faults.WriteUs)
	if d.roll(d.Faults.ReadEIO) {
		d.Stats.EIO++
		d.fault(f.ino.name)
		return 0, pathErr("read", f.ino.name, syscall.EIO)
	}
	if off >= f.ino.size() {
		return 0, io.EOF
	}
	n := copy(p, f.ino.cur[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	d := f.disk()
	f.aligned("write", p, off)
	d.step("write %s [%d, %d)", f.ino.name, off, off+int64(len(p)))
	d.Stats.Writes++
	if d.OnWrite != nil {
		d.OnWrite(f.ino.name, off, int64(len(p)))
	}
	d.spend(d.Faults.WriteUs)
	if d.roll(d.Faults.WriteEIO) {
		d.Stats.EIO++
		d.fault(f.ino.name)
		// Some of it may have been written.
		part := int64(d.opts.Rand.IntN(len(p)/d.opts.SectorBytes+1)) * int64(d.opts.SectorBytes)
		if off+part <= f.ino.size() {
			f.ino.write(p[:part], off) // the size stays
		}
		return 0, pathErr("write", f.ino.name, syscall.EIO)
	}
	if grow := off + int64(len(p)) - f.ino.allocated(); grow > 0 && d.opts.CapacityBytes > 0 && d.Used()+grow > d.opts.CapacityBytes {
		d.Stats.NoSpace++
		d.fault(f.ino.name)
		return 0, pathErr("write", f.ino.name, raftlog.ErrNoSpace)
	}
	if d.roll(d.Faults.Misdirect) && f.ino.size() > int64(len(p)) {
		d.Stats.Misdirected++
		d.fault(f.ino.name)
		blocks := (f.ino.size() - int64(len(p))) / raftlog.BlockBytes
		to := d.opts.Rand.Int64N(blocks+1) * raftlog.BlockBytes
		if d.OnMisdirect != nil {
			d.OnMisdirect(f.ino.name, off, to, int64(len(p)))
		}
		off = to
	}
	before := f.ino.allocated()
	f.ino.write(p, off)
	d.resized(f.ino, before)
	return len(p), nil
}

func (f *file) Sync() error {
	d := f.disk()
	d.step("sync %s", f.ino.name)
	d.Stats.Syncs++
	d.spend(d.Faults.SyncUs)
	if d.roll(d.Faults.SyncEIO) {
		d.Stats.EIO++
		d.fault(f.ino.name)
		f.ino.dropDirty()
		return pathErr("sync", f.ino.name, syscall.EIO)
	}
	f.ino.sync()
	return nil
}

func (f *file) Size() (int64, error) {
	f.disk()
	return f.ino.size(), nil
}

func (f *file) Truncate(size int64) error {
	d := f.disk()
	d.step("truncate %s %d", f.ino.name, size)
	if grow := size - f.ino.allocated(); grow > 0 && d.opts.CapacityBytes > 0 && d.Used()+grow > d.opts.CapacityBytes {
		d.Stats.NoSpace++
		return pathErr("truncate", f.ino.name, raftlog.ErrNoSpace)
	}
	before := f.ino.allocated()
	f.ino.resize(size)
	d.resized(f.ino, before)
	return nil
}

// Close of a file of a crashed process is allowed: deferred calls run while the
// power cut unwinds the stack.
func (f *file) Close() error {
	f.closed = true
	return nil
}
