package raftlog

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/core"
)

// goldenDir is a data directory of format 1. It must open for ever: a change of
// format adds a directory and leaves this one alone.
const goldenDir = "testdata/golden/v1"

// rewriting is the flag that datadriven defines.
func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

func TestGoldenDirectoryOpens(t *testing.T) {
	if rewriting() {
		writeGolden(t)
	}
	fs := newMemFS(t)
	err := filepath.WalkDir(goldenDir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(path, goldenDir), "/"))
		if d.IsDir() {
			fs.dirs[name] = true
			return nil
		}
		data, err := os.ReadFile(path)
		fs.files[name] = &memFile{fs: fs, name: name, data: data, pending: map[int64]bool{}}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := describeGolden(t, fs)
	if rewriting() {
		if err := os.WriteFile(goldenDir+".txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDir + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the directory reads as\n%s\nwant\n%s", got, want)
	}
}

// writeGolden makes the directory: every kind of record, closed and active
// segments, entries in the journal alone, a tombstone, a checkpoint.
func writeGolden(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{JournalFileBytes: 64 << 10, NodeID: 3, ClusterID: "golden", InstanceID: 0x1122334455667788, DirectBytes: 24 << 10})
	a, _ := ts.set.Create(core.MetadataPartition, LogConfig{SegmentBytes: 30 << 10, FlushBytesMax: 6 << 10})
	b, _ := ts.set.Create(20, LogConfig{SegmentBytes: 64 << 10, FlushBytesMax: 1 << 20})
	c, _ := ts.set.Create(21, LogConfig{})
	ts.batch(c, 1, 1, 100)
	a.NeedCheckpoint(func() { a.SetCheckpoint(a.hs.Commit, []byte("producer state")) })
	for i := range 12 {
		if i == 0 || i == 5 {
			ts.empty(a, core.Term(1+i))
		}
		ts.batch(a, a.lastTerm(), 1+i%3, 3000+i*211)
		commitAll(a)
		ts.commit()
		ts.maintain()
	}
	a.SetLogStart(9)
	ts.set.Delete(21)
	ts.empty(b, 4)
	ts.batch(b, 4, 2, 500)
	b.Append([]Entry{{Index: 3, Term: 4, Kind: EntryConfChange, BaseOffset: 2, LastOffset: 1, MaxTimestamp: -1}})
	ts.batch(b, 4, 7, 30_000) // straight to its segment
	ts.batch(b, 4, 1, 700)
	ts.commit()
	b.SetHardState(HardState{Term: 4, Vote: 3, Commit: 4})
	ts.commit()
	ts.close()
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	for name, f := range fs.files {
		path := filepath.Join(goldenDir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func describeGolden(t *testing.T, fs *memFS) string {
	var out strings.Builder
	ts := openStore(t, fs, Options{JournalFileBytes: 64 << 10, NodeID: 3, ClusterID: "golden"})
	defer ts.close()
	fmt.Fprintf(&out, "groups %d, torn %d, lost %d\n", ts.rec.Groups, ts.rec.TornTailBytes, ts.rec.LostFrames)
	for _, l := range ts.set.All() {
		i, blob := l.Checkpoint()
		fmt.Fprintf(&out, "%d: entries [%d, %d] offsets [%d, %d) flushed %d hard %+v checkpoint %d %q epochs %v damaged %v\n",
			l.id, l.first, l.last, l.logStart, l.next, l.flushed, l.hs, i, blob, l.epochs, l.damaged)
		for i := range l.segs {
			g := &l.segs[i]
			fmt.Fprintf(&out, "  segment %d: %d batches, %d bytes, offsets [%d, %d), index %d, time %d, created %d\n",
				g.id, g.rows, g.bytes, g.baseOffset, g.nextOffset, g.baseIndex, g.maxTs, g.createdMs)
		}
		bases, _ := ts.readAll(l)
		fmt.Fprintf(&out, "  batches at %v\n", bases)
		err := l.ScanHeaders(l.first, func(e Entry, h []byte) error {
			fmt.Fprintf(&out, "  entry %d term %d kind %d offsets [%d, %d] header %d\n", e.Index, e.Term, e.Kind, e.BaseOffset, e.LastOffset, len(h))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return out.String()
}

func TestIdentityIsChecked(t *testing.T) {
	shardOf := func(core.PartitionID) core.ShardID { return 0 }
	fresh := func() *memFS {
		fs := newMemFS(t)
		openStore(t, fs, Options{NodeID: 3, ClusterID: "c", InstanceID: 5}).close()
		return fs
	}
	cases := []struct {
		name string
		fs   func() *memFS
		opts Options
		want error
	}{
		{"other node", fresh, Options{NodeID: 4, ClusterID: "c"}, ErrOtherNode},
		{"other cluster", fresh, Options{NodeID: 3, ClusterID: "d"}, ErrOtherNode},
		{"same", fresh, Options{NodeID: 3, ClusterID: "c"}, nil},
		{"not said", fresh, Options{}, nil},
		{"other version", func() *memFS {
			fs := fresh()
			fs.files[identityName].data[8] = 99
			return fs
		}, Options{NodeID: 3}, ErrOtherVersion},
		{"no identity", func() *memFS {
			fs := fresh()
			delete(fs.files, identityName)
			return fs
		}, Options{NodeID: 3}, ErrNotEmpty},
		{"a file of another journal", func() *memFS {
			fs := fresh()
			other := newMemFS(t)
			openStore(t, other, Options{NodeID: 3, ClusterID: "c", InstanceID: 6}).close()
			f := other.files[journalName(1)]
			f.fs = fs
			fs.files[journalName(7)] = f
			return fs
		}, Options{NodeID: 3}, ErrOtherNode},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, _, err := Open(c.fs(), c.opts, shardOf)
			if !errors.Is(err, c.want) {
				t.Errorf("open: %v, want %v", err, c.want)
			}
			if err == nil {
				if s.ClusterID() != "c" || s.NodeID() != 3 {
					t.Errorf("node %d of cluster %q", s.NodeID(), s.ClusterID())
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("second open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenDir(dir); err != nil {
		t.Fatalf("open after close: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
