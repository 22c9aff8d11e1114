package main

import (
	"fmt"
	"math/rand/v2"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// gen makes one sequence. It keeps a rough model of what earlier steps did, so
// that later ones hit what exists; the model need not be right.
type gen struct {
	r          *rand.Rand
	q          *Sequence
	advertised map[int16]versions

	records   map[string]int64 // produced by partition ("name/0")
	producers []*genProducer
	sessions  []*genSession
	members   []*genMember
	busy      [connsMax]bool // a step is under way that ends later
}

type genProducer struct {
	id    int64 // or its placeholder
	epoch int16
	next  map[string]int32 // sequence by partition
	last  map[string]batchSpec
}

type genSession struct {
	step, conn int
	epoch      int32
}

// theme is what most steps of a sequence are about.
type theme struct {
	name   string
	weight int
	step   func(g *gen)
}

// themes in the order in which a seed picks among them.
func themes() []theme {
	return []theme{
		{"data", 30, (*gen).dataStep},
		{"idempotence", 10, (*gen).idempotentStep},
		{"sessions", 10, (*gen).sessionStep},
		{"groups", 22, (*gen).groupStep},
		{"admin", 18, (*gen).adminStep},
		{"mixed", 20, (*gen).anyStep},
	}
}

// generate makes the sequence of a seed: the same for the same seed and
// versions, whatever else is generated.
func generate(seed uint64, advertised map[int16]versions) *Sequence {
	g := &gen{
		r: rand.New(rand.NewPCG(seed, 0x6d696c6c72616365)), q: &Sequence{Seed: seed},
		advertised: advertised, records: make(map[string]int64),
	}
	all := themes()
	total := 0
	for _, t := range all {
		total += t.weight
	}
	n := g.r.IntN(total)
	var chosen theme
	for _, t := range all {
		if n -= t.weight; n < 0 {
			chosen = t
			break
		}
	}
	g.q.Theme = chosen.name
	g.givenTopics()
	for want := 6 + g.r.IntN(10); len(g.q.Steps) < want; {
		if g.chance(12) {
			g.anyStep()
			continue
		}
		chosen.step(g)
	}
	for _, n := range freshNames {
		g.q.Names = append(g.q.Names, prefixToken+n)
	}
	for _, n := range groupNames {
		g.q.Groups = append(g.q.Groups, prefixToken+n)
	}
	for i := range g.q.Steps {
		if !g.chance(2) {
			unique(reflect.ValueOf(g.q.Steps[i].Req))
		}
	}
	g.disturb()
	return g.q
}

// Names of topics that steps may create, and of groups.
var (
	freshNames = []string{"-n0", "-n1", "-n_2", "-none", "-zz"}
	groupNames = []string{"-g0", "-g1", "-zz", "-nogroup"}
)

func (g *gen) chance(percent int) bool { return g.r.IntN(100) < percent }

func oneOf[T any](g *gen, xs ...T) T { return xs[g.r.IntN(len(xs))] }

// mostly takes the first with this chance and else one of the others.
func mostly[T any](g *gen, percent int, first T, others ...T) T {
	if g.chance(percent) {
		return first
	}
	return oneOf(g, others...)
}

// topicSettings are what a given topic may have; few kinds, each with a purpose.
var topicSettings = []map[string]string{
	{"message.timestamp.type": "LogAppendTime"},
	{"max.message.bytes": "200"},
	{"message.timestamp.after.max.ms": "1000", "message.timestamp.before.max.ms": "1000"},
	{"min.insync.replicas": "2"},
	{"segment.bytes": "1048576", "retention.ms": "-1"},
}

func (g *gen) givenTopics() {
	n := mostly(g, 70, 1, 0, 2, 2)
	for i := range n {
		t := Topic{Name: fmt.Sprintf("%s-t%d", prefixToken, i), Partitions: mostly(g, 70, int32(1), 2, 3)}
		if g.chance(20) {
			t.Configs = oneOf(g, topicSettings...)
		}
		g.q.Topics = append(g.q.Topics, t)
	}
}

// add puts a step at the end, in a version that is advertised, on a connection
// that is free where there is one.
func (g *gen) add(req kmsg.Request) *Step {
	v := g.advertised[req.Key()]
	req.SetVersion(v.min + int16(g.r.IntN(int(v.max-v.min)+1)))
	return g.addAs(req, g.freeConn())
}

// addAs puts a step at the end whose version is set.
func (g *gen) addAs(req kmsg.Request, conn int) *Step {
	g.q.Steps = append(g.q.Steps, Step{ID: len(g.q.Steps), Conn: conn, Req: req})
	return &g.q.Steps[len(g.q.Steps)-1]
}

// version picks one of a key.
func (g *gen) version(key kmsg.Key) int16 {
	v := g.advertised[int16(key)]
	return v.min + int16(g.r.IntN(int(v.max-v.min)+1))
}

func (g *gen) freeConn() int {
	for c := range g.busy {
		if !g.busy[c] {
			return c
		}
	}
	g.busy = [connsMax]bool{}
	return 0
}

// nextID is the ID of the step that add makes next.
func (g *gen) nextID() int { return len(g.q.Steps) }

// topic picks a topic: mostly one that exists.
func (g *gen) topic() (name string, partitions int32) {
	if len(g.q.Topics) > 0 && g.chance(88) {
		t := g.q.Topics[g.r.IntN(len(g.q.Topics))]
		return t.Name, t.Partitions
	}
	if g.chance(10) {
		return oneOf(g, "", prefixToken+"/bad", prefixToken+" bad", "..", prefixToken+longName), 1
	}
	return prefixToken + oneOf(g, freshNames[:4]...), 1
}

// longName makes a name too long together with prefixToken.
var longName = func() string {
	b := make([]byte, 245)
	for i := range b {
		b[i] = 'l'
	}
	return string(b)
}()

func (g *gen) partition(partitions int32) int32 {
	if g.chance(94) {
		return g.r.Int32N(partitions)
	}
	return oneOf(g, -1, partitions, 1<<30)
}

func (g *gen) group() string {
	if g.chance(96) {
		return prefixToken + oneOf(g, "-g0", "-g0", "-g0", "-g1")
	}
	return oneOf(g, "", prefixToken+"-nogroup", prefixToken+" / ü")
}

// offset picks an offset near what the partition has.
func (g *gen) offset(topic string, partition int32) int64 {
	n := g.records[at(topic, partition)]
	return mostly(g, 80, g.r.Int64N(n+2), n, n+1, -1, -2, 1<<40, 0)
}

func at(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// epoch picks a current leader epoch: the first of a topic counts as 0.
func (g *gen) epoch() int32 { return mostly(g, 75, int32(-1), 0, 0, 1, 7, -2) }
