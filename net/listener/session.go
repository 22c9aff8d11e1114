package listener

import (
	"encoding/binary"
	"fmt"
	"math"

	"millrace/core"
	"millrace/core/arena"
	"millrace/net/kafka"
)

// transport is what differs between plaintext and TLS connections.
type transport interface {
	// flush starts sending what is in session.out.
	flush()
	// pause stops the reading of the socket, resume starts it again and hands
	// over what was read before the pause.
	pause()
	resume()
	// close ends the connection; session.ended is called from it or later.
	close()
	// written grows with what the client takes, also before sent hears of it.
	written() int64
	// atHand says whether n bytes more can be read without waiting for the client.
	atHand(n int) bool
}

// source gives out bytes that were read; 0 when there are none at hand.
type source interface{ Read(p []byte) (int, error) }

// pauseReason says why a connection's next request is not read.
type pauseReason uint8

const (
	notPaused     pauseReason = iota
	pauseInflight             // too many requests or request bytes of this connection
	pauseSlow                 // too many reply bytes wait for this client
	pauseBudget               // the shard's or the node's request bytes are used up
	pauseArena                // no payload memory
	pauseBusy                 // another shard's inbox is full
	pauseStop                 // the broker is stopping
	pauseTurn                 // others have been served enough in this round
	pauseReasons
)

var pauseNames = [pauseReasons]string{"none", "inflight", "slow_reader", "budget", "memory", "busy_shard", "stopping", "turn"}

const preludeBytes = 8 // length, API key, version

// session is one client connection over either transport: framing, order of
// replies and limits. It implements kafka.Conn and is owned by its loop.
//
// A request's payload is kept only with a ticket, which reserves its bytes from
// the connection's, the shard's and the node's limit. Without one the socket is
// not read: the bytes stay with the kernel and the client's window closes.
type session struct {
	// Immutable.
	loop      *Loop
	transport transport
	info      kafka.ConnInfo

	// The frame being read.
	prelude     [preludeBytes]byte
	preludeHave int
	size        int // of the frame, once the length is known
	lastSize    int // of the frame before it
	lastHead    int // heap bytes of the last answer
	hasTicket   bool
	overtook    bool      // the ticket is of loop.overtaking
	buf         arena.Buf // of a Produce frame
	frame       []byte    // what has come of the frame
	ticketSince core.Tick // when it got its ticket

	// The order of replies.
	slots         slotRing
	inflightBytes int64
	expectedBytes int64

	// What is to be sent.
	out       []piece
	outBytes  int64 // of out and of replies that wait for earlier ones
	headBytes int64 // of these, bytes of the heap
	// When the client last took bytes, or was first to take any; exact when
	// dropUnread has looked at what is written.
	unreadSince core.Tick
	written     int64

	paused     pauseReason
	queued     bool // in loop.waiting
	unsent     bool // in loop.unsent
	recheck    bool // in loop.waiting.recheck
	closed     bool
	closing    bool
	lastActive core.Tick
}

// piece is bytes to be sent; bufs are released once they are.
type piece struct {
	b    []byte
	head int // of these, bytes of the heap that loop.replies counts
	bufs []arena.Buf
}

// Info implements kafka.Conn.
func (s *session) Info() *kafka.ConnInfo { return &s.info }

// pump reads frames from src and serves them, until src is empty or the
// connection may not go on.
func (s *session) pump(src source) {
	for s.paused == notPaused && !s.closing {
		if s.preludeHave < preludeBytes {
			if !s.readPrelude(src) {
				return
			}
		}
		if !s.hasTicket {
			if reason := s.admit(); reason != notPaused {
				s.pause(reason)
				return
			}
		}
		if !s.readFrame(src) {
			return
		}
		s.serve()
	}
}

// turnBytesMax bounds what a loop serves between two looks at its sockets and its
// inbox, in heap bytes of requests and of their answers, which is about the time that
// they take. Beyond it requests wait for their turn, in order, but for those of the
// data path, which are cheap in this respect: readers of all metadata must not keep
// producers and consumers waiting. One that is as large by itself is not cheap, nor is
// what a connection sends whose last answer was; clients without fetch sessions name a
// thousand partitions in less.
const (
	turnBytesMax  = 64 << 10
	cheapBytesMax = turnBytesMax
)

// waitsForTurn says whether the frame whose prelude was read is to wait.
func (s *session) waitsForTurn() bool {
	if s.loop.turnBytes < turnBytesMax {
		return false
	}
	const produce, fetch, heartbeat = 0, 1, 12
	switch binary.BigEndian.Uint16(s.prelude[4:]) {
	case produce:
		return s.lastHead > cheapBytesMax
	case fetch, heartbeat:
		return s.lastHead > cheapBytesMax || s.size > cheapBytesMax
	}
	return true
}

// readPrelude reads the length, checks it, and reads the API key and version.
func (s *session) readPrelude(src source) bool {
	for s.preludeHave < preludeBytes {
		end := 4
		if s.preludeHave >= 4 {
			end = preludeBytes
		}
		n, _ := src.Read(s.prelude[s.preludeHave:end])
		if n == 0 {
			return false
		}
		s.preludeHave += n
		s.lastActive = s.loop.now
		if s.preludeHave == 4 {
			size := int32(binary.BigEndian.Uint32(s.prelude[:]))
			if size < preludeBytes || size > s.loop.srv.opts.RequestBytesMax {
				s.Close(badLength(s.prelude[:4], size, s.loop.srv.opts.RequestBytesMax))
				return false
			}
			s.size = int(size)
		}
	}
	if key := binary.BigEndian.Uint16(s.prelude[4:]); s.size > bytesMax(key) {
		s.Close(fmt.Sprintf("a request of %d bytes with API key %d: such may have %d", s.size, key, bytesMax(key)))
		return false
	}
	return true
}

// Every request but Produce has a bound of its own. What they hold grows up to
// thirtyfold when it is decoded, and keeps a loop for as long as that takes: those
// that may bring bytes of clients, or the state of many partitions, have more.
const (
	otherBytesMax = 2 << 20
	stateBytesMax = 8 << 20
)

// bytesMax bounds a request by its API key; Produce has the node's bound.
func bytesMax(key uint16) int {
	const produce, fetch, offsetCommit, joinGroup, syncGroup = 0, 1, 8, 11, 14
	switch key {
	case produce:
		return math.MaxInt
	case fetch, offsetCommit, joinGroup, syncGroup:
		return stateBytesMax
	}
	return otherBytesMax
}

// badLength explains a length prefix that cannot be, with the usual causes.
func badLength(b []byte, size, limit int32) string {
	switch {
	case b[0] == 0x16 && b[1] == 0x03:
		return "TLS was spoken to a plaintext listener"
	case string(b) == "GET " || string(b) == "POST" || string(b) == "HEAD":
		return "HTTP was spoken to a Kafka listener"
	default:
		return fmt.Sprintf("a request length of %d bytes is outside [%d, %d] (socket.request.max.bytes)", size, preludeBytes, limit)
	}
}

// admit takes a ticket and memory for the frame whose prelude was read.
func (s *session) admit() pauseReason {
	l, o := s.loop, &s.loop.srv.opts
	switch {
	case l.srv.stopping.Load():
		return pauseStop
	case s.waitsForTurn():
		return pauseTurn
	case !s.ownRoom(o.InflightMax):
		if s.outBytes+s.expectedBytes > o.ConnOutBytesMax {
			return pauseSlow
		}
		return pauseInflight
	case l.outboxed > 0:
		return pauseBusy
	case l.replies.full() && s.headBytes > 0:
		return pauseSlow
	case s.inPayload() && !s.mayArrive():
		return pauseArena
	case !l.waiting.ahead() && l.budget.Reserve(int64(s.size)):
		s.overtook = false
	case s.mayOvertake() && l.overtaking.Reserve(int64(s.size)):
		s.overtook = true
	default:
		return pauseBudget
	}
	if !s.allocate() {
		l.undo(int64(s.size), s.overtook)
		return pauseArena
	}
	s.hasTicket, s.ticketSince = true, l.now
	s.frame = append(s.frame, s.prelude[4:]...)
	return notPaused
}

// inPayload says whether the frame is kept in payload memory.
func (s *session) inPayload() bool {
	const produce = 0
	return binary.BigEndian.Uint16(s.prelude[4:]) == produce && int64(s.size) <= s.loop.arena.LimitBytes()/4
}

// mayArrive says whether there is payload memory for a frame to wait in: those that
// have not come yet may hold half of it.
func (s *session) mayArrive() bool {
	l := s.loop
	return l.arriving == 0 || l.arriving+arena.CostBytes(s.size) <= l.arena.LimitBytes()/2 || s.transport.atHand(s.size-4)
}

// allocate takes memory for the frame.
func (s *session) allocate() bool {
	l := s.loop
	if !s.inPayload() {
		s.frame = make([]byte, 0, min(s.size, frameStepBytes))
		return true
	}
	buf, err := l.arena.Alloc(s.size)
	if err != nil {
		l.shedMemory(s.size)
		if buf, err = l.arena.Alloc(s.size); err != nil {
			l.waiting.refused = true
			return false
		}
	}
	s.buf, s.frame = buf, buf.Bytes()[:0]
	l.arriving += arena.CostBytes(s.size)
	return true
}

// frameStepBytes is what a frame in ordinary memory is given at once, so that a
// client that only claims to send much does not make the broker allocate it.
const frameStepBytes = 64 << 10

// ownRoom says whether this connection's own limits let it send another request.
func (s *session) ownRoom(inflightMax int) bool {
	o := &s.loop.srv.opts
	n := s.slots.len()
	return n < inflightMax &&
		(n == 0 || s.inflightBytes+int64(s.size) <= o.ConnBytesMax) &&
		s.outBytes+s.expectedBytes <= o.ConnOutBytesMax
}

// nextFrameBytes is what a frame of which all that it has room for has come is given:
// eight times as much, and where that is much all of it, which its ticket has reserved.
// Doubling copied and cleared a frame of 8 MB twice.
func (s *session) nextFrameBytes() int {
	if cap(s.frame) >= 8*frameStepBytes {
		return s.size
	}
	return min(s.size, 8*cap(s.frame))
}

func (s *session) readFrame(src source) bool {
	for len(s.frame) < s.size {
		if len(s.frame) == cap(s.frame) {
			grown := make([]byte, len(s.frame), s.nextFrameBytes())
			copy(grown, s.frame)
			s.frame = grown
		}
		n, _ := src.Read(s.frame[len(s.frame):min(cap(s.frame), s.size)])
		if n == 0 {
			return false
		}
		s.frame = s.frame[:len(s.frame)+n]
		s.lastActive = s.loop.now
	}
	return true
}

// serve hands the complete frame to the handler.
func (s *session) serve() {
	f := kafka.Frame{Bytes: s.frame, Buf: s.buf, Place: s.slots.add(slot{ticketBytes: int64(s.size), overtook: s.overtook})}
	s.inflightBytes += int64(s.size)
	s.loop.stats.requests.Add(1)
	s.loop.stats.bytesIn.Add(uint64(s.size) + 4)
	if s.buf.Len() == 0 {
		s.loop.turnBytes += s.size
	}
	s.dropFrame()
	s.loop.worker.Serve(s, f)
}

func (s *session) dropFrame() {
	if s.buf.Len() > 0 {
		s.loop.arriving -= arena.CostBytes(s.size)
	}
	s.lastSize = s.size
	s.preludeHave, s.size, s.hasTicket = 0, 0, false
	s.buf, s.frame = arena.Buf{}, nil
}

func (s *session) pause(reason pauseReason) {
	s.paused = reason
	s.loop.stats.paused[reason].Add(1)
	s.transport.pause()
	switch reason {
	case pauseTurn:
		s.loop.waiting.turns = append(s.loop.waiting.turns, s)
		s.loop.turnLater()
	case pauseBudget, pauseArena, pauseBusy:
		s.loop.waiting.add(s)
		s.loop.arm() // the end of a turn is where this loop says that it starves
		if reason == pauseArena {
			s.loop.retryLater()
		}
		if reason != pauseBusy {
			s.loop.watchSlow()
		}
	}
}

// unpause reads on.
func (s *session) unpause() {
	s.paused = notPaused
	s.transport.resume()
}

// Expect implements kafka.Conn.
func (s *session) Expect(place uint64, n int) {
	if sl := s.slots.at(place); sl != nil && !s.closed {
		s.expectedBytes += int64(n) - sl.expectedBytes
		sl.expectedBytes = int64(n)
	}
}

// Reply implements kafka.Conn.
func (s *session) Reply(place uint64, r kafka.Reply) {
	if s.closed {
		releaseAll(r.Bufs)
		return
	}
	sl := s.slots.at(place)
	if sl == nil || sl.filled {
		panic("BUG: a reply to a place that does not wait for one")
	}
	sl.filled, sl.reply = true, r
	s.giveBack(sl)
	s.outBytes += int64(r.Len())
	s.loop.turnBytes += len(r.Head)
	s.lastHead = len(r.Head)
	s.countHead(len(r.Head))
	for {
		sl := s.slots.first()
		if sl == nil || !sl.filled {
			break
		}
		s.enqueue(sl.reply)
		s.slots.drop()
	}
	s.roomMade()
}

// giveBack returns a slot's reservations.
func (s *session) giveBack(sl *slot) {
	s.expectedBytes -= sl.expectedBytes
	sl.expectedBytes = 0
	s.giveTicketBack(sl)
}

func (s *session) giveTicketBack(sl *slot) {
	s.inflightBytes -= sl.ticketBytes
	s.loop.release(sl.ticketBytes, sl.overtook)
	sl.ticketBytes = 0
}

// Parked implements kafka.Conn.
func (s *session) Parked(place uint64, by kafka.Waiter) {
	if sl := s.slots.at(place); sl != nil && !s.closed {
		sl.waiter = by
		s.giveTicketBack(sl)
		s.roomMade()
	}
}

// countHead counts n bytes of replies in the heap that the client has not taken.
func (s *session) countHead(n int) {
	s.headBytes += int64(n)
	s.loop.replies.bytes += int64(n)
	s.loop.stats.replyBytes.Store(s.loop.replies.bytes)
	if s.loop.replies.full() {
		s.loop.unreadSoon()
	}
}

// enqueue appends a reply to what is to be sent.
func (s *session) enqueue(r kafka.Reply) {
	if len(r.Head) == 0 {
		releaseAll(r.Bufs)
		return
	}
	if len(s.out) == 0 {
		s.unreadSince = s.loop.now
	}
	s.out = append(s.out, piece{b: r.Head, head: len(r.Head)})
	for _, t := range r.Tail {
		if len(t) > 0 {
			s.out = append(s.out, piece{b: t})
		}
	}
	s.out[len(s.out)-1].bufs = r.Bufs
	if !s.unsent {
		s.unsent = true
		s.loop.unsent = append(s.loop.unsent, s)
		s.loop.arm()
	}
}

// sent notes that n bytes of out have left.
func (s *session) sent(n int) {
	s.outBytes -= int64(n)
	s.loop.stats.bytesOut.Add(uint64(n))
	s.lastActive, s.unreadSince = s.loop.now, s.loop.now
	i := 0
	for ; i < len(s.out) && n >= len(s.out[i].b); i++ {
		n -= len(s.out[i].b)
		s.countHead(-s.out[i].head)
		releaseAll(s.out[i].bufs)
	}
	rest := s.out[i:]
	if n > 0 {
		rest[0].b = rest[0].b[n:]
	}
	if i > 0 {
		s.out = append(s.out[:0], rest...)
		clear(s.out[len(s.out):][:i])
	}
	s.roomMade()
}

// roomMade asks for a look at a pause that this connection's own limits caused.
func (s *session) roomMade() {
	if (s.paused == pauseInflight || s.paused == pauseSlow) && !s.recheck && s.ownRoom(s.loop.srv.opts.InflightMax/2+1) {
		s.recheck = true
		s.loop.waiting.recheck = append(s.loop.waiting.recheck, s)
		s.loop.arm()
	}
}

// Close implements kafka.Conn.
func (s *session) Close(reason string) {
	if s.closing || s.closed {
		return
	}
	s.closing = true
	s.loop.srv.complain(s, reason)
	s.loop.closing = append(s.loop.closing, s)
	s.loop.arm()
}

// ended forgets the connection after its socket was closed.
func (s *session) ended() {
	if s.closed {
		return
	}
	s.closed, s.closing = true, true
	if s.hasTicket {
		s.loop.release(int64(s.size), s.overtook)
		s.buf.Release()
	}
	s.dropFrame()
	s.countHead(-int(s.headBytes))
	for sl := s.slots.first(); sl != nil; sl = s.slots.first() {
		s.giveBack(sl)
		releaseAll(sl.reply.Bufs)
		if sl.waiter != nil && !sl.filled {
			sl.waiter.Gone()
		}
		s.slots.drop()
	}
	for i := range s.out {
		releaseAll(s.out[i].bufs)
	}
	s.out = nil
	s.loop.waiting.remove(s)
	delete(s.loop.sessions, s)
	s.loop.stats.connections.Add(-1)
	s.loop.stats.closed.Add(1)
	s.loop.srv.left(s.info.Host)
}

func releaseAll(bufs []arena.Buf) {
	for _, b := range bufs {
		b.Release()
	}
}
