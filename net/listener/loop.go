package listener

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/panjf2000/gnet/v2"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/budget"
	"millrace/core/meta"
	"millrace/net/kafka"
	"millrace/raftlog"
	"millrace/shard"
)

// reactor is the part of *shard.Shard that a loop drives.
type reactor interface {
	Step(now core.Tick, ev shard.Event, out *shard.Effects)
	Finish(now core.Tick, out *shard.Effects)
	MakeRoom(n int) bool
}

// handler serves request frames; *kafka.Worker is the one in production.
type handler interface {
	Serve(c kafka.Conn, f kafka.Frame)
}

// roundsMax bounds how many turns a loop takes before it looks at its sockets
// again, when the replies of one turn cause the next.
const roundsMax = 8

// Loop is one event loop: a gnet loop, the shard that it owns and the
// connections that live on it. It implements kafka.Loop.
//
// A turn starts with the first event after the last one: bytes on a socket, a
// message in the inbox, a timer. Each is stepped into the shard as it is met.
// gnet has no hook for the end of a batch of events, so the first event of a
// turn queues one Execute, which gnet runs after the sockets at hand; it
// finishes the turn and carries its effects out in the order journal, peers,
// jobs, other shards, replies. The replies may step the shard again, which
// belongs to the next turn.
type Loop struct {
	// Immutable.
	id     core.ShardID
	srv    *Server
	arena  *arena.Arena
	budget *budget.Budget // of this shard's requests, under the node's
	// overtaking is the part that is kept for requests that have wholly come.
	overtaking *budget.Budget
	logs       *raftlog.LogSet
	shard      reactor
	// shardStats is called on the loop; nil where the shard has none.
	shardStats func() shard.Stats
	worker     handler
	inbox      *inbox
	// Set before the loop serves connections.
	el     gnet.EventLoop
	poller poller
	bell   net.Conn // what is written to it is an event of this loop's poller

	// Owned by the loop.
	now        core.Tick
	eff        shard.Effects // of the turn being gathered
	spare      shard.Effects // of the turn being carried out
	dirty      bool          // the shard was stepped since the last Finish
	shardTimer core.Tick     // when the shard wants EventTimer; 0: never
	timers     timerHeap
	sessions   map[*session]struct{}
	spill      []byte     // read ahead of the connection that is being read
	arriving   int64      // payload memory of frames that have not wholly come
	replies    replyBytes // in the heap, not taken by clients yet
	rung       bool       // the doorbell has not been answered yet
	turnBytes  int        // served since the sockets were looked at; see turnBytesMax
	unsent     []*session // have replies to flush at the end of the turn
	closing    []*session // are to be closed at the end of the turn
	waiting    waitList   // want a ticket to read their next request
	outbox     [][]message
	outboxed   int  // messages in outbox; sockets are not read while there are any
	shut       bool // no connection is kept

	// Atomic.
	armed    atomic.Bool // an Execute is queued
	starving atomic.Bool // connections wait for tickets
	deadline atomic.Int64
	stats    loopStats
}

// Shard implements kafka.Loop.
func (l *Loop) Shard() core.ShardID { return l.id }

// Shards implements kafka.Loop.
func (l *Loop) Shards() int { return len(l.srv.loops) }

// Now implements kafka.Loop.
func (l *Loop) Now() core.Tick { return l.now }

// Arena implements kafka.Loop.
func (l *Loop) Arena() *arena.Arena { return l.arena }

// Image implements kafka.Loop.
func (l *Loop) Image() *meta.Image { return l.srv.image.Load() }

// After implements kafka.Loop.
func (l *Loop) After(at core.Tick, fn func()) kafka.Timer {
	t := l.timers.add(at, fn)
	l.arm() // the end of the turn publishes the new deadline
	return t
}

// Submit implements kafka.Loop.
func (l *Loop) Submit(to core.ShardID, q shard.Request) {
	q.Base().Origin = l.id
	if to == l.id {
		l.step(shard.Event{Kind: shard.EventRequest, Request: q})
		return
	}
	l.send(to, message{kind: msgRequest, req: q})
}

// Cancel implements kafka.Loop.
func (l *Loop) Cancel(to core.ShardID, q shard.Request) {
	if to == l.id {
		l.step(shard.Event{Kind: shard.EventCancel, Request: q})
		return
	}
	l.send(to, message{kind: msgCancel, req: q})
}

// send hands a message to another loop. When that loop's inbox is full it waits
// here in order, and until all such messages are gone no socket of this loop is
// read: what waits is bounded by the requests already admitted.
func (l *Loop) send(to core.ShardID, m message) {
	if len(l.outbox[to]) == 0 && l.srv.loops[to].offer(m, l.id) {
		return
	}
	l.outbox[to] = append(l.outbox[to], m)
	l.outboxed++
}

// drainOutbox sends what other loops have room for.
func (l *Loop) drainOutbox() {
	for to, q := range l.outbox {
		n := 0
		for n < len(q) && l.srv.loops[to].offer(q[n], l.id) {
			n++
		}
		if n > 0 {
			l.outboxed -= n
			l.outbox[to] = append(q[:0], q[n:]...)
			clear(q[len(q)-n:])
		}
	}
}

// Post calls fn on the loop. It returns false when the inbox is full; the caller
// tries again later or gives up what it wanted. Any goroutine.
func (l *Loop) Post(fn func()) bool { return l.offer(message{kind: msgFunc, fn: fn}, -1) }

func (l *Loop) offer(m message, from core.ShardID) bool {
	if !l.inbox.offer(m, from) {
		return false
	}
	l.wake()
	return true
}

// force hands over a completion of something that this loop started. Any
// goroutine.
func (l *Loop) force(m message) {
	l.inbox.force(m)
	l.wake()
}

// wake makes the loop take a turn soon. Any goroutine; one Execute at a time is
// queued, since each one costs an allocation and a write to gnet's eventfd.
func (l *Loop) wake() {
	if l.armed.CompareAndSwap(false, true) {
		if err := l.el.Execute(context.Background(), l); err != nil {
			l.srv.opts.Logf("shard %d cannot be woken: %v", l.id, err)
		}
	}
}

// arm is wake from within the loop.
func (l *Loop) arm() { l.wake() }

// Run implements gnet.Runnable: it is the end of a turn.
func (l *Loop) Run(context.Context) error {
	defer l.srv.guard()
	l.armed.Store(false)
	l.enter()
	l.drainInbox()
	l.fireTimers()
	for i := 0; l.dirty && i < roundsMax; i++ {
		l.finishTurn()
	}
	l.endOfRound()
	return nil
}

// enter notes the time of what follows.
func (l *Loop) enter() { l.now = l.srv.clock.now() }

// step gives the shard one event of the turn.
func (l *Loop) step(ev shard.Event) {
	l.shard.Step(l.now, ev, &l.eff)
	if !l.dirty {
		l.dirty = true
		l.arm()
	}
}

func (l *Loop) drainInbox() {
	queue, room := l.inbox.take()
	for _, id := range room {
		l.srv.loops[id].force(message{kind: msgKick})
	}
	for i := range queue {
		m := &queue[i]
		switch m.kind {
		case msgRequest:
			l.step(shard.Event{Kind: shard.EventRequest, Request: m.req})
		case msgCancel:
			l.step(shard.Event{Kind: shard.EventCancel, Request: m.req})
		case msgDone:
			l.resume(m.req)
		case msgPersisted:
			l.step(shard.Event{Kind: shard.EventPersisted, Turn: m.turn})
		case msgJobDone:
			l.step(shard.Event{Kind: shard.EventJobDone, Job: m.job})
		case msgImage:
			l.step(shard.Event{Kind: shard.EventImage, Image: m.image})
		case msgEvict:
			l.evict(m.arena, m.n)
		case msgFunc:
			m.fn()
		case msgKick:
		}
	}
	if l.outboxed > 0 {
		l.drainOutbox()
	}
}

func (l *Loop) fireTimers() {
	if l.shardTimer != 0 && l.now >= l.shardTimer {
		l.shardTimer = 0
		l.step(shard.Event{Kind: shard.EventTimer})
	}
	for fn := l.timers.due(l.now); fn != nil; fn = l.timers.due(l.now) {
		fn()
	}
}

// finishTurn ends the shard's turn and carries its effects out. Replies come
// last: they may step the shard, which fills the other Effects.
func (l *Loop) finishTurn() {
	l.shard.Finish(l.now, &l.eff)
	l.eff, l.spare = l.spare, l.eff
	l.dirty = false
	eff := &l.spare
	l.stats.turns.Add(1)

	if eff.Fatal != nil {
		l.srv.fail(eff.Fatal)
	}
	if eff.Turn != nil {
		l.stats.journalTurns.Add(1)
		l.srv.journal.Submit(eff.Turn)
	}
	if len(eff.PeerSends) > 0 {
		l.srv.opts.SendPeers(l.id, eff.PeerSends)
	}
	if eff.Image != nil {
		l.srv.publish(eff.Image)
	}
	for _, j := range eff.Jobs {
		l.srv.pool.run(l, j)
	}
	l.shardTimer = eff.NextTimer
	for i, q := range eff.Done {
		if origin := q.Base().Origin; origin != l.id {
			eff.Done[i] = nil // the other loop's from here on
			l.srv.loops[origin].force(message{kind: msgDone, req: q})
		}
	}
	for _, q := range eff.Done {
		if q != nil {
			l.resume(q)
		}
	}
	eff.Reset()
}

func (l *Loop) resume(q shard.Request) { q.Base().Owner.(kafka.Continuation).Resume(q) }

// endOfRound sends replies, closes what is to be closed, lets sockets be read
// again where there is room, and publishes the next deadline.
func (l *Loop) endOfRound() {
	l.flushSessions()
	l.closeSessions()
	l.serveWaiting()
	l.flushSessions()
	l.closeSessions()
	if l.dirty {
		l.arm()
	}
	next := l.timers.next()
	if l.shardTimer != 0 {
		next = min(next, int64(l.shardTimer))
	}
	if l.deadline.Load() != next {
		l.deadline.Store(next)
		l.srv.timekeeper.changed(next)
	}
}

func (l *Loop) flushSessions() {
	for i := 0; i < len(l.unsent); i++ {
		s := l.unsent[i]
		s.unsent = false
		if !s.closed {
			s.transport.flush()
		}
	}
	clear(l.unsent)
	l.unsent = l.unsent[:0]
}

func (l *Loop) closeSessions() {
	for i := 0; i < len(l.closing); i++ {
		if s := l.closing[i]; !s.closed {
			s.transport.close()
		}
	}
	clear(l.closing)
	l.closing = l.closing[:0]
}

// evict drops payload that the shard's logs only cache, until a has room for n bytes.
func (l *Loop) evict(a *arena.Arena, n int) {
	if l.logs != nil {
		l.logs.Evict(a, n)
	}
}

// shedMemory asks every shard to drop cached payload, since buffers of this
// loop's arena are held by whichever shard owns their partition.
func (l *Loop) shedMemory(n int) {
	l.stats.arenaFull.Add(1)
	l.arena.Seal() // the chunk being filled can go when its last buffer does
	for _, o := range l.srv.loops {
		if o != l {
			o.force(message{kind: msgEvict, arena: l.arena, n: n})
		}
	}
	if l.shard != nil {
		l.shard.MakeRoom(n)
	}
}
