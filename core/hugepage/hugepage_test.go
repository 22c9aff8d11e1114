package hugepage

import (
	"fmt"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
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

// TestUnmapWhereNoMappingMayBeSplit: a process has a bound of mappings. Giving back the
// middle of one must not fail for it.
func TestUnmapWhereNoMappingMayBeSplit(t *testing.T) {
	limit := 65530
	if text, err := os.ReadFile("/proc/sys/vm/max_map_count"); err == nil {
		if _, err := fmt.Sscan(string(text), &limit); err != nil {
			t.Fatal(err)
		}
	}
	if limit > 1<<18 {
		t.Logf("%d mappings are allowed: as many are not made", limit)
		limit = 1 << 18
	}
	// Every second page is another mapping, since its protection is another.
	const page = 4096
	many, err := unix.Mmap(-1, 0, (limit+2)*page, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(many); err != nil {
			t.Error(err)
		}
	}()
	b, err := Map(2 * Bytes)
	if err != nil {
		t.Fatal(err)
	}
	b[Bytes] = 1
	for i := 1; i < limit; i += 2 {
		if err := unix.Mprotect(many[i*page:(i+1)*page], unix.PROT_NONE); err != nil {
			break // no more are allowed
		}
	}
	if err := Unmap(b[Bytes/2 : Bytes/2+page]); err != nil {
		t.Error(err)
	}
	if err := Unmap(b); err != nil {
		t.Error(err)
	}
}
