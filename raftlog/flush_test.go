package raftlog

import (
	"math/rand/v2"
	"testing"

	"millrace/core"
)

// TestAFlushTakesSeveralJobs writes more than one Job may, in batches of many sizes of
// which some went straight to the segment, and more index rows at a time than a buffer
// holds.
func TestAFlushTakesSeveralJobs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	fs := newMemFS(t)
	opts := Options{JournalFileBytes: 256 << 10, DirectBytes: 64 << 10, JournalFilesMax: 1000}
	ts := openStore(t, fs, opts)
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 40, SegmentBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	const small = 2 * 256 << 10 / BlockBytes * indexBlockRows // two buffers of rows
	n := 0
	for bytes := 0; bytes < 2*flushJobBytes+flushJobBytes/2; {
		for range 1 + rng.IntN(6) {
			size := 61 + rng.IntN(200)
			switch rng.IntN(100) {
			case 0:
				size = 3 << 20
			case 1, 2, 3, 4, 5, 6, 7, 8, 9:
				size = 10<<10 + rng.IntN(100<<10)
			}
			ts.batch(l, 1, 1+rng.IntN(3), size)
			bytes += size
			n++
		}
		commitAll(l)
		ts.commit()
	}
	for range small {
		ts.batch(l, 1, 1, 61)
	}
	n += small
	commitAll(l)
	ts.commit()
	l.SetConfig(LogConfig{FlushBytesMax: 1, SegmentBytes: 1 << 30})
	jobs := 0
	for l.flushed < l.last {
		due, _ := ts.set.Maintain(ts.now, 16, nil)
		ts.now += core.Millisecond
		for _, j := range due {
			jobs++
			j.Run()
			if j.Finish(); j.Err != nil {
				t.Fatal(j.Err)
			}
		}
		ts.commit()
	}
	if jobs < 3 {
		t.Errorf("%d batches took %d jobs", n, jobs)
	}
	for _, again := range []bool{false, true} {
		if again {
			ts.close()
			ts = openStore(t, fs, opts)
			l = ts.set.Get(20)
		}
		ts.evictAll()
		if bases, _ := ts.readAll(l); len(bases) != n {
			t.Errorf("opened again %v: %d of %d batches", again, len(bases), n)
		}
		for range 200 {
			at := rng.Int64N(int64(l.NextOffset()))
			_, j, err := l.FindTimestamp(at*1000, l.NextOffset())
			if err != nil || j == nil {
				t.Fatalf("opened again %v: looking for the time of offset %d: %v", again, at, err)
			}
			j.Run()
			j.Finish()
			if f := j.Found; j.Err != nil || !f.Found || f.MaxTimestamp < at*1000 || f.BaseOffset < core.Offset(at) || f.BaseOffset > core.Offset(at+2) {
				t.Fatalf("opened again %v: looking for the time of offset %d: %+v, %v", again, at, f, j.Err)
			}
		}
	}
	ts.close()
}
