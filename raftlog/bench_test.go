package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/core"
	"millrace/core/arena"
)

// benchDir is where benchmarks write: a directory on a disk, not in memory.
func benchDir(b *testing.B) string {
	dir := os.Getenv("RAFTLOG_BENCH_DIR")
	if dir == "" {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(dir, "raftlog-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return dir
}

// BenchmarkJournalCommit is one turn with one batch, collected, committed and
// applied, beside a bare append and fdatasync of as many bytes to a growing
// file. Each pair runs interleaved on the same device.
func BenchmarkJournalCommit(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20} {
		for _, mode := range []string{"inline", "direct"} {
			if mode == "direct" && size < 64<<10 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", mode, size), func(b *testing.B) { benchCommit(b, size, mode == "direct") })
		}
	}
}

func benchCommit(b *testing.B, size int, direct bool) {
	dir := benchDir(b)
	fs, err := OpenDir(filepath.Join(dir, "data"))
	if err != nil {
		b.Fatal(err)
	}
	defer fs.Close()
	opts := Options{DirectBytes: 1 << 30, JournalFilesMax: 4}
	if direct {
		opts.DirectBytes = size
	}
	s, _, err := Open(fs, opts, func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	set, j := s.LogSet(0), s.Journal()
	l, err := set.Create(20, LogConfig{SegmentBytes: 1 << 30, FlushBytesMax: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	bare, err := os.OpenFile(filepath.Join(dir, "bare"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	prepareAll(b, j)
	mem := arena.New(256 << 20)
	batch := makeBatch(0, 1, size, 1, 0)
	var ours, theirs, flushing time.Duration
	b.SetBytes(int64(size))
	b.ResetTimer()
	for i := range b.N {
		buf, err := mem.Alloc(size)
		for err != nil {
			set.Evict(mem, size)
			buf, err = mem.Alloc(size)
		}
		copy(buf.Bytes(), batch)
		core.Batch(buf.Bytes()).SetBase(core.Offset(i), 1)
		t0 := time.Now()
		l.Append([]Entry{{Index: core.Index(i + 1), Term: 1, Kind: EntryBatch, BaseOffset: core.Offset(i), LastOffset: core.Offset(i), Payload: buf}})
		l.SetHardState(HardState{Term: 1, Vote: 1, Commit: core.Index(i)})
		j.Submit(set.Collect())
		for _, t := range j.Commit() {
			if t.Err != nil {
				b.Fatal(t.Err)
			}
			set.Done(t)
		}
		ours += time.Since(t0)
		t0 = time.Now()
		if _, err := bare.Write(batch); err != nil {
			b.Fatal(err)
		}
		if err := syncData(bare); err != nil {
			b.Fatal(err)
		}
		theirs += time.Since(t0)
		t0 = time.Now()
		jobs, _ := set.Maintain(core.Tick(i)*core.Millisecond, 4, nil)
		for _, job := range jobs {
			job.Run()
			job.Finish()
			if job.Err != nil {
				b.Fatal(job.Err)
			}
		}
		prepareAll(b, j)
		flushing += time.Since(t0)
	}
	b.StopTimer()
	n := float64(b.N) * 1e3
	b.ReportMetric(float64(ours.Nanoseconds())/n, "us/commit")
	b.ReportMetric(float64(theirs.Nanoseconds())/n, "us/bare")
	b.ReportMetric(float64(flushing.Nanoseconds())/n, "us/background")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "commit/bare")
	b.ReportMetric(0, "ns/op")
}

func prepareAll(b testing.TB, j *Journal) {
	for {
		more, err := j.Prepare()
		if err != nil {
			b.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// BenchmarkOpen opens a directory with 10,000 logs of little data each.
func BenchmarkOpen(b *testing.B) {
	dir := benchDir(b)
	fs, err := OpenDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer fs.Close()
	ts := openStore(b, fs, Options{JournalFileBytes: 64 << 20})
	for i := range 10_000 {
		l, err := ts.set.Create(core.PartitionID(100+i), LogConfig{})
		if err != nil {
			b.Fatal(err)
		}
		ts.empty(l, 1)
		ts.batch(l, 1, 1, 300)
		commitAll(l)
	}
	ts.commit()
	ts.close()
	for b.Loop() {
		s, rec, err := Open(fs, Options{}, func(core.PartitionID) core.ShardID { return 0 })
		if err != nil || rec.Groups != 10_000 {
			b.Fatal(err, rec)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecover replays a journal of 1 GiB of 16 KiB batches.
func BenchmarkRecover(b *testing.B) {
	dir := benchDir(b)
	fs, err := OpenDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer fs.Close()
	opts := Options{JournalFileBytes: 64 << 20, JournalFilesMax: 64, DirectBytes: 1 << 30}
	ts := openStore(b, fs, opts)
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	for l.SizeBytes() < 1<<30 {
		for range 256 {
			ts.batch(l, 1, 1, 16<<10)
		}
		ts.commit()
	}
	last := l.LastIndex()
	ts.close()
	for b.Loop() {
		s, rec, err := Open(fs, opts, func(core.PartitionID) core.ShardID { return 0 })
		if err != nil || s.LogSet(0).Get(20).LastIndex() != last {
			b.Fatal(err, rec)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(1 << 30)
}
