package raftlog

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"millrace/core"
)

// dated appends a batch with a timestamp of its own.
func (ts *testStore) dated(l *Log, ms int64, size int) {
	p := makeBatch(l.NextOffset(), 1, size, 1, ms)
	buf, err := ts.mem.Alloc(len(p))
	if err != nil {
		ts.t.Fatal(err)
	}
	copy(buf.Bytes(), p)
	l.Append([]Entry{{
		Index: l.LastIndex() + 1, Term: 1, Kind: EntryBatch, BaseOffset: l.NextOffset(),
		LastOffset: l.NextOffset(), MaxTimestamp: ms, Payload: buf,
	}})
}

func runFind(t *testing.T, r TimeResult, j *Job, err error) TimeResult {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if j == nil {
		return r
	}
	j.Run()
	j.Finish()
	if j.Err != nil {
		t.Fatal(j.Err)
	}
	return j.Found
}

func TestFindByTimestamp(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{JournalFilesMax: 4})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{SegmentBytes: 40 << 10, FlushBytesMax: 4 << 10})
	var stamps []int64
	for i := range int64(900) {
		// Out of order on purpose, with one far ahead.
		ms := 1_000_000 + i*10 - (i%7)*35
		if i == 500 {
			ms = 1_007_000
		}
		stamps = append(stamps, ms)
		ts.dated(l, ms, 300)
		if i%20 == 19 && i < 860 {
			commitAll(l)
			ts.commit()
			ts.maintain()
		}
	}
	if len(l.segs) < 4 || l.flushed == l.last || l.flushed == 0 {
		t.Fatalf("%d segments, flushed %d of %d", len(l.segs), l.flushed, l.last)
	}
	l.SetLogStart(30)
	for ms := int64(999_990); ms < 1_009_100; ms += 13 {
		for _, upTo := range []core.Offset{l.NextOffset(), 700, 450} {
			want := slices.IndexFunc(stamps[30:upTo], func(s int64) bool { return s >= ms })
			r, j, err := l.FindTimestamp(ms, upTo)
			got := runFind(t, r, j, err)
			if got.Found != (want >= 0) || got.Found && (got.BaseOffset != core.Offset(want+30) || got.MaxTimestamp != stamps[want+30] || got.Term != 1) {
				t.Fatalf("time %d below %d: found %+v, want offset %d", ms, upTo, got, want+30)
			}
		}
	}
	for _, upTo := range []core.Offset{l.NextOffset(), 700, 501, 500, 31} {
		want := 30
		for k := 30; k < int(upTo); k++ {
			if stamps[k] > stamps[want] {
				want = k
			}
		}
		r, j, err := l.FindMaxTimestamp(upTo)
		if got := runFind(t, r, j, err); got.BaseOffset != core.Offset(want) || got.MaxTimestamp != stamps[want] {
			t.Fatalf("largest below %d: %+v, want offset %d", upTo, got, want)
		}
	}
}

func TestRetention(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{})
	defer ts.close()
	cfg := LogConfig{SegmentBytes: 10 << 10, SegmentMs: 1 << 40, FlushBytesMax: 1 << 10, RetentionBytes: -1, RetentionMs: -1, Delete: true}
	l, _ := ts.set.Create(20, cfg)
	for i := range int64(40) { // ten segments of four batches, 10 ms apart
		ts.dated(l, 10_000+i*10, 2500)
		commitAll(l)
		ts.commit()
		ts.maintain()
	}
	if len(l.segs) != 10 || l.SizeBytes() != 100_000 {
		t.Fatalf("%d segments, %d bytes", len(l.segs), l.SizeBytes())
	}
	cases := []struct {
		bytes, ms int64
		nowMs     int64
		limit     core.Offset
		want      core.Offset // -1: nothing
	}{
		{-1, -1, 1 << 40, 40, -1},
		{100_000, -1, 0, 40, -1},
		{99_999, -1, 0, 40, -1}, // 90,000 would be too little
		{90_000, -1, 0, 40, 4},
		{25_001, -1, 0, 40, 28},
		{0, -1, 0, 40, 36}, // never the active one by size
		{0, -1, 0, 30, 28},
		{-1, 100, 10_130, 40, -1},
		{-1, 100, 10_131, 40, 4},
		{-1, 100, 10_400, 40, 28},
		{-1, 100, 10_490, 40, 36},
		{-1, 100, 10_491, 40, 40}, // the active one too
		{-1, 100, 10_491, 39, 36},
	}
	for _, c := range cases {
		cfg.RetentionBytes, cfg.RetentionMs = c.bytes, c.ms
		l.SetConfig(cfg)
		got, ok := l.RetentionStart(core.Tick(c.nowMs)*core.Millisecond, c.limit)
		if ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%+v: %d, %v", c, got, ok)
		}
	}
	cfg.Delete = false
	l.SetConfig(cfg)
	if _, ok := l.RetentionStart(1<<50, 40); ok {
		t.Error("a compacted log loses segments")
	}
	// The active segment was rolled by the last case: what comes next survives.
	l.SetLogStart(40)
	ts.dated(l, 20_000, 100)
	commitAll(l)
	ts.commit()
	ts.maintain()
	if len(l.segs) != 1 || l.FirstIndex() != 41 || l.SizeBytes() != 100 {
		t.Errorf("%d segments, first %d, %d bytes", len(l.segs), l.FirstIndex(), l.SizeBytes())
	}
	if term, err := l.Term(40); term != 1 || err != nil {
		t.Errorf("term of first-1: %d, %v", term, err)
	}
	if _, err := l.Term(39); !errors.Is(err, ErrCompacted) {
		t.Errorf("term below: %v", err)
	}
}

func TestCheckpointSurvives(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	l, _ := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
	ts.empty(l, 1)
	ts.batch(l, 1, 1, 100)
	ts.batch(l, 1, 1, 100)
	l.SetCheckpoint(2, []byte("too early: nothing is durable"))
	asked := 0
	l.NeedCheckpoint(func() { asked++; l.SetCheckpoint(2, []byte("as of 2")) })
	commitAll(l)
	if i, _ := l.Checkpoint(); i != 0 {
		t.Errorf("a checkpoint of index %d was taken", i)
	}
	ts.commit()
	ts.maintain()
	if asked == 0 || l.flushed != 2 {
		t.Errorf("asked %d times, flushed %d", asked, l.flushed)
	}
	ts.close()
	ts = openStore(t, fs, Options{})
	defer ts.close()
	l = ts.set.Get(20)
	i, state := l.Checkpoint()
	if i != 2 || string(state) != "as of 2" {
		t.Errorf("found %q of index %d", state, i)
	}
	var seen []core.Index
	if err := l.ScanHeaders(i+1, func(e Entry, h []byte) error { seen = append(seen, e.Index); return nil }); err != nil || fmt.Sprint(seen) != "[3]" {
		t.Errorf("after the checkpoint come %v, %v", seen, err)
	}
}

func TestSegmentRollsByAge(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{SegmentMs: 60_000, FlushBytesMax: 1})
	ts.batch(l, 1, 1, 100)
	commitAll(l)
	ts.commit()
	ts.maintain()
	for range 14 { // a little more than a minute
		ts.now += 5 * core.Second
		ts.maintain()
	}
	ts.batch(l, 1, 1, 100)
	if len(l.segs) != 2 {
		t.Errorf("%d segments", len(l.segs))
	}
}

func TestTermAndOffsetOf(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{})
	ts.empty(l, 2)
	ts.batch(l, 2, 5, 100)
	ts.empty(l, 4)
	ts.batch(l, 4, 2, 100)
	for i, want := range []core.Term{0, 2, 2, 4, 4} {
		if got, err := l.Term(core.Index(i)); got != want || err != nil {
			t.Errorf("term of %d: %d, %v", i, got, err)
		}
	}
	for i, want := range []core.Offset{0, 0, 5, 5, 7} {
		if got, err := l.OffsetOf(core.Index(i)); got != want || err != nil {
			t.Errorf("offset of %d: %d, %v", i, got, err)
		}
	}
	if _, err := l.Term(5); !errors.Is(err, ErrUnavailable) {
		t.Errorf("term above: %v", err)
	}
	if got := fmt.Sprint(l.Epochs()); got != "[{2 1 0} {4 3 5}]" {
		t.Errorf("epochs %s", got)
	}
	if e, ok := l.Entry(2); !ok || e.LastOffset != 4 || e.Payload.Len() != 100 || e.Term != 2 {
		t.Errorf("entry %+v", e)
	}
}

// TestSmallLogsDoNotPinTheJournal has many logs of one small batch and one busy
// one: the small ones are written to the journal again, from memory or read
// back, and no segment is made for them.
func TestSmallLogsDoNotPinTheJournal(t *testing.T) {
	for _, evict := range []bool{false, true} {
		fs := newMemFS(t)
		opts := Options{JournalFilesMax: 4, JournalFileBytes: 128 << 10}
		ts := openStore(t, fs, opts)
		for id := range core.PartitionID(50) {
			l, _ := ts.set.Create(20+id, LogConfig{})
			ts.empty(l, 1)
			ts.batch(l, 1, 2, 200)
			if id%2 == 0 {
				commitAll(l)
			}
		}
		busy, _ := ts.set.Create(1000, LogConfig{SegmentBytes: 1 << 20, FlushBytesMax: 64 << 10})
		ts.commit()
		for range 200 {
			ts.batch(busy, 1, 1, 20_000)
			commitAll(busy)
			ts.commit()
			if evict {
				ts.set.Evict(ts.mem, 1<<40)
			}
			ts.maintain()
			prepareAll(t, ts.s.Journal())
		}
		if n := ts.s.Journal().Stats().Files; n > 8 {
			t.Errorf("evict %v: %d journal files", evict, n)
		}
		if n := len(fs.names(partitionDir(20))); n != 0 {
			t.Errorf("evict %v: %d files of a small log", evict, n)
		}
		ts.close()
		ts = openStore(t, fs, opts)
		for id := range core.PartitionID(50) {
			l := ts.set.Get(20 + id)
			if bases, _ := ts.readAll(l); l.LastIndex() != 2 || len(bases) != 1 || l.Damaged() != nil {
				t.Fatalf("evict %v: log %d has last %d, %v", evict, id, l.LastIndex(), l.Damaged())
			}
		}
		ts.close()
	}
}

func TestIdleLogIsSmall(t *testing.T) {
	const n = 10_000
	fs := newMemFS(t)
	opts := Options{JournalFileBytes: 16 << 20, Logf: func(string, ...any) {}}
	ts := openStore(t, fs, opts)
	for i := range n {
		l, _ := ts.set.Create(core.PartitionID(20+i), LogConfig{FlushBytesMax: 1})
		ts.empty(l, 1)
		ts.batch(l, 1, 1, 100)
		commitAll(l)
	}
	ts.commit()
	ts.close()
	ts = nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ts = openStore(t, fs, opts)
	for _, l := range ts.set.All() {
		if err := l.ScanHeaders(1, func(Entry, []byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / n; each > 1536 {
		t.Errorf("%d bytes per idle log", each)
	} else {
		t.Logf("%d bytes per idle log", each)
	}
	ts.close()
}

func TestDamagedSegmentIsFoundOnRead(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
	for range 10 {
		ts.batch(l, 1, 1, 1000)
	}
	commitAll(l)
	ts.commit()
	ts.maintain()
	for ts.set.cache.refs.len() > 0 {
		ts.set.Evict(ts.mem, 1<<40)
	}
	read := func() error {
		_, j, err := l.Read(ts.mem, 3, 10, 1500, true)
		if err != nil || j == nil {
			t.Fatalf("%v, %v", j, err)
		}
		j.Run()
		j.Finish()
		for _, b := range j.Read.Bufs {
			b.Release()
		}
		return j.Err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	data := fs.files[segmentName(20, 1)].data
	data[3500] ^= 1
	if err := read(); !errors.Is(err, core.ErrStorageFailed) {
		t.Errorf("a flipped bit in a batch: %v", err)
	}
	data[3500] ^= 1
	data[3007] ^= 1 // the base offset, which no batch checksum covers
	if err := read(); !errors.Is(err, core.ErrStorageFailed) {
		t.Errorf("a flipped bit in a base offset: %v", err)
	}
	data[3007] ^= 1
	index := fs.files[indexName(20, 1)].data
	index[indexHeaderBytes+3*indexRowBytes+26] ^= 1
	if err := read(); !errors.Is(err, core.ErrStorageFailed) {
		t.Errorf("a flipped bit in an index row: %v", err)
	}
}

func TestFlushErrorEndsTheJournal(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
	ts.batch(l, 1, 1, 1000)
	commitAll(l)
	ts.commit()
	fs.fail = func(op, name string) error {
		if op == "sync" && name == segmentName(20, 1) {
			return errors.New("input/output error")
		}
		return nil
	}
	ts.jobErr = func(error) {}
	jobs, _ := ts.set.Maintain(ts.now, 1, nil)
	jobs[0].Run()
	jobs[0].Finish()
	ts.batch(l, 1, 1, 1000)
	ts.s.Journal().Submit(ts.set.Collect())
	done := ts.s.Journal().Commit()
	if len(done) != 1 || !errors.Is(done[0].Err, core.ErrStorageFailed) {
		t.Fatalf("%d turns done, %v", len(done), done)
	}
	fs.fail = nil
	ts.s.Discard()
	ts2 := openStore(t, fs.clone(), Options{})
	defer ts2.close()
	if l := ts2.set.Get(20); l.LastIndex() != 1 || l.Damaged() != nil {
		t.Errorf("after a restart: %d, %v", l.LastIndex(), l.Damaged())
	}
}
