package raftlog

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"millrace/core"
	"millrace/core/arena"
)

// testStore drives one shard by hand.
type testStore struct {
	t   testing.TB
	fs  FS
	s   *Store
	rec *Recovery
	set *LogSet
	mem *arena.Arena
	now core.Tick
	// readBytes is what readAll asks for at a time.
	readBytes int
	// jobErr gets the error of a Job that maintain ran.
	jobErr func(error)
}

func openStore(t testing.TB, fs FS, opts Options) *testStore {
	t.Helper()
	ts := &testStore{t: t, fs: fs, mem: arena.NewHeap(256 << 20), now: core.Second, readBytes: 256 << 10}
	ts.jobErr = func(err error) { t.Errorf("job: %v", err) }
	if opts.Logf == nil {
		opts.Logf = func(f string, a ...any) { t.Logf(f, a...) }
	}
	if opts.JournalFileBytes == 0 {
		opts.JournalFileBytes = 256 << 10
	}
	if opts.DirectBytes == 0 {
		opts.DirectBytes = 64 << 10
	}
	if opts.NodeID == 0 {
		opts.NodeID, opts.ClusterID, opts.InstanceID = 1, "test", 77
	}
	s, rec, err := Open(fs, opts, func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	ts.s, ts.rec, ts.set = s, rec, s.LogSet(0)
	return ts
}

// commit collects, commits and applies one turn.
func (ts *testStore) commit() {
	ts.t.Helper()
	t := ts.set.Collect()
	if t.Empty() {
		return
	}
	ts.s.Journal().Submit(t)
	for _, d := range ts.s.Journal().Commit() {
		if d.Err != nil {
			ts.t.Fatalf("turn %d: %v", d.Seq, d.Err)
		}
		ts.set.Done(d)
	}
}

// maintain runs all Jobs that are due, and what follows from them.
func (ts *testStore) maintain() {
	ts.t.Helper()
	for range 100 {
		jobs, _ := ts.set.Maintain(ts.now, 16, nil)
		ts.now += core.Millisecond
		for _, j := range jobs {
			j.Run()
			j.Finish()
			if j.Err != nil {
				ts.jobErr(j.Err)
			}
		}
		ts.commit()
		if len(jobs) == 0 && len(ts.set.removals) == 0 || ts.s.SpaceState() == SpaceLow {
			return
		}
	}
}

func (ts *testStore) close() {
	ts.t.Helper()
	if err := ts.s.Close(); err != nil {
		ts.t.Fatalf("close: %v", err)
	}
}

// makeBatch is a batch of n records with a payload of size bytes in all.
func makeBatch(base core.Offset, n, size int, term core.Term, ts int64) []byte {
	b := make([]byte, max(size, core.BatchHeaderBytes))
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[27:], uint64(ts))
	binary.BigEndian.PutUint64(b[35:], uint64(ts))
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	x := uint32(base)*2654435761 + uint32(size) + uint32(term)
	for i := core.BatchHeaderBytes; i < len(b); i++ {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	core.Batch(b).SetBase(base, int32(term))
	return b
}

// batch appends one batch of n records and size bytes in arena memory.
func (ts *testStore) batch(l *Log, term core.Term, n, size int) {
	ts.t.Helper()
	next := l.NextOffset()
	p := makeBatch(next, n, size, term, int64(next)*1000)
	buf, err := ts.mem.Alloc(len(p))
	if err != nil {
		if !ts.set.Evict(ts.mem, len(p)) {
			ts.t.Fatal(err)
		}
		if buf, err = ts.mem.Alloc(len(p)); err != nil {
			ts.t.Fatal(err)
		}
	}
	copy(buf.Bytes(), p)
	l.Append([]Entry{{
		Index: l.LastIndex() + 1, Term: term, Kind: EntryBatch, BaseOffset: next,
		LastOffset: next + core.Offset(n) - 1, MaxTimestamp: int64(next) * 1000, Payload: buf,
	}})
}

func (ts *testStore) empty(l *Log, term core.Term) {
	l.Append([]Entry{{
		Index: l.LastIndex() + 1, Term: term, Kind: EntryEmpty,
		BaseOffset: l.NextOffset(), LastOffset: l.NextOffset() - 1, MaxTimestamp: -1,
	}})
}

func commitAll(l *Log) {
	hs := l.HardState()
	hs.Commit = l.LastIndex()
	if hs.Term == 0 {
		hs.Term, hs.Vote = 1, 1
	}
	l.SetHardState(hs)
}

// readAll reads the whole log and checks each batch; it returns offsets and
// the number of jobs it took.
func (ts *testStore) readAll(l *Log) (bases []core.Offset, jobs int) {
	ts.t.Helper()
	at := l.LogStart()
	for at < l.NextOffset() {
		r, j, err := l.Read(ts.mem, at, l.NextOffset(), ts.readBytes, true)
		if err != nil {
			ts.t.Fatalf("read at %d: %v", at, err)
		}
		if j != nil {
			jobs++
			j.Run()
			j.Finish()
			if j.Err != nil {
				ts.t.Fatalf("read job at %d: %v", at, j.Err)
			}
			r = j.Read
		}
		if r.Next <= at {
			ts.t.Fatalf("read at %d made no progress", at)
		}
		for _, b := range r.Bufs {
			for p := b.Bytes(); len(p) > 0; {
				batch, rest, err := core.NextBatch(p)
				if err != nil {
					ts.t.Fatalf("read at %d: %v", at, err)
				}
				if err := batch.Verify(); err != nil {
					ts.t.Fatalf("read at %d: %v", at, err)
				}
				if batch.BaseOffset() != at && len(bases) > 0 || batch.LastOffset() < at {
					ts.t.Fatalf("read at %d: found batch %d", at, batch.BaseOffset())
				}
				want := makeBatch(batch.BaseOffset(), int(batch.Count()), len(batch), core.Term(batch.LeaderEpoch()), int64(batch.BaseOffset())*1000)
				if string(want) != string(batch) {
					ts.t.Fatalf("batch %d has other bytes", batch.BaseOffset())
				}
				bases = append(bases, batch.BaseOffset())
				at, p = batch.LastOffset()+1, rest
			}
			b.Release()
		}
		if r.Next != at {
			ts.t.Fatalf("read: next is %d, the batches end at %d", r.Next, at)
		}
	}
	return bases, jobs
}
