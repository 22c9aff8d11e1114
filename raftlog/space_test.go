package raftlog

import (
	"testing"

	"millrace/core"
)

// TestFastWritersStopNearTheReserve lets much more than the reserve be written
// without anyone looking at the free space from outside: appends are refused
// while most of the reserve is left, whatever way the bytes take.
func TestFastWritersStopNearTheReserve(t *testing.T) {
	const reserve, batchBytes = 128 << 20, 512 << 10
	for _, c := range []struct {
		name  string
		files int64 // size of a journal file
		large int   // bytes from which appends go to their segment
	}{
		{"straight to segments", 256 << 10, 64 << 10},
		{"flushes", 256 << 10, 64 << 20},
		{"new journal files", 4 << 20, 64 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := newMemFS(t)
			fs.free = 2 * reserve
			ts := openStore(t, fs, Options{ReserveBytes: reserve, JournalFileBytes: c.files, DirectBytes: c.large})
			l, err := ts.set.Create(core.FirstPartition, LogConfig{SegmentBytes: 8 << 20, SegmentMs: 1 << 40, RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; ts.s.SpaceState() == SpaceOK; n++ {
				if n > 4*reserve/batchBytes {
					t.Fatalf("%d MiB were taken, %d MiB are free", n*batchBytes>>20, fs.free>>20)
				}
				ts.batch(l, 1, 10, batchBytes)
				commitAll(l)
				ts.commit()
				if c.name == "flushes" || n%8 == 0 {
					ts.maintain()
				}
				for more := true; more && c.name != "flushes"; {
					if more, err = ts.s.Journal().Prepare(); err != nil {
						t.Fatal(err)
					}
				}
			}
			atRefusal := fs.free
			ts.maintain()
			// Looks and journal files are steps, and journal files hold more than
			// payload.
			if least, most := int64(reserve-reserve/8-2*c.files), int64(reserve+reserve/2); fs.free > most || fs.free < least || atRefusal > most {
				t.Errorf("after %d MiB, %d MiB of the reserve of %d MiB are left", n*batchBytes>>20, fs.free>>20, reserve>>20)
			}
			ts.close()
		})
	}
}

// TestSegmentsAreClosedWhenTheDeviceIsFull: the journal's writer keeps segments open,
// and one that is removed then keeps its space. It lets go of them although no append
// comes any more.
func TestSegmentsAreClosedWhenTheDeviceIsFull(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{DirectBytes: 16 << 10})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{SegmentBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ts.batch(l, 1, 1, 40<<10)
		ts.commit()
	}
	fs.noSpace = true
	if ts.s.CheckSpace() != SpaceLow {
		t.Fatal("there is space")
	}
	before := fs.opened
	ts.s.Journal().Commit() // CheckSpace wakes the committer
	if closed := before - fs.opened; closed != 5 {
		t.Errorf("%d of 5 segments were closed", closed)
	}
}
