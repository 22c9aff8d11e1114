package logsim

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"millrace/chaos/sim/count"
	"millrace/chaos/sim/vdisk"
	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// Config describes one history.
type Config struct {
	Seed uint64
	Ops  int // operations of the history; 0: drawn from the seed
	// CutAt cuts the power at that point of the disk and nowhere else; 0: where
	// the seed says.
	CutAt int
	// Choose decides what the crash at CutAt loses; nil: as the seed says.
	Choose vdisk.Choice
	Kind   Kind
	Trace  io.Writer // nil: none
}

// Kind is what goes wrong besides crashes.
type Kind uint8

const (
	// KindCrash: crashes of the process and power cuts alone.
	KindCrash Kind = iota
	// KindFull: the device is full for some of the time.
	KindFull
	// KindEIO: reads, writes and syncs fail.
	KindEIO
	// KindFlip: at the end, bits are flipped one at a time.
	KindFlip
)

func (k Kind) String() string { return [...]string{"crash", "full", "eio", "flip"}[k] }

// KindOf is the kind that a seed has when nothing else is asked for.
func KindOf(seed uint64) Kind {
	return [...]Kind{KindCrash, KindCrash, KindFlip, KindCrash, KindFull, KindCrash, KindEIO, KindFlip}[seed%8]
}

// Stats count what a history did.
type Stats struct {
	Ops, Crashes, Turns, Jobs, Reads, Truncates int
	Deletes, Creates, Recovered, Fatal          int
	Points                                      int
	FlipsFound, FlipsHarmless, FlipsRunning     int
	DiskErrors, Refused, Retained               int
	Parts                                       int // turns of which a part was found again
	Disk                                        vdisk.Stats
}

// Add sums up.
func (s *Stats) Add(o *Stats) { count.Add(s, o) }

// String lists the counters that are not zero.
func (s *Stats) String() string { return count.String(s) }

// Run plays the history of a seed. The error names the first difference from
// the model, or a panic of the code.
func Run(c Config) (Stats, error) {
	r := newRun(c)
	err := r.play()
	r.stats.Points = r.disk.Points()
	r.stats.Disk = r.disk.Stats
	r.closeStore()
	if err != nil {
		err = fmt.Errorf("seed %d (cut at %d): %w", c.Seed, c.CutAt, err)
	}
	return r.stats, err
}

type run struct {
	cfg    Config
	rng    *rand.Rand
	stats  Stats
	disk   *vdisk.Disk
	now    core.Tick
	opts   raftlog.Options
	store  *raftlog.Store
	arenas []*arena.Arena // per shard

	groups []*group // by ID
	nextID core.PartitionID
	// deleted are the groups whose deletion was ever asked for; committed is what was
	// committed of them then, which holds for a group that is back because its deletion
	// was lost.
	deleted   map[core.PartitionID]bool
	committed map[core.PartitionID]core.Index
	shards    []*shardModel
	tail      []extent       // the journal's newest writes
	jobs      []*raftlog.Job // handed out, not run
	ran       []*raftlog.Job // run, not finished
	done      []*raftlog.Turn

	upkeep  bool // the history is rather of flushes, rewrites and retention than of crashes
	crashed bool // the power has been cut once, where CutAt is set
}

func newRun(c Config) *run {
	raftlog.UseHeapBuffers()
	rng := rand.New(rand.NewPCG(c.Seed, 0x109))
	r := &run{deleted: map[core.PartitionID]bool{}, committed: map[core.PartitionID]core.Index{}, cfg: c, rng: rng, nextID: core.FirstPartition, now: 1_700_000_000 * core.Second}
	if c.Ops == 0 {
		r.cfg.Ops = 60 + rng.IntN(240)
		r.upkeep = rng.IntN(2) == 0
	}
	r.disk = vdisk.New(vdisk.Options{
		CapacityBytes: 1 << 30,
		SectorBytes:   []int{512, 4096}[rng.IntN(2)],
		Direct:        rng.IntN(2) == 0,
		Rand:          rand.New(rand.NewPCG(c.Seed, 0xd15c)),
	})
	if c.Trace != nil {
		r.disk.Trace = func(point int, op string) { fmt.Fprintf(c.Trace, "  %6d %s\n", point, op) }
	}
	shards := 1 + rng.IntN(3)
	r.opts = raftlog.Options{
		ShardCount:       shards,
		JournalFileBytes: int64(16+rng.IntN(24)) * 4096,
		JournalSpare:     1 + rng.IntN(2),
		JournalFilesMax:  []int{2, 3, 5, 16}[rng.IntN(4)],
		FrameBytes:       []int{0, 2000, 12_000, 0}[c.Seed/5%4],
		DirectBytes:      []int{16384, 30000, 60000}[rng.IntN(3)],
		CacheBytes:       []int64{1, 100_000, 1 << 30}[c.Seed/2%3],
		ReserveBytes:     64 << 10,
		InstanceID:       c.Seed + 1,
		Logf:             func(f string, a ...any) { r.trace("log: "+f, a...) },
	}
	for range shards {
		r.arenas = append(r.arenas, arena.NewHeap(4<<20))
		r.shards = append(r.shards, &shardModel{snaps: []snapshot{{states: map[core.PartitionID]state{}}}})
	}
	return r
}

func (r *run) trace(format string, args ...any) {
	if r.cfg.Trace != nil {
		fmt.Fprintf(r.cfg.Trace, format+"\n", args...)
	}
}

// errCrash says that the process died and the disk is to be crashed.
var errCrash = errors.New("the process has died")

// guard runs f as the process: a power cut and a FATAL panic kill the process,
// any other panic is a failure of the history.
func (r *run) guard(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *vdisk.PowerCut:
			r.trace("%v", p)
			err = errCrash
		case string:
			if strings.HasPrefix(p, "FATAL") && r.cfg.Kind == KindEIO {
				r.trace("died: %s", p)
				r.stats.Fatal++
				err = errCrash
				return
			}
			err = fmt.Errorf("panic: %s\n%s", p, debug.Stack())
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

func (r *run) play() error {
	r.disk.CutAt(r.cfg.CutAt)
	if err := r.restart(false); err != nil {
		return err
	}
	for r.stats.Ops < r.cfg.Ops {
		r.stats.Ops++
		r.weather()
		if r.cfg.CutAt == 0 && r.rng.IntN(r.cutEvery()) == 0 {
			r.disk.CutAt(r.disk.Points() + 1 + r.rng.IntN(12))
		}
		err := r.guard(r.operation)
		if err == nil && r.cfg.CutAt == 0 && r.rng.IntN(80) == 0 {
			err = errCrash
		}
		if errors.Is(err, errCrash) {
			if r.cfg.CutAt != 0 && !r.crashed {
				// The rest of the history is another test's: compare and end.
				return r.restart(true)
			}
			err = r.restart(true)
		}
		if err != nil {
			return err
		}
	}
	r.disk.CutAt(0)
	r.calm()
	if err := r.guard(r.drain); err != nil && !errors.Is(err, errCrash) {
		return err
	}
	if err := r.restart(true); err != nil || r.cfg.Kind != KindFlip {
		return err
	}
	return r.flips()
}

// cutEvery is after how many operations, about, the power is cut.
func (r *run) cutEvery() int {
	if r.upkeep {
		return 30
	}
	return 12
}

// weather makes the disk fail and recover.
func (r *run) weather() {
	switch {
	case r.cfg.Kind == KindFull && r.rng.IntN(15) == 0:
		if r.disk.Capacity() < 1<<29 {
			r.calm()
			return
		}
		r.disk.SetCapacity(r.disk.Used() + int64(r.rng.IntN(100_000)))
		r.store.CheckSpace()
		r.trace("%d bytes are left", r.disk.Capacity()-r.disk.Used())
	case r.cfg.Kind == KindEIO && r.rng.IntN(15) == 0:
		f := &r.disk.Faults
		if f.ReadEIO+f.WriteEIO+f.SyncEIO > 0 {
			r.calm()
			return
		}
		*[]*float64{&f.ReadEIO, &f.WriteEIO, &f.SyncEIO}[r.rng.IntN(3)] = 0.02
		r.trace("the disk fails: %+v", *f)
	}
}

func (r *run) calm() {
	r.disk.SetCapacity(1 << 30)
	r.disk.Faults = vdisk.Faults{}
	if r.store != nil {
		r.store.CheckSpace()
	}
}

// bearable says whether an error is the disk's own.
func (r *run) bearable(err error) bool {
	ok := r.cfg.Kind == KindEIO && (errors.Is(err, syscall.EIO) || errors.Is(err, core.ErrStorageFailed)) ||
		r.cfg.Kind == KindFull && errors.Is(err, raftlog.ErrNoSpace)
	if ok {
		r.stats.DiskErrors++
		r.trace("bearable: %v", err)
	}
	return ok
}

// restart crashes the disk, unless the process is the first, and recovers until
// no power cut comes between.
func (r *run) restart(crash bool) error {
	for {
		if crash {
			r.crash()
		}
		err := r.guard(r.open)
		if !errors.Is(err, errCrash) {
			return err
		}
		crash = true
	}
}

func (r *run) crash() {
	r.stats.Crashes++
	r.crashed = true
	choose := vdisk.Sampled(r.rng)
	if r.cfg.Choose != nil {
		choose = r.cfg.Choose
	}
	if r.cfg.Choose == nil && r.rng.IntN(4) == 0 {
		r.trace("kill")
		r.disk.Kill()
	} else {
		r.trace("crash")
		r.disk.Crash(choose)
	}
	r.closeStore()
	r.jobs, r.ran, r.done = nil, nil, nil
	for _, m := range r.shards {
		m.busy = false
	}
	for i := range r.arenas {
		r.arenas[i] = arena.NewHeap(4 << 20)
	}
	// A cut during recovery is as good as any.
	if r.cfg.CutAt == 0 && r.rng.IntN(4) == 0 {
		r.disk.CutAt(r.disk.Points() + 1 + r.rng.IntN(10))
	}
}

func (r *run) shardOf(id core.PartitionID) core.ShardID {
	return core.ShardOf(id, len(r.shards))
}

func (r *run) open() error {
	store, rec, err := raftlog.Open(r.disk.FS(), r.opts, r.shardOf)
	if err != nil {
		if r.cfg.Kind == KindEIO && r.bearable(err) {
			r.stats.Refused++
			return errCrash
		}
		return fmt.Errorf("open: %w", err)
	}
	r.store = store
	r.trace("opened: %d groups, %d bytes replayed, %d cut, damaged %v", rec.Groups, rec.JournalBytes, rec.TornTailBytes, rec.Damaged)
	for id := range rec.Damaged {
		if r.deleted[id] {
			delete(rec.Damaged, id)
		}
	}
	if len(rec.Damaged) > 0 {
		return fmt.Errorf("damage reported where there is none: %v", rec.Damaged)
	}
	r.stats.Recovered++
	return r.compareAll()
}

// closeStore forgets the store, as a crash does.
func (r *run) closeStore() { r.store = nil }

func (r *run) set(shard core.ShardID) *raftlog.LogSet { return r.store.LogSet(shard) }

func (r *run) log(g *group) *raftlog.Log { return r.set(g.shard).Get(g.id) }

func (r *run) pick() *group {
	if len(r.groups) == 0 {
		return nil
	}
	return r.groups[r.rng.IntN(len(r.groups))]
}

func (r *run) drop(g *group) {
	r.groups = slices.DeleteFunc(r.groups, func(o *group) bool { return o == g })
}
