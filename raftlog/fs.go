package raftlog

import (
	"errors"
	"io/fs"
)

// FS is everything that this package asks of a file system. Paths are relative
// to the data directory, with slashes. Three implementations: direct I/O on
// Linux, buffered writes with fdatasync where direct I/O is refused, and the
// simulator's. All calls may block; none is made from a shard's loop.
type FS interface {
	// Create makes a file that must not exist yet (fs.ErrExist otherwise).
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing (fs.ErrNotExist).
	Open(name string) (File, error)
	// Rename replaces newName atomically. Durable after SyncDir of both parents.
	Rename(oldName, newName string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// MkdirAll makes a directory and its parents; durable after SyncDir.
	MkdirAll(dir string) error
	// List returns the names in dir, sorted; fs.ErrNotExist if there is none.
	List(dir string) ([]string, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// Space returns the bytes free for us and the size of the file system.
	Space() (free, total int64, err error)
	// Direct says whether writes bypass the page cache. Where they do, offsets,
	// lengths and buffers of WriteAt and ReadAt must be multiples of BlockBytes
	// (buffers from AlignedBuf).
	Direct() bool
}

// File is one open file. ReadAt and WriteAt may be called from several
// goroutines at a time on ranges that do not overlap.
type File interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	// Sync makes everything written so far durable, the size included
	// (fdatasync). After an error nothing about this file may be assumed: the
	// caller stops using the device and the process restarts and replays.
	Sync() error
	Size() (int64, error)
	Truncate(size int64) error
	Close() error
}

// BlockBytes is the unit of direct I/O and of torn writes.
const BlockBytes = 4096

// Re-exported so that callers need not import io/fs.
var (
	ErrNotExist = fs.ErrNotExist
	ErrExist    = fs.ErrExist
)

// ErrNoSpace is what an FS returns (wrapped) when the device is full.
var ErrNoSpace = errors.New("no space left on device")
