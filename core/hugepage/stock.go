package hugepage

import (
	"context"
	"sync/atomic"
)

// Stock maps and unmaps for those who may not wait. It keeps a few mappings of Bytes
// ready that the system has already filled with memory, whose first touch costs up to
// some milliseconds, and takes mappings back; one goroutine does the waiting.
type Stock struct {
	ready chan []byte
	want  chan struct{}
	back  chan []byte

	// Atomic.
	ended     atomic.Bool
	backBytes atomic.Int64
}

// backMax is how many mappings that were given back may wait.
const backMax = 128

// Stats returns the bytes that are ready, and those given back that are not unmapped
// yet. Any goroutine.
func (s *Stock) Stats() (ready, back int64) {
	return int64(len(s.ready)) * Bytes, s.backBytes.Load()
}

// NewStock makes a stock of at most n mappings, empty until Run.
func NewStock(n int) *Stock {
	return &Stock{ready: make(chan []byte, n), want: make(chan struct{}, 1), back: make(chan []byte, backMax)}
}

// Give hands over what Unmap takes. It returns false, and has not taken it, when too
// much waits already or the stock does not run any more. It never blocks; any
// goroutine.
func (s *Stock) Give(b []byte) bool {
	if s.ended.Load() {
		return false
	}
	select {
	case s.back <- b:
		s.backBytes.Add(int64(len(b)))
		return true
	default:
		return false
	}
}

// Take returns a mapping as Map(Bytes) does, or nil when none is ready. It never
// blocks; any goroutine.
func (s *Stock) Take() []byte {
	select {
	case b := <-s.ready:
		select {
		case s.want <- struct{}{}:
		default:
		}
		return b
	default:
		return nil
	}
}

// Run fills the stock until ctx ends, then gives back what is left; on one goroutine,
// once. It returns early with the error of a system that has no memory: who takes
// from the stock then finds it empty.
func (s *Stock) Run(ctx context.Context) error {
	defer s.drain()
	defer s.ended.Store(true)
	for {
		for len(s.ready) < cap(s.ready) && ctx.Err() == nil {
			b, err := Map(Bytes)
			if err != nil {
				return err
			}
			populate(b)
			s.ready <- b // there is room: nobody else sends
		}
		select {
		case <-s.want:
		case b := <-s.back:
			s.backBytes.Add(-int64(len(b)))
			unmap(b)
		case <-ctx.Done():
			return nil
		}
	}
}

// drain unmaps what is there. A Give that overlaps the end may leave a mapping behind,
// which the end of the process unmaps.
func (s *Stock) drain() {
	for {
		select {
		case b := <-s.ready:
			unmap(b)
		case b := <-s.back:
			s.backBytes.Add(-int64(len(b)))
			unmap(b)
		default:
			return
		}
	}
}

func unmap(b []byte) {
	if err := Unmap(b); err != nil {
		panic("BUG: munmap of a stock's memory: " + err.Error())
	}
}

// touch makes the system give all of b's memory.
func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 0
	}
}
