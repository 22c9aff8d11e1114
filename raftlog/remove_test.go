package raftlog

import (
	"testing"

	"millrace/core"
)

// TestRemovalLeavesWhatOnlyAStateOnItsWayDrops: the first removal of a log sweeps its
// directory. A segment that a later state drops, which is submitted and not written,
// is needed after a crash.
func TestRemovalLeavesWhatOnlyAStateOnItsWayDrops(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{DirectBytes: 1 << 30})
	l, err := ts.set.Create(20, LogConfig{SegmentBytes: 20 << 10, FlushBytesMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // two to a segment
		ts.batch(l, 1, 1, 8<<10)
		commitAll(l)
		ts.commit()
	}
	ts.maintain()
	if n := len(l.segs); n < 4 {
		t.Fatalf("%d segments", n)
	}
	trimmed := func(start core.Offset) *Turn {
		l.SetLogStart(start)
		if jobs, _ := ts.set.Maintain(ts.now, 0, nil); len(jobs) != 0 {
			t.Fatalf("%d jobs", len(jobs))
		}
		l.trim()
		return ts.set.Collect()
	}
	j := ts.s.Journal()
	first := trimmed(2)
	j.Submit(first)
	durable := j.Commit()
	second := trimmed(4) // never written
	for _, turn := range durable {
		ts.set.Done(turn)
	}
	jobs, _ := ts.set.Maintain(ts.now, 16, nil)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want a removal", len(jobs))
	}
	for _, job := range jobs {
		job.Run()
		job.Finish()
		if job.Err != nil {
			t.Fatal(job.Err)
		}
	}
	if second.Empty() {
		t.Fatal("nothing is on its way")
	}
	ts = openStore(t, fs.clone(), Options{DirectBytes: 1 << 30})
	defer ts.close()
	l = ts.set.Get(20)
	if l == nil || l.LogStart() != 2 {
		t.Fatalf("the log starts at %v after the crash, want 2", l)
	}
	if bases, _ := ts.readAll(l); len(bases) != 6 || bases[0] != 2 {
		t.Errorf("offsets %v after the crash, want 2 to 7", bases)
	}
}

// TestRemovalLeavesWhatIsReplacedByATurnOnItsWay: so is the segment of entries that
// are durable there, not committed, and replaced by what is submitted and not written.
func TestRemovalLeavesWhatIsReplacedByATurnOnItsWay(t *testing.T) {
	fs, opts := newMemFS(t), Options{DirectBytes: 16 << 10}
	ts := openStore(t, fs, opts)
	l, err := ts.set.Create(20, LogConfig{SegmentBytes: 20 << 10, FlushBytesMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // two to a segment
		ts.batch(l, 1, 1, 8<<10)
		commitAll(l)
		ts.commit()
	}
	ts.maintain()
	ts.batch(l, 1, 1, 40<<10)
	ts.commit()
	if m := l.meta(9); !m.direct || m.seg == l.flushedSeg.id {
		t.Fatalf("entry 9 is %+v: the test wants it in a segment of its own", *m)
	}
	l.SetLogStart(4)
	l.trim()
	j := ts.s.Journal()
	j.Submit(ts.set.Collect())
	durable := j.Commit()
	l.Append([]Entry{{Index: 9, Term: 2, Kind: EntryEmpty, BaseOffset: 8, LastOffset: 7, MaxTimestamp: -1}})
	if ts.set.Collect().Empty() { // never written
		t.Fatal("nothing is on its way")
	}
	for _, turn := range durable {
		ts.set.Done(turn)
	}
	jobs, _ := ts.set.Maintain(ts.now, 16, nil)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want a removal", len(jobs))
	}
	for _, job := range jobs {
		job.Run()
		job.Finish()
		if job.Err != nil {
			t.Fatal(job.Err)
		}
	}
	ts = openStore(t, fs.clone(), opts)
	defer ts.close()
	if bases, _ := ts.readAll(ts.set.Get(20)); len(bases) != 5 || bases[4] != 8 {
		t.Errorf("offsets %v after the crash, want 4 to 8", bases)
	}
}
