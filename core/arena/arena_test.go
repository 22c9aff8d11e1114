package arena

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"millrace/core/hugepage"
)

func mustAlloc(t testing.TB, a *Arena, n int) Buf {
	t.Helper()
	b, err := a.Alloc(n)
	if err != nil {
		t.Fatalf("allocating %d bytes: %v", n, err)
	}
	if b.Len() != n {
		t.Fatalf("asked for %d bytes, got %d", n, b.Len())
	}
	return b
}

func TestBuffersDoNotOverlap(t *testing.T) {
	a := New(8 << 20)
	var bufs []Buf
	for i := range 3000 {
		b := mustAlloc(t, a, 1+i%1500)
		for k := range b.Bytes() {
			b.Bytes()[k] = byte(i)
		}
		bufs = append(bufs, b)
	}
	for i, b := range bufs {
		if want := bytes.Repeat([]byte{byte(i)}, b.Len()); !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("buffer %d was overwritten", i)
		}
		if cap(b.Bytes()) != b.Len() {
			t.Fatalf("buffer %d can grow into its neighbour", i)
		}
		b.Release()
	}
	a.Seal()
	if _, live := a.Stats(); live != 0 {
		t.Errorf("%d bytes live after all was released", live)
	}
}

func TestLimitIsKept(t *testing.T) {
	a := New(4 * ChunkBytes)
	var bufs []Buf
	for {
		b, err := a.Alloc(ChunkBytes / 4)
		if err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
		bufs = append(bufs, b)
	}
	if mapped, _ := a.Stats(); len(bufs) != 16 || mapped != 4*ChunkBytes || a.Room() != 0 {
		t.Fatalf("%d buffers, %d bytes mapped, room for %d", len(bufs), mapped, a.Room())
	}
	for _, b := range bufs[:4] { // the first chunk
		b.Release()
	}
	if a.Room() != ChunkBytes {
		t.Errorf("room for %d after a chunk was released", a.Room())
	}
	mustAlloc(t, a, ChunkBytes/4).Release()
	for _, b := range bufs[4:] {
		b.Release()
	}
	// Kept chunks make way for a large mapping.
	big := mustAlloc(t, a, 3*ChunkBytes-5)
	if mapped, _ := a.Stats(); mapped > 4*ChunkBytes {
		t.Errorf("%d bytes mapped", mapped)
	}
	if _, err := a.Alloc(2 * ChunkBytes); !errors.Is(err, ErrFull) {
		t.Errorf("allocation beyond the limit: %v", err)
	}
	big.Release()
}

func TestSlicesAndRetainsShareReferences(t *testing.T) {
	a := New(ChunkBytes)
	b := mustAlloc(t, a, 100)
	s := b.Slice(10, 20)
	if s.Len() != 10 || cap(s.Bytes()) != 10 || s.Arena() != a {
		t.Errorf("slice of %d bytes, capacity %d", s.Len(), cap(s.Bytes()))
	}
	s.Retain()
	b.Release()
	a.Seal()
	if _, live := a.Stats(); live != ChunkBytes {
		t.Errorf("%d bytes live while a slice is held", live)
	}
	s.Release()
	if _, live := a.Stats(); live != 0 {
		t.Errorf("%d bytes live", live)
	}
}

func TestFullChunkIsReusedInPlace(t *testing.T) {
	a := New(ChunkBytes)
	for range 10_000 {
		mustAlloc(t, a, 3000).Release()
	}
	if mapped, _ := a.Stats(); mapped != ChunkBytes {
		t.Errorf("%d bytes mapped", mapped)
	}
	a.Seal()
	held := mustAlloc(t, a, 3000)
	if _, err := a.Alloc(ChunkBytes / 4); err != nil {
		t.Errorf("a quarter of a chunk beside 3000 bytes: %v", err)
	}
	if _, err := a.Alloc(ChunkBytes - 4096); !errors.Is(err, ErrFull) {
		t.Errorf("more than is left: %v", err)
	}
	held.Release()
}

func TestForeignAndZeroBufs(t *testing.T) {
	f := Foreign([]byte("abc"))
	f.Retain().Release()
	f.Release()
	f.Release()
	if string(f.Slice(1, 3).Bytes()) != "bc" || f.Arena() != nil {
		t.Error("foreign memory is not itself")
	}
	var zero Buf
	zero.Retain().Release()
	a := New(1)
	if b, err := a.Alloc(0); err != nil || b.Len() != 0 || b.Arena() != nil {
		t.Errorf("allocation of nothing: %v, %v", b, err)
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	a := New(ChunkBytes)
	b := mustAlloc(t, a, 10)
	a.Seal()
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second release passed")
		}
	}()
	b.Release()
}

// TestReleaseFromOtherGoroutines is for the race detector: the owner allocates
// while others check and release.
func TestReleaseFromOtherGoroutines(t *testing.T) {
	a := New(16 * ChunkBytes)
	work := make(chan Buf, 64)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for b := range work {
				p := b.Bytes()
				for k := range p {
					if p[k] != p[0] {
						t.Error("a buffer changed while it was held")
						break
					}
				}
				b.Release()
			}
		})
	}
	sizes := []int{1, 61, 4 << 10, 70 << 10, ChunkBytes/2 + 1, ChunkBytes + 1}
	for i := range 1500 {
		b, err := a.Alloc(sizes[i%len(sizes)])
		if errors.Is(err, ErrFull) {
			continue // the others will catch up
		}
		if err != nil {
			t.Fatal(err)
		}
		p := b.Bytes()
		p[0] = byte(i)
		for k := 1; k < len(p); k *= 2 {
			copy(p[k:], p[:k])
		}
		work <- b
	}
	close(work)
	wg.Wait()
	a.Seal()
	if mapped, live := a.Stats(); live != 0 || mapped > 16*ChunkBytes {
		t.Errorf("%d bytes mapped, %d live", mapped, live)
	}
}

func BenchmarkAlloc(b *testing.B) {
	a := New(64 << 20)
	b.ReportAllocs()
	for b.Loop() {
		buf, err := a.Alloc(4096)
		if err != nil {
			b.Fatal(err)
		}
		buf.Release()
	}
}

// TestTrimGivesBackWhatNobodyNeeds: chunks that were free all the time go, those
// that were in use meanwhile stay.
func TestTrimGivesBackWhatNobodyNeeds(t *testing.T) {
	a := New(32 * ChunkBytes)
	use := func(n int) {
		var bufs []Buf
		for range n {
			bufs = append(bufs, mustAlloc(t, a, ChunkBytes))
		}
		for _, b := range bufs {
			b.Release()
		}
	}
	mapped := func() int64 { m, _ := a.Stats(); return m / ChunkBytes }
	use(10)
	a.Trim()
	if n := mapped(); n != 10 {
		t.Errorf("%d chunks mapped right after use, want 10", n)
	}
	use(4)
	a.Trim()
	if n := mapped(); n != 4 {
		t.Errorf("%d chunks mapped, 4 were needed since", n)
	}
	a.Trim()
	if n := mapped(); n != 0 {
		t.Errorf("%d chunks mapped, none was needed since", n)
	}
	use(2)
}

// TestOddLimitIsKept: memory comes two chunks at a time, the limit need not be even.
func TestOddLimitIsKept(t *testing.T) {
	a := New(3 * ChunkBytes)
	var bufs []Buf
	for range 3 {
		bufs = append(bufs, mustAlloc(t, a, ChunkBytes))
	}
	if mapped, live := a.Stats(); mapped != 3*ChunkBytes || live != 3*ChunkBytes {
		t.Errorf("%d bytes mapped, %d live", mapped, live)
	}
	if _, err := a.Alloc(ChunkBytes); !errors.Is(err, ErrFull) {
		t.Errorf("a chunk beyond the limit: %v", err)
	}
	for _, b := range bufs {
		b.Bytes()[ChunkBytes-1] = 1
		b.Release()
	}
}

// TestStockedArenaTakesAndGivesBack: chunks come from the stock, where it has any, and
// Trim gives them to it.
func TestStockedArenaTakesAndGivesBack(t *testing.T) {
	stock := hugepage.NewStock(2)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stock.Run(ctx) }()
	a := NewStocked(64*ChunkBytes, stock)
	for round := range 50 {
		var bufs []Buf
		for i := range 12 {
			b := mustAlloc(t, a, ChunkBytes)
			b.Bytes()[0], b.Bytes()[ChunkBytes-1] = byte(i+1), byte(i+1)
			bufs = append(bufs, b)
		}
		for i, b := range bufs {
			if b.Bytes()[0] != byte(i+1) || b.Bytes()[ChunkBytes-1] != byte(i+1) {
				t.Fatalf("round %d: buffer %d was overwritten", round, i)
			}
			b.Release()
		}
		a.Trim()
		if round%3 == 0 {
			// The stock takes a few at a time.
			for deadline := time.Now().Add(30 * time.Second); ; {
				a.Trim()
				mapped, _ := a.Stats()
				if mapped == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("round %d: %d bytes mapped, none was needed", round, mapped)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	mustAlloc(t, a, ChunkBytes).Release() // without the stock
}

// TestRoomIsOfWholeChunks: a limit that is no multiple of a chunk, as where a node's is
// divided by three shards, must not leave room that no allocation can use: who asks
// whether something is to be evicted would be told no.
func TestRoomIsOfWholeChunks(t *testing.T) {
	a := New(3*ChunkBytes + ChunkBytes/3)
	var bufs []Buf
	for {
		b, err := a.Alloc(1000)
		if err != nil {
			break
		}
		bufs = append(bufs, b)
	}
	if a.Room() >= 1000 {
		t.Errorf("there is room for %d bytes, and none for 1000", a.Room())
	}
	for _, b := range bufs {
		b.Release()
	}
}
