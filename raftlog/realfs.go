//go:build unix

package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"
)

// lockName is the file whose lock keeps a second process out.
const lockName = "LOCK"

// ErrInUse is returned by OpenDir when another process holds the directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// DirFS is a data directory on a real file system. Safe for any goroutine.
type DirFS struct {
	root   string
	lock   *os.File
	direct bool
}

// OpenDir makes the data directory if it does not exist, locks it against other
// processes until Close, and finds out whether direct I/O works there. Errors
// wrap ErrInUse.
func OpenDir(root string) (*DirFS, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(root, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s; stop the other one or choose another directory", ErrInUse, root)
		}
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	d := &DirFS{root: root, lock: lock}
	if d.direct, err = probeDirect(root); err != nil {
		lock.Close()
		return nil, err
	}
	return d, nil
}

// Close gives the lock back.
func (d *DirFS) Close() error { return d.lock.Close() }

// Root is the directory on the host.
func (d *DirFS) Root() string { return d.root }

// Direct implements FS.
func (d *DirFS) Direct() bool { return d.direct }

func (d *DirFS) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// Create implements FS.
func (d *DirFS) Create(name string) (File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements FS.
func (d *DirFS) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

func (d *DirFS) open(name string, flags int) (File, error) {
	if d.direct {
		flags |= directFlag
	}
	f, err := os.OpenFile(d.path(name), flags, 0o644)
	if err != nil {
		return nil, mapErr(err)
	}
	return &dirFile{f: f}, nil
}

// Rename implements FS.
func (d *DirFS) Rename(oldName, newName string) error {
	return mapErr(os.Rename(d.path(oldName), d.path(newName)))
}

// Remove implements FS.
func (d *DirFS) Remove(name string) error { return mapErr(os.Remove(d.path(name))) }

// MkdirAll implements FS.
func (d *DirFS) MkdirAll(dir string) error { return mapErr(os.MkdirAll(d.path(dir), 0o755)) }

// List implements FS.
func (d *DirFS) List(dir string) ([]string, error) {
	f, err := os.Open(d.path(dir))
	if err != nil {
		return nil, mapErr(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	sort.Strings(names)
	return names, mapErr(err)
}

// SyncDir implements FS.
func (d *DirFS) SyncDir(dir string) error {
	f, err := os.Open(d.path(dir))
	if err != nil {
		return mapErr(err)
	}
	err = f.Sync()
	return mapErr(errors.Join(err, f.Close()))
}

// Space implements FS.
func (d *DirFS) Space() (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.root, &st); err != nil {
		return 0, 0, fmt.Errorf("asking for the free space of %s: %w", d.root, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

// mapErr turns the host's "device full" and "over quota" into ErrNoSpace.
func mapErr(err error) error {
	if err != nil && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

type dirFile struct{ f *os.File }

func (f *dirFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(p, off)
	return n, err
}

func (f *dirFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(p, off)
	return n, mapErr(err)
}

func (f *dirFile) Sync() error { return mapErr(syncData(f.f)) }

func (f *dirFile) Size() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *dirFile) Truncate(size int64) error { return mapErr(f.f.Truncate(size)) }

func (f *dirFile) Close() error { return f.f.Close() }
