package raftlog

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"millrace/core"
)

// badReads fails reads of files whose name holds a word.
type badReads struct {
	FS
	word *string
}

type badFile struct {
	File
	name string
	word *string
}

func (b badReads) Create(name string) (File, error) {
	f, err := b.FS.Create(name)
	return badFile{f, name, b.word}, err
}

func (b badReads) Open(name string) (File, error) {
	f, err := b.FS.Open(name)
	return badFile{f, name, b.word}, err
}

func (f badFile) ReadAt(p []byte, off int64) (int, error) {
	if *f.word != "" && strings.Contains(f.name, *f.word) {
		return 0, syscall.EIO
	}
	return f.File.ReadAt(p, off)
}

func TestFlushThatCannotReadBackConcernsOneLogAlone(t *testing.T) {
	word := ""
	ts := openStore(t, badReads{newMemFS(t), &word}, Options{})
	defer ts.close()
	a, _ := ts.set.Create(20, LogConfig{FlushBytesMax: 10 << 10})
	b, _ := ts.set.Create(21, LogConfig{FlushBytesMax: 10 << 10})
	fill := func() {
		for _, l := range []*Log{a, b} {
			if l.Damaged() == nil {
				ts.batch(l, 1, 1, 15<<10+77)
				ts.commit()
				commitAll(l)
			}
		}
		ts.commit()
	}
	failed := 0
	ts.jobErr = func(error) { failed++ }
	fill()
	ts.maintain()
	if a.flushed != 1 || b.flushed != 1 {
		t.Fatalf("flushed %d and %d", a.flushed, b.flushed)
	}
	// The last block of a's segment cannot be read for a while.
	word = partitionDir(20)
	fill()
	ts.maintain()
	if failed != 1 || a.flushed != 1 || b.flushed != 2 || a.Damaged() != nil || ts.set.Failed() != nil {
		t.Fatalf("%d failures, flushed %d and %d, damaged %v, failed %v", failed, a.flushed, b.flushed, a.Damaged(), ts.set.Failed())
	}
	word = ""
	ts.now += core.Second
	ts.maintain()
	if a.flushed != 2 {
		t.Fatalf("flushed %d after the reads came through", a.flushed)
	}
	// And then for good.
	word = partitionDir(20)
	fill()
	for range 12 {
		ts.now += core.Second
		ts.maintain()
	}
	if !errors.Is(a.Damaged(), core.ErrStorageFailed) || b.Damaged() != nil || b.flushed != 3 || ts.set.Failed() != nil {
		t.Fatalf("damaged %v and %v, flushed %d, failed %v", a.Damaged(), b.Damaged(), b.flushed, ts.set.Failed())
	}
}
