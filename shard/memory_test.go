package shard

import (
	"runtime"
	"testing"
	"time"

	"millrace/core"
	"millrace/core/meta"
	"millrace/raftlog"
)

// heapBytes is the live heap.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// manyGroups makes an image with one topic of n partitions.
func manyGroups(c *cluster, n int) *meta.Image {
	t := &meta.Topic{Name: "many", ID: core.TopicID{1}}
	for i := range n {
		t.Partitions = append(t.Partitions, &meta.Partition{
			ID: c.nextID, Num: int32(i), Replicas: []core.NodeID{1}, Leader: &meta.LeaderCell{},
		})
		c.nextID++
	}
	return c.image.WithTopic(t)
}

// TestIdleGroupsAreSmall holds the memory of an idle group, its log included,
// below 8 KiB, and the time that ten thousand groups take to lead.
func TestIdleGroupsAreSmall(t *testing.T) {
	const groups = 10000
	c := newCluster(t, 1).start()
	im := manyGroups(c, groups)
	before := heapBytes()
	began := time.Now()
	c.publish(im)
	c.run()
	c.advance(core.Second)
	took := time.Since(began)
	if got := c.nodes[0].shard.Stats().Leaders; got != groups+1 {
		t.Fatalf("%d groups lead", got)
	}
	began = time.Now()
	c.advance(60 * core.Second)
	idle := time.Since(began)
	each := (heapBytes() - before) / groups

	store, _, err := raftlog.Open(newCluster(t, 1).nodes[0].disk.FS(), raftlog.Options{ShardCount: 1, JournalFileBytes: 1 << 20, Logf: t.Logf},
		func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	before = heapBytes()
	for i := range groups {
		if _, err := store.LogSet(0).Create(core.PartitionID(100+i), c.topicConfig(nil, nil).Log); err != nil {
			t.Fatal(err)
		}
	}
	log := (heapBytes() - before) / groups
	runtime.KeepAlive(store)
	runtime.KeepAlive(c)
	t.Logf("%d bytes for a group, %d of them for its log; %v until all lead, %v for a minute of idling", each, log, took, idle)
	if each > 8<<10 {
		t.Errorf("an idle group takes %d bytes, want at most 8 KiB", each)
	}
}
