package wire

import (
	"testing"

	"millrace/chaos/check"
)

func TestParseFindsWhatMakeWrote(t *testing.T) {
	b, sums := Make(Spec{First: check.Key{Producer: 3, Seq: 10}, ValueBytes: []int{12, 100, 0, 77}, Ms: 5, ProducerID: 8, BaseSequence: 10})
	b.SetBase(40, 2)
	got, err := Parse(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(sums) {
		t.Fatalf("%d records, want %d", len(got), len(sums))
	}
	for i, r := range got {
		want := check.Record{Offset: int64(40 + i), Key: check.Key{Producer: 3, Seq: int64(10 + i)}, Sum: sums[i]}
		if r != want {
			t.Errorf("record %d is %+v, want %+v", i, r, want)
		}
	}
	b[len(b)-3] ^= 1
	if _, err := Parse(nil, b); err == nil {
		t.Error("a damaged batch passed")
	}
}
