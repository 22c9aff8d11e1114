package shard

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/mutant"
	"millrace/raftlog"
)

// fetchState is where a Fetch stands.
type fetchState uint8

const (
	fetchIdle    fetchState = iota
	fetchWaiting            // for MinBytes; in the waits of its partitions
	fetchReading            // jobs read history
	fetchParked             // for a job slot or for memory
)

// fetchWait is what the shard keeps of a Fetch that is not answered yet.
type fetchWait struct {
	r     *Fetch
	state fetchState
	woken bool // in Shard.woken
	// have counts the bytes readable now, for all parts.
	have  int
	pos   []int32 // place of part i in its partition's waits, -1: none
	jobs  int
	timer timer
}

// waitRef is one part of a Fetch in its partition's list.
type waitRef struct {
	w    *fetchWait
	part int32
}

// readJob is the owner of a job that reads for a Fetch.
type readJob struct {
	w        *fetchWait
	part     int
	maxBytes int
	minOne   bool
}

// fetch answers a Fetch, or lets it wait for MinBytes or its deadline.
func (s *Shard) fetch(r *Fetch) {
	r.own = fetchWait{r: r, pos: r.own.pos} // nothing names that of an earlier round any more
	r.wait = &r.own
	s.tryFetch(r.wait, s.stopping)
}

// tryFetch reads all parts. With final set the answer leaves with what there
// is; otherwise it leaves when there are MinBytes, or anything that the client
// must hear of at once.
func (s *Shard) tryFetch(w *fetchWait, final bool) {
	r := w.r
	left := min(r.MaxBytes, int(s.opts.Arena.LimitBytes()/fetchArenaShare))
	total, atOnce, starved := 0, false, false
	r.Have = 0
	for i := range r.Parts {
		part := &r.Parts[i]
		p := s.openPart(part)
		if part.Err != nil || part.Diverging != nil {
			atOnce = true
			continue
		}
		if part.Offset >= p.readable() || starved || left <= 0 && total > 0 {
			continue
		}
		n, err := s.readPart(w, i, p, left, total == 0)
		switch {
		case errors.Is(err, errNoRoom):
			starved = true // the parts keep their order: none is read in its place
		case err != nil:
			part.Err, atOnce = err, true
		}
		if r.Have += n; err == nil && part.Data.Next < p.readable() {
			r.Have += max(min(part.MaxBytes, left)-n, 0) // the next batch did not fit
		}
		left, total = left-n, total+n
	}
	r.AtOnce = atOnce || w.jobs > 0 || s.stopping || r.Deadline <= s.now
	switch {
	case w.jobs > 0:
		w.state = fetchReading // the answer leaves with the last job
	case r.Have >= r.MinBytes || r.AtOnce || final:
		s.answerFetch(w)
	case starved && total == 0:
		s.park(w)
	default:
		s.wait(w, r.Have)
	}
}

// fetchArenaShare is the part of the arena that one Fetch may fill at most.
const fetchArenaShare = 4

// errNoRoom says that a read needs a job slot or memory that is not free now.
var errNoRoom = errors.New("no room for a read")

// openPart checks one part and fills in what the answer says of its partition.
func (s *Shard) openPart(part *FetchPart) *partition {
	part.Err, part.Diverging, part.Data = nil, nil, raftlog.ReadResult{}
	part.HighWatermark, part.LastStable, part.LogStart, part.Leader = -1, -1, -1, core.NoNode
	p, err := s.lead(part.Partition)
	if p != nil && p.broken == nil {
		part.Leader, part.LeaderEpoch = p.leader, p.term
	}
	if err == nil {
		err = p.checkEpoch(part.CurrentEpoch)
	}
	if err != nil {
		part.Err = err
		return nil
	}
	part.HighWatermark, part.LastStable, part.LogStart = p.readable(), p.readable(), p.log.LogStart()
	if part.LastEpoch >= 0 {
		end := p.epochEnd(core.Term(part.LastEpoch))
		if end.End < 0 {
			part.Err = fmt.Errorf("%w: %s knows no epoch %d", core.ErrOffsetOutOfRange, p.name(), part.LastEpoch)
			return p
		}
		if part.Offset >= part.LogStart && (end.Epoch < core.Term(part.LastEpoch) || end.End < part.Offset) {
			part.Diverging = &end
			return p
		}
	}
	if part.Offset < part.LogStart || part.Offset > p.log.NextOffset() {
		part.Err = fmt.Errorf("%w: %s: offset %d, the log holds [%d, %d)", core.ErrOffsetOutOfRange,
			p.name(), part.Offset, part.LogStart, p.log.NextOffset())
	}
	return p
}

// readable is the offset below which consumers read: the high watermark.
func (p *partition) readable() core.Offset {
	if mutant.On(mutant.HighBeforeCommit) {
		return p.log.NextOffset()
	}
	return p.high
}

// checkEpoch compares a client's leader epoch (KIP-320); -1 is not checked.
func (p *partition) checkEpoch(epoch int32) error {
	switch {
	case epoch == -1 || int64(epoch) == int64(p.term):
		return nil
	case int64(epoch) < int64(p.term):
		return fmt.Errorf("%w: %s: %d, now %d", core.ErrFencedEpoch, p.name(), epoch, p.term)
	}
	return fmt.Errorf("%w: %s: %d, here %d", core.ErrUnknownEpoch, p.name(), epoch, p.term)
}

// readPart reads one part, at once or by a job, and returns the bytes read or
// set aside for the job.
func (s *Shard) readPart(w *fetchWait, i int, p *partition, left int, minOne bool) (int, error) {
	part := &w.r.Parts[i]
	maxBytes := max(min(part.MaxBytes, left), 0)
	if len(p.aheads) > 0 {
		if n, ok := s.readAheadPart(&readJob{w, i, maxBytes, minOne}, p); ok {
			return n, nil
		}
	}
	res, job, err := s.read(p, part.Offset, p.readable(), maxBytes, minOne)
	if err != nil {
		return 0, err
	}
	if job == nil {
		part.Data = res
		return res.Bytes, nil
	}
	job.Owner = &readJob{w, i, maxBytes, minOne}
	s.startJob(job)
	w.jobs++
	return maxBytes, nil
}

// read is Log.Read with eviction when the arena is full. A read of history is
// not begun while all job slots are taken; one at the tail always is. Errors:
// errNoRoom and those of Log.Read.
func (s *Shard) read(p *partition, from, upTo core.Offset, maxBytes int, minOne bool) (raftlog.ReadResult, *raftlog.Job, error) {
	if from < p.cold && s.jobSlots() <= 0 {
		return raftlog.ReadResult{}, nil, errNoRoom
	}
	res, job, err := p.log.Read(s.opts.Arena, from, upTo, maxBytes, minOne)
	if errors.Is(err, arena.ErrFull) {
		if !s.MakeRoom(max(min(maxBytes, raftlog.ReadJobBytesMax), arena.ChunkBytes)) {
			s.stats.ReadsStarved++
			return res, nil, errNoRoom
		}
		if res, job, err = p.log.Read(s.opts.Arena, from, upTo, maxBytes, minOne); errors.Is(err, arena.ErrFull) {
			s.stats.ReadsStarved++
			return res, nil, errNoRoom
		}
	}
	if job != nil {
		p.cold = max(p.cold, from+1)
	}
	return res, job, err
}

// onReadJob takes the outcome of one part in.
func (s *Shard) onReadJob(o *readJob, job *raftlog.Job) {
	part := &o.w.r.Parts[o.part]
	if job.Err != nil {
		part.Err = jobErr(job.Err)
	} else {
		part.Data = job.Read
		if job.GoesOn && job.Read.Bytes > 0 {
			s.startAhead(s.partitions[part.Partition], job.Read.Next)
		}
	}
	s.readJobDone(o.w)
}

// readJobDone answers a Fetch with the last of its reads.
func (s *Shard) readJobDone(w *fetchWait) {
	if w.jobs--; w.jobs == 0 {
		s.answerFetch(w)
	}
}

// jobErr makes an error of a read that clients understand: what was removed by
// retention meanwhile is out of range, everything else a failure of the storage.
func jobErr(err error) error {
	if errors.Is(err, core.ErrOffsetOutOfRange) || errors.Is(err, core.ErrStorageFailed) {
		return err
	}
	return fmt.Errorf("%w: %v", core.ErrStorageFailed, err)
}

// answerFetch gives a Fetch back.
func (s *Shard) answerFetch(w *fetchWait) {
	s.timers.stop(&w.timer)
	w.state, w.r.wait = fetchIdle, nil
	if s.fatal != nil {
		w.r.dropData()
		s.fail(w.r, s.fatalErr())
		return
	}
	s.done(w.r)
}

func (r *Fetch) dropData() {
	for i := range r.Parts {
		releaseAll(r.Parts[i].Data.Bufs)
		r.Parts[i].Data = raftlog.ReadResult{}
	}
}

// eachBatch calls fn for every batch of what was read, which may hold several in
// one buffer. The slice that fn gets shares the buffer's reference.
func eachBatch(res raftlog.ReadResult, fn func(b core.Batch, buf arena.Buf) error) error {
	for _, buf := range res.Bufs {
		for at := 0; at < buf.Len(); {
			b, _, err := core.NextBatch(buf.Bytes()[at:])
			if err != nil {
				return err
			}
			if err := fn(b, buf.Slice(at, at+len(b))); err != nil {
				return err
			}
			at += len(b)
		}
	}
	return nil
}

func releaseAll(bufs []arena.Buf) {
	for _, b := range bufs {
		b.Release()
	}
}
