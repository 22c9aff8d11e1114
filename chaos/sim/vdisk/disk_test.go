package vdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"millrace/raftlog"
)

func newDisk(t *testing.T) *Disk {
	t.Helper()
	return New(Options{SectorBytes: 512})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fsys raftlog.FS, name, content string) raftlog.File {
	t.Helper()
	f, err := fsys.Create(name)
	must(t, err)
	if content != "" {
		_, err = f.WriteAt([]byte(content), 0)
		must(t, err)
	}
	return f
}

// outcomes crashes copies of d in every way and lists the distinct results.
func outcomes(t *testing.T, d *Disk) []string {
	t.Helper()
	seen := map[string]bool{}
	if !Enumerate(10000, func(choose Choice) {
		c := d.Clone()
		c.Crash(choose)
		var b strings.Builder
		for _, name := range c.Files() {
			fmt.Fprintf(&b, "%s=%s ", name, strings.ReplaceAll(string(c.Bytes(name)), "\x00", "0"))
		}
		seen[strings.TrimSpace(b.String())] = true
	}) {
		t.Fatal("too many outcomes")
	}
	var out []string
	for s := range seen {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func wantOutcomes(t *testing.T, d *Disk, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := outcomes(t, d); !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
}

func TestUnsyncedFileMayVanishOrBeEmptyOrComplete(t *testing.T) {
	d := newDisk(t)
	create(t, d.FS(), "a", "xy")
	wantOutcomes(t, d, "", "a=", "a=xy", "a=00")
}

func TestSyncKeepsContentAndSyncDirKeepsTheName(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "xy")
	must(t, f.Sync())
	wantOutcomes(t, d, "", "a=xy")
	must(t, d.FS().SyncDir("."))
	wantOutcomes(t, d, "a=xy")
	_, err := f.WriteAt([]byte("z"), 0)
	must(t, err)
	wantOutcomes(t, d, "a=xy", "a=zy")
	must(t, f.Sync())
	wantOutcomes(t, d, "a=zy")
}

func TestWriteTearsAtSectors(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", strings.Repeat("a", 1024))
	must(t, f.Sync())
	must(t, d.FS().SyncDir("."))
	_, err := f.WriteAt([]byte(strings.Repeat("b", 1024)), 0)
	must(t, err)
	a, b := strings.Repeat("a", 512), strings.Repeat("b", 512)
	wantOutcomes(t, d, "a="+a+a, "a="+a+b, "a="+b+a, "a="+b+b)
}

func TestSectorWrittenTwiceHasThreeStates(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "1")
	must(t, f.Sync())
	must(t, d.FS().SyncDir("."))
	for _, s := range []string{"2", "3"} {
		_, err := f.WriteAt([]byte(s), 0)
		must(t, err)
	}
	wantOutcomes(t, d, "a=1", "a=2", "a=3")
}

func TestRenameIsAtomicAndInOrder(t *testing.T) {
	d := newDisk(t)
	fsys := d.FS()
	must(t, create(t, fsys, "a", "A").Sync())
	must(t, create(t, fsys, "b", "B").Sync())
	must(t, fsys.SyncDir("."))
	must(t, fsys.Rename("a", "b"))
	must(t, create(t, fsys, "a", "C").Sync())
	wantOutcomes(t, d, "a=A b=B", "b=A", "a=C b=A")
}

func TestRenameAcrossDirectoriesWaitsForBoth(t *testing.T) {
	d := newDisk(t)
	fsys := d.FS()
	must(t, fsys.MkdirAll("x/y"))
	must(t, fsys.SyncDir("."))
	must(t, fsys.SyncDir("x"))
	must(t, create(t, fsys, "a", "A").Sync())
	must(t, fsys.SyncDir("."))
	must(t, fsys.Rename("a", "x/y/a"))
	must(t, fsys.SyncDir("."))
	wantOutcomes(t, d, "a=A", "x/y/a=A")
	must(t, fsys.SyncDir("x/y"))
	wantOutcomes(t, d, "x/y/a=A")
}

func TestFileInALostDirectoryIsLost(t *testing.T) {
	d := newDisk(t)
	fsys := d.FS()
	must(t, fsys.MkdirAll("x"))
	must(t, create(t, fsys, "x/a", "A").Sync())
	must(t, fsys.SyncDir("x"))
	wantOutcomes(t, d, "", "x/a=A")
}

func TestRemovalMayBeUndone(t *testing.T) {
	d := newDisk(t)
	fsys := d.FS()
	must(t, create(t, fsys, "a", "A").Sync())
	must(t, fsys.SyncDir("."))
	must(t, fsys.Remove("a"))
	if _, err := fsys.Open("a"); !errors.Is(err, raftlog.ErrNotExist) {
		t.Errorf("open of a removed file: %v", err)
	}
	wantOutcomes(t, d, "", "a=A")
	must(t, fsys.SyncDir("."))
	wantOutcomes(t, d, "")
}

func TestTruncationMayBeUndone(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "ABC")
	must(t, f.Sync())
	must(t, d.FS().SyncDir("."))
	must(t, f.Truncate(1))
	wantOutcomes(t, d, "a=A", "a=ABC", "a=A00")
}

func TestFailedSyncDropsWhatLaterSyncsDoNotBringBack(t *testing.T) {
	d := New(Options{SectorBytes: 512, Rand: rand.New(rand.NewPCG(1, 1))})
	f := create(t, d.FS(), "a", "1")
	must(t, f.Sync())
	must(t, d.FS().SyncDir("."))
	_, err := f.WriteAt([]byte("2"), 0)
	must(t, err)
	d.Faults.SyncEIO = 1
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v, want EIO", err)
	}
	d.Faults.SyncEIO = 0
	must(t, f.Sync())
	wantOutcomes(t, d, "a=1", "a=2")
}

func TestFullDeviceRefusesGrowthAndNothingElse(t *testing.T) {
	d := New(Options{SectorBytes: 512, CapacityBytes: 1024})
	fsys := d.FS()
	f := create(t, fsys, "a", strings.Repeat("a", 1024))
	if _, err := f.WriteAt([]byte("b"), 1024); !errors.Is(err, raftlog.ErrNoSpace) {
		t.Errorf("write beyond the capacity: %v", err)
	}
	if _, err := f.WriteAt([]byte("b"), 512); err != nil {
		t.Errorf("write in place: %v", err)
	}
	if free, _, _ := fsys.Space(); free != 0 {
		t.Errorf("%d bytes free, want 0", free)
	}
	must(t, fsys.Remove("a"))
	create(t, fsys, "b", "b")
}

func TestCutStopsBeforeTheOperation(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "1")
	d.CutAt(d.Points() + 1)
	func() {
		defer func() {
			if _, ok := recover().(*PowerCut); !ok {
				t.Error("no power cut")
			}
		}()
		_ = f.Sync()
	}()
	d.Crash(LoseAll)
	if files := d.Files(); len(files) != 0 {
		t.Errorf("files %v are left", files)
	}
	if _, err := d.FS().Open("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open: %v", err)
	}
}

func TestDirectAccessMustBeAligned(t *testing.T) {
	d := New(Options{SectorBytes: 512, Direct: true})
	f, err := d.FS().Create("a")
	must(t, err)
	defer func() {
		if s, _ := recover().(string); !strings.HasPrefix(s, "BUG:") {
			t.Errorf("unaligned direct write: %v", s)
		}
	}()
	_, _ = f.WriteAt(make([]byte, 100), 0)
}

func TestCloneIsIndependent(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "1")
	c := d.Clone()
	_, err := f.WriteAt([]byte("2"), 0)
	must(t, err)
	if got := string(c.Bytes("a")); got != "1" {
		t.Errorf("the copy holds %q", got)
	}
	c.Crash(LoseAll)
	if got := string(d.Bytes("a")); got != "2" {
		t.Errorf("the original holds %q", got)
	}
}

func TestFlippedBitIsDurable(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "1")
	must(t, f.Sync())
	must(t, d.FS().SyncDir("."))
	d.FlipBit("a", 0, 1)
	wantOutcomes(t, d, "a=3")
}

func TestKillKeepsEverythingAndMakesNothingDurable(t *testing.T) {
	d := newDisk(t)
	f := create(t, d.FS(), "a", "1")
	must(t, f.Sync())
	must(t, d.FS().SyncDir("."))
	_, err := f.WriteAt([]byte("2"), 0)
	must(t, err)
	d.Kill()
	if got := string(d.Bytes("a")); got != "2" {
		t.Errorf("content %q after the kill", got)
	}
	wantOutcomes(t, d, "a=1", "a=2")
	g, err := d.FS().Open("a")
	must(t, err)
	must(t, g.Sync())
	wantOutcomes(t, d, "a=2")
}

// TestWritesAreToldByTheNameThatTheFileHasNow, which a rename changes under an open
// handle.
func TestWritesAreToldByTheNameThatTheFileHasNow(t *testing.T) {
	d := newDisk(t)
	var told []string
	d.OnWrite = func(name string, _, _ int64) { told = append(told, name) }
	fsys := d.FS()
	f := create(t, fsys, "a", "one")
	must(t, fsys.Rename("a", "b"))
	_, err := f.WriteAt([]byte("two"), 0)
	must(t, err)
	if fmt.Sprint(told) != "[a b]" {
		t.Errorf("writes to %v, want a and then b", told)
	}
}
