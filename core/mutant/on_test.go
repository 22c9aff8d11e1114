//go:build mutants

package mutant

import "testing"

func TestOneVariantIsOnAtATime(t *testing.T) {
	for m := None; m < count; m++ {
		if m.Name() == "" {
			t.Fatalf("variant %d has no name", m)
		}
		if err := Choose(m.Name()); err != nil {
			t.Fatal(err)
		}
		for o := None; o < count; o++ {
			if On(o) != (o == m) {
				t.Errorf("%s chosen: On(%s) is %v", m.Name(), o.Name(), On(o))
			}
		}
	}
	if err := Choose("none"); err != nil {
		t.Fatal(err)
	}
	if Choose("no such thing") == nil {
		t.Error("an unknown name is taken")
	}
}
