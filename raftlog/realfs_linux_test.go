package raftlog

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"millrace/core"
)

// TestMemoryFileSystemIsWrittenBuffered uses /dev/shm where that is in memory,
// and compares what OpenDir decides with what the file system is everywhere.
func TestMemoryFileSystemIsWrittenBuffered(t *testing.T) {
	for _, parent := range []string{os.TempDir(), "/dev/shm"} {
		dir, err := os.MkdirTemp(parent, "raftlog")
		if err != nil {
			t.Logf("%s cannot be used: %v", parent, err)
			continue
		}
		defer os.RemoveAll(dir)
		d, err := OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if inMemory(dir) && d.Direct() {
			t.Errorf("%s is in memory and written with direct I/O", dir)
		}
		ts := openStore(t, d, Options{})
		l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
		if err != nil {
			t.Fatal(err)
		}
		ts.batch(l, 1, 3, 70<<10)
		ts.batch(l, 1, 3, 700)
		commitAll(l)
		ts.commit()
		ts.maintain()
		ts.close()
		ts = openStore(t, d, Options{})
		if got, _ := ts.readAll(ts.set.Get(core.PartitionID(20))); len(got) != 2 {
			t.Errorf("%s: %d batches", dir, len(got))
		}
		ts.close()
	}
}

func TestFullDeviceIsErrNoSpace(t *testing.T) {
	if err := mapErr(&os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}); !errors.Is(err, ErrNoSpace) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("mapped to %v", err)
	}
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := (&dirFile{f: f}).WriteAt(make([]byte, BlockBytes), 0); !errors.Is(err, ErrNoSpace) {
		t.Errorf("a write to a full device: %v", err)
	}
}
