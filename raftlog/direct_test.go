package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"millrace/core"
)

// TestStagingBuffersComeBack lets more large appends wait for the committer than it
// has buffers for, and then fail in the ways there are: every buffer is free
// afterwards, and what was written is what is read.
func TestStagingBuffersComeBack(t *testing.T) {
	const turns, batchBytes = 2*stagingMax + 1, 600 << 10 // a batch is longer than a buffer of the test
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{DirectBytes: 64 << 10})
	l, err := ts.set.Create(core.FirstPartition, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	j := ts.s.Journal()
	submit := func(turns int) {
		for range turns {
			ts.batch(l, 1, 3, batchBytes)
			j.Submit(ts.set.Collect())
		}
	}
	commit := func() {
		for _, d := range j.Commit() {
			if d.Err != nil {
				t.Fatal(d.Err)
			}
			ts.set.Done(d)
		}
		if free := len(j.staging); free != j.w.direct.made || free > stagingMax {
			t.Fatalf("%d buffers are free of %d, at most %d", free, j.w.direct.made, stagingMax)
		}
	}

	submit(turns)
	commit()
	if s := j.Stats(); s.Unstaged != s.Direct || s.Direct < turns*(batchBytes-2*BlockBytes) {
		t.Fatalf("of %d bytes %d were not staged: there was no buffer yet", s.Direct, s.Unstaged)
	}
	before := j.Stats()
	submit(turns)
	if free := len(j.staging); free != 0 {
		t.Fatalf("%d buffers are free while %d appends wait", free, turns)
	}
	commit()
	after := j.Stats()
	if staged := after.Direct - after.Unstaged; staged != stagingMax*uint64(j.stagingBytes()) {
		t.Errorf("%d bytes were staged, there are %d buffers of %d", staged, stagingMax, j.stagingBytes())
	}
	if after.Direct-before.Direct < turns*(batchBytes-2*BlockBytes) {
		t.Errorf("%d bytes went straight to the segment", after.Direct-before.Direct)
	}

	fail := func(err error) {
		fs.fail = func(op, name string) error {
			if op == "write" && strings.HasPrefix(name, partitionsDir) {
				return err
			}
			return nil
		}
	}
	fail(fmt.Errorf("writing: %w", ErrNoSpace))
	submit(turns)
	commit() // to the journal instead
	fs.fail = nil
	ts.evictAll()
	if bases, jobs := ts.readAll(l); len(bases) != 3*turns || jobs == 0 {
		t.Errorf("%d batches are read by %d jobs, want %d from the disk", len(bases), jobs, 3*turns)
	}

	fail(errors.New("the device is gone"))
	submit(turns)
	for _, d := range j.Commit() {
		if d.Err == nil {
			t.Error("a turn was committed that could not be written")
		}
	}
	submit(1)
	j.Commit()
	if free := len(j.staging); free != j.w.direct.made {
		t.Errorf("after a failure %d buffers are free of %d", free, j.w.direct.made)
	}
}

// TestFewSegmentsStayOpen: after a commit of large appends to many partitions, only
// the files that are used most recently stay open.
func TestFewSegmentsStayOpen(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{DirectBytes: 16 << 10})
	defer ts.close()
	var logs []*Log
	for i := range 3 * directFilesMax {
		l, err := ts.set.Create(core.FirstPartition+core.PartitionID(i), LogConfig{})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	for _, l := range logs[1:] {
		ts.batch(l, 1, 1, 40<<10)
	}
	ts.commit()
	ts.batch(logs[0], 1, 1, 40<<10)
	ts.commit()
	if n := len(ts.s.journal.w.direct.files); n != directFilesMax {
		t.Errorf("%d files are open, want %d", n, directFilesMax)
	}
	ts.evictAll()
	for _, l := range logs {
		if bases, _ := ts.readAll(l); len(bases) != 1 {
			t.Errorf("partition %d has %d batches", l.id, len(bases))
		}
	}
}
