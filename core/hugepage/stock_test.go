package hugepage

import (
	"context"
	"testing"
	"time"
)

func TestStockFillsAgainAndEnds(t *testing.T) {
	s := NewStock(2)
	if s.Take() != nil {
		t.Fatal("a stock that does not run has something")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var taken [][]byte
	for deadline := time.Now().Add(30 * time.Second); len(taken) < 20; {
		b := s.Take()
		if b == nil {
			if time.Now().After(deadline) {
				t.Fatalf("%d mappings in 30 s", len(taken))
			}
			time.Sleep(time.Millisecond)
			continue
		}
		if len(b) != Bytes {
			t.Fatalf("a mapping of %d bytes", len(b))
		}
		taken = append(taken, b)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s.Take() != nil {
		t.Error("something is left after the end")
	}
	for i, b := range taken {
		for k := range b {
			if b[k] != 0 {
				t.Fatalf("mapping %d, byte %d is %d", i, k, b[k])
			}
			b[k] = byte(i + 1)
		}
	}
	for i, b := range taken { // none overlaps another
		if b[0] != byte(i+1) || b[Bytes-1] != byte(i+1) {
			t.Errorf("mapping %d was overwritten", i)
		}
		if s.Give(b) {
			t.Error("a stock that has ended takes something back")
		}
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	}
}

func TestStockTakesBackWithoutWaiting(t *testing.T) {
	s := NewStock(0)
	given := 0
	for {
		b, err := Map(1)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Give(b) {
			if err := Unmap(b); err != nil {
				t.Error(err)
			}
			break
		}
		given++
	}
	if _, back := s.Stats(); given != backMax || back != backMax*Bytes {
		t.Errorf("%d mappings were taken, %d bytes; want %d mappings", given, back, backMax)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if ready, back := s.Stats(); ready != 0 || back != 0 || len(s.back) != 0 {
		t.Errorf("%d and %d bytes are left after the end", ready, back)
	}
}
