package raftlog

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/core"
	"millrace/core/arena"
)

var (
	crashSeed  = flag.Uint64("crash.seed", 0, "run this seed alone")
	crashSeeds = flag.Uint64("crash.seeds", 25, "number of seeds")
)

// crashModel is what the logs must be after each turn.
type crashModel struct {
	turns []map[core.PartitionID]modelLog // by turn seq; [0] is empty
	acked int                             // turns known durable
}

type modelLog struct {
	entries  []modelEntry // index i+1
	hs       HardState
	logStart core.Offset
}

type modelEntry struct {
	term core.Term
	kind EntryKind
	base core.Offset
	size int
}

func snapshotLog(l *Log, was modelLog) modelLog {
	m := modelLog{hs: l.hs, logStart: l.logStart}
	for i := core.Index(1); i <= l.last; i++ {
		if e := l.meta(i); e != nil {
			m.entries = append(m.entries, modelEntry{e.term, e.kind, e.baseOffset, int(e.length)})
		} else {
			m.entries = append(m.entries, was.entries[i-1])
		}
	}
	return m
}

// TestCrashAnywhereKeepsWhatWasAcknowledged takes images of the device at random
// operations, each with a random part of the unsynced sectors lost, opens them
// and compares: every image must be exactly what some turn between the last one
// acknowledged and the last one submitted left behind.
func TestCrashAnywhereKeepsWhatWasAcknowledged(t *testing.T) {
	if *crashSeed != 0 {
		runCrashSeed(t, *crashSeed)
		return
	}
	for seed := uint64(1); seed <= *crashSeeds; seed++ {
		runCrashSeed(t, seed)
		if t.Failed() {
			return
		}
	}
}

func crashOptions(r *rand.Rand) Options {
	return Options{
		JournalFileBytes: 64<<10 + int64(r.IntN(5))*(32<<10), JournalFilesMax: 2 + r.IntN(4), JournalSpare: 1 + r.IntN(2),
		DirectBytes: 4<<10 + r.IntN(32<<10), Logf: func(string, ...any) {},
	}
}

type crashRun struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	opts Options
	fs   *memFS
	ts   *testStore
	m    crashModel
	jobs []*Job
	imgs []crashImage
	gone map[core.PartitionID]bool
	step int
}

type crashImage struct {
	fs    *memFS
	acked int
	step  int
}

func runCrashSeed(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: -crash.seed=%d", seed, seed)
		}
	}()
	c := &crashRun{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), gone: map[core.PartitionID]bool{}}
	c.opts = crashOptions(c.r)
	c.m.turns = []map[core.PartitionID]modelLog{{}}
	c.attach(newMemFS(t))
	for c.step = range 250 {
		c.act()
		for _, img := range c.imgs {
			c.verify(img)
			if t.Failed() {
				return
			}
		}
		if n := len(c.imgs); n > 0 && c.r.IntN(8) == 0 {
			c.adopt(c.imgs[n-1])
		}
		c.imgs = c.imgs[:0]
		if t.Failed() {
			return
		}
	}
	c.ts.s.Discard()
}

// attach goes on with a store on fs.
func (c *crashRun) attach(fs *memFS) {
	c.fs = fs
	c.ts = openStore(c.t, fs, c.opts)
	c.ts.now = core.Tick(c.step+1) * core.Second
	fs.onOp = func() {
		if c.r.IntN(40) == 0 {
			c.imgs = append(c.imgs, crashImage{fs.crash(c.r), c.m.acked, c.step})
		}
	}
}

func (c *crashRun) act() {
	ts, r := c.ts, c.r
	logs := ts.set.All()
	switch n := r.IntN(20); {
	case n == 0 && len(logs) < 6 || len(logs) == 0:
		id := core.PartitionID(20 + len(c.gone) + len(logs))
		for ts.set.Get(id) != nil || c.gone[id] {
			id++
		}
		if _, err := ts.set.Create(id, c.cfg()); err != nil {
			c.t.Errorf("create: %v", err)
		}
	case n == 1 && len(logs) > 3:
		l := logs[r.IntN(len(logs))]
		c.gone[l.id] = true
		ts.set.Delete(l.id)
	case n < 10:
		c.append(logs[r.IntN(len(logs))])
	case n < 13:
		l := logs[r.IntN(len(logs))]
		hs := l.HardState()
		hs.Commit = max(hs.Commit, core.Index(uint64(l.last)*uint64(50+r.IntN(51))/100))
		hs.Term = max(hs.Term, l.lastTerm())
		l.SetHardState(hs)
	case n < 14:
		l := logs[r.IntN(len(logs))]
		if o, err := l.OffsetOf(l.hs.Commit); err == nil && l.next > 0 && r.IntN(3) == 0 {
			l.SetLogStart(core.Offset(r.Int64N(int64(o) + 1)))
		}
	case n < 15:
		ts.set.Evict(ts.mem, 1<<40)
	case n < 17:
		c.maintain()
	case n < 18 && r.IntN(4) == 0:
		c.fs.noSpace = !c.fs.noSpace
		ts.s.CheckSpace()
	default:
		if _, err := ts.s.Journal().Prepare(); err != nil {
			c.t.Errorf("prepare: %v", err)
		}
	}
	if c.fs.noSpace && r.IntN(10) == 0 {
		c.fs.noSpace = false
		ts.s.CheckSpace()
	}
	if r.IntN(3) > 0 {
		c.commit()
	}
	for len(c.jobs) > 0 && r.IntN(2) == 0 {
		k := r.IntN(len(c.jobs))
		j := c.jobs[k]
		c.jobs = slices.Delete(c.jobs, k, k+1)
		j.Run()
		if r.IntN(2) == 0 {
			c.commit()
		}
		j.Finish()
		if j.Err != nil && !errors.Is(j.Err, ErrNoSpace) {
			c.t.Errorf("seed %d step %d: job: %v", c.seed, c.step, j.Err)
		}
	}
}

func (c *crashRun) cfg() LogConfig {
	return LogConfig{
		SegmentBytes: 20<<10 + int64(c.r.IntN(40<<10)), SegmentMs: 50_000, RetentionBytes: -1, RetentionMs: -1,
		FlushBytesMax: 4<<10 + int64(c.r.IntN(40<<10)), Delete: true,
	}
}

func (c *crashRun) append(l *Log) {
	r := c.r
	term := max(l.lastTerm(), 1)
	if r.IntN(6) == 0 {
		term++
	}
	if l.last > l.hs.Commit && l.last > l.flushed && r.IntN(5) == 0 {
		// A new leader replaces what is not committed.
		from := max(l.hs.Commit, l.flushed) + 1
		from += core.Index(r.Uint64N(uint64(l.last-from) + 1))
		term++
		base := l.meta(from).baseOffset
		l.Append([]Entry{{Index: from, Term: term, Kind: EntryEmpty, BaseOffset: base, LastOffset: base - 1, MaxTimestamp: -1}})
	}
	for range 1 + r.IntN(4) {
		switch r.IntN(8) {
		case 0:
			c.ts.empty(l, term)
		case 1:
			c.ts.batch(l, term, 1+r.IntN(3), 8<<10+r.IntN(40<<10))
		default:
			c.ts.batch(l, term, 1+r.IntN(5), 61+r.IntN(3000))
		}
	}
}

func (c *crashRun) maintain() {
	c.ts.now += core.Tick(c.r.IntN(20)) * core.Second
	jobs, _ := c.ts.set.Maintain(c.ts.now, 1+c.r.IntN(4), nil)
	c.jobs = append(c.jobs, jobs...)
}

func (c *crashRun) commit() {
	ts := c.ts
	t := ts.set.Collect()
	if !t.Empty() {
		was := c.m.turns[len(c.m.turns)-1]
		now := map[core.PartitionID]modelLog{}
		for _, l := range ts.set.All() {
			now[l.id] = snapshotLog(l, was[l.id])
		}
		c.m.turns = append(c.m.turns, now)
		ts.s.Journal().Submit(t)
	}
	if c.r.IntN(4) == 0 {
		return // the writer is slow
	}
	for _, d := range ts.s.Journal().Commit() {
		if d.Err != nil {
			c.t.Errorf("commit: %v", d.Err)
		}
		c.m.acked++
		ts.set.Done(d)
	}
}

// verify opens an image and compares it with the model.
func (c *crashRun) verify(img crashImage) {
	s := openStore(c.t, img.fs, c.opts)
	if c.match(s, img) < 0 {
		c.t.Errorf("seed %d step %d: the image matches no turn in [%d, %d]: %s", c.seed, c.step, img.acked, len(c.m.turns)-1, c.explain(s, img))
	}
	for _, l := range s.set.All() {
		if l.Damaged() != nil {
			c.t.Errorf("seed %d step %d: partition %d: %v", c.seed, c.step, l.id, l.Damaged())
			continue
		}
		if s.mem = arena.NewHeap(64 << 20); !c.t.Failed() {
			s.readAll(l)
		}
	}
	s.s.Discard()
}

func (c *crashRun) match(s *testStore, img crashImage) int {
	for k := img.acked; k < len(c.m.turns); k++ {
		if diffModel(s, c.m.turns[k]) == "" {
			return k
		}
	}
	return -1
}

func (c *crashRun) explain(s *testStore, img crashImage) (out string) {
	for k := img.acked; k < len(c.m.turns); k++ {
		out += fmt.Sprintf("\n turn %d: %s", k, diffModel(s, c.m.turns[k]))
	}
	return out
}

func diffModel(s *testStore, want map[core.PartitionID]modelLog) string {
	if len(s.set.All()) != len(want) {
		return fmt.Sprintf("%d logs, want %d", len(s.set.All()), len(want))
	}
	for _, l := range s.set.All() {
		w, ok := want[l.id]
		if !ok {
			return fmt.Sprintf("partition %d should not be there", l.id)
		}
		if int(l.last) != len(w.entries) || l.hs.Term != w.hs.Term || l.hs.Vote != w.hs.Vote || l.logStart != w.logStart || l.hs.Commit < w.hs.Commit {
			return fmt.Sprintf("partition %d: last %d, %+v, start %d; want %d, %+v, %d", l.id, l.last, l.hs, l.logStart, len(w.entries), w.hs, w.logStart)
		}
		for i := l.first; i <= l.last; i++ {
			e := w.entries[i-1]
			if term, err := l.Term(i); err != nil || term != e.term {
				return fmt.Sprintf("partition %d entry %d: term %d, %v; want %d", l.id, i, term, err, e.term)
			}
			if m := l.meta(i); m != nil && (m.kind != e.kind || m.baseOffset != e.base || int(m.length) != e.size) {
				return fmt.Sprintf("partition %d entry %d: %+v; want %+v", l.id, i, m, e)
			}
		}
	}
	return ""
}

// adopt goes on from an image, as a restarted process would.
func (c *crashRun) adopt(img crashImage) {
	c.ts.s.Discard()
	c.jobs = nil
	var during []crashImage // crashes while recovering
	img.fs.onOp = func() { during = append(during, crashImage{img.fs.crash(c.r), img.acked, c.step}) }
	c.attach(img.fs)
	for _, d := range during {
		if c.r.IntN(4) == 0 {
			c.verify(d)
		}
	}
	// Which turn was it? Later history begins there.
	k := c.match(c.ts, img)
	if k < 0 {
		c.t.Errorf("seed %d step %d: the image matches no turn when opened again: %s", c.seed, c.step, c.explain(c.ts, img))
		return
	}
	c.m.turns = append(c.m.turns[:0:0], c.m.turns[k])
	c.m.acked = 0
	for _, l := range c.ts.set.All() {
		l.SetConfig(c.cfg())
		delete(c.gone, l.id)
	}
	for _, l := range c.ts.set.All() {
		was := c.m.turns[0][l.id]
		m := snapshotLog(l, was)
		m.hs.Commit = min(m.hs.Commit, l.hs.Commit)
		c.m.turns[0][l.id] = m
	}
}
