package shard

import (
	"bytes"
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/core/mutant"
	"millrace/core/records"
	"millrace/raftlog"
)

const (
	// hostReadBytes is the piece in which a state machine's log is replayed, and
	// hostTurnBytes how much of it one turn replays.
	hostReadBytes = 1 << 20
	hostTurnBytes = 4 << 20
	// hostRetry is when a replay that found no memory tries again.
	hostRetry = 50 * core.Millisecond
	// A replay that cannot read the log tries again after hostReadRetry, because a
	// failed read may pass; after hostReadTriesMax in a row the partition is broken.
	hostReadRetry    = 200 * core.Millisecond
	hostReadTriesMax = 10
	// logSizeEvery is how many bytes are appended between two calls of LogSize.
	logSizeEvery = 256 << 10
)

// host runs the state machine of a partition.
//
// On the leader records are replayed when they are appended, and what depends
// on them waits in queue, in order: a reply never overtakes one that was decided
// before it. On followers, and after a restart, records are replayed from the
// log as far as they are committed.
type host struct {
	p        *partition
	m        StateMachine
	out      core.Output
	replayed core.Offset // what is below has been replayed
	led      bool        // Lead has been called in this term
	reading  bool        // a job reads the log
	tries    int         // reads that have failed in a row
	retryAt  core.Tick   // no read before
	queue    []hostItem
	timer    timer
	// sizedAt is the partition's committedBytes at the last LogSize.
	sizedAt uint64
	scratch []core.Record
}

// hostItem is what leaves once everything up to index is committed.
type hostItem struct {
	index   core.Index
	replies []*core.Command
	image   *meta.Image
	trim    core.Offset
}

// coordinate hands a command to the state machine of a partition.
func (s *Shard) coordinate(r *Coordinate) {
	r.Command.Owner = r
	p, err := s.find(r.Partition)
	switch {
	case err != nil:
	case p.host == nil:
		err = fmt.Errorf("%w: %s has no coordinator", core.ErrNotCoordinator, p.name())
	case s.stopping:
		err = core.ErrShuttingDown
	case !p.leading:
		err = fmt.Errorf("%w: %s is led by node %d", core.ErrNotCoordinator, p.name(), p.leader)
	case !p.host.led:
		err = fmt.Errorf("%w: %s, %d of %d records read", core.ErrCoordinatorLoad, p.name(), p.host.replayed, p.high)
	}
	if err != nil {
		s.failCommand(&r.Command, err)
		return
	}
	p.host.m.Handle(s.now, &r.Command, &p.host.out)
	s.hostOutput(p.host)
}

func (s *Shard) failCommand(c *core.Command, err error) {
	c.Err = err
	s.fail(c.Owner.(*Coordinate), err)
}

func (s *Shard) replyCommands(cs []*core.Command) {
	for _, c := range cs {
		s.done(c.Owner.(*Coordinate))
	}
}

// hostOutput carries out what a call of the machine asks for: its records are
// appended and replayed, the rest waits for the commit, save for Output.Replies. Where
// records find no memory, those behind them are not appended either, though they may be
// smaller: the reply to a command of many Writes goes with the last of them.
func (s *Shard) hostOutput(h *host) {
	s.replyCommands(h.out.Replies)
	var err error
	for i := range h.out.Writes {
		w := &h.out.Writes[i]
		if len(w.Records) > 0 {
			if err == nil {
				err = s.hostAppend(h, w.Records)
			}
			if err != nil {
				for _, c := range w.Replies {
					s.failCommand(c, err)
				}
				h.m.Failed(s.now, w.Cookie, err)
				continue
			}
		}
		s.hostDefer(h, hostItem{replies: w.Replies})
	}
	if im, ok := h.out.Image.(*meta.Image); ok && err == nil {
		s.hostDefer(h, hostItem{image: im})
	}
	if h.out.TrimBelow > 0 && err == nil {
		s.hostDefer(h, hostItem{trim: h.out.TrimBelow})
	}
	h.out.Reset()
	s.hostTimer(h)
}

// hostAppend appends one atomic group of records as one batch and replays it.
func (s *Shard) hostAppend(h *host, rs []core.Record) error {
	p := h.p
	if !p.serving {
		return fmt.Errorf("%w: %s", core.ErrNotCoordinator, p.name())
	}
	buf, err := s.alloc(records.Size(rs))
	if err != nil {
		return err
	}
	b := records.Encode(buf.Bytes(), rs, s.now.Millis())
	e := entry{kind: raftlog.EntryBatch, bytes: int32(len(b)), producerID: -1, base: p.log.NextOffset()}
	e.last = e.base + core.Offset(b.LastOffsetDelta())
	e.seq = sequence{base: e.base, lastOffset: e.last, maxMs: b.MaxTimestamp()}
	b.SetBase(e.base, int32(p.term))
	if _, err := s.propose(p, e, buf); err != nil {
		buf.Release()
		return err
	}
	if h.replayed != e.base {
		panic(fmt.Sprintf("BUG: %s: offset %d appended with %d replayed", p.name(), e.base, h.replayed))
	}
	h.m.Replay(e.base, rs)
	h.replayed = e.last + 1
	return nil
}

// alloc takes arena memory, evicting what is cached when there is none. Errors:
// core.ErrOverloaded.
func (s *Shard) alloc(n int) (arena.Buf, error) {
	buf, err := s.opts.Arena.Alloc(n)
	if errors.Is(err, arena.ErrFull) && s.MakeRoom(n) {
		buf, err = s.opts.Arena.Alloc(n)
	}
	if err != nil {
		s.stats.Refused++
		return buf, fmt.Errorf("%w: %d bytes for a coordinator's records: %v", core.ErrOverloaded, n, err)
	}
	return buf, nil
}

// hostDefer queues an item behind everything appended so far.
func (s *Shard) hostDefer(h *host, item hostItem) {
	item.index = h.p.log.LastIndex()
	if mutant.On(mutant.OffsetReplyEarly) && h.p.topic != nil {
		s.replyCommands(item.replies)
		item.replies = nil
	}
	if len(h.queue) == 0 && item.index <= h.p.applied {
		s.hostRelease(h, &item)
		return
	}
	h.queue = append(h.queue, item)
}

// hostRelease lets an item out whose index is committed.
func (s *Shard) hostRelease(h *host, item *hostItem) {
	s.replyCommands(item.replies)
	if item.image != nil {
		s.out.Image = item.image
	}
	if p := h.p; item.trim > p.log.LogStart() && p.serving {
		if err := s.proposeStart(p, min(item.trim, p.high), nil); err != nil {
			s.opts.Logf("trimming %s to %d is put off: %v", p.name(), item.trim, err)
		}
	}
}

// hostCommitted goes on after the partition's commit has moved.
func (s *Shard) hostCommitted(p *partition) {
	h := p.host
	n := 0
	for n < len(h.queue) && h.queue[n].index <= p.applied {
		s.hostRelease(h, &h.queue[n])
		n++
	}
	if n > 0 {
		rest := copy(h.queue, h.queue[n:])
		clear(h.queue[rest:])
		h.queue = h.queue[:rest]
	}
	if !h.led {
		s.hostLoad(h)
		return
	}
	if p.committedBytes-h.sizedAt >= logSizeEvery {
		s.hostSize(h)
	}
}

// hostSize tells the machine how much its log holds; it answers in its next
// Output.
func (s *Shard) hostSize(h *host) {
	h.sizedAt = h.p.committedBytes
	h.m.LogSize(h.p.log.LogStart(), h.p.log.NextOffset(), h.p.log.SizeBytes())
}

// hostLoad replays what is committed and not replayed yet. A serving leader
// leads its machine when nothing is left.
func (s *Shard) hostLoad(h *host) {
	p := h.p
	for read := 0; !h.led && !h.reading && p.broken == nil && !s.stopping && s.now >= h.retryAt; {
		h.replayed = max(h.replayed, p.log.LogStart())
		if h.replayed >= p.high {
			if p.serving {
				s.hostLead(h)
			}
			return
		}
		if read >= hostTurnBytes {
			s.timers.set(&h.timer, h, s.now) // others first
			return
		}
		res, job, err := s.read(p, h.replayed, p.high, hostReadBytes, true)
		switch {
		case errors.Is(err, errNoRoom):
			s.timers.set(&h.timer, h, s.now+hostRetry)
			return
		case err != nil:
			s.breakPartition(p, err)
			return
		case job != nil:
			job.Owner, h.reading = h, true
			s.startJob(job)
			return
		}
		read += res.Bytes
		s.hostReplay(h, res)
	}
}

// onHostJob replays what a job has read.
func (s *Shard) onHostJob(h *host, job *raftlog.Job) {
	h.reading = false
	switch {
	case h.p.gone:
		releaseAll(job.Read.Bufs)
	case errors.Is(job.Err, core.ErrOffsetOutOfRange):
		s.hostLoad(h) // the log start has moved meanwhile
	case job.Err != nil:
		if h.tries++; h.tries >= hostReadTriesMax || h.p.log.Damaged() != nil {
			s.breakPartition(h.p, job.Err)
			return
		}
		s.opts.Logf("%s cannot be read and is tried again: %v", h.p.name(), job.Err)
		h.retryAt = s.now + hostReadRetry
		s.timers.set(&h.timer, h, h.retryAt)
	default:
		h.tries = 0
		s.hostReplay(h, job.Read)
		s.hostLoad(h)
	}
}

// hostReplay gives whole batches to the machine, in memory of their own: the
// machine may keep what it is given.
func (s *Shard) hostReplay(h *host, res raftlog.ReadResult) {
	err := eachBatch(res, func(b core.Batch, _ arena.Buf) error {
		if b.IsControl() || b.LastOffset() < h.replayed {
			return nil
		}
		last := b.LastOffset()
		if err := s.replayBatch(h, bytes.Clone(b)); err != nil {
			return err
		}
		h.replayed = last + 1
		return nil
	})
	releaseAll(res.Bufs)
	if err != nil {
		s.breakPartition(h.p, err)
	}
}

func (s *Shard) replayBatch(h *host, b core.Batch) error {
	if b.BaseOffset() < h.replayed {
		// A job's read from before a Reset, or a log start inside a batch: the
		// whole batch is replayed, which is what the machine once decided.
		h.replayed = b.BaseOffset()
	}
	h.scratch = h.scratch[:0]
	err := records.Each(b, len(b)*64+(1<<20), func(r records.Record) bool {
		h.scratch = append(h.scratch, core.Record{Key: r.Key, Value: r.Value})
		return true
	})
	if err != nil {
		return fmt.Errorf("coordinator records at offset %d: %w", b.BaseOffset(), err)
	}
	h.m.Replay(b.BaseOffset(), h.scratch)
	clear(h.scratch)
	return nil
}

// hostServes is called when this node begins to serve the partition.
func (s *Shard) hostServes(p *partition) { s.hostLoad(p.host) }

func (s *Shard) hostLead(h *host) {
	h.led = true
	s.hostSize(h)
	h.m.Lead(s.now, h.p.term, &h.out)
	s.hostOutput(h)
}

// hostResigns answers who waits for the machine, and starts it anew from the
// log: what it decided last may never be committed.
func (s *Shard) hostResigns(p *partition, err error) {
	h := p.host
	err = fmt.Errorf("%w: %v", core.ErrNotCoordinator, err)
	for i := range h.queue {
		for _, c := range h.queue[i].replies {
			s.failCommand(c, err)
		}
	}
	clear(h.queue)
	h.queue = h.queue[:0]
	if !h.led {
		return
	}
	h.led = false
	h.m.Resign(s.now, &h.out)
	s.replyCommands(h.out.Replies)
	for i := range h.out.Writes {
		w := &h.out.Writes[i]
		if len(w.Records) > 0 {
			h.m.Failed(s.now, w.Cookie, err)
		}
		s.replyCommands(w.Replies)
	}
	h.out.Reset()
	h.m.Reset()
	h.replayed = p.log.LogStart()
	s.timers.set(&h.timer, h, s.now)
}

// hostTimer follows the machine's deadline.
func (s *Shard) hostTimer(h *host) {
	if d := h.m.Deadline(); d > 0 && h.led {
		if !h.timer.armed() || h.timer.at != d {
			s.timers.set(&h.timer, h, d)
		}
		return
	}
	s.timers.stop(&h.timer)
}

// onTimer is the machine's deadline, or time to go on with a replay.
func (h *host) onTimer(s *Shard, now core.Tick) {
	switch {
	case h.p.gone || h.p.broken != nil:
	case !h.led:
		s.hostLoad(h)
	default:
		h.m.Timer(now, &h.out)
		s.hostOutput(h)
	}
}
