package raftlog

import (
	"fmt"
	"testing"

	"millrace/core"
)

// TestFlushesGoOneByOne as long as the journal has room, whether they are to free it
// or their logs have much to flush, and all at once when it has none.
func TestFlushesGoOneByOne(t *testing.T) {
	for _, c := range []struct {
		flushBytes int64
		files      int // in use when they begin
	}{{1 << 30, 5}, {20 << 10, 4}} {
		t.Run(fmt.Sprint(c.flushBytes), func(t *testing.T) { flushOneByOne(t, c.flushBytes, c.files) })
	}
}

func flushOneByOne(t *testing.T, flushBytes int64, files int) {
	ts := openStore(t, newMemFS(t), Options{JournalFileBytes: 128 << 10, JournalFilesMax: 8, DirectBytes: 1 << 20})
	defer ts.close()
	var logs []*Log
	for i := range 10 {
		l, err := ts.set.Create(core.PartitionID(20+i), LogConfig{FlushBytesMax: flushBytes})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	j := ts.s.Journal()
	fill := func(files int) {
		for len(*j.files.Load()) < files {
			for _, l := range logs {
				ts.batch(l, 1, 1, 5000)
				commitAll(l)
			}
			ts.commit()
		}
	}
	finish := func(jobs []*Job) {
		for _, job := range jobs {
			job.Run()
			job.Finish()
			if job.Err != nil {
				t.Fatal(job.Err)
			}
		}
		ts.commit()
	}
	fill(files)
	jobs, _ := ts.set.Maintain(ts.now, 16, nil)
	if more, next := ts.set.Maintain(ts.now, 16, nil); len(jobs) != 1 || len(more) != 0 || next > ts.now+maintainBusy {
		t.Fatalf("%d and then %d flushes while the journal has room, want 1 and 0", len(jobs), len(more))
	}
	finish(jobs)
	flushed := 1
	for range 20 {
		ts.now += core.Millisecond
		jobs, _ = ts.set.Maintain(ts.now, 16, nil)
		flushed += len(jobs)
		finish(jobs)
	}
	if flushed != len(logs) {
		t.Errorf("%d flushes of %d logs", flushed, len(logs))
	}
	fill(14)
	if jobs, _ = ts.set.Maintain(ts.now, 16, nil); len(jobs) != len(logs) {
		t.Errorf("%d flushes with a full journal, want one for each of the %d logs", len(jobs), len(logs))
	}
	finish(jobs)
}
