package raftlog

import (
	"bytes"
	"encoding/binary"
	"testing"

	"millrace/core"
	"millrace/core/arena"
)

// Entries found by recovery are described without having a payload in memory.
func TestRecoveredEntriesAreDescribedAndReplaced(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	l, err := ts.set.Create(20, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l.SetHardState(HardState{Term: 1, Vote: 1})
	for range 3 {
		ts.batch(l, 1, 2, 500)
	}
	ts.commit()
	ts.close()

	ts = openStore(t, fs, Options{})
	l = ts.set.Get(20)
	e, ok := l.Entry(2)
	if !ok || e.Term != 1 || e.BaseOffset != 2 || e.Payload.Len() != 0 {
		t.Errorf("entry 2 is %+v, %v", e, ok)
	}
	p := makeBatch(2, 5, 400, 2, 0)
	l.Append([]Entry{{Index: 2, Term: 2, Kind: EntryBatch, BaseOffset: 2, LastOffset: 6, Payload: arena.Foreign(p)}})
	if l.LastIndex() != 2 || l.NextOffset() != 7 {
		t.Errorf("last index %d, next offset %d after the replacement, want 2 and 7", l.LastIndex(), l.NextOffset())
	}
	ts.commit()
	ts.close()

	l = openStore(t, fs, Options{}).set.Get(20)
	if term, err := l.Term(2); err != nil || term != 2 || l.LastIndex() != 2 {
		t.Errorf("after a restart: term of 2 is %d (%v), last index %d", term, err, l.LastIndex())
	}
}

// A log start is committed as an entry, and a crash may come before the log's own
// record of it is durable: the owner finds it by ScanHeaders.
func TestScanHeadersTellsLogStarts(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	l, err := ts.set.Create(20, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ts.batch(l, 1, 9, 500)
	start := binary.BigEndian.AppendUint64(nil, 7)
	l.Append([]Entry{{
		Index: 2, Term: 1, Kind: EntryLogStart, BaseOffset: 9, LastOffset: 8, MaxTimestamp: -1, Payload: arena.Foreign(start),
	}})
	ts.commit()
	ts.close()

	var got []byte
	err = openStore(t, fs, Options{}).set.Get(20).ScanHeaders(1, func(e Entry, header []byte) error {
		if e.Kind == EntryLogStart {
			got = bytes.Clone(e.Payload.Bytes())
		}
		return nil
	})
	if err != nil || !bytes.Equal(got, start) {
		t.Errorf("log start entry holds %x (%v), want %x", got, err, start)
	}
}

// A damaged frame that is alone in its file looks like the tail of an unused one. It is
// not written over: whoever gets the bytes back finds all as it was.
func TestDamagedFrameIsLeftForRepair(t *testing.T) {
	fs := newMemFS(t)
	const fileBytes = 64 << 10
	ts := openStore(t, fs, Options{JournalFileBytes: fileBytes, DirectBytes: 1 << 20})
	l, err := ts.set.Create(20, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	const frames = 4
	for range frames { // each fills most of a file
		ts.batch(l, 1, 1, 40<<10)
		ts.commit()
	}
	middle := l.meta(2)
	file := (*ts.s.journal.files.Load())[middle.file-1]
	name, at := journalName(file.seq), int64(middle.jpos)+1000
	if file.firstFrame != file.lastFrame {
		t.Fatalf("%s holds frames [%d, %d], the test wants one", name, file.firstFrame, file.lastFrame)
	}
	ts.close()

	flip := func() {
		t.Helper()
		f, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		block := AlignedBuf(BlockBytes)
		if err := readFull(f, block, alignDown(at)); err != nil {
			t.Fatal(err)
		}
		block[at%BlockBytes] ^= 4
		if _, err := f.WriteAt(block, alignDown(at)); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	ts = openStore(t, fs, Options{JournalFileBytes: fileBytes, DirectBytes: 1 << 20})
	if ts.rec.Damaged[20] == nil {
		t.Fatal("the damage was not found")
	}
	ts.s.Discard()
	flip()
	ts = openStore(t, fs, Options{JournalFileBytes: fileBytes, DirectBytes: 1 << 20})
	if err := ts.rec.Damaged[20]; err != nil {
		t.Fatalf("after the repair: %v", err)
	}
	if bases, _ := ts.readAll(ts.set.Get(20)); len(bases) != frames {
		t.Errorf("%d batches after the repair, want %d", len(bases), frames)
	}
}

// A batch that ends close below a block border is scanned without asking for
// bytes beyond the end of its segment.
func TestScanHeadersStaysWithinTheSegment(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	ts.batch(l, 1, 2, BlockBytes-10)
	commitAll(l)
	ts.commit()
	ts.maintain()
	ts.close()

	n := 0
	err = openStore(t, fs, Options{}).set.Get(20).ScanHeaders(1, func(e Entry, header []byte) error {
		n++
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("%d entries scanned (%v), want 1", n, err)
	}
}

// The state record tells how long the log was, so that entries above what is in
// segments are missed when the frame that held them is unreadable.
func TestStateRecordTellsTheLastIndex(t *testing.T) {
	s := &groupState{hs: HardState{Term: 3, Vote: 1}, firstIndex: 1, flushed: 4, flushedOffset: 9, last: 12}
	w := writer{buf: make([]byte, s.size())}
	w.putState(s)
	r, _, err := nextRecord(w.buf)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseState(r)
	if err != nil || got.last != 12 {
		t.Fatalf("last index %+v (%v), want 12", got, err)
	}
	g := &groupReplay{id: 20, base: got, baseFrame: 8, lost: 7}
	if g.settle(); g.problem == "" {
		t.Error("the loss of the entries above the segments is not noticed")
	}
	got.last = 4
	g = &groupReplay{id: 20, base: got, baseFrame: 8, lost: 7}
	if g.settle(); g.problem != "" {
		t.Errorf("a frame below the state counts as needed: %s", g.problem)
	}
}

// Direct bytes behind the end of a log stay alone, however often the entries that
// replace them are replaced themselves: they are durable until the replacement is.
func TestReplacedDirectBytesAreNotOverwritten(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{DirectBytes: 16 << 10})
	l, err := ts.set.Create(20, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ts.batch(l, 1, 1, 500)
	ts.commit()
	ts.batch(l, 1, 1, 40<<10)
	ts.commit()
	if m := l.meta(2); !m.direct {
		t.Fatal("the large batch is not direct")
	}
	for term := core.Term(2); term < 5; term++ {
		p := makeBatch(1, 1, 500, term, 0)
		l.Append([]Entry{{Index: 2, Term: term, Kind: EntryBatch, BaseOffset: 1, LastOffset: 1, Payload: arena.Foreign(p)}})
		if m := l.meta(2); m.seg == l.meta(1).seg {
			t.Fatalf("the entry of term %d is placed over the direct bytes", term)
		}
	}
}

// TestAStartFlushesNothingForItsSizeBeforeTheSettingsAreKnown: what a crash left in
// the journal would be flushed all at once, while the node is to get ready.
func TestAStartFlushesNothingForItsSizeBeforeTheSettingsAreKnown(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		ts.batch(l, 1, 3, 1<<20)
		commitAll(l)
		ts.commit()
	}
	ts.close()
	ts = openStore(t, fs, Options{})
	defer ts.close()
	l = ts.set.Get(20)
	commitAll(l)
	if jobs, _ := ts.set.Maintain(core.Second, 10, nil); len(jobs) != 0 {
		t.Errorf("%d jobs before the settings are known", len(jobs))
	}
	l.SetConfig(LogConfig{FlushBytesMax: 1 << 20})
	jobs, _ := ts.set.Maintain(2*core.Second, 10, nil)
	if len(jobs) != 1 {
		t.Errorf("%d jobs with the settings, want the flush", len(jobs))
	}
	for _, j := range jobs {
		j.Run()
		j.Finish()
	}
}
