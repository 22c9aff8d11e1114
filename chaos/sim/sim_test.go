package sim

import (
	"strings"
	"testing"
)

// seedsOf picks the first n seeds of each kind, so that a short test sees all.
func seedsOf(n int) []uint64 {
	var out []uint64
	count := map[Kind]int{}
	for seed := uint64(1); len(out) < n*int(kinds); seed++ {
		k := KindOf(seed)
		if count[k] < n {
			count[k]++
			out = append(out, seed)
		}
	}
	return out
}

func TestNoViolationInAFewSeedsOfEachKind(t *testing.T) {
	n := 12
	if testing.Short() {
		n = 3
	}
	var sum Stats
	for _, seed := range seedsOf(n) {
		r := Run(seed, Options{})
		sum.Add(&r.Stats)
		if r.Failed() {
			t.Errorf("seed %d (%s): %v %v; replay with: go run ./chaos/sim/cmd -seed %d -trace", seed, r.Params, r.Err, r.Violations, seed)
		}
	}
	t.Log(sum.String())
	// A history that does nothing finds nothing.
	want := map[string]int{
		"acknowledged records": sum.Acked, "records in final reads": sum.Final, "crashes": sum.Crashes, "power cuts": sum.PowerCuts,
		"kills": sum.Kills, "kills between two operations": sum.KillsWithin, "graceful stops": sum.Stops, "retries": sum.Retried, "lost sectors": sum.Disk.SectorsLost,
		"disk errors": sum.Disk.EIO, "full disks": sum.Disk.NoSpace + sum.SpaceLow,
		"topics deleted": sum.TopicsDeleted, "offset commits": sum.OffsetCommits, "jobs": sum.Jobs,
		"direct writes": sum.DirectWrites, "faults of the journal": sum.JournalFaults,
		"slow commits": sum.SlowCommits, "broken connections": sum.ConnsLost,
	}
	if !testing.Short() { // what a few histories need not have
		want["flips"], want["power cuts in direct writes"], want["faults of direct writes"] = sum.FlipsMade, sum.DirectCuts, sum.DirectFaults
	}
	for name, got := range want {
		if got == 0 {
			t.Errorf("no %s in %d histories", name, n*int(kinds))
		}
	}
}

// TestSeedsThatFailed plays what long runs have found and 5,000 seeds do not show.
func TestSeedsThatFailed(t *testing.T) {
	for seed, what := range map[uint64]string{
		3007642: "a read of records that were removed meanwhile called the partition damaged",
		3033555: "a flip in the last frame of a journal file that was recycled was judged, though nobody can tell it from a torn write",
		7238923: "a process had given up the metadata, and the next one was to start once the bits were repaired",
		3008859: "producers found no payload memory, which was kept for readers that had gone",
	} {
		if r := Run(seed, Options{}); r.Failed() {
			t.Errorf("%s: seed %d: %v %v", what, seed, r.Err, r.Violations)
		}
	}
}

func TestSameSeedGivesTheSameTrace(t *testing.T) {
	for _, seed := range seedsOf(3) {
		a, b := Run(seed, Options{Hash: true, TraceDisk: true}), Run(seed, Options{Hash: true, TraceDisk: true})
		if a.TraceHash == b.TraceHash && a.Stats == b.Stats {
			continue
		}
		var ta, tb strings.Builder
		Run(seed, Options{Trace: &ta, TraceDisk: true})
		Run(seed, Options{Trace: &tb, TraceDisk: true})
		la, lb := strings.Split(ta.String(), "\n"), strings.Split(tb.String(), "\n")
		for i := range min(len(la), len(lb)) {
			if la[i] != lb[i] {
				t.Errorf("seed %d: line %d differs:\n%s\n%s", seed, i, la[i], lb[i])
				break
			}
		}
		t.Errorf("seed %d: two runs differ", seed)
	}
}

func TestWritingTheTraceDoesNotChangeTheHistory(t *testing.T) {
	var trace strings.Builder
	a, b := Run(5, Options{Hash: true, TraceDisk: true}), Run(5, Options{Hash: true, Trace: &trace, TraceDisk: true})
	if a.TraceHash != b.TraceHash {
		t.Error("the trace differs when it is written")
	}
	if c := Run(5, Options{}); c.Stats != a.Stats {
		t.Errorf("without a trace the history differs: %v, want %v", &c.Stats, &a.Stats)
	}
	if trace.Len() == 0 {
		t.Error("no trace")
	}
}
