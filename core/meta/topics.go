package meta

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"millrace/core"
)

const (
	// An edit copies a root, a node and a bucket, which is one of topicBuckets:
	// of 10,000 topics ten share it.
	fanout       = 32
	topicBuckets = fanout * fanout
	pageSlots    = 64
)

// bucket is one part of a table. It is never changed once its Image is
// published, so two Images that share a bucket agree on what is in it.
type bucket[K comparable, V any] struct{ m map[K]V }

type node[K comparable, V any] [fanout]*bucket[K, V]

// table is a tree of two levels over the buckets. Nodes are shared like buckets.
type table[K comparable, V any] [fanout]*node[K, V]

// bucket is nil where nothing is.
func (t *table[K, V]) bucket(i int) *bucket[K, V] {
	if t == nil || t[i/fanout] == nil {
		return nil
	}
	return t[i/fanout][i%fanout]
}

func (t *table[K, V]) get(i int, k K) (V, bool) {
	if b := t.bucket(i); b != nil {
		v, ok := b.m[k]
		return v, ok
	}
	var zero V
	return zero, false
}

// topicTable is a persistent hash table: an edit copies the buckets that it
// touches, once each, so that making 10,000 topics one after the other stays
// cheap.
type topicTable struct {
	byName *table[string, *Topic]
	byID   *table[core.TopicID, *Topic]
	// pages maps a PartitionID to its place: IDs are handed out in order, so
	// that those of one topic fill pages.
	pages      *table[core.PartitionID, *page]
	count      int
	partitions int
	// inOrder is what Topics lists, once somebody has asked for it; one for each set of
	// topics.
	inOrder *atomic.Pointer[[]*Topic]
}

// page holds the places of pageSlots partitions, by ID modulo pageSlots.
type page struct {
	slots [pageSlots]Place // Topic is nil where there is none
	used  int
}

// Place says where a PartitionID lives.
type Place struct {
	Topic *Topic
	Num   int32
}

// nameBucket is FNV-1a of the name with its dots as underscores, so that names
// that Kafka holds to collide are in the same bucket.
func nameBucket(name string) int {
	h := uint32(2166136261)
	for i := range len(name) {
		c := name[i]
		if c == '.' {
			c = '_'
		}
		h = (h ^ uint32(c)) * 16777619
	}
	return int(h % topicBuckets)
}

// Colliding finds a topic whose name is equal to name but for dots in place of
// underscores: metric names do not tell the two apart. nil if there is none;
// of several the first in order of names.
func (im *Image) Colliding(name string) *Topic {
	b := im.topics.byName.bucket(nameBucket(name))
	if b == nil || !strings.ContainsAny(name, "._") {
		return nil
	}
	flat := strings.ReplaceAll(name, ".", "_")
	var found *Topic
	for other, t := range b.m {
		if strings.ReplaceAll(other, ".", "_") == flat && (found == nil || other < found.Name) {
			found = t
		}
	}
	return found
}

func idBucket(id core.TopicID) int                { return (int(id[14])<<8 | int(id[15])) % topicBuckets }
func pageOf(id core.PartitionID) core.PartitionID { return id / pageSlots }
func pageBucket(n core.PartitionID) int           { return int(n % topicBuckets) }

// Topic finds a topic by name; nil if there is none.
func (im *Image) Topic(name string) *Topic {
	if len(name) > core.TopicNameBytesMax {
		return nil // of a client that may name thousands such
	}
	t, _ := im.topics.byName.get(nameBucket(name), name)
	return t
}

// TopicByID finds a topic by its ID; nil if there is none.
func (im *Image) TopicByID(id core.TopicID) *Topic {
	t, _ := im.topics.byID.get(idBucket(id), id)
	return t
}

// Partition finds a partition by topic name and number; nil if there is none.
func (im *Image) Partition(topic string, num int32) *Partition {
	t := im.Topic(topic)
	if t == nil || num < 0 || int(num) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[num]
}

// Locate finds the topic and number of a PartitionID.
func (im *Image) Locate(id core.PartitionID) (Place, bool) {
	n := pageOf(id)
	pg, ok := im.topics.pages.get(pageBucket(n), n)
	if !ok {
		return Place{}, false
	}
	p := pg.slots[id%pageSlots]
	return p, p.Topic != nil
}

// TopicCount is the number of topics, PartitionCount that of all partitions.
func (im *Image) TopicCount() int { return im.topics.count }

// PartitionCount is the number of partitions of all topics.
func (im *Image) PartitionCount() int { return im.topics.partitions }

// Topics lists all topics in order of their names. The list is not the caller's to
// change.
func (im *Image) Topics() []*Topic {
	if im.topics.inOrder == nil {
		return nil // there was never a topic
	}
	if all := im.topics.inOrder.Load(); all != nil {
		return *all
	}
	all := im.sorted()
	im.topics.inOrder.Store(&all) // two that come here at a time agree
	return all
}

func (im *Image) sorted() []*Topic {
	out := make([]*Topic, 0, im.topics.count)
	for i := range topicBuckets {
		if b := im.topics.byName.bucket(i); b != nil {
			for _, t := range b.m {
				out = append(out, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// WithTopic returns an Image that has t in place of any topic of its name. The
// Version is the caller's to raise.
func (im *Image) WithTopic(t *Topic) *Image {
	e := im.Edit()
	e.Put(t)
	return e.Done()
}

// WithoutTopic returns an Image that lacks the topic of that name.
func (im *Image) WithoutTopic(name string) *Image {
	e := im.Edit()
	e.Remove(name)
	return e.Done()
}

// Edit makes a new Image out of an old one in several steps, and copies each
// bucket and the quotas at most once on the way. One goroutine owns it.
type Edit struct {
	// Image is the new one; the Edit's owner may set its plain fields, and
	// replaces maps and slices rather than writing into them.
	Image *Image

	names, topicIDs, pages copies
	ownPages               map[core.PartitionID]bool
	copied                 bool // the roots
	ownQuotas              bool
}

// copies says which buckets and nodes of a table an Edit has copied.
type copies struct {
	buckets [topicBuckets / 64]uint64
	nodes   uint32
}

// Edit starts a new Image that equals im.
func (im *Image) Edit() *Edit {
	next := *im
	return &Edit{Image: &next}
}

// Done returns the new Image. The Edit must not be used afterwards.
func (e *Edit) Done() *Image {
	im := e.Image
	e.Image = nil
	return im
}

// Put adds t, in place of any topic of its name.
func (e *Edit) Put(t *Topic) {
	e.Remove(t.Name)
	e.copyTables()
	tt := &e.Image.topics
	tt.inOrder = new(atomic.Pointer[[]*Topic])
	own(tt.byName, &e.names, nameBucket(t.Name))[t.Name] = t
	own(tt.byID, &e.topicIDs, idBucket(t.ID))[t.ID] = t
	for _, p := range t.Partitions {
		pg := e.ownPage(p.ID)
		if pg.slots[p.ID%pageSlots].Topic == nil {
			pg.used++
		}
		pg.slots[p.ID%pageSlots] = Place{t, p.Num}
	}
	tt.count++
	tt.partitions += len(t.Partitions)
}

// Remove drops the topic of that name, if there is one.
func (e *Edit) Remove(name string) {
	t := e.Image.Topic(name)
	if t == nil {
		return
	}
	e.copyTables()
	tt := &e.Image.topics
	tt.inOrder = new(atomic.Pointer[[]*Topic])
	delete(own(tt.byName, &e.names, nameBucket(name)), name)
	delete(own(tt.byID, &e.topicIDs, idBucket(t.ID)), t.ID)
	for _, p := range t.Partitions {
		pg := e.ownPage(p.ID)
		pg.slots[p.ID%pageSlots] = Place{}
		if pg.used--; pg.used == 0 {
			n := pageOf(p.ID)
			delete(own(tt.pages, &e.pages, pageBucket(n)), n)
			delete(e.ownPages, n)
		}
	}
	tt.count--
	tt.partitions -= len(t.Partitions)
}

func (e *Edit) copyTables() {
	if e.copied {
		return
	}
	tt := &e.Image.topics
	tt.byName, tt.byID, tt.pages = copyTable(tt.byName), copyTable(tt.byID), copyTable(tt.pages)
	e.ownPages = make(map[core.PartitionID]bool)
	e.copied = true
}

// ownPage returns the page of a PartitionID to write into, after copying it if
// the Edit has not yet.
func (e *Edit) ownPage(id core.PartitionID) *page {
	n, tt := pageOf(id), &e.Image.topics
	if e.ownPages[n] {
		return tt.pages.bucket(pageBucket(n)).m[n]
	}
	next := new(page)
	if old, ok := tt.pages.get(pageBucket(n), n); ok {
		*next = *old
	}
	own(tt.pages, &e.pages, pageBucket(n))[n] = next
	e.ownPages[n] = true
	return next
}

func copyTable[K comparable, V any](t *table[K, V]) *table[K, V] {
	next := new(table[K, V])
	if t != nil {
		*next = *t
	}
	return next
}

// own returns bucket i to write into, after copying it and what leads to it if
// the Edit has not yet.
func own[K comparable, V any](t *table[K, V], c *copies, i int) map[K]V {
	n := i / fanout
	if c.nodes&(1<<n) == 0 {
		c.nodes |= 1 << n
		next := new(node[K, V])
		if t[n] != nil {
			*next = *t[n]
		}
		t[n] = next
	}
	if c.buckets[i/64]&(1<<(i%64)) == 0 {
		c.buckets[i/64] |= 1 << (i % 64)
		next := &bucket[K, V]{}
		if old := t[n][i%fanout]; old != nil {
			next.m = maps.Clone(old.m)
		}
		if next.m == nil {
			next.m = make(map[K]V, 1)
		}
		t[n][i%fanout] = next
	}
	return t[n][i%fanout].m
}
