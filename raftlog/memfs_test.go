package raftlog

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// memFS is a file system in memory for tests: what was not synced can be lost,
// sector by sector, and writes can be made to fail.
type memFS struct {
	t  testing.TB
	mu sync.Mutex

	files map[string]*memFile // as seen now
	dirs  map[string]bool
	// durable is the names that survive a crash: SyncDir copies them.
	durable map[string]*memFile

	free    int64 // bytes left; negative: no limit
	fail    func(op, name string) error
	writes  int
	syncs   int
	opened  int
	noSpace bool
	// onOp runs before each write, sync, create, rename and removal.
	onOp func()
}

const sectorBytes = 512

type memFile struct {
	fs      *memFS
	name    string
	data    []byte
	synced  []byte
	pending map[int64]bool // sectors written since the last sync
}

func newMemFS(t testing.TB) *memFS {
	return &memFS{
		t: t, files: map[string]*memFile{}, dirs: map[string]bool{".": true},
		durable: map[string]*memFile{}, free: -1,
	}
}

func (m *memFS) check(op, name string) error {
	if m.onOp != nil && op != "read" && op != "open" {
		m.onOp()
	}
	if m.fail != nil {
		return m.fail(op, name)
	}
	return nil
}

func (m *memFS) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("create", name); err != nil {
		return nil, err
	}
	if m.files[name] != nil {
		return nil, fmt.Errorf("%s: %w", name, ErrExist)
	}
	if !m.dirs[path.Dir(name)] {
		return nil, fmt.Errorf("%s: %w", name, ErrNotExist)
	}
	f := &memFile{fs: m, name: name, pending: map[int64]bool{}}
	m.files[name] = f
	m.opened++
	return &memHandle{memFile: f}, nil
}

func (m *memFS) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[name]
	if f == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrNotExist)
	}
	if err := m.check("open", name); err != nil {
		return nil, err
	}
	m.opened++
	return &memHandle{memFile: f}, nil
}

func (m *memFS) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("rename", newName); err != nil {
		return err
	}
	f := m.files[oldName]
	if f == nil {
		return fmt.Errorf("%s: %w", oldName, ErrNotExist)
	}
	delete(m.files, oldName)
	m.files[newName] = f
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] == nil && !m.dirs[name] {
		return fmt.Errorf("%s: %w", name, ErrNotExist)
	}
	if err := m.check("remove", name); err != nil {
		return err
	}
	delete(m.files, name)
	delete(m.dirs, name)
	return nil
}

func (m *memFS) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		m.dirs[d] = true
	}
	return nil
}

func (m *memFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[dir] {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotExist)
	}
	var names []string
	for name := range m.files {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	for name := range m.dirs {
		if name != "." && path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *memFS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check("syncdir", dir); err != nil {
		return err
	}
	for name := range m.durable {
		if path.Dir(name) == dir {
			delete(m.durable, name)
		}
	}
	for name, f := range m.files {
		if path.Dir(name) == dir {
			m.durable[name] = f
		}
	}
	return nil
}

func (m *memFS) Space() (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.noSpace {
		return 0, 1 << 40, nil
	}
	if m.free < 0 {
		return 1 << 39, 1 << 40, nil
	}
	return m.free, 1 << 40, nil
}

func (m *memFS) Direct() bool { return true }

// crash returns what is left after a power cut: names that were synced, and of
// each file what was synced plus a random part of the rest. onOp may call it.
func (m *memFS) crash(r *rand.Rand) *memFS {
	c := newMemFS(m.t)
	for d := range m.dirs {
		c.dirs[d] = true
	}
	for _, name := range sortedKeys(m.durable) {
		f := m.durable[name]
		g := &memFile{fs: c, name: name, data: slices.Clone(f.synced), pending: map[int64]bool{}}
		mode := r.IntN(3) // nothing, everything, some
		for _, s := range sortedKeys(f.pending) {
			if mode == 0 || mode == 2 && r.IntN(2) == 0 {
				continue
			}
			end := min((s+1)*sectorBytes, int64(len(f.data)))
			if int64(len(g.data)) < end {
				g.data = append(g.data, make([]byte, end-int64(len(g.data)))...)
			}
			copy(g.data[s*sectorBytes:end], f.data[s*sectorBytes:end])
		}
		g.synced = slices.Clone(g.data)
		c.files[name], c.durable[name] = g, g
	}
	return c
}

// clone is what is left after the process is killed: everything written.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := newMemFS(m.t)
	for d := range m.dirs {
		c.dirs[d] = true
	}
	for name, f := range m.files {
		g := &memFile{fs: c, name: name, data: slices.Clone(f.data), synced: slices.Clone(f.data), pending: map[int64]bool{}}
		c.files[name], c.durable[name] = g, g
	}
	return c
}

func (m *memFS) names(substr string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name := range m.files {
		if strings.Contains(name, substr) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func sortedKeys[K int64 | string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type memHandle struct {
	*memFile
	closed bool
}

func (f *memHandle) aligned(p []byte, off int64) {
	if off%BlockBytes != 0 || len(p)%BlockBytes != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(p)))%BlockBytes != 0 {
		f.fs.t.Errorf("unaligned I/O on %s: %d bytes at %d", f.name, len(p), off)
	}
	if f.closed {
		f.fs.t.Errorf("I/O on %s, which is closed", f.name)
	}
}

func (f *memHandle) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.aligned(p, off)
	if err := f.fs.check("read", f.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memHandle) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.aligned(p, off)
	f.fs.writes++
	if err := f.fs.check("write", f.name); err != nil {
		return 0, err
	}
	end := off + int64(len(p))
	if grow := end - int64(len(f.data)); grow > 0 {
		if f.fs.noSpace || f.fs.free >= 0 && grow > f.fs.free {
			return 0, fmt.Errorf("%s: %w", f.name, ErrNoSpace)
		}
		if f.fs.free >= 0 {
			f.fs.free -= grow
		}
		f.data = append(f.data, make([]byte, grow)...)
	}
	copy(f.data[off:], p)
	for s := off / sectorBytes; s*sectorBytes < end; s++ {
		f.pending[s] = true
	}
	return len(p), nil
}

func (f *memHandle) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.syncs++
	if err := f.fs.check("sync", f.name); err != nil {
		return err
	}
	if n := len(f.data) - len(f.synced); n > 0 {
		f.synced = append(f.synced, make([]byte, n)...)
	}
	for s := range f.pending {
		end := min((s+1)*sectorBytes, int64(len(f.data)))
		copy(f.synced[s*sectorBytes:end], f.data[s*sectorBytes:end])
	}
	clear(f.pending)
	return nil
}

func (f *memHandle) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *memHandle) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.data = append([]byte(nil), f.data[:size]...)
	return nil
}

func (f *memHandle) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		f.fs.t.Errorf("%s is closed twice", f.name)
	}
	f.closed = true
	f.fs.opened--
	return nil
}
