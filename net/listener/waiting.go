package listener

import (
	"fmt"
	"slices"

	"millrace/core"
)

// waitList holds the sessions of a loop that are paused and may be read again
// when something is given back. Bounded by the number of connections.
type waitList struct {
	queue      []*session // want a ticket, memory or another shard's attention; oldest first
	recheck    []*session // paused by their own limits, which have room now
	turns      []*session // wait for their turn, in this order
	retry      bool       // a timer for the queue is set
	serving    bool       // the head of the queue may take a ticket
	watch      bool       // a timer for slow requests is set
	overtaking bool       // a timer for overtake is set
	refused    bool       // a request found no payload memory since watchUnread looked
	starved    uint64     // the shard's ReadsStarved when it looked
}

// ahead says whether others wait for a ticket and are to have it first.
func (w *waitList) ahead() bool { return !w.serving && len(w.queue) > 0 }

func (w *waitList) add(s *session) {
	if !s.queued {
		s.queued = true
		w.queue = append(w.queue, s)
	}
}

// remove forgets a closed session; not called while the queue is being served.
func (w *waitList) remove(s *session) {
	if s.queued {
		s.queued = false
		w.queue = slices.DeleteFunc(w.queue, func(o *session) bool { return o == s })
	}
}

// A request that is small and has wholly come need not wait behind those that were
// only announced: its ticket, of a budget kept for such requests, lasts as long as
// it is being worked on. Otherwise connections that announce and do not send would
// shut everyone out, a budget's worth of them at a time.
const (
	overtakeBytesMax = 64 << 10
	// overtakeShare of the bytes for requests are kept for them.
	overtakeShare = 8
	// overtakeEvery is how often the waiting ones are looked through.
	overtakeEvery = 20 * core.Millisecond
)

func (s *session) mayOvertake() bool {
	return s.size <= overtakeBytesMax && s.transport.atHand(s.size-4)
}

// overtake reads those of the waiting connections whose request has come.
func (l *Loop) overtake() {
	w := &l.waiting
	if len(w.queue) == 0 || w.overtaking {
		return
	}
	w.overtaking = true
	l.After(l.now+overtakeEvery, func() { w.overtaking = false })
	for _, s := range slices.Clone(w.queue) {
		if l.outboxed > 0 {
			return
		}
		if s.closing || s.paused != pauseBudget && s.paused != pauseArena || !s.mayOvertake() {
			continue
		}
		if s.admit() == notPaused {
			w.remove(s)
			s.unpause()
		}
	}
}

// retryMs is how long a loop waits before it looks for payload memory again:
// buffers are released on any goroutine, and nothing tells.
const retryMs = 5

func (l *Loop) retryLater() {
	if l.waiting.retry {
		return
	}
	l.waiting.retry = true
	l.After(l.now+retryMs*core.Millisecond, func() { l.waiting.retry = false })
}

// While connections wait for a ticket, a request that has one must keep coming:
// after slowGrace at slowBytesPerSecond on average. Clients that announce large
// requests and do not send them would keep everyone out otherwise.
const (
	slowGrace          = 2 * core.Second
	slowBytesPerSecond = 16 << 10
)

// watchSlow asks every loop to drop slow requests, for as long as connections of
// this one wait.
func (l *Loop) watchSlow() {
	if l.waiting.watch {
		return
	}
	l.waiting.watch = true
	l.After(l.now+slowGrace/2, func() {
		l.waiting.watch = false
		if len(l.waiting.queue) == 0 {
			return
		}
		for _, o := range l.srv.loops {
			if o != l {
				o.force(message{kind: msgFunc, fn: o.dropSlow})
			}
		}
		l.dropSlow()
		l.watchSlow()
	})
}

// dropSlow closes the connections whose request holds a ticket and does not come.
func (l *Loop) dropSlow() {
	for s := range l.sessions {
		age := l.now - s.ticketSince
		if s.closing || !s.hasTicket || age < slowGrace {
			continue
		}
		if int64(len(s.frame)) < int64(age/core.Millisecond)*slowBytesPerSecond/1000 {
			s.Close(fmt.Sprintf("%d of %d bytes of a request came in %d ms, while others waited for room (queued.max.request.bytes)",
				len(s.frame), s.size, age/core.Millisecond))
		}
	}
}

// serveWaiting reads on from the connections that have room now.
func (l *Loop) serveWaiting() {
	for _, s := range l.waiting.recheck {
		s.recheck = false
		if !s.closing && s.paused != notPaused {
			s.unpause()
		}
	}
	clear(l.waiting.recheck)
	l.waiting.recheck = l.waiting.recheck[:0]
	l.nextTurns()

	if len(l.waiting.queue) == 0 {
		return
	}
	// Another loop that releases a ticket wakes the starving ones. Saying so
	// before trying leaves no gap: either the reservation below sees the bytes,
	// or the releasing loop sees the flag.
	l.starving.Store(true)
	n := 0
	for ; n < len(l.waiting.queue) && l.outboxed == 0; n++ {
		if !l.readWaiting(l.waiting.queue[n]) {
			break
		}
	}
	q := l.waiting.queue
	l.waiting.queue = append(q[:0], q[n:]...)
	clear(q[len(q)-n:])
	l.overtake()
	l.starving.Store(len(l.waiting.queue) > 0)
}

// nextTurns lets those go on that wait for their turn, as many as there is room for
// before the sockets are looked at again. Until then it does nothing: the loop may end
// many turns before, as replies and timers ask for one.
func (l *Loop) nextTurns() {
	if l.rung {
		return
	}
	l.turnBytes = 0
	w := &l.waiting
	n := len(w.turns)
	for i := 0; i < n && l.turnBytes < turnBytesMax; i++ {
		s := w.turns[0]
		w.turns[0] = nil
		w.turns = w.turns[1:]
		if !s.closing && s.paused == pauseTurn {
			s.unpause()
		}
	}
	if len(w.turns) == 0 {
		w.turns = nil
	} else {
		l.turnLater()
	}
}

// turnLater has the next turns begin once the sockets have been looked at: the loop
// rings its own doorbell. What it queues for itself gnet runs before that, up to 256
// times.
func (l *Loop) turnLater() {
	if l.rung {
		return
	}
	l.rung = true
	if _, err := l.bell.Write([]byte{0}); err != nil {
		l.rung = false
		l.arm()
	}
}

// answerBell is called when the poller has found the doorbell among the sockets.
func (l *Loop) answerBell() {
	l.rung = false
	l.arm()
}

// readWaiting lets the head of the queue try again; false when it must wait on.
// What it is refused leaves it paused without a system call.
func (l *Loop) readWaiting(s *session) bool {
	if s.closing || s.closed {
		s.queued = false
		return true
	}
	l.waiting.serving = true
	reason := s.admit()
	l.waiting.serving = false
	switch reason {
	case notPaused:
		s.queued = false
		s.unpause()
		return true
	case pauseInflight, pauseSlow, pauseStop:
		s.queued = false
		s.paused = reason
		return true
	case pauseTurn:
		s.queued = false
		s.paused = reason
		l.waiting.turns = append(l.waiting.turns, s)
		l.turnLater()
		return true
	case pauseArena:
		l.retryLater()
	}
	s.paused = reason
	return false
}

// undo gives back what was reserved a moment ago, which may have kept another loop
// from it. This one tries again by itself.
func (l *Loop) undo(n int64, overtook bool) {
	if overtook {
		l.overtaking.Release(n)
		return
	}
	l.budget.Release(n)
	for _, o := range l.srv.loops {
		if o != l && o.starving.Load() {
			o.wake()
		}
	}
}

// release gives a ticket back and wakes the loops that wait for one.
func (l *Loop) release(n int64, overtook bool) {
	if n == 0 {
		return
	}
	if overtook {
		l.overtaking.Release(n)
		return
	}
	l.budget.Release(n)
	for _, o := range l.srv.loops {
		if o.starving.Load() {
			o.wake()
		}
	}
}
