package arena

import "testing"

func TestHeapArenaIsBoundedAndRecycles(t *testing.T) {
	a := NewHeap(2 * ChunkBytes)
	first, err := a.Alloc(ChunkBytes)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.Alloc(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Alloc(ChunkBytes); err != ErrFull {
		t.Errorf("allocation beyond the limit: %v", err)
	}
	first.Release()
	third, err := a.Alloc(ChunkBytes)
	if err != nil {
		t.Errorf("allocation after a release: %v", err)
	}
	third.Release()
	second.Release()
	a.Seal()
	if mapped, live := a.Stats(); live != 0 || mapped > 2*ChunkBytes {
		t.Errorf("%d bytes mapped, %d live after all was released", mapped, live)
	}
}
