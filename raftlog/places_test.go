package raftlog

import (
	"testing"

	"millrace/core"
)

func TestPlacesNameEveryBatchOfTheSegmentsAtItsIndex(t *testing.T) {
	ts := openStore(t, testFS(t, "memory"), Options{JournalFilesMax: 4})
	defer ts.close()
	l, _ := ts.set.Create(20, LogConfig{SegmentBytes: 50 << 10, FlushBytesMax: 10 << 10})
	want := map[core.Index]core.Offset{}
	for i := range 1500 {
		if i%7 == 0 {
			ts.empty(l, 1)
		}
		want[l.LastIndex()+1] = l.NextOffset()
		ts.batch(l, 1, 2, 50)
		commitAll(l)
		ts.commit()
		if i%3 == 0 {
			ts.maintain()
		}
	}
	if l.flushed == 0 || len(l.segs) < 2 {
		t.Fatalf("flushed %d in %d segments", l.flushed, len(l.segs))
	}
	for i := l.first; i <= l.flushed; {
		job, err := l.FindPlaces(i)
		if err != nil {
			t.Fatal(err)
		}
		job.Run()
		job.Finish()
		if job.Err != nil || job.Places.UpTo < i {
			t.Fatalf("from %d: up to %d, %v", i, job.Places.UpTo, job.Err)
		}
		for _, b := range job.Places.Batches {
			for ; i < b.Index; i++ {
				if base, ok := want[i]; ok {
					t.Fatalf("the batch of entry %d at offset %d is not named", i, base)
				}
			}
			if want[i] != b.BaseOffset || b.NextOffset != b.BaseOffset+2 {
				t.Fatalf("entry %d: offsets [%d, %d), want %d", i, b.BaseOffset, b.NextOffset, want[i])
			}
			i++
		}
		for ; i <= job.Places.UpTo; i++ {
			if base, ok := want[i]; ok {
				t.Fatalf("the batch of entry %d at offset %d is not named", i, base)
			}
		}
	}
	if _, err := l.FindPlaces(l.flushed + 1); err == nil {
		t.Fatal("an entry above the flushed ones is looked for")
	}
}
