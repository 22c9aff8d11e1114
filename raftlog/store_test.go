package raftlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/core"
	"millrace/core/arena"
)

func TestEntriesSurviveReopen(t *testing.T) {
	for _, kind := range []string{"memory", "directory"} {
		t.Run(kind, func(t *testing.T) {
			fs := testFS(t, kind)
			ts := openStore(t, fs, Options{})
			l, err := ts.set.Create(20, LogConfig{})
			if err != nil {
				t.Fatal(err)
			}
			ts.empty(l, 1)
			for i := range 50 {
				ts.batch(l, 1, 3, 200+i*37)
				if i%7 == 0 {
					ts.commit()
				}
			}
			commitAll(l)
			ts.commit()
			want, jobs := ts.readAll(l)
			if jobs != 0 || len(want) != 50 {
				t.Fatalf("%d batches in %d jobs from memory", len(want), jobs)
			}
			ts.close()

			ts = openStore(t, fs, Options{})
			defer ts.close()
			l = ts.set.Get(20)
			if l == nil || l.LastIndex() != 51 || l.NextOffset() != 150 || l.HardState().Commit != 51 {
				t.Fatalf("found %+v", l)
			}
			if term, err := l.Term(30); term != 1 || err != nil {
				t.Fatalf("term %d, %v", term, err)
			}
			got, jobs := ts.readAll(l)
			if fmt.Sprint(got) != fmt.Sprint(want) || jobs == 0 {
				t.Fatalf("%d batches in %d jobs", len(got), jobs)
			}
			seen := 0
			if err := l.ScanHeaders(2, func(e Entry, h []byte) error {
				seen++
				if core.Batch(h).BaseOffset() != e.BaseOffset || core.Batch(h).LastOffset() != e.LastOffset {
					t.Errorf("entry %d has the header of batch %d", e.Index, core.Batch(h).BaseOffset())
				}
				return nil
			}); err != nil || seen != 50 {
				t.Fatalf("scan: %d headers, %v", seen, err)
			}
			ts.batch(l, 2, 1, 300)
			ts.commit()
			if got, _ = ts.readAll(l); len(got) != 51 {
				t.Fatalf("%d batches after another append", len(got))
			}
		})
	}
}

// testFS makes an FS of a kind; a directory's is closed with the test.
func testFS(t testing.TB, kind string) FS {
	if kind == "memory" {
		return newMemFS(t)
	}
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestRunCompletesTurns(t *testing.T) {
	done := make(chan *Turn, 64)
	onDone := func(ts []*Turn) {
		for _, t := range ts {
			done <- t
		}
	}
	ts := openStore(t, testFS(t, "directory"), Options{})
	finished := make(chan struct{})
	go func() { defer close(finished); ts.s.Journal().Run(context.Background(), onDone) }()
	l, _ := ts.set.Create(20, LogConfig{})
	for range 20 {
		ts.batch(l, 1, 1, 1000)
		turn := ts.set.Collect()
		ts.s.Journal().Submit(turn)
		select {
		case d := <-done:
			if d != turn || d.Err != nil {
				t.Fatalf("turn %d: %v", d.Seq, d.Err)
			}
			ts.set.Done(d)
		case <-time.After(10 * time.Second):
			t.Fatal("no completion")
		}
	}
	if l.DurableIndex() != 20 {
		t.Fatalf("durable index %d", l.DurableIndex())
	}
	ts.batch(l, 1, 1, 1000)
	last := ts.set.Collect()
	ts.s.Journal().Submit(last)
	ts.close()
	select {
	case d := <-done:
		if d != last || d.Err != nil {
			t.Fatalf("turn %d: %v", d.Seq, d.Err)
		}
	default:
		t.Fatal("Close did not wait for what was submitted")
	}
	select {
	case <-finished:
	case <-time.After(10 * time.Second):
		t.Fatal("Run goes on after Close")
	}
}

func TestRunBesideClose(t *testing.T) {
	for range 20 {
		ts := openStore(t, testFS(t, "directory"), Options{})
		_, err := ts.set.Create(20, LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		finished := make(chan struct{})
		go func() { defer close(finished); ts.s.Journal().Run(context.Background(), func([]*Turn) {}) }()
		ts.close()
		select {
		case <-finished:
		case <-time.After(10 * time.Second):
			t.Fatal("Run goes on after Close")
		}
	}
}

// panickingFS does so as soon as a file is to be made.
type panickingFS struct {
	FS
	now atomic.Bool
}

func (f *panickingFS) Create(name string) (File, error) {
	if f.now.Load() {
		panic("FATAL: the test says so")
	}
	return f.FS.Create(name)
}

func TestAFatalPanicWhilePreparingFailsTheJournal(t *testing.T) {
	fs := &panickingFS{FS: testFS(t, "directory")}
	ts := openStore(t, fs, Options{})
	fs.now.Store(true)
	go ts.s.Journal().Run(context.Background(), func([]*Turn) {})
	for end := time.Now().Add(10 * time.Second); ts.s.Journal().Failed() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the journal goes on without its preparer")
		}
	}
	if err := ts.s.Journal().Failed(); !errors.Is(err, core.ErrStorageFailed) || !strings.Contains(err.Error(), "the test says so") {
		t.Errorf("failed with %v", err)
	}
	if err := ts.s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFlushMovesEntriesToSegments(t *testing.T) {
	for _, kind := range []string{"memory", "directory"} {
		t.Run(kind, func(t *testing.T) {
			fs := testFS(t, kind)
			opts := Options{JournalFilesMax: 4}
			ts := openStore(t, fs, opts)
			cfg := LogConfig{SegmentBytes: 100 << 10, FlushBytesMax: 20 << 10}
			l, _ := ts.set.Create(20, cfg)
			total := 0
			for i := range 400 {
				ts.batch(l, 1, 2, 100+(i*577)%5000)
				if i%50 == 49 {
					ts.batch(l, 1, 1, 70<<10) // goes straight to the segment
					total++
				}
				total++
				commitAll(l)
				ts.commit()
				if i%3 == 0 {
					ts.maintain()
				}
				for more := true; more; {
					var err error
					if more, err = ts.s.Journal().Prepare(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if l.flushed == 0 || len(l.segs) < 5 {
				t.Fatalf("flushed %d in %d segments", l.flushed, len(l.segs))
			}
			for ts.set.cache.refs.len() > 0 {
				ts.set.Evict(ts.mem, 1<<40)
			}
			want, jobs := ts.readAll(l)
			if len(want) != total || jobs == 0 {
				t.Fatalf("%d batches of %d in %d jobs", len(want), total, jobs)
			}
			ts.close()
			ts = openStore(t, fs, opts)
			defer ts.close()
			l = ts.set.Get(20)
			l.SetConfig(cfg)
			got, _ := ts.readAll(l)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%d batches after reopening, want %d", len(got), len(want))
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{})
	ts.batch(l, 1, 5, 500)
	a := arena.New(1 << 20)
	if _, _, err := l.Read(a, 6, 6, 100, true); !errors.Is(err, core.ErrOffsetOutOfRange) {
		t.Errorf("read above the end: %v", err)
	}
	if r, j, err := l.Read(a, 5, 9, 100, true); err != nil || j != nil || r.Bytes != 0 || r.Next != 5 {
		t.Errorf("read at the end: %v %v %v", r, j, err)
	}
	if r, _, err := l.Read(a, 2, 9, 100, false); err != nil || r.Bytes != 0 {
		t.Errorf("read with too few bytes: %v %v", r, err)
	}
	if r, _, err := l.Read(a, 2, 9, 100, true); err != nil || r.Bytes != 500 || r.Next != 5 {
		t.Errorf("read with minOne: %v %v", r, err)
	}
}
