package main

import (
	"sync/atomic"
	"time"

	"millrace/raftlog"
)

// timedFS passes everything on to a file system and measures its writes, reads
// and syncs. Its methods are called from any goroutine.
type timedFS struct {
	raftlog.FS
	stats *diskStats
}

// Upper bounds of the buckets of sync times, in microseconds.
var syncBoundsUs = [...]int64{50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000}

// diskStats are counters; atomic.
type diskStats struct {
	syncs                   [len(syncBoundsUs) + 1]atomic.Uint64
	syncUs                  atomic.Uint64
	writtenBytes, readBytes atomic.Uint64
	errors                  atomic.Uint64 // of writes and syncs
}

func (d *diskStats) synced(took time.Duration) {
	us := took.Microseconds()
	i := 0
	for i < len(syncBoundsUs) && us > syncBoundsUs[i] {
		i++
	}
	d.syncs[i].Add(1)
	d.syncUs.Add(uint64(us))
}

func (d *diskStats) note(err error) {
	if err != nil {
		d.errors.Add(1)
	}
}

func (f timedFS) Create(name string) (raftlog.File, error) { return f.wrap(f.FS.Create(name)) }

func (f timedFS) Open(name string) (raftlog.File, error) { return f.wrap(f.FS.Open(name)) }

func (f timedFS) wrap(file raftlog.File, err error) (raftlog.File, error) {
	if err != nil {
		return nil, err
	}
	return timedFile{file, f.stats}, nil
}

type timedFile struct {
	raftlog.File
	stats *diskStats
}

func (f timedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.stats.readBytes.Add(uint64(n))
	return n, err
}

func (f timedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.stats.writtenBytes.Add(uint64(n))
	f.stats.note(err)
	return n, err
}

func (f timedFile) Sync() error {
	began := time.Now()
	err := f.File.Sync()
	f.stats.synced(time.Since(began))
	f.stats.note(err)
	return err
}
