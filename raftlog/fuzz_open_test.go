package raftlog

import (
	"bytes"
	"encoding/binary"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"millrace/core"
	"millrace/core/arena"
)

// fuzzDisk is a data directory with journal files, segments and indexes, and what
// its partitions hold.
type fuzzDisk struct {
	fs    *memFS
	names []string
	held  map[core.PartitionID]map[core.Offset][]byte
}

var fuzzOptions = Options{JournalFileBytes: 64 << 10, DirectBytes: 24 << 10, NodeID: 1, ClusterID: "test", InstanceID: 77, Logf: func(string, ...any) {}}

func newFuzzDisk(tb testing.TB) *fuzzDisk {
	d := &fuzzDisk{held: map[core.PartitionID]map[core.Offset][]byte{}}
	fs := newMemFS(tb)
	ts := openStore(tb, fs, fuzzOptions)
	a, err := ts.set.Create(core.MetadataPartition, LogConfig{SegmentBytes: 20 << 10, FlushBytesMax: 6 << 10})
	if err != nil {
		tb.Fatal(err)
	}
	b, err := ts.set.Create(20, LogConfig{SegmentBytes: 64 << 10, FlushBytesMax: 1 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	a.NeedCheckpoint(func() { a.SetCheckpoint(a.hs.Commit, []byte("producer state")) })
	for i := range 8 {
		if i == 0 || i == 5 {
			ts.empty(a, core.Term(1+i))
		}
		ts.batch(a, a.lastTerm(), 1+i%3, 2000+i*211)
		commitAll(a)
		ts.commit()
		ts.maintain()
	}
	d.note(tb, fs)
	a.SetLogStart(3)
	ts.empty(b, 4)
	ts.batch(b, 4, 2, 500)
	ts.batch(b, 4, 7, 30_000) // straight to its segment
	ts.batch(b, 4, 1, 700)
	commitAll(b)
	ts.commit()
	ts.close()
	d.fs = fs
	d.names = fs.names("")
	d.note(tb, fs)
	if len(d.held[core.MetadataPartition]) < 5 || len(d.held[20]) != 3 {
		tb.Fatalf("the directory holds %d and %d batches", len(d.held[core.MetadataPartition]), len(d.held[20]))
	}
	return d
}

// note adds what fs holds.
func (d *fuzzDisk) note(tb testing.TB, fs *memFS) {
	d.read(tb, fs.clone(), func(id core.PartitionID, batch core.Batch) {
		if d.held[id] == nil {
			d.held[id] = map[core.Offset][]byte{}
		}
		d.held[id][batch.BaseOffset()] = bytes.Clone(batch)
	})
}

// read opens the directory and gives out every batch that can be read, header by
// header too.
func (d *fuzzDisk) read(tb testing.TB, fs *memFS, fn func(core.PartitionID, core.Batch)) {
	s, rec, err := Open(fs, fuzzOptions, func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		return
	}
	mem := arena.NewHeap(64 << 20)
	set := s.LogSet(0)
	for id, l := range set.logs {
		if l.Damaged() != nil {
			if rec.Damaged[id] == nil {
				tb.Fatalf("%v is damaged and Open does not say so", id)
			}
			continue
		}
		for at := l.LogStart(); at < l.NextOffset(); {
			r, j, err := l.Read(mem, at, l.NextOffset(), 64<<10, true)
			if err == nil && j != nil {
				j.Run()
				j.Finish()
				r, err = j.Read, j.Err
			}
			if err != nil || r.Next <= at {
				break
			}
			for _, b := range r.Bufs {
				for p := b.Bytes(); len(p) > 0; {
					batch, rest, err := core.NextBatch(p)
					if err != nil {
						tb.Fatalf("what is served is no batch: %v", err)
					}
					fn(id, batch)
					p = rest
				}
				b.Release()
			}
			at = r.Next
		}
		// An error is the log's to tell; a panic is not.
		_ = l.ScanHeaders(l.FirstIndex(), func(Entry, []byte) error { return nil })
		if _, j, err := l.FindTimestamp(4000, l.NextOffset()); err == nil && j != nil {
			j.Run()
			j.Finish()
		}
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// reseal gives every frame of a journal file a checksum that fits.
func reseal(file []byte) {
	for at := BlockBytes; at+frameHeaderBytes <= len(file); at += BlockBytes {
		b := file[at:]
		if binary.LittleEndian.Uint64(b) != frameMagic {
			continue
		}
		n := frameHeaderBytes + int64(binary.LittleEndian.Uint32(b[48:]))
		if n > int64(len(b)) {
			continue
		}
		binary.LittleEndian.PutUint64(b[56:], 0)
		binary.LittleEndian.PutUint64(b[56:], xxhash.Sum64(b[:n]))
	}
}

func heapAllocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// openAllocMax is what opening and reading the small directory may allocate.
const openAllocMax = 256 << 20

// FuzzOpen writes foreign bytes somewhere into a data directory, cuts a file off,
// and opens it. Whatever the bytes, recovery ends without asking for memory that
// the directory does not justify. While the checksums are left alone nothing is
// served that was not written; with checksums that fit, only FATAL may stop it.
//
//fuzz:parses recover.go recover_group.go scan.go segment_read.go log_scan.go log_find.go index.go record.go frame.go identity.go
func FuzzOpen(f *testing.F) {
	d := newFuzzDisk(f)
	for i, name := range d.names {
		f.Add(uint8(i), uint32(4096), []byte{0xff}, uint32(0), false)
		f.Add(uint8(i), uint32(30), []byte{0xff, 0xff, 0xff, 0xff}, uint32(0), true)
		f.Add(uint8(i), uint32(0), []byte{}, uint32(5000), false)
		if strings.HasSuffix(name, ".jnl") {
			for _, at := range []uint32{48, 52, frameHeaderBytes + 16, frameHeaderBytes + 20, frameHeaderBytes + sectionHeaderBytes, frameHeaderBytes + sectionHeaderBytes + 4} {
				f.Add(uint8(i), BlockBytes+at, []byte{0xff, 0xff, 0xff, 0x7f}, uint32(0), true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint32, patch []byte, cut uint32, fits bool) {
		fs := d.fs.clone()
		fs.t = t
		m := fs.files[d.names[int(file)%len(d.names)]]
		if cut > 0 {
			m.data = m.data[:max(0, len(m.data)-int(cut%uint32(len(m.data)+1)))]
		}
		if len(m.data) > 0 {
			copy(m.data[int(at)%len(m.data):], patch)
		}
		if fits {
			reseal(m.data)
			defer func() {
				if v := recover(); v != nil {
					if _, fatal := core.FatalText(v); !fatal {
						panic(v)
					}
				}
			}()
		}
		before := heapAllocated()
		d.read(t, fs, func(id core.PartitionID, b core.Batch) {
			if !fits && !bytes.Equal(b, d.held[id][b.BaseOffset()]) {
				t.Fatalf("partition %v serves a batch at offset %d that was not written", id, b.BaseOffset())
			}
		})
		if n := heapAllocated() - before; n > openAllocMax {
			t.Fatalf("%d bytes were allocated", n)
		}
	})
}
