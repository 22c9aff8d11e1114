package hugepage

import (
	"testing"
	"unsafe"
)

func TestMapAlignsAndRoundsUp(t *testing.T) {
	for _, n := range []int{1, Bytes - 1, Bytes, Bytes + 1, 5 * Bytes} {
		b, err := Map(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < n || len(b)%Bytes != 0 || len(b)-n >= Bytes {
			t.Errorf("Map(%d) has %d bytes", n, len(b))
		}
		if at := uintptr(unsafe.Pointer(&b[0])); at%Bytes != 0 {
			t.Errorf("Map(%d) begins at %#x", n, at)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("Map(%d): byte %d is %d", n, i, b[i])
			}
			b[i] = 1
		}
		// Halves go back one by one, as an arena's chunks do.
		if err := Unmap(b[:len(b)/2]); err != nil {
			t.Error(err)
		}
		b[len(b)-1] = 2
		if err := Unmap(b[len(b)/2:]); err != nil {
			t.Error(err)
		}
	}
}
