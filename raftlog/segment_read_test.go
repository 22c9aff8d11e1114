package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"millrace/core"
	"millrace/core/arena"
)

// TestSegmentsReadBesideAndOneAfterTheOther reads logs of batches of many sizes in
// pieces of many sizes: as a scheduler does it, one read after the other, and beside
// a running journal, where several are under way.
func TestSegmentsReadBesideAndOneAfterTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := map[string]func() int{
		"small":  func() int { return 100 + rng.IntN(900) },
		"equal":  func() int { return 65077 },
		"mixed":  func() int { return 1 << (7 + rng.IntN(14)) },
		"large":  func() int { return 300<<10 + rng.IntN(700<<10) },
		"beyond": func() int { return arena.ChunkBytes + rng.IntN(2*arena.ChunkBytes) },
	}
	for name, size := range sizes {
		for _, readBytes := range []int{1, 64 << 10, 1 << 20, ReadJobBytesMax} {
			t.Run(fmt.Sprintf("%s/%d", name, readBytes), func(t *testing.T) {
				ts := openStore(t, testFS(t, "directory"), Options{JournalFileBytes: 16 << 20})
				ts.readBytes = readBytes
				l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1, SegmentBytes: 9 << 20})
				if err != nil {
					t.Fatal(err)
				}
				batches := 0
				for written := 0; written < 10<<20 && batches < 2000; batches++ {
					n := size()
					ts.batch(l, 1, 1+batches%3, n)
					written += n
				}
				commitAll(l)
				ts.commit()
				ts.maintain()
				for ts.set.cache.bytes > 0 && ts.set.Evict(ts.mem, 1<<30) {
				}
				for _, beside := range []bool{false, true} {
					if beside {
						go ts.s.Journal().Run(context.Background(), func([]*Turn) {})
						for !ts.s.Journal().running.Load() {
							runtime.Gosched()
						}
					}
					_, live := ts.mem.Stats()
					bases, jobs := ts.readAll(l)
					if len(bases) != batches || jobs == 0 {
						t.Errorf("beside %t: %d of %d batches in %d jobs", beside, len(bases), batches, jobs)
					}
					if _, after := ts.mem.Stats(); after > live+arena.ChunkBytes {
						t.Errorf("beside %t: %d bytes of memory are still in use, %d before", beside, after, live)
					}
				}
				ts.close()
			})
		}
	}
}

// A damaged length asks for no more memory than the batch has by the index.
func TestADamagedLengthIsFoundBeforeItIsRead(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		ts.batch(l, 1, 1, 40<<10)
		commitAll(l)
		ts.commit()
	}
	ts.maintain()
	ts.evictAll()
	for name, f := range fs.files {
		if name == segmentName(20, 1) {
			binary.BigEndian.PutUint32(f.data[8:], 2<<20)
		}
	}
	r, j, err := l.Read(ts.mem, 0, l.NextOffset(), 64<<10, true)
	if err != nil || j == nil {
		t.Fatalf("%d bytes at once (%v)", r.Bytes, err)
	}
	j.Run()
	w := j.work.(*segmentRead)
	if w.large != nil {
		t.Errorf("%d bytes were read for a batch of %d", len(w.large), 40<<10)
	}
	j.Finish()
	if !errors.Is(j.Err, core.ErrStorageFailed) || j.Read.Bytes > 0 {
		t.Errorf("%d bytes, %v", j.Read.Bytes, j.Err)
	}
}

// A base offset, which no checksum covers, is compared also where a read begins inside
// the batch, or at its beginning.
func TestADamagedBaseOffsetIsFound(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	const records, bytes = 4, 5000
	for range 6 {
		ts.batch(l, 1, records, bytes)
		commitAll(l)
		ts.commit()
	}
	ts.maintain()
	ts.evictAll()
	for batch := range core.Offset(6) {
		for inside := range core.Offset(records) {
			for bit := range 3 {
				from := batch*records + inside
				b := fs.files[segmentName(20, 1)].data[batch*bytes:]
				b[7] ^= 1 << bit
				_, j, err := l.Read(ts.mem, from, from+1, bytes, true)
				if err != nil || j == nil {
					t.Fatal(err)
				}
				j.Run()
				j.Finish()
				if !errors.Is(j.Err, core.ErrStorageFailed) {
					t.Errorf("bit %d of the base offset of batch %d flipped, read from %d: %d bytes, %v", bit, batch, from, j.Read.Bytes, j.Err)
				}
				b[7] ^= 1 << bit
			}
		}
	}
	if bases, _ := ts.readAll(l); len(bases) != 6 {
		t.Errorf("batches at %v after the damage is gone", bases)
	}
}

// TestAMissingSegmentIsDamageUnlessItWasRemoved, for records that the journal still
// describes and for those that are flushed.
func TestAMissingSegmentIsDamageUnlessItWasRemoved(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		for _, removed := range []bool{false, true} {
			fs := newMemFS(t)
			ts := openStore(t, fs, Options{DirectBytes: 8 << 10})
			l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 30})
			if err != nil {
				t.Fatal(err)
			}
			ts.batch(l, 1, 1, 40<<10) // goes straight to the segment
			commitAll(l)
			ts.commit()
			if flushed {
				l.SetConfig(LogConfig{FlushBytesMax: 1})
				ts.maintain()
			}
			ts.evictAll()
			_, j, err := l.Read(ts.mem, 0, 1, 64<<10, true)
			if err != nil || j == nil {
				t.Fatalf("flushed %v: no job (%v)", flushed, err)
			}
			if _, isTail := j.work.(*tailRead); isTail == flushed {
				t.Fatalf("flushed %v: the read is a %T", flushed, j.work)
			}
			want := core.ErrStorageFailed
			if removed {
				l.SetLogStart(1)
				want = core.ErrOffsetOutOfRange
			}
			if err := fs.Remove(segmentName(20, 1)); err != nil {
				t.Fatal(err)
			}
			j.Run()
			j.Finish()
			if !errors.Is(j.Err, want) {
				t.Errorf("flushed %v, removed %v: %v, want %v", flushed, removed, j.Err, want)
			}
		}
	}
}

// What a log has taken can be read with any arena: one batch may be larger than all of
// it, and then goes to ordinary memory, wherever it lies and however it is reached.
func TestABatchLargerThanTheArenaIsRead(t *testing.T) {
	for name, flushBytes := range map[string]int64{"journal": 1 << 30, "segments": 1} {
		t.Run(name, func(t *testing.T) {
			ts := openStore(t, newMemFS(t), Options{JournalFileBytes: 32 << 20, DirectBytes: 1 << 30})
			defer ts.close()
			l, err := ts.set.Create(20, LogConfig{FlushBytesMax: flushBytes})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{3 << 20, 5 << 20, 1000, 3 << 20, 2000, arena.ChunkBytes - 100, arena.ChunkBytes - 100} {
				ts.batch(l, 1, 2, n)
				commitAll(l)
				ts.commit()
			}
			ts.maintain()
			ts.evictAll()
			ts.mem = arena.NewHeap(2 * arena.ChunkBytes)
			for range 2 { // the second time it is known where the batches begin
				if bases, jobs := ts.readAll(l); len(bases) != 7 || jobs == 0 {
					t.Errorf("%d of 7 batches in %d jobs", len(bases), jobs)
				}
			}
			ts.mem.Seal()
			if _, live := ts.mem.Stats(); live != 0 {
				t.Errorf("%d bytes of memory are still in use", live)
			}
		})
	}
}
