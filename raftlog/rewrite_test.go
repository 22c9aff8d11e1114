package raftlog

import (
	"errors"
	"strings"
	"testing"

	"millrace/core"
)

// evictAll drops every payload that may be dropped.
func (ts *testStore) evictAll() { ts.set.Evict(ts.mem, 1<<40) }

func TestPayloadsThatWaitToBeWrittenAgainAreNotEvicted(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ts.batch(l, 1, 1, 500)
	}
	ts.commit()
	if j := l.startRewrite(); j != nil {
		t.Fatal("a job reads what is in memory")
	}
	ts.evictAll()
	ts.commit() // collects them
	ts.evictAll()
	if bases, jobs := ts.readAll(l); len(bases) != 5 || jobs == 0 {
		t.Fatalf("%d batches by %d jobs", len(bases), jobs)
	}
}

// Batches that were small one by one are large enough together for a direct
// write when they are written again; until that is done they are where they were.
func TestReadWhileEntriesAreWrittenAgainInAnotherShape(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{DirectBytes: 16 << 10})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		ts.batch(l, 1, 1, 5000)
		ts.commit()
	}
	ts.evictAll()
	j := l.startRewrite()
	j.Run()
	j.Finish()
	if j.Err != nil {
		t.Fatal(j.Err)
	}
	turn := ts.set.Collect()
	if n := len(turn.logs[0].extents); n != 1 {
		t.Fatalf("%d extents: the test wants one", n)
	}
	if bases, _ := ts.readAll(l); len(bases) != 8 {
		t.Fatalf("%d batches while the turn is under way", len(bases))
	}
	ts.s.Journal().Submit(turn)
	for _, d := range ts.s.Journal().Commit() {
		ts.set.Done(d)
	}
	if !l.meta(3).direct || l.busy {
		t.Fatalf("entry 3 is %+v after the turn, busy %v", *l.meta(3), l.busy)
	}
	if bases, _ := ts.readAll(l); len(bases) != 8 {
		t.Fatalf("%d batches after the turn", len(bases))
	}
}

// What replaces entries must not be written over bytes that a turn under way
// puts into the segment.
func TestReplacementOfEntriesBeingWrittenDirectlyRolls(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{DirectBytes: 16 << 10})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ts.batch(l, 1, 1, 500)
	ts.commit()
	ts.batch(l, 1, 1, 40<<10)
	turn := ts.set.Collect()
	old := *l.meta(2)
	ts.s.Journal().Submit(turn)
	buf, err := ts.mem.Alloc(20 << 10)
	if err != nil {
		t.Fatal(err)
	}
	copy(buf.Bytes(), makeBatch(1, 1, 20<<10, 2, 1000))
	l.Append([]Entry{{Index: 2, Term: 2, Kind: EntryBatch, BaseOffset: 1, LastOffset: 1, MaxTimestamp: 1000, Payload: buf}})
	if m := l.meta(2); m.seg == old.seg {
		t.Fatalf("the replacement is at %d of segment %d, the replaced at %d", m.pos, m.seg, old.pos)
	}
	for _, d := range ts.s.Journal().Commit() {
		ts.set.Done(d)
	}
	ts.commit()
	ts.evictAll()
	if bases, _ := ts.readAll(l); len(bases) != 2 || bases[1] != core.Offset(1) {
		t.Fatalf("batches at %v", bases)
	}
}

// TestCrashWhileEntriesAreWrittenAgainLosesNone: a Commit of more than one frame ends
// after its first, which is full while it takes in the entries of a log that are
// written again.
func TestCrashWhileEntriesAreWrittenAgainLosesNone(t *testing.T) {
	fs := newMemFS(t)
	opts := Options{FrameBytes: 16 << 10}
	ts := openStore(t, fs, opts)
	var logs []*Log
	for _, id := range []core.PartitionID{20, 21, 22} {
		l, err := ts.set.Create(id, LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	first, again, last := logs[0], logs[1], logs[2]
	for range 5 {
		ts.batch(again, 1, 1, 500)
		commitAll(again)
		ts.commit()
	}
	ts.batch(first, 1, 1, opts.FrameBytes-1500)
	if j := again.startRewrite(); j != nil {
		t.Fatal("a job reads what is in memory")
	}
	ts.batch(last, 1, 1, 500)
	j, writes := ts.s.Journal(), 0
	fs.fail = func(op, name string) error {
		if op == "write" && strings.HasPrefix(name, journalDir) {
			if writes++; writes > 1 {
				return errors.New("the device is gone")
			}
		}
		return nil
	}
	j.Submit(ts.set.Collect())
	for _, d := range j.Commit() {
		if d.Err == nil {
			t.Fatal("the turn was done")
		}
	}
	if writes != 2 {
		t.Fatalf("%d frames: the test wants a second one", writes)
	}
	fs.fail = nil
	ts = openStore(t, fs.clone(), opts)
	defer ts.close()
	if l := ts.set.Get(20); l.LastIndex() != 1 {
		t.Fatalf("the first frame is not there: partition 20 ends at entry %d", l.LastIndex())
	}
	l := ts.set.Get(21)
	if bases, _ := ts.readAll(l); len(bases) != 5 || l.HardState().Commit != 5 {
		t.Errorf("%d of 5 batches after the crash, commit %d", len(bases), l.HardState().Commit)
	}
}
