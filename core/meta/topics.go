package meta

import (
	"hash/fnv"
	"slices"
	"strings"

	"millrace/core"
)

const topicBuckets = 256

// topicTable is a persistent hash table: an edit copies one bucket per index,
// so that making 10,000 topics one after the other stays linear.
type topicTable struct {
	byName *[topicBuckets]map[string]*Topic
	byID   *[topicBuckets]map[core.TopicID]*Topic
	// ids maps a PartitionID to its place.
	ids   *[topicBuckets]map[core.PartitionID]Place
	count int
}

// Place says where a PartitionID lives.
type Place struct {
	Topic *Topic
	Num   int32
}

func nameBucket(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % topicBuckets)
}

// Topic finds a topic by name; nil if there is none.
func (im *Image) Topic(name string) *Topic {
	if im.topics.byName == nil {
		return nil
	}
	return im.topics.byName[nameBucket(name)][name]
}

// TopicByID finds a topic by its ID; nil if there is none.
func (im *Image) TopicByID(id core.TopicID) *Topic {
	if im.topics.byID == nil {
		return nil
	}
	return im.topics.byID[id[15]][id]
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
	if im.topics.ids == nil {
		return Place{}, false
	}
	p, ok := im.topics.ids[id%topicBuckets][id]
	return p, ok
}

// TopicCount is the number of topics.
func (im *Image) TopicCount() int { return im.topics.count }

// Topics lists all topics in order of their names.
func (im *Image) Topics() []*Topic {
	out := make([]*Topic, 0, im.topics.count)
	if im.topics.byName != nil {
		for _, b := range im.topics.byName {
			for _, t := range b {
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
	next := im.WithoutTopic(t.Name)
	tt := &next.topics
	if tt.byName == nil {
		tt.byName, tt.byID, tt.ids = new([topicBuckets]map[string]*Topic), new([topicBuckets]map[core.TopicID]*Topic), new([topicBuckets]map[core.PartitionID]Place)
	}
	setIn(&tt.byName, nameBucket(t.Name), t.Name, t)
	setIn(&tt.byID, int(t.ID[15]), t.ID, t)
	for _, p := range t.Partitions {
		setIn(&tt.ids, int(p.ID%topicBuckets), p.ID, Place{t, p.Num})
	}
	tt.count++
	return next
}

// WithoutTopic returns an Image that lacks the topic of that name.
func (im *Image) WithoutTopic(name string) *Image {
	next := *im
	t := im.Topic(name)
	if t == nil {
		return &next
	}
	tt := &next.topics
	dropIn(&tt.byName, nameBucket(name), name)
	dropIn(&tt.byID, int(t.ID[15]), t.ID)
	for _, p := range t.Partitions {
		dropIn(&tt.ids, int(p.ID%topicBuckets), p.ID)
	}
	tt.count--
	return &next
}

func setIn[K comparable, V any](table **[topicBuckets]map[K]V, bucket int, k K, v V) {
	t := cloneBucket(*table, bucket)
	t[bucket][k] = v
	*table = t
}

func dropIn[K comparable, V any](table **[topicBuckets]map[K]V, bucket int, k K) {
	t := cloneBucket(*table, bucket)
	delete(t[bucket], k)
	*table = t
}

func cloneBucket[K comparable, V any](old *[topicBuckets]map[K]V, bucket int) *[topicBuckets]map[K]V {
	t := *old
	b := make(map[K]V, len(t[bucket])+1)
	for k, v := range t[bucket] {
		b[k] = v
	}
	t[bucket] = b
	return &t
}
