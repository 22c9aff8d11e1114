package sim

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/cespare/xxhash/v2"

	"millrace/chaos/check"
	"millrace/chaos/sim/vdisk"
	"millrace/core"
	"millrace/raftlog"
)

// reserveBytes is the free space below which clients' appends are refused.
const reserveBytes = 512 << 10

// Options say how to play a seed.
type Options struct {
	// Trace gets a line per step; nil: none.
	Trace io.Writer
	// TraceDisk adds every operation of the disk to the trace.
	TraceDisk bool
	// Hash asks for the trace's checksum, without which a trace that nobody reads
	// is not made: it takes a sixth of the time.
	Hash bool
}

// Result is what one history came to.
type Result struct {
	Seed       uint64
	Params     string
	Kind       Kind
	Stats      Stats
	Violations []check.Violation
	// Err is a panic, a hang or another fault that is not a client's view.
	Err error
	// TraceHash is the checksum of the trace, written or not; 0 if it was not asked for.
	TraceHash uint64
}

// Failed says whether the seed found something.
func (r *Result) Failed() bool { return r.Err != nil || len(r.Violations) > 0 }

// Sim is one history being played.
type Sim struct {
	seed     uint64
	rng      *rand.Rand
	p        params
	opts     Options
	now      core.Tick
	events   eventHeap
	eventSeq uint64
	failure  error
	hash     hash.Hash64

	disk  *vdisk.Disk
	node  *node
	stats Stats
	hist  check.History

	over     bool // nothing more can be judged
	ending   bool // the busy phase is over: no more faults
	commits  bool // the journal's committer is at work
	cured    bool // a process has started since the disk has become good
	gaveUp   bool // a process has found the metadata damaged while it ran
	flips    []flip
	tail     []written // the journal's last writes
	astray   []written // where journal writes were misdirected from and to
	topics   *topics
	lanes    []*lane
	readers  []*reader
	pids     map[int64]bool
	nextLane int32
	members  int
}

// Run plays the history of a seed to its end and judges it.
func Run(seed uint64, o Options) *Result {
	raftlog.UseHeapBuffers()
	s := &Sim{
		seed: seed,
		rng:  rand.New(rand.NewPCG(seed, 0x51)),
		opts: o,
		now:  1_750_000_000 * core.Second,
		hash: xxhash.New(),
		pids: map[int64]bool{},
	}
	s.hist.OneNode = true
	s.p = s.drawParams()
	s.trace("seed %d: %v", seed, s.p)
	s.disk = vdisk.New(vdisk.Options{
		SectorBytes: s.p.sectorBytes, Direct: s.p.direct, Rand: rand.New(rand.NewPCG(seed, 0xd15c)),
		CapacityBytes: 256 << 20,
	})
	if o.TraceDisk {
		s.disk.Trace = func(point int, op string) { s.trace("disk %d: %s", point, op) }
	}
	s.disk.OnWrite = s.noteWrite
	s.disk.OnMisdirect = s.noteMisdirected
	s.disk.OnFault = s.noteFault
	s.calmDisk()
	s.play()
	r := &Result{Seed: seed, Params: s.p.String(), Kind: s.p.kind, Err: s.failure}
	if s.failure == nil && !s.over {
		r.Violations = check.All(&s.hist)
	}
	s.stats.VirtualNs = int64(s.now - 1_750_000_000*core.Second)
	s.stats.Disk = s.disk.Stats
	r.Stats = s.stats
	if o.Hash {
		r.TraceHash = s.hash.Sum64()
	}
	return r
}

// play is the plot: a busy phase with crashes and faults, then peace, a last
// crash, and the reading of everything.
func (s *Sim) play() {
	s.startNode()
	s.startClients()
	s.planCrashes()
	s.planFaults()
	s.runUntil(s.now+s.p.duration, nil)
	if s.failure != nil || s.over {
		return
	}
	s.trace("the busy phase ends")
	s.ending = true
	s.calmDisk()
	s.disk.SetCapacity(1 << 30)
	s.disk.CutAt(0)
	if s.p.kind == KindEIO && !s.node.dead {
		// Partitions whose reads have failed are not served until a restart, which
		// is what a person does once the device works again.
		s.kill()
	}
	s.settle()
	if s.failure != nil || s.over || s.metadataDamaged() {
		return
	}
	s.trace("last crash")
	if s.node != nil && !s.node.dead {
		s.crash(vdisk.Sampled(s.rng))
	}
	s.finalReads()
}

func (s *Sim) trace(format string, args ...any) {
	if !s.tracing() {
		return
	}
	line := fmt.Sprintf("%12.6f ", float64(s.now-1_750_000_000*core.Second)/1e9)
	line += fmt.Sprintf(format, args...) + "\n"
	_, _ = s.hash.Write([]byte(line)) // a hash.Hash never fails
	if s.opts.Trace != nil {
		_, _ = io.WriteString(s.opts.Trace, line) // the person who traces sees that it ended
	}
}

func (s *Sim) tracing() bool { return s.opts.Hash || s.opts.Trace != nil }

func (s *Sim) fail(err error) {
	if s.failure == nil {
		s.trace("FAILED: %v", err)
		s.failure = err
	}
}

// p2seed is the seed of a shard's own chance.
func (s *Sim) p2seed(i int) uint64 { return s.seed*31 + uint64(i) + uint64(s.stats.Starts)*1009 }

// calmDisk makes the disk behave, with its usual latencies.
func (s *Sim) calmDisk() {
	s.disk.Faults = vdisk.Faults{WriteUs: 20, SyncUs: 150}
	if !s.ending {
		s.disk.Faults.Misdirect = s.p.misdirect
	}
	if s.p.stall > 0 && !s.ending {
		s.disk.Faults.Stall, s.disk.Faults.StallUs = s.p.stall, 300_000
	}
}

// startNode starts the process; a power cut or a fault of the disk on the way
// leads to the next start.
func (s *Sim) startNode() {
	s.stats.Starts++
	n := &node{s: s}
	s.node = n
	if !s.ending && s.chance(0.15) {
		s.disk.CutAt(s.disk.Points() + 1 + s.rng.IntN(12))
	}
	n.process("start", func() {
		if err := n.start(); err != nil {
			s.refusedStart(err)
			return
		}
		s.trace("started")
		n.started, s.cured = true, s.ending
	})
}

// refusedStart: a process may refuse a disk that fails or is damaged, and
// nothing else.
func (s *Sim) refusedStart(err error) {
	s.trace("start refused: %v", err)
	s.stats.StartsRefused++
	switch {
	case errors.Is(err, raftlog.ErrNoSpace) && s.p.kind == KindFull && !s.ending:
		s.kill()
	case s.p.kind == KindEIO && !s.ending:
		s.crash(vdisk.Sampled(s.rng))
	case s.p.kind == KindFlip && s.disk.Stats.Misdirected > 0:
		s.endUndecided("a process refuses the damaged disk, which nobody can repair")
	case s.p.kind == KindFlip && s.gaveUp:
		s.endUndecided("an earlier process has given up the metadata, which repaired bits do not bring back")
	case s.p.kind == KindFlip && len(s.flips) > 0:
		s.stats.FlipsFound++
		s.repair()
		s.kill()
	default:
		s.fail(fmt.Errorf("the process refused to start: %w", err))
	}
}

// crash ends the process and starts another one a little later.
func (s *Sim) crash(choose vdisk.Choice) {
	s.trace("crash")
	s.disk.Crash(choose)
	s.ended()
}

// kill ends the process alone: what it wrote stays in the system's cache, where a
// later power cut may still find it.
func (s *Sim) kill() {
	s.trace("kill")
	s.stats.Kills++
	s.disk.Kill()
	s.ended()
}

// cutWithin ends the process between two operations of the disk: a power cut, or
// a kill -9, after which what was written and not synced is still found, and lost
// by a later power cut.
func (s *Sim) cutWithin(p *vdisk.PowerCut) {
	if s.commits && strings.Contains(p.Op, segmentSuffix) {
		s.stats.DirectCuts++
	}
	s.commits = false
	if s.chance(0.3) {
		s.stats.KillsWithin++
		s.kill()
		return
	}
	s.stats.PowerCuts++
	s.crash(vdisk.Sampled(s.rng))
}

// ended drops what the process had in memory.
func (s *Sim) ended() {
	n := s.node
	n.dead = true
	s.stats.Crashes++
	for _, p := range n.shards {
		s.stats.ReadsAhead += int(p.sh.Stats().ReadsAhead)
		if l := p.logs.Get(core.MetadataPartition); n.started && l != nil && l.Damaged() != nil {
			s.gaveUp = true // with its next state it is on the disk
		}
	}
	if s.undecidable() {
		s.endUndecided("one of the journal's last writes went astray before a crash")
		return
	}
	n.store = nil
	calls := n.calls
	n.calls = nil
	for _, k := range calls {
		s.after(s.between(0, 20*core.Millisecond), func() { k.settle(errLost) })
	}
	if s.failure != nil {
		return
	}
	s.whileDown()
	down := s.between(10*core.Millisecond, 600*core.Millisecond)
	s.after(down, s.startNode)
}

// fatal: the shard says that the device is not to be trusted any more; the
// process exits and replays.
func (s *Sim) fatal(err error) {
	s.trace("fatal: %v", err)
	s.stats.Fatal++
	if s.p.kind != KindEIO && s.p.kind != KindFull {
		s.fail(fmt.Errorf("the journal failed on a healthy disk: %w", err))
		return
	}
	s.kill()
}

func (s *Sim) up() bool { return s.node != nil && !s.node.dead && s.node.image != nil }

// planCrashes schedules crashes for the busy phase.
func (s *Sim) planCrashes() {
	d := core.Tick(s.rng.ExpFloat64() * float64(s.p.crashEvery))
	s.after(d+50*core.Millisecond, func() {
		if s.ending {
			return
		}
		s.planCrashes()
		if s.node.dead {
			return
		}
		switch s.rng.IntN(10) {
		case 0, 1: // kill -9: the system's cache survives
			s.kill()
		case 2, 3: // power cut between two steps
			s.stats.PowerCuts++
			s.crash(vdisk.Sampled(s.rng))
		case 4:
			s.stats.PowerCuts++
			s.crash(vdisk.LoseAll)
		case 5:
			s.stopGracefully()
		default: // power cut within one of the next operations of the disk
			s.disk.CutAt(s.disk.Points() + 1 + s.rng.IntN(30))
		}
	})
}
