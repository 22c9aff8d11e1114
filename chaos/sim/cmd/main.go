// Command cmd plays simulation seeds: n seeds from a first one on, or one seed
// with its trace.
//
//	go run ./chaos/sim/cmd -seeds 500 -j 2
//	go run ./chaos/sim/cmd -seed 77 -trace
//
// Main starts a worker per -j; nothing here is durable. It exits with status 1
// when a seed finds a violation, after printing how to replay it.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/chaos/sim"
	"millrace/chaos/sim/logsim"
)

func main() {
	debug.SetGCPercent(400)
	var (
		seeds   = flag.Uint64("seeds", 500, "number of seeds to play")
		from    = flag.Uint64("from", 1, "first seed")
		minutes = flag.Float64("minutes", 0, "play seeds for this long instead of a number of them")
		workers = flag.Int("j", runtime.GOMAXPROCS(0), "seeds played at a time")
		seed    = flag.Uint64("seed", 0, "play this seed alone")
		trace   = flag.Bool("trace", false, "with -seed: print what happens")
		disk    = flag.Bool("disk", false, "with -trace: every operation of the disk too")
		layer   = flag.String("layer", "node", "what to simulate: node, or log (raftlog alone)")
		kind    = flag.String("kind", "", "play the seeds of this kind alone")
		keep    = flag.Bool("keep-going", false, "go on after a failing seed")
	)
	flag.Parse()
	play, kindOf := playNode, func(seed uint64) string { return sim.KindOf(seed).String() }
	if *layer == "log" {
		play, kindOf = playLog, func(seed uint64) string { return logsim.KindOf(seed).String() }
	}
	if *seed != 0 {
		os.Exit(one(*seed, play, *trace, *disk))
	}
	t := &tally{play: play, keep: *keep, kind: *kind, kindOf: kindOf}
	t.next.Store(*from)
	t.end = *from + *seeds
	if *minutes > 0 {
		t.end, t.until = ^uint64(0), time.Now().Add(time.Duration(*minutes*float64(time.Minute)))
	}
	os.Exit(t.run(*workers))
}

// outcome is one seed's result, of whichever layer.
type outcome struct {
	params  string
	kind    string
	faults  []string
	node    sim.Stats
	log     logsim.Stats
	isLog   bool
	virtual time.Duration
}

type player func(seed uint64, trace *bufio.Writer, disk bool) outcome

func playNode(seed uint64, trace *bufio.Writer, disk bool) outcome {
	o := sim.Options{TraceDisk: disk}
	if trace != nil {
		o.Trace = trace
	}
	r := sim.Run(seed, o)
	out := outcome{params: r.Params, kind: r.Kind.String(), node: r.Stats, virtual: time.Duration(r.Stats.VirtualNs)}
	if r.Err != nil {
		out.faults = append(out.faults, r.Err.Error())
	}
	for _, v := range r.Violations {
		out.faults = append(out.faults, v.String())
	}
	return out
}

func playLog(seed uint64, trace *bufio.Writer, _ bool) outcome {
	c := logsim.Config{Seed: seed, Kind: logsim.KindOf(seed)}
	if trace != nil {
		c.Trace = trace
	}
	st, err := logsim.Run(c)
	out := outcome{log: st, isLog: true, kind: c.Kind.String()}
	if err != nil {
		out.faults = append(out.faults, err.Error())
	}
	return out
}

func one(seed uint64, play player, trace, disk bool) int {
	var w *bufio.Writer
	if trace {
		w = bufio.NewWriter(os.Stdout)
	}
	out := play(seed, w, disk)
	if w != nil {
		if err := w.Flush(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	fmt.Printf("seed %d: %s %s\n", seed, out.kind, out.params)
	fmt.Printf("%v\n", out.counts())
	for _, f := range out.faults {
		fmt.Println("VIOLATION", f)
	}
	if len(out.faults) > 0 {
		return 1
	}
	fmt.Println("no violation")
	return 0
}

func (o *outcome) counts() string {
	if o.isLog {
		return o.log.String()
	}
	return o.node.String()
}

// tally plays seeds on several workers and adds up.
type tally struct {
	play   player
	keep   bool
	kind   string // "" for all
	kindOf func(seed uint64) string
	end    uint64
	until  time.Time
	next   atomic.Uint64
	stop   atomic.Bool
	mu     struct {
		sync.Mutex
		sum    outcome
		kinds  map[string]int
		played int
		failed []uint64
	}
}

func (t *tally) run(workers int) int {
	t.mu.kinds = map[string]int{}
	began := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(t.work)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-tick.C:
			t.mu.Lock()
			fmt.Printf("%d seeds, %.0f a minute, %d failed\n", t.mu.played, float64(t.mu.played)/time.Since(began).Minutes(), len(t.mu.failed))
			t.mu.Unlock()
		}
	}
	return t.report(time.Since(began))
}

func (t *tally) work() {
	for !t.stop.Load() {
		seed := t.next.Add(1) - 1
		if seed >= t.end || !t.until.IsZero() && time.Now().After(t.until) {
			return
		}
		if t.kind != "" && t.kind != t.kindOf(seed) {
			continue
		}
		out := t.play(seed, nil, false)
		t.add(seed, &out)
	}
}

func (t *tally) add(seed uint64, out *outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.played++
	t.mu.kinds[out.kind]++
	t.mu.sum.node.Add(&out.node)
	t.mu.sum.log.Add(&out.log)
	t.mu.sum.isLog = out.isLog
	t.mu.sum.virtual += out.virtual
	if len(out.faults) == 0 {
		return
	}
	t.mu.failed = append(t.mu.failed, seed)
	fmt.Printf("SEED %d FAILED (%s %s)\n", seed, out.kind, out.params)
	for _, f := range out.faults[:min(8, len(out.faults))] {
		fmt.Println("  ", f)
	}
	if !t.keep {
		t.stop.Store(true)
	}
}

func (t *tally) report(took time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Printf("%d seeds in %.1fs: %.0f seeds a minute, %.2f virtual hours\n", t.mu.played, took.Seconds(), float64(t.mu.played)/took.Minutes(), t.mu.sum.virtual.Hours())
	fmt.Printf("kinds: %v\n", t.mu.kinds)
	fmt.Println(t.mu.sum.counts())
	if len(t.mu.failed) == 0 {
		fmt.Println("no violation")
		return 0
	}
	slices.Sort(t.mu.failed)
	fmt.Printf("%d seeds FAILED: %v\n", len(t.mu.failed), t.mu.failed)
	layer := ""
	if t.mu.sum.isLog {
		layer = " -layer log"
	}
	fmt.Printf("replay with: go run ./chaos/sim/cmd%s -seed %d -trace\n", layer, t.mu.failed[0])
	return 1
}
