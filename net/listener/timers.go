package listener

import (
	"container/heap"
	"math"
	"sync/atomic"
	"time"

	"millrace/core"
)

// noDeadline is what a loop publishes when it waits for nothing.
const noDeadline = math.MaxInt64

// timer is one pending call on a loop; it implements kafka.Timer.
type timer struct {
	at   core.Tick
	seq  uint64 // order among timers of one Tick
	fn   func()
	heap *timerHeap
	pos  int // in the heap; -1 when it is not in it
}

// Stop implements kafka.Timer.
func (t *timer) Stop() {
	if t.pos >= 0 {
		heap.Remove(t.heap, t.pos)
		t.fn = nil
	}
}

// timerHeap holds a loop's timers, earliest first; owned by the loop. Its size is
// bounded by what the loop has in flight: handlers stop what they no longer need.
type timerHeap struct {
	items []*timer
	seq   uint64
}

func (h *timerHeap) add(at core.Tick, fn func()) *timer {
	h.seq++
	t := &timer{at: at, seq: h.seq, fn: fn, heap: h}
	heap.Push(h, t)
	return t
}

// due takes out the earliest timer if its time has come.
func (h *timerHeap) due(now core.Tick) func() {
	if len(h.items) == 0 || h.items[0].at > now {
		return nil
	}
	return heap.Pop(h).(*timer).fn
}

func (h *timerHeap) next() int64 {
	if len(h.items) == 0 {
		return noDeadline
	}
	return int64(h.items[0].at)
}

// Len implements heap.Interface.
func (h *timerHeap) Len() int { return len(h.items) }

// Less implements heap.Interface.
func (h *timerHeap) Less(i, j int) bool {
	a, b := h.items[i], h.items[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// Swap implements heap.Interface.
func (h *timerHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].pos, h.items[j].pos = i, j
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.pos = len(h.items)
	h.items = append(h.items, t)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	n := len(h.items) - 1
	t := h.items[n]
	h.items[n] = nil
	h.items = h.items[:n]
	t.pos = -1
	return t
}

// clock makes Ticks: wall time at the start of the process plus the monotonic
// time since, so that it never goes back.
type clock struct {
	start time.Time
	base  int64
}

func newClock() clock {
	t := time.Now()
	return clock{start: t, base: t.UnixNano()}
}

func (c *clock) now() core.Tick { return core.Tick(c.base + int64(time.Since(c.start))) }

// timekeeper wakes loops when their deadlines come: gnet has no timers of its
// own, so one goroutine sleeps for all loops.
type timekeeper struct {
	// Immutable.
	clock clock
	loops []*Loop
	kick  chan struct{}
	stop  chan struct{}
	done  chan struct{}

	// Atomic. The time that the goroutine sleeps until; a loop that publishes an
	// earlier deadline kicks it. While the deadlines are being read it is
	// noDeadline, so that a change during the reading kicks too.
	until atomic.Int64
}

func newTimekeeper(c clock, loops []*Loop) *timekeeper {
	k := &timekeeper{
		clock: c, loops: loops,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	k.until.Store(noDeadline)
	return k
}

// changed is called by a loop after it published deadline d.
func (k *timekeeper) changed(d int64) {
	if d < k.until.Load() {
		select {
		case k.kick <- struct{}{}:
		default:
		}
	}
}

func (k *timekeeper) run() {
	defer close(k.done)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		k.until.Store(noDeadline)
		now := int64(k.clock.now())
		next := int64(noDeadline)
		for _, l := range k.loops {
			d := l.deadline.Load()
			if d <= now && l.deadline.CompareAndSwap(d, noDeadline) {
				l.wake()
				continue
			}
			next = min(next, l.deadline.Load())
		}
		k.until.Store(next)
		sleep := time.Hour
		if next != noDeadline {
			sleep = time.Duration(max(next-int64(k.clock.now()), 0))
		}
		t.Reset(sleep)
		select {
		case <-k.stop:
			return
		case <-k.kick:
		case <-t.C:
		}
	}
}
