package vdisk

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The bytes in use are kept along with each change, and are those of the files
// that can be found.
func TestUsedCountsLinkedFiles(t *testing.T) {
	d := newDisk(t)
	check := func(what string) {
		t.Helper()
		var want int64
		for _, name := range d.Files() {
			want += (int64(len(d.Bytes(name))) + 511) / 512 * 512
		}
		if d.Used() != want {
			t.Errorf("%s: %d bytes in use, want %d", what, d.Used(), want)
		}
	}
	fsys := d.FS()
	a := create(t, fsys, "a", strings.Repeat("x", 700))
	b := create(t, fsys, "b", "y")
	check("two files")
	_, err := a.WriteAt([]byte("z"), 5000)
	must(t, err)
	check("grown")
	must(t, fsys.Rename("a", "b"))
	_, err = b.WriteAt([]byte("z"), 9000)
	must(t, err)
	check("written over by a rename, and the old file written")
	_, err = a.WriteAt([]byte("z"), 9000)
	must(t, err)
	must(t, a.Truncate(600))
	check("renamed, grown and cut")
	create(t, fsys, "c", "1")
	must(t, fsys.Remove("b"))
	check("removed")
	_, err = a.WriteAt([]byte("z"), 20_000)
	must(t, err)
	check("written while it has no name")
	for range 20 {
		c := d.Clone()
		c.Crash(Sampled(rand.New(rand.NewPCG(1, 2))))
		var want int64
		for _, name := range c.Files() {
			want += (int64(len(c.Bytes(name))) + 511) / 512 * 512
		}
		if c.Used() != want {
			t.Errorf("after a crash: %d bytes in use, want %d", c.Used(), want)
		}
	}
}
