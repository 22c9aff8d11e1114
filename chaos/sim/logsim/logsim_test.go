package logsim

import (
	"math/rand/v2"
	"testing"

	"millrace/chaos/sim/vdisk"
)

func TestLogMatchesTheModel(t *testing.T) {
	n := uint64(240)
	if testing.Short() {
		n = 60
	}
	var sum Stats
	for seed := uint64(1); seed <= n; seed++ {
		st, err := Run(Config{Seed: seed, Kind: KindOf(seed)})
		sum.Add(&st)
		if err != nil {
			t.Fatalf("%v; replay with: go run ./chaos/sim/cmd -layer log -seed %d -trace", err, seed)
		}
	}
	t.Log(sum.String())
	for name, got := range map[string]int{
		"crashes": sum.Crashes, "turns": sum.Turns, "jobs": sum.Jobs, "truncations": sum.Truncates, "reads": sum.Reads,
		"deletions": sum.Deletes, "lost sectors": sum.Disk.SectorsLost, "full devices": sum.Disk.NoSpace,
		"flips found": sum.FlipsFound, "parts of turns": sum.Parts, "log starts that retention asked for": sum.Retained, "renames": sum.Disk.Renames,
	} {
		if got == 0 {
			t.Errorf("no %s in %d histories", name, n)
		}
	}
}

// TestSeedsThatFailed plays what long runs have found and 5,000 seeds do not show.
func TestSeedsThatFailed(t *testing.T) {
	for seed, what := range map[uint64]string{
		3003459: "the first removal of segments took one along whose state was not durable",
		36897:   "an entry was replaced by another of the same term, which no leader does",
		32362:   "a group whose deletion was lost was truncated below what had been committed of it",
	} {
		if _, err := Run(Config{Seed: seed, Kind: KindOf(seed)}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEveryPointOfAShortHistory cuts the power at every mutation and sync of
// short histories, and tries every subset of what was not durable where there
// are few, and some of the subsets where there are many.
func TestEveryPointOfAShortHistory(t *testing.T) {
	histories, subsets := uint64(3), 32
	if testing.Short() {
		histories, subsets = 2, 8
	}
	tried, complete := 0, 0
	for seed := uint64(1); seed <= histories; seed++ {
		const ops = 35
		whole, err := Run(Config{Seed: seed, Ops: ops, CutAt: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		for cut := 1; cut <= whole.Points; cut++ {
			all := vdisk.Enumerate(subsets, func(choose vdisk.Choice) {
				tried++
				if _, err := Run(Config{Seed: seed, Ops: ops, CutAt: cut, Choose: choose}); err != nil {
					t.Fatalf("%v (try %d)", err, tried)
				}
			})
			if all {
				complete++
				continue
			}
			r := rand.New(rand.NewPCG(seed, uint64(cut)))
			for range subsets {
				tried++
				if _, err := Run(Config{Seed: seed, Ops: ops, CutAt: cut, Choose: vdisk.Sampled(r)}); err != nil {
					t.Fatalf("%v (try %d)", err, tried)
				}
			}
		}
	}
	t.Logf("%d crashes; every subset at %d points", tried, complete)
}
