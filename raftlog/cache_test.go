package raftlog

import (
	"testing"

	"millrace/core"
	"millrace/core/arena"
)

// TestCacheKeepsWhatIsNotInSegments: payloads in segments are dropped beyond
// CacheBytes, the others stay whatever their number.
func TestCacheKeepsWhatIsNotInSegments(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{CacheBytes: 50_000, DirectBytes: 1 << 20})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 200_000})
	if err != nil {
		t.Fatal(err)
	}
	for range 15 {
		ts.batch(l, 1, 1, 10_000)
		commitAll(l)
		ts.commit()
	}
	if n := ts.set.cache.bytes; n != 150_000 {
		t.Errorf("%d bytes in memory before the first flush, want all 150000", n)
	}
	for range 10 {
		ts.batch(l, 1, 1, 10_000)
		commitAll(l)
		ts.commit()
	}
	ts.maintain()
	ts.batch(l, 1, 1, 100)
	ts.commit()
	if n := ts.set.cache.bytes; n > 50_000 || n < 30_000 {
		t.Errorf("%d bytes in memory after the flush, want somewhat less than 50000", n)
	}
	if got, _ := ts.readAll(l); len(got) != 26 {
		t.Errorf("%d batches are read, want 26", len(got))
	}
}

// TestIdleShardGivesMemoryBack also where nothing is in segments yet.
func TestIdleShardGivesMemoryBack(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{CacheBytes: 80_000, DirectBytes: 1 << 20})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	look := func(after core.Tick) int64 {
		ts.now += after
		ts.maintain()
		return ts.set.cache.bytes
	}
	look(0)
	for range 15 {
		ts.batch(l, 1, 1, 10_000)
	}
	commitAll(l)
	if n := look(cacheWindow); n != 150_000 {
		t.Errorf("%d bytes in memory before they are durable", n)
	}
	ts.commit()
	ts.batch(l, 1, 1, 4000)
	ts.commit()
	if n := look(cacheWindow); n > 16_000 || n < 4000 {
		t.Errorf("%d bytes in memory after a window of 4000 bytes, want at most four times that", n)
	}
	if n := look(cacheWindow); n > 10_000 {
		t.Errorf("%d bytes in memory of an idle shard, want an eighth of 80000", n)
	}
	if got, _ := ts.readAll(l); len(got) != 16 {
		t.Errorf("%d batches are read, want 16", len(got))
	}
}

// TestLogsThatComeAndGoLeaveNothingBehind while an old payload stays in memory.
func TestLogsThatComeAndGoLeaveNothingBehind(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{CacheBytes: 1 << 30, DirectBytes: 1 << 20})
	defer ts.close()
	old, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	ts.batch(old, 1, 1, 100)
	for i := range 100 {
		id := core.PartitionID(21 + i)
		l, err := ts.set.Create(id, LogConfig{FlushBytesMax: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			ts.batch(l, 1, 1, 100)
		}
		ts.commit()
		ts.set.Delete(id)
		ts.commit()
	}
	if c := &ts.set.cache; c.count != 1 || c.refs.len() > staleRefsMax+200 {
		t.Errorf("%d payloads in memory are named by %d refs", c.count, c.refs.len())
	}
	if got, _ := ts.readAll(old); len(got) != 1 {
		t.Errorf("%d batches are read, want 1", len(got))
	}
}

// A log's payloads lie in the arenas of the loops that they came in by: that one of
// these has room is no help to who needs it in another.
func TestEvictionMakesRoomInTheArenaThatIsFull(t *testing.T) {
	ts := openStore(t, newMemFS(t), Options{JournalFileBytes: 4 << 20, DirectBytes: 1 << 30})
	defer ts.close()
	l, err := ts.set.Create(20, LogConfig{FlushBytesMax: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	old, err := ts.set.Create(21, LogConfig{FlushBytesMax: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	const size = 700 << 10
	for range 100 {
		ts.batch(old, 1, 1, 1000)
	}
	ts.mem = arena.NewHeap(2 << 20)
	ts.batch(l, 1, 1, size)
	ts.batch(l, 1, 1, size)
	ts.commit()
	if !ts.set.Evict(ts.mem, size) || ts.mem.Room() < size {
		t.Errorf("there is room for %d bytes of %d", ts.mem.Room(), size)
	}
}
