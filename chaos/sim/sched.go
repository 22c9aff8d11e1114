package sim

import (
	"container/heap"

	"millrace/core"
)

// event is something that happens at a moment. Events of one moment happen in
// the order in which they were scheduled.
type event struct {
	at  core.Tick
	seq uint64
	f   func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

// after schedules f.
func (s *Sim) after(d core.Tick, f func()) {
	s.eventSeq++
	heap.Push(&s.events, event{s.now + max(d, 0), s.eventSeq, f})
}

// link is a channel that keeps order: what is sent later arrives no earlier.
type link struct{ last core.Tick }

// via schedules f at the far end of l.
func (s *Sim) via(l *link, d core.Tick, f func()) {
	l.last = max(l.last, s.now+d)
	s.after(l.last-s.now, f)
}

// runUntil takes events in order until the moment end, or until stop says so.
func (s *Sim) runUntil(end core.Tick, stop func() bool) {
	for len(s.events) > 0 && s.events[0].at <= end && s.failure == nil && !s.over {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		s.stats.Steps++
		e.f()
		if stop != nil && stop() {
			return
		}
	}
	if stop == nil && s.failure == nil {
		s.now = max(s.now, end)
	}
}

// between draws a span of [a, b).
func (s *Sim) between(a, b core.Tick) core.Tick { return a + core.Tick(s.rng.Int64N(int64(b-a))) }

// chance is true with probability p.
func (s *Sim) chance(p float64) bool { return s.rng.Float64() < p }
