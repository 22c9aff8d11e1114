package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"millrace/chaos/check"
	"millrace/chaos/sim/wire"
	"millrace/core"
	"millrace/core/meta"
	"millrace/shard"
)

// part is a partition as clients name it: the topic's ID tells apart topics that
// had one name after the other.
type part struct {
	check.Part
	id    core.PartitionID
	topic string
}

// parts lists the partitions that clients can see now, internal topics left out.
func (s *Sim) parts() []part {
	var out []part
	if !s.up() {
		return nil
	}
	for _, t := range s.node.image.Topics() {
		if t.Internal {
			continue
		}
		for _, p := range t.Partitions {
			out = append(out, partOf(t, p))
		}
	}
	return out
}

func partOf(t *meta.Topic, p *meta.Partition) part {
	return part{check.Part{Topic: t.Name + "@" + t.ID.String()[:8], Num: p.Num}, p.ID, t.Name}
}

// exists says whether the partition is still in the metadata, as far as the node
// that is up can tell.
func (s *Sim) exists(p part) bool {
	if !s.up() {
		return true
	}
	_, ok := s.node.image.Locate(p.id)
	return ok
}

// lane is a producer's stream of batches to one partition.
type lane struct {
	s          *Sim
	id         int32 // check.Key.Producer
	part       part
	conn       *conn
	idempotent bool
	acks       int16
	inflight   int // batches on the way at most
	// careful: the second batch waits for the first one's acknowledgement, as
	// franz-go's does; others begin with a full window, as the Java client does.
	careful bool
	acked   bool
	big     bool
	pid     int64
	nextSeq int32
	nextKey int64

	window []*batch // made and not settled, in order
	// recovering: something failed; nothing new is sent until all that was on
	// the way has come back, and then everything is sent again in order.
	recovering bool
	lastErr    error
	pumpDue    bool
	done       bool
}

type batch struct {
	send    *check.Send
	bytes   []byte
	waiting bool // on the way
}

const attemptsMax = 60

var errNone = errors.New("acknowledged")

// newLane starts a producer on a partition of the moment.
func (s *Sim) newLane() {
	parts := s.parts()
	if len(parts) == 0 {
		if !s.ending {
			s.after(s.between(20*core.Millisecond, 200*core.Millisecond), s.newLane)
		}
		return
	}
	s.nextLane++
	l := &lane{
		s: s, id: s.nextLane, part: parts[s.rng.IntN(len(parts))], conn: s.connect(),
		idempotent: s.chance(0.6), acks: -1, inflight: 1 + s.rng.IntN(5), careful: s.chance(0.5), big: s.chance(0.4), pid: -1,
	}
	if !l.idempotent {
		l.acks = [...]int16{-1, -1, 1, 0}[s.rng.IntN(4)]
	}
	s.lanes = append(s.lanes, l)
	s.trace("producer %d writes %v (%d), acks %d, idempotent %v, %d in flight", l.id, l.part.Part, l.part.id, l.acks, l.idempotent, l.inflight)
	if l.idempotent {
		l.initProducer()
		return
	}
	l.pump()
}

// initProducer gets a producer ID as the handler of InitProducerId does, out of
// a block of the controller's.
func (l *lane) initProducer() {
	l.conn.command(core.MetadataPartition, meta.AllocateProducerIDs{}, 2*core.Second, func(reply any, err error) {
		if err != nil {
			if !l.s.ending {
				l.s.after(l.s.between(10*core.Millisecond, 100*core.Millisecond), l.initProducer)
			}
			return
		}
		block := reply.(meta.ProducerIDBlock)
		if l.s.pids[block.First] {
			l.s.fail(fmt.Errorf("producer ID %d was given out twice", block.First))
		}
		l.s.pids[block.First] = true
		l.pid = block.First
		l.pump()
	})
}

// pump makes and sends batches while the window has room.
func (l *lane) pump() {
	if l.recovering || l.done {
		return
	}
	if l.s.ending {
		l.done = len(l.window) == 0
		return
	}
	if l.mayMake() && !l.pumpDue {
		l.transmit(l.makeBatch())
		l.pumpDue = true
		l.s.after(l.pause(), func() {
			l.pumpDue = false
			l.pump()
		})
	}
}

// mayMake says whether a new batch may be sent. None is while one is retried: the
// broker recognises the newest five batches alone, so a client that let others
// pass a batch whose fate it does not know could not repeat that one.
func (l *lane) mayMake() bool {
	room := l.inflight
	if l.careful && !l.acked {
		room = 1
	}
	return len(l.window) < room && !slices.ContainsFunc(l.window, func(b *batch) bool { return b.send.Attempts > 1 })
}

// pause paces a lane, in bursts, so that all lanes together make about as many
// batches as the history is to have.
func (l *lane) pause() core.Tick {
	if l.s.chance(0.6) {
		return l.s.between(0, core.Millisecond)
	}
	mean := float64(l.s.p.duration) * float64(l.s.p.lanes) / float64(l.s.p.batches) / 0.4
	return core.Tick(l.s.rng.ExpFloat64() * mean)
}

func (l *lane) makeBatch() *batch {
	s := l.s
	sizes := make([]int, 1+s.rng.IntN(6))
	for i := range sizes {
		sizes[i] = s.rng.IntN(400)
		if l.big && s.chance(0.2) || s.p.kind == KindMemory && s.chance(0.1) {
			sizes[i] = s.rng.IntN(l.largest())
		}
	}
	bytes, sums := wire.Make(wire.Spec{
		First: check.Key{Producer: l.id, Seq: l.nextKey}, ValueBytes: sizes, Ms: s.now.Millis() - s.rng.Int64N(500),
		ProducerID: l.pid, BaseSequence: l.nextSeq,
	})
	b := &batch{bytes: bytes, send: &check.Send{
		Span: check.Span{Invoke: int64(s.now), Return: check.Never}, Part: l.part.Part, Producer: l.id, First: l.nextKey,
		Sums: sums, Idempotent: l.idempotent, Durable: l.acks == -1, Base: -1,
	}}
	l.nextKey += int64(len(sizes))
	l.nextSeq += int32(len(sizes))
	s.hist.Sends = append(s.hist.Sends, b.send)
	l.window = append(l.window, b)
	s.stats.Sent += len(sizes)
	return b
}

// largest bounds the size of a value.
func (l *lane) largest() int {
	if l.s.p.kind == KindMemory {
		return 100_000
	}
	return 30_000
}

func (l *lane) transmit(b *batch) {
	b.send.Attempts++
	b.waiting = true
	l.s.trace("producer %d sends records from %d, attempt %d", l.id, b.send.First, b.send.Attempts)
	var req *shard.Produce
	l.conn.send(l.part.id, l.patience(), func(p *shardProc) (shard.Request, error) {
		buf, err := p.allocPayload(b.bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", core.ErrOverloaded, err)
		}
		req = &shard.Produce{Partition: l.part.id, Records: buf, Acks: l.acks}
		return req, nil
	}, func(err error) {
		if err == nil {
			err = req.Err
		}
		l.reply(b, req, err)
	})
}

// patience is how long a request waits for its answer: until the client's timeout,
// or until its connection breaks.
func (l *lane) patience() core.Tick {
	if !l.s.ending && l.s.chance(l.s.p.connLoss) {
		l.s.stats.ConnsLost++
		return l.s.between(0, 20*core.Millisecond)
	}
	return l.s.between(300*core.Millisecond, 2*core.Second)
}

func (l *lane) reply(b *batch, req *shard.Produce, err error) {
	s := l.s
	b.waiting = false
	l.lastErr = err
	s.trace("producer %d, records from %d: %v", l.id, b.send.First, cmp.Or(err, errNone))
	switch {
	case err == nil && l.acks == 0:
		// No promise: it may have happened.
		l.settle(b)
	case err == nil:
		b.send.Outcome, b.send.Return, b.send.Base = check.Acked, int64(s.now), int64(req.BaseOffset)
		l.acked = true
		s.stats.Acked += len(b.send.Sums)
		l.settle(b)
	case errors.Is(err, core.ErrDuplicateSeq):
		// It was appended by an earlier attempt, so long ago that its offset is
		// forgotten.
		b.send.Outcome, b.send.Return = check.Acked, int64(s.now)
		l.acked = true
		l.settle(b)
	case errors.Is(err, core.ErrOutOfOrderSeq) && b != l.window[0], // one before it failed
		retriable(err) && b.send.Attempts < attemptsMax && s.exists(l.part):
		s.stats.Retried++
		l.recovering = true
	default:
		l.refused(b, err)
		return
	}
	l.resume()
}

func retriable(err error) bool {
	for _, e := range []error{errDown, errTimeout, errLost, core.ErrNotLeader, core.ErrNoLeader, core.ErrUnknownPartition,
		core.ErrStorageFull, core.ErrStorageFailed, core.ErrOverloaded, core.ErrTimedOut, core.ErrShuttingDown} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// refused ends the lane: the batch will not be sent again. If no earlier attempt
// could have been appended, and the error says that this one was not, it must
// never be seen.
func (l *lane) refused(b *batch, err error) {
	s := l.s
	s.trace("producer %d gives up at record %d: %v", l.id, b.send.First, err)
	s.stats.Refused++
	definite := !retriable(err) && b.send.Attempts == 1
	if definite {
		b.send.Outcome, b.send.Return = check.Failed, int64(s.now)
	}
	// A producer that the partition does not know yet may begin anywhere, as in
	// Kafka 4.4: where the second batch in flight is taken though the first was
	// refused, the first comes too late.
	if errors.Is(err, core.ErrOutOfOrderSeq) && (b.send.First > 0 || l.careful) || errors.Is(err, core.ErrFencedProducer) || errors.Is(err, core.ErrUnknownProducer) ||
		errors.Is(err, core.ErrInvalidRecord) || errors.Is(err, core.ErrCorruptBatch) {
		s.fail(fmt.Errorf("producer %d of %v, sequence from %d: %w", l.id, l.part.Part, l.nextSeq, err))
	}
	l.done = true
	if !s.ending && len(s.lanes) < 40 {
		s.after(s.between(0, 200*core.Millisecond), s.newLane)
	}
}

// settle takes a batch out of the window.
func (l *lane) settle(b *batch) {
	l.window = slices.DeleteFunc(l.window, func(o *batch) bool { return o == b })
}

// resume sends everything that is left again, in order, once nothing is on the
// way any more.
func (l *lane) resume() {
	if l.done {
		return
	}
	if !l.recovering {
		l.pump()
		return
	}
	if slices.ContainsFunc(l.window, func(b *batch) bool { return b.waiting }) {
		return
	}
	l.s.after(l.s.between(5*core.Millisecond, 150*core.Millisecond), func() {
		if l.done || !l.recovering || slices.ContainsFunc(l.window, func(b *batch) bool { return b.waiting }) {
			return
		}
		l.recovering = false
		l.conn = l.s.connect()
		for _, b := range slices.Clone(l.window) {
			l.transmit(b)
		}
		l.pump()
	})
}
