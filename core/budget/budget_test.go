package budget

import "testing"

func TestReserveStopsAtTheLimitOfAnyLevel(t *testing.T) {
	node := New(100, nil)
	a, b := New(80, node), New(80, node)
	if !a.Reserve(60) {
		t.Fatal("60 of 80 refused")
	}
	if a.Reserve(21) {
		t.Fatal("81 of 80 granted")
	}
	if b.Reserve(41) {
		t.Fatal("101 of the node's 100 granted")
	}
	if !b.Reserve(40) {
		t.Fatal("100 of 100 refused")
	}
	if node.UsedBytes() != 100 || a.Refused() != 1 || b.Refused() != 1 {
		t.Fatalf("used %d, refused %d and %d", node.UsedBytes(), a.Refused(), b.Refused())
	}
	a.Release(60)
	b.Release(40)
	if node.UsedBytes() != 0 {
		t.Fatalf("%d bytes left reserved", node.UsedBytes())
	}
}

func TestOversizedReservationIsGrantedAlone(t *testing.T) {
	b := New(10, nil)
	if !b.Reserve(50) {
		t.Fatal("refused although nothing else was reserved")
	}
	if b.Reserve(1) {
		t.Fatal("granted beyond the limit")
	}
	b.Release(50)
}

func TestTakeGoesBeyondTheLimit(t *testing.T) {
	parent := New(10, nil)
	b := New(10, parent)
	b.Take(20)
	if b.UsedBytes() != 20 || parent.UsedBytes() != 20 {
		t.Fatalf("used %d, of the parent %d", b.UsedBytes(), parent.UsedBytes())
	}
	if b.Reserve(1) {
		t.Fatal("granted beyond the limit")
	}
	b.Release(20)
	if parent.UsedBytes() != 0 {
		t.Fatalf("%d bytes left reserved", parent.UsedBytes())
	}
}

func TestReleaseOfMoreThanReservedPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	New(10, nil).Release(1)
}
