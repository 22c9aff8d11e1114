package group

import (
	"container/heap"

	"millrace/core"
)

// timer is one thing to do at a time; times alike go in the order they were set.
type timer struct {
	at   core.Tick
	seq  uint64
	pos  int // in the heap; -1 when not set
	fire func()
}

// timers is a heap of timers: what is next does not depend on any map.
type timers struct {
	list []*timer
	seq  uint64
}

func (q *timers) Len() int { return len(q.list) }
func (q *timers) Less(i, j int) bool {
	a, b := q.list[i], q.list[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}
func (q *timers) Swap(i, j int) {
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].pos, q.list[j].pos = i, j
}
func (q *timers) Push(x any) {
	t := x.(*timer)
	t.pos = len(q.list)
	q.list = append(q.list, t)
}
func (q *timers) Pop() any {
	t := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	t.pos = -1
	return t
}

// set makes t fire at a time, in place of any earlier setting.
func (q *timers) set(t *timer, at core.Tick, fire func()) {
	q.cancel(t)
	q.seq++
	t.at, t.seq, t.fire = at, q.seq, fire
	heap.Push(q, t)
}

func (q *timers) cancel(t *timer) {
	if t.pos >= 0 && t.fire != nil {
		heap.Remove(q, t.pos)
	}
	t.fire = nil
}

// due removes and returns the first timer at or before now; nil if none.
func (q *timers) due(now core.Tick) *timer {
	if len(q.list) == 0 || q.list[0].at > now {
		return nil
	}
	return heap.Pop(q).(*timer)
}

// next is when the first timer fires; 0 if there is none.
func (q *timers) next() core.Tick {
	if len(q.list) == 0 {
		return 0
	}
	return max(q.list[0].at, 1)
}
