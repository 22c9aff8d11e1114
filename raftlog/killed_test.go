package raftlog

import (
	"errors"
	"math/rand/v2"
	"testing"

	"millrace/core"
)

// A first start is killed at any operation, so that what it did is seen and not
// durable; the next start goes on from there and acknowledges a batch; then the
// power is cut. The batch is there.
func TestAStartThatWasKilledAnywhereIsMadeDurable(t *testing.T) {
	errKilled := errors.New("killed")
	open := func(fs FS) (*Store, error) {
		opts := Options{JournalFileBytes: 64 << 10, DirectBytes: 16 << 10, NodeID: 1, ClusterID: "test", InstanceID: 77, Logf: t.Logf}
		s, _, err := Open(fs, opts, func(core.PartitionID) core.ShardID { return 0 })
		return s, err
	}
	for at, killed := 1, true; killed; at++ {
		for seed := range uint64(4) {
			fs, ops := newMemFS(t), 0
			fs.fail = func(op, name string) error {
				if op == "read" || op == "open" {
					return nil
				}
				if ops++; ops >= at {
					return errKilled
				}
				return nil
			}
			_, err := open(fs)
			killed = errors.Is(err, errKilled)
			if err != nil && !killed {
				t.Fatalf("operation %d: %v", at, err)
			}
			fs.fail = nil
			ts := openStore(t, fs, Options{JournalFileBytes: 64 << 10})
			l, err := ts.set.Create(20, LogConfig{})
			if err != nil {
				t.Fatal(err)
			}
			l.SetHardState(HardState{Term: 1, Vote: 1})
			ts.batch(l, 1, 3, 500)
			ts.commit()

			after, err := open(fs.crash(rand.New(rand.NewPCG(seed, uint64(at)))))
			if err != nil {
				t.Fatalf("killed at operation %d, seed %d: %v", at, seed, err)
			}
			if l := after.LogSet(0).Get(20); l == nil || l.NextOffset() != 3 {
				t.Fatalf("killed at operation %d, seed %d: the batch is gone", at, seed)
			}
		}
	}
}
