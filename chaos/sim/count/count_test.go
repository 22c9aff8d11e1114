package count

import "testing"

type inner struct{ C int }

type outer struct {
	A, B int64
	In   inner
}

func TestAddAndStringReachNestedCounters(t *testing.T) {
	sum := outer{A: 1, In: inner{C: 2}}
	Add(&sum, &outer{A: 2, In: inner{C: 3}})
	if got, want := String(&sum), "A=3 in.C=5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
