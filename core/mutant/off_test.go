//go:build !mutants

package mutant

import "testing"

func TestNothingIsOnWithoutTheTag(t *testing.T) {
	for m := None; m < count; m++ {
		if On(m) {
			t.Errorf("variant %d is on", m)
		}
	}
	if Choose("ack-before-sync") == nil {
		t.Error("a variant can be chosen")
	}
}
