package sim

import (
	"errors"
	"fmt"

	"millrace/chaos/check"
	"millrace/chaos/sim/wire"
	"millrace/core"
	"millrace/shard"
)

// reader fetches one partition in a loop.
type reader struct {
	s    *Sim
	name string
	part part
	conn *conn
	next core.Offset
	// end is the high watermark last told.
	end      core.Offset
	stopped  bool
	onRead   func()          // after each successful poll
	onFailed func(err error) // after each error that is not cured by waiting
	maxBytes int
	waitMax  core.Tick
}

func (s *Sim) newReader(name string, p part, from core.Offset) *reader {
	r := &reader{s: s, name: name, part: p, conn: s.connect(), next: from,
		maxBytes: []int{1, 2000, 20_000, 200_000}[s.rng.IntN(4)], waitMax: s.between(1, 500*core.Millisecond)}
	s.readers = append(s.readers, r)
	return r
}

// poll fetches once and goes on.
func (r *reader) poll() {
	if r.stopped {
		return
	}
	s := r.s
	invoke := int64(s.now)
	f := &shard.Fetch{
		Parts: []shard.FetchPart{{
			Partition: r.part.id, Offset: r.next, MaxBytes: r.maxBytes, CurrentEpoch: -1, LastEpoch: -1, KnownHighWatermark: -1,
		}},
		MinBytes: 1 + s.rng.IntN(3000), MaxBytes: 1 << 20,
	}
	r.conn.send(r.part.id, r.waitMax+2*core.Second, func(p *shardProc) (shard.Request, error) {
		f.Deadline = p.n.clock() + r.waitMax
		return f, nil
	}, func(err error) {
		if err == nil {
			err = f.Err
		}
		if err == nil {
			err = f.Parts[0].Err
		}
		if err == nil {
			err = r.took(invoke, &f.Parts[0])
		}
		if err != nil {
			r.failed(err)
			return
		}
		if r.onRead != nil {
			r.onRead()
		}
		s.after(s.between(0, 20*core.Millisecond), r.poll)
	})
}

// took records what an answer held, and moves on.
func (r *reader) took(invoke int64, p *shard.FetchPart) error {
	s := r.s
	poll := &check.Poll{
		Span: check.Span{Invoke: invoke, Return: int64(s.now)}, Reader: r.name, Part: r.part.Part,
		From: int64(r.next), LogStart: int64(p.LogStart), End: int64(p.HighWatermark),
	}
	for _, buf := range p.Data.Bufs {
		for rest := buf.Bytes(); len(rest) > 0; {
			b, more, err := core.NextBatch(rest)
			if err == nil {
				rest = more
				err = r.batch(poll, b)
			}
			if err != nil {
				s.hist.Polls = append(s.hist.Polls, poll)
				s.fail(fmt.Errorf("%s read of %v from %d: %w", r.name, r.part.Part, r.next, err))
				return nil
			}
		}
	}
	s.stats.Polls++
	s.stats.Records += len(poll.Records)
	s.hist.Polls = append(s.hist.Polls, poll)
	r.end = p.HighWatermark
	if n := len(poll.Records); n > 0 {
		r.next = core.Offset(poll.Records[n-1].Offset) + 1
		s.trace("%s read %v [%d, %d) of [%d, %d)", r.name, r.part.Part, poll.From, r.next, p.LogStart, p.HighWatermark)
	}
	return nil
}

func (r *reader) batch(poll *check.Poll, b core.Batch) error {
	recs, err := wire.Parse(nil, b)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		if rec.Offset >= poll.From {
			poll.Records = append(poll.Records, rec)
		}
	}
	return nil
}

func (r *reader) failed(err error) {
	s := r.s
	switch {
	case errors.Is(err, core.ErrOffsetOutOfRange):
		s.stats.OutOfRange++
		r.seekToStart()
		return
	case errors.Is(err, core.ErrStorageFailed) && s.damageKnown():
		s.damaged(r.part, err)
		r.stopped = true
	case !retriable(err), isStorageFailed(err):
		s.fail(fmt.Errorf("%s read of %v from %d: %w", r.name, r.part.Part, r.next, err))
	case errors.Is(err, core.ErrUnknownPartition) && !s.exists(r.part):
		r.stopped = true
	}
	if r.stopped {
		if r.onFailed != nil {
			r.onFailed(err)
		}
		return
	}
	s.after(s.between(5*core.Millisecond, 100*core.Millisecond), r.poll)
}

// seekToStart asks for the log start and reads on from there.
func (r *reader) seekToStart() {
	s := r.s
	q := &shard.ListOffset{Partition: r.part.id, Timestamp: -2, CurrentEpoch: -1}
	r.conn.send(r.part.id, 2*core.Second, func(*shardProc) (shard.Request, error) { return q, nil }, func(err error) {
		if err == nil {
			err = q.Err
		}
		if err == nil {
			if q.Offset < r.next && r.next <= r.end {
				s.fail(fmt.Errorf("%s was refused offset %d of %v as out of range; the log starts at %d and its end was %d",
					r.name, r.next, r.part.Part, q.Offset, r.end))
			}
			r.next = q.Offset
			r.poll()
			return
		}
		if errors.Is(err, core.ErrOffsetOutOfRange) {
			err = fmt.Errorf("%w: log start", core.ErrTimedOut)
		}
		r.failed(err)
	})
}

// newTail follows a partition of the moment from its start or its end, and
// another one when that is gone.
func (s *Sim) newTail() {
	parts := s.parts()
	if len(parts) == 0 || s.ending {
		if !s.ending {
			s.after(s.between(20*core.Millisecond, 200*core.Millisecond), s.newTail)
		}
		return
	}
	p := parts[s.rng.IntN(len(parts))]
	r := s.newReader(fmt.Sprintf("consumer %d", len(s.readers)), p, 0)
	r.onFailed = func(error) { s.after(s.between(0, 300*core.Millisecond), s.newTail) }
	polls := 5 + s.rng.IntN(60)
	r.onRead = func() {
		if polls--; polls == 0 { // begin anew: old records come from segments
			r.stopped = true
			s.after(s.between(0, 300*core.Millisecond), s.newTail)
		}
	}
	r.poll()
}
