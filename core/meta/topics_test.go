package meta

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/core"
)

// makeTopic makes a topic whose IDs follow from n.
func makeTopic(name string, n, partitions int) *Topic {
	t := &Topic{Name: name, Partitions: make([]*Partition, partitions)}
	t.ID[0], t.ID[14], t.ID[15] = byte(n>>16), byte(n>>8), byte(n)
	for i := range t.Partitions {
		t.Partitions[i] = &Partition{ID: core.PartitionID(n)*30 + core.PartitionID(i), Num: int32(i), Leader: new(LeaderCell)}
	}
	return t
}

func TestImagesAreImmutable(t *testing.T) {
	empty := &Image{}
	a, b := makeTopic("a", 1, 2), makeTopic("b", 2, 1)
	one := empty.WithTopic(a)
	two := one.WithTopic(b)
	less := two.WithoutTopic("a")
	for _, c := range []struct {
		im     *Image
		topics []*Topic
	}{{empty, nil}, {one, []*Topic{a}}, {two, []*Topic{a, b}}, {less, []*Topic{b}}, {less.WithoutTopic("zzz"), []*Topic{b}}} {
		if got := c.im.Topics(); !slices.Equal(got, c.topics) {
			t.Errorf("topics %v, want %v", got, c.topics)
		}
		partitions := 0
		for _, want := range []*Topic{a, b} {
			has := slices.Contains(c.topics, want)
			p, found := c.im.Locate(want.Partitions[0].ID)
			if (c.im.Topic(want.Name) == want) != has || (c.im.TopicByID(want.ID) == want) != has || found != has || has && p.Topic != want {
				t.Errorf("topic %s: found %v, want %v", want.Name, !has, has)
			}
			if has {
				partitions += len(want.Partitions)
			}
		}
		if c.im.TopicCount() != len(c.topics) || c.im.PartitionCount() != partitions {
			t.Errorf("%d topics and %d partitions counted", c.im.TopicCount(), c.im.PartitionCount())
		}
	}
	if p := two.Partition("a", 1); p != a.Partitions[1] {
		t.Error("a/1 was not found")
	}
	if two.Partition("a", 2) != nil || two.Partition("a", -1) != nil || two.Partition("c", 0) != nil {
		t.Error("a partition was found that is not there")
	}
}

// TestTopicsOfAnEditAreListedAsTheyAre asks for the list at every step of an edit.
func TestTopicsOfAnEditAreListedAsTheyAre(t *testing.T) {
	a, b, other := makeTopic("a", 1, 1), makeTopic("b", 2, 1), makeTopic("a", 3, 1)
	old := (&Image{}).WithTopic(b)
	e := old.Edit()
	step := func(what string, want ...*Topic) {
		t.Helper()
		if got := e.Image.Topics(); !slices.Equal(got, want) {
			t.Errorf("%s: %d topics, want %d", what, len(got), len(want))
		}
	}
	step("before", b)
	e.Put(a)
	step("put", a, b)
	e.Put(other)
	step("replaced", other, b)
	e.Remove("b")
	step("removed", other)
	e.Remove("a")
	step("all removed")
	if got := old.Topics(); !slices.Equal(got, []*Topic{b}) {
		t.Errorf("the old image has %d topics", len(got))
	}
	if first, again := old.Topics(), old.Edit().Done().Topics(); &first[0] != &again[0] {
		t.Error("the list of the same topics was made twice")
	}
}

// TestQuotasOfOneEditAreCopiedOnce: one of many changes costs what it changes, and
// no earlier Image sees any of them.
func TestQuotasOfOneEditAreCopiedOnce(t *testing.T) {
	user := func(i int) QuotaEntity { return QuotaEntity{QuotaUser: {Used: true, Name: fmt.Sprint(i)}} }
	values := map[string]float64{"producer_byte_rate": 1}
	old := &Image{}
	for i := range 1000 {
		e := old.Edit()
		e.PutQuotas(user(i), values)
		old = e.Done()
	}
	e := old.Edit()
	next := e.Image
	e.PutQuotas(user(0), nil)
	of := user(1)
	if allocs := testing.AllocsPerRun(100, func() { e.PutQuotas(of, values) }); allocs > 0 {
		t.Errorf("%v allocations for one more change", allocs)
	}
	if len(old.Quotas) != 1000 || old.Quotas[user(0)] == nil || len(next.Quotas) != 999 || next.Quotas[user(0)] != nil {
		t.Errorf("%d entities before and %d after one was removed", len(old.Quotas), len(next.Quotas))
	}
}

func TestCollidingFindsDotsAndUnderscores(t *testing.T) {
	im := (&Image{}).WithTopic(makeTopic("a.b_c", 1, 1)).WithTopic(makeTopic("plain", 2, 1))
	for name, want := range map[string]string{"a_b.c": "a.b_c", "a.b.c": "a.b_c", "a.b_c": "a.b_c", "a.b-c": "", "abc": "", "plain": ""} {
		got := ""
		if found := im.Colliding(name); found != nil {
			got = found.Name
		}
		if got != want {
			t.Errorf("Colliding(%q) = %q, want %q", name, got, want)
		}
	}
	if (&Image{}).Colliding("a.b") != nil {
		t.Error("something collides in an empty image")
	}
}

func TestDiffNamesWhatChanged(t *testing.T) {
	a, b, c := makeTopic("a", 1, 1), makeTopic("b", 2, 1), makeTopic("c", 3, 1)
	old := (&Image{}).WithTopic(a).WithTopic(b).WithTopic(c)
	grown := *a
	again := makeTopic("b", 9, 1)
	d := makeTopic("d", 4, 1)
	next := old.WithTopic(&grown).WithTopic(again).WithoutTopic("c").WithTopic(d)
	var got []string
	show := func(t *Topic) string {
		if t == nil {
			return "-"
		}
		return fmt.Sprintf("%s#%d", t.Name, t.ID[15])
	}
	note := func(before, after *Topic) { got = append(got, show(before)+">"+show(after)) }
	Diff(old, next, note)
	if want := []string{"a#1>a#1", "b#2>-", "->b#9", "c#3>-", "->d#4"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = nil
	Diff(nil, old, note)
	if want := []string{"->a#1", "->b#2", "->c#3"}; !slices.Equal(got, want) {
		t.Errorf("from nothing: got %v, want %v", got, want)
	}
	got = nil
	same := *next
	Diff(next, &same, note)
	Diff(&Image{}, &Image{}, note)
	if got != nil {
		t.Errorf("no change, but %v", got)
	}
}

// TestDiffOfRandomEdits applies what Diff says to a plain map.
func TestDiffOfRandomEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	im, mirror := &Image{}, map[string]*Topic{}
	for n := range 200 {
		e := im.Edit()
		for range r.IntN(20) {
			name := fmt.Sprintf("t%d", r.IntN(60))
			if r.IntN(3) == 0 {
				e.Remove(name)
			} else {
				e.Put(makeTopic(name, n*100+r.IntN(100)+1, 1))
			}
		}
		next := e.Done()
		Diff(im, next, func(before, after *Topic) {
			switch {
			case before != nil && mirror[before.Name] != before:
				t.Fatalf("%s was not what Diff says it was", before.Name)
			case after == nil:
				delete(mirror, before.Name)
			case before == nil && mirror[after.Name] != nil:
				t.Fatalf("%s is not new", after.Name)
			default:
				mirror[after.Name] = after
			}
		})
		im = next
		if len(mirror) != im.TopicCount() {
			t.Fatalf("%d topics, the mirror has %d", im.TopicCount(), len(mirror))
		}
		for name, topic := range mirror {
			if im.Topic(name) != topic {
				t.Fatalf("%s differs", name)
			}
		}
	}
}

func TestLeaderCell(t *testing.T) {
	var c LeaderCell
	if node, epoch := c.Get(); node != core.NoNode || epoch != 0 {
		t.Errorf("a new cell has leader %d, epoch %d", node, epoch)
	}
	c.Set(3, 1<<31)
	if node, epoch := c.Get(); node != 3 || epoch != 1<<31 {
		t.Errorf("leader %d, epoch %d", node, epoch)
	}
	c.Set(core.NoNode, 9)
	if node, epoch := c.Get(); node != core.NoNode || epoch != 9 {
		t.Errorf("leader %d, epoch %d", node, epoch)
	}
}

// BenchmarkBigTopic puts a topic of 10,000 partitions into an image.
func BenchmarkBigTopic(b *testing.B) {
	topic := makeTopic("big", 1, 10_000)
	for b.Loop() {
		if (&Image{}).WithTopic(topic).PartitionCount() != 10_000 {
			b.Fatal("partitions are missing")
		}
	}
}

// BenchmarkManyTopics makes 10,000 topics of one partition, an image each.
func BenchmarkManyTopics(b *testing.B) {
	var topics []*Topic
	for i := range 10_000 {
		topics = append(topics, makeTopic(fmt.Sprintf("topic-%d", i), i+1, 1))
	}
	for b.Loop() {
		im := &Image{}
		for _, t := range topics {
			im = im.WithTopic(t)
		}
		if im.TopicCount() != 10_000 {
			b.Fatal("topics are missing")
		}
	}
}

// BenchmarkDiffOfOne finds the one topic of 10,000 that changed.
func BenchmarkDiffOfOne(b *testing.B) {
	e := (&Image{}).Edit()
	for i := range 10_000 {
		e.Put(makeTopic(fmt.Sprintf("topic-%d", i), i+1, 1))
	}
	old := e.Done()
	next := old.WithTopic(makeTopic("topic-7", 8, 2))
	for b.Loop() {
		n := 0
		Diff(old, next, func(_, _ *Topic) { n++ })
		if n != 1 {
			b.Fatal(n)
		}
	}
}
