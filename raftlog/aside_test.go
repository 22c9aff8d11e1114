package raftlog

import (
	"runtime"
	"strings"
	"testing"

	"millrace/core"
)

// TestNextFileIsWrittenInStepWithTheOneInUse: never much ahead of it, and ready before
// it is full.
func TestNextFileIsWrittenInStepWithTheOneInUse(t *testing.T) {
	const fileBytes = 1 << 20
	ts := openStore(t, newMemFS(t), Options{JournalFileBytes: fileBytes, JournalFilesMax: 100, DirectBytes: 1 << 30})
	defer ts.close()
	l, err := ts.set.Create(core.FirstPartition, LogConfig{FlushBytesMax: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	j := ts.s.Journal()
	ts.batch(l, 1, 1, 100)
	ts.commit() // a file that grows, since there is no other yet
	prepareAll(t, j)
	if len(j.spares) != 1 || j.making != nil {
		t.Fatalf("%d files are ready while the one in use grows, want 1", len(j.spares))
	}
	steps := 0
	for len(*j.files.Load()) < 6 {
		ts.batch(l, 1, 1, 10_000)
		commitAll(l)
		ts.commit()
		prepareAll(t, j)
		if j.w.cur.growing {
			continue // the first one
		}
		ahead := int64(0)
		switch {
		case j.making != nil:
			ahead = j.making.size - (j.w.pos + j.w.pos/2)
			steps++
		case len(j.spares) == 0 && j.w.pos > 4*j.prewritePiece():
			t.Fatalf("nothing of the next file is written with %d bytes of this one used", j.w.pos)
		case len(j.spares) == 1 && j.w.pos < fileBytes*2/3-j.prewritePiece():
			t.Fatalf("the next file is written wholly with %d bytes of this one used", j.w.pos)
		}
		if ahead > j.prewritePiece() || ahead < -2*j.prewritePiece() {
			t.Fatalf("%d bytes of the next file are written with %d bytes of this one used", j.making.size, j.w.pos)
		}
	}
	for _, f := range (*j.files.Load())[1:] {
		if f.growing {
			t.Errorf("file %d grows: the one before it was full before it was ready", f.ord)
		}
	}
	if steps < 100 {
		t.Errorf("%d steps", steps)
	}
}

// TestNextFileGoesWhenSpaceRunsOut: what is written of it is given back, and nothing
// of it is left for the next start.
func TestNextFileGoesWhenSpaceRunsOut(t *testing.T) {
	fs := newMemFS(t)
	fs.free = 100 << 20
	ts := openStore(t, fs, Options{JournalFileBytes: 1 << 20, ReserveBytes: 8 << 20, DirectBytes: 1 << 30})
	defer func() { ts.close() }()
	l, err := ts.set.Create(core.FirstPartition, LogConfig{FlushBytesMax: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	j := ts.s.Journal()
	ts.batch(l, 1, 1, 100)
	ts.commit()
	prepareAll(t, j)
	for j.making == nil {
		ts.batch(l, 1, 1, 10_000)
		commitAll(l)
		ts.commit()
		prepareAll(t, j)
	}
	name := journalName(j.making.seq)
	fs.free = 8 << 20
	for range 20 {
		ts.batch(l, 1, 1, 10_000)
		commitAll(l)
		ts.commit()
		prepareAll(t, j)
	}
	if j.making != nil || ts.s.SpaceState() != SpaceLow {
		t.Fatalf("the next file is still written with %d bytes free", fs.free)
	}
	if names, err := fs.List(journalDir); err != nil || strings.Contains(strings.Join(names, " "), name[len(journalDir)+1:]) {
		t.Errorf("%s is left in %v, %v", name, names, err)
	}
	fs.free = 100 << 20
	ts.s.CheckSpace()
	prepareAll(t, j)
	if j.making == nil {
		t.Error("no file is written after there is space again")
	}
	// A start finds an unfinished file and removes it.
	unfinished := journalName(j.making.seq)
	ts.close()
	ts = openStore(t, fs, Options{JournalFileBytes: 1 << 20, ReserveBytes: 8 << 20})
	if names, err := fs.List(journalDir); err != nil || strings.Contains(strings.Join(names, " "), unfinished[len(journalDir)+1:]) {
		t.Errorf("%s is left in %v, %v", unfinished, names, err)
	}
}

// pieceFile notes the sizes of writes.
type pieceFile struct {
	File
	sizes []int
}

func (f *pieceFile) WriteAt(p []byte, off int64) (int, error) {
	f.sizes = append(f.sizes, len(p))
	return f.File.WriteAt(p, off)
}

// TestWritesAsideWaitForTheCommitAndAreSmall while the journal has room.
func TestWritesAsideWaitForTheCommitAndAreSmall(t *testing.T) {
	fs := newMemFS(t)
	ts := openStore(t, fs, Options{})
	defer ts.close()
	if err := fs.MkdirAll("aside"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("aside/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j := ts.s.Journal()
	out := &pieceFile{File: f}
	buf := AlignedBuf(1 << 20)
	defer freeAligned(buf)
	write := func(frame int64) []int {
		t.Helper()
		out.sizes = nil
		j.frame.Store(frame)
		if err := j.writeAside(out, buf, 0); err != nil {
			t.Fatal(err)
		}
		return out.sizes
	}
	if got := write(BlockBytes); len(got) != 4 {
		t.Errorf("pieces of %v bytes beside nothing, want 4 of %d", got, asidePieceMax)
	}
	if got := write(asidePieceMax + BlockBytes); len(got) != 1 {
		t.Errorf("pieces of %v bytes beside large frames, want one", got)
	}

	// Beside a journal that commits all the time, each piece waits for a commit.
	for _, c := range []struct{ frame, piece int64 }{{BlockBytes, asidePieceMin}, {48 << 10, 96 << 10}, {200 << 10, asidePieceMax}} {
		j.gate.set(true, true)
		stop, stopped := make(chan struct{}), make(chan int)
		go func() {
			commits := 0
			for {
				select {
				case <-stop:
					j.gate.set(false, false)
					stopped <- commits
					return
				default:
					commits += nextCommit(&j.gate)
				}
			}
		}()
		got := write(c.frame)
		close(stop)
		commits := <-stopped
		if want := int(1<<20+c.piece-1) / int(c.piece); len(got) != want || got[0] != int(c.piece) || commits != want {
			t.Errorf("pieces of %v bytes, %d commits beside frames of %d, want %d of %d", got, commits, c.frame, want, c.piece)
		}
	}

	// One that is in a commit holds it up, one that does nothing does not.
	j.gate.set(true, true)
	written := make(chan []int)
	go func() { written <- write(BlockBytes) }()
	for waits := false; !waits; { // until the writer waits
		runtime.Gosched()
		j.gate.mu.Lock()
		waits = j.gate.mu.ended != nil
		j.gate.mu.Unlock()
	}
	select {
	case got := <-written:
		t.Errorf("pieces of %v bytes were written during a commit", got)
	default:
	}
	j.gate.set(true, false)
	if got := <-written; got[0] != asidePieceMin || got[len(got)-1] != asidePieceMax-asidePieceMin {
		t.Errorf("pieces of %v bytes after a commit, want a small one and then large ones", got)
	}
}

// nextCommit ends a commit for which somebody waits and begins the next one; it says
// how many it has ended.
func nextCommit(g *commitGate) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.ended == nil {
		return 0
	}
	close(g.mu.ended)
	g.mu.ended = nil
	return 1
}
