package shard

import "millrace/core"

// timerOwner is told when its timer is due. The timer is disarmed by then.
type timerOwner interface {
	onTimer(s *Shard, now core.Tick)
}

// timer is embedded in what it belongs to. The zero timer is disarmed.
type timer struct {
	at  core.Tick
	seq uint64 // order of arming: equal times fire in this order
	pos int32  // place in the heap plus one; 0 = disarmed
}

type timerSlot struct {
	t     *timer
	owner timerOwner
}

// timers is a binary heap over (at, seq). Idle partitions have nothing in it.
type timers struct {
	heap []timerSlot
	seq  uint64
}

func (t *timer) armed() bool { return t.pos != 0 }

// set arms t for at, or moves it.
func (q *timers) set(t *timer, owner timerOwner, at core.Tick) {
	q.seq++
	t.at, t.seq = at, q.seq
	if t.pos == 0 {
		q.heap = append(q.heap, timerSlot{t, owner})
		t.pos = int32(len(q.heap))
	}
	i := int(t.pos) - 1
	if !q.up(i) {
		q.down(i)
	}
}

// stop disarms t.
func (q *timers) stop(t *timer) {
	if t.pos == 0 {
		return
	}
	i, last := int(t.pos)-1, len(q.heap)-1
	if i != last {
		q.heap[i] = q.heap[last]
		q.heap[i].t.pos = int32(i) + 1
	}
	q.heap[last] = timerSlot{}
	q.heap = q.heap[:last]
	t.pos = 0
	if i != last {
		if !q.up(i) {
			q.down(i)
		}
	}
}

// due disarms and returns the owner of the first timer that is due, or nil. One that
// was armed for now after seq was the newest is not.
func (q *timers) due(now core.Tick, seq uint64) timerOwner {
	if len(q.heap) == 0 || q.heap[0].t.at > now || q.heap[0].t.at == now && q.heap[0].t.seq > seq {
		return nil
	}
	slot := q.heap[0]
	q.stop(slot.t)
	return slot.owner
}

// next is when the first timer is due; 0 when none is armed.
func (q *timers) next() core.Tick {
	if len(q.heap) == 0 {
		return 0
	}
	return max(q.heap[0].t.at, 1)
}

func (q *timers) less(i, j int) bool {
	a, b := q.heap[i].t, q.heap[j].t
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *timers) swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.heap[i].t.pos, q.heap[j].t.pos = int32(i)+1, int32(j)+1
}

func (q *timers) up(i int) bool {
	moved := false
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			break
		}
		q.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (q *timers) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(q.heap) {
			return
		}
		if c+1 < len(q.heap) && q.less(c+1, c) {
			c++
		}
		if !q.less(c, i) {
			return
		}
		q.swap(i, c)
		i = c
	}
}

// chance is the shard's own source of jitter (splitmix64): the same seed gives
// the same run.
type chance struct{ state uint64 }

func (c *chance) next() uint64 {
	c.state += 0x9E3779B97F4A7C15
	z := c.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// below is a number of [0, n).
func (c *chance) below(n core.Tick) core.Tick { return core.Tick(c.next() % uint64(n)) }
