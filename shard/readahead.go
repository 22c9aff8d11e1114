package shard

import (
	"errors"
	"slices"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// Whoever reads a partition's history from where the last read of it ended will
// go on, so what follows is read while these bytes are on their way. The window
// grows while the reader has to wait for the disk.
const (
	aheadBytesMin   = 1 << 20
	aheadBytesMax   = 8 << 20
	aheadBytesLeast = 64 << 10 // fewer are not worth a job
	// aheadJobBytes is what one job reads at most: the next one runs while its
	// bytes are taken.
	aheadJobBytes = 4 << 20
	// aheadArenaShare is the part of the payload memory that all of it may take.
	aheadArenaShare = 8
	// aheadsMax bounds the readers that are read ahead for.
	aheadsMax = 256
	// aheadIdle is how long it is kept for a reader that does not come.
	aheadIdle = 10 * core.Second
)

// readAhead is what was read for one sequential reader, or is being read. What
// lies below the high watermark never changes, so it stays true whatever happens
// to the partition; requests are checked before they get here.
type readAhead struct {
	p *partition
	// ready are whole batches, in order and without gaps, from offset from on.
	ready []arena.Buf
	bytes int // of ready
	from  core.Offset
	end   core.Offset // after ready
	job   *raftlog.Job
	// reserved is what the job may bring.
	reserved int
	waiter   *readJob // wants what the job brings
	window   int
	used     core.Tick // when a reader was last here
	over     bool      // nothing follows that must be read from disk
	gone     bool      // taken out; a job may still name it
	timer    timer
}

// aheadAt finds what was read ahead for a reader at offset from, unless another
// reader waits for it already.
func (p *partition) aheadAt(from core.Offset) *readAhead {
	for _, a := range p.aheads {
		if a.from == from && a.waiter == nil {
			return a
		}
	}
	return nil
}

// startAhead begins to read ahead from an offset.
func (s *Shard) startAhead(p *partition, from core.Offset) {
	if p == nil || !p.live() || p.aheadAt(from) != nil || s.stopping || len(s.aheads) >= aheadsMax {
		return
	}
	a := &readAhead{p: p, from: from, end: from, window: aheadBytesMin, used: s.now}
	p.aheads = append(p.aheads, a)
	s.aheads = append(s.aheads, a)
	s.readOn(a)
}

// readOn lets the next bytes be read where the window and the shard's limits have
// room for them; what is neither being read nor ready is forgotten.
func (s *Shard) readOn(a *readAhead) {
	if !a.gone && !a.over && a.job == nil && a.bytes < a.window {
		s.startAheadJob(a)
	}
	switch {
	case a.gone:
	case a.job == nil && len(a.ready) == 0:
		s.dropAhead(a)
	default:
		s.timers.set(&a.timer, a, s.now+aheadIdle)
	}
}

func (s *Shard) startAheadJob(a *readAhead) {
	room := int(s.opts.Arena.LimitBytes()/aheadArenaShare) - s.aheadBytes
	n := min(a.window-a.bytes, aheadJobBytes, room)
	if s.stopping || !a.p.live() || s.jobSlots() <= s.opts.Limits.JobsMax/2 || n < min(aheadBytesLeast, a.window-a.bytes) {
		return
	}
	res, job, err := a.p.log.Read(s.opts.Arena, a.end, a.p.readable(), n, true)
	if errors.Is(err, arena.ErrFull) && s.opts.Logs.Evict(s.opts.Arena, n) {
		res, job, err = a.p.log.Read(s.opts.Arena, a.end, a.p.readable(), n, true)
	}
	if errors.Is(err, arena.ErrFull) {
		return // the reader asks itself, and takes its turn then
	}
	if job == nil { // in memory, at the end of the log, or an error that the reader will see
		releaseAll(res.Bufs)
		a.over = true
		return
	}
	job.Owner = a
	a.job = job
	a.reserved = n
	s.aheadBytes += n
	s.stats.ReadsAhead++
	s.startJob(job)
}

// takeAhead gives a reader what is ready of it: whole buffers as long as they
// fit, and of the first one at least what fits.
func (s *Shard) takeAhead(a *readAhead, maxBytes int, minOne bool) (res raftlog.ReadResult) {
	for len(a.ready) > 0 {
		buf, whole := a.ready[0], true
		if res.Bytes+buf.Len() > maxBytes {
			n := 0
			if res.Bytes == 0 {
				n = fitting(buf.Bytes(), maxBytes, minOne)
			}
			if n == 0 {
				break
			}
			if whole = n == buf.Len(); !whole {
				a.ready[0] = buf.Slice(n, buf.Len())
				buf = buf.Slice(0, n).Retain()
			}
		}
		if whole {
			a.ready[0] = arena.Buf{}
			a.ready = a.ready[1:]
		}
		res.Bufs = append(res.Bufs, buf)
		res.Bytes += buf.Len()
		if !whole {
			break
		}
	}
	a.bytes -= res.Bytes
	s.aheadBytes -= res.Bytes
	a.from = a.end
	if len(a.ready) > 0 {
		a.from = core.Batch(a.ready[0].Bytes()).BaseOffset()
	}
	res.Next = a.from
	return res
}

// fitting is the size of the whole batches at the front of p that fit maxBytes; of
// the first one in any case with minOne.
func fitting(p []byte, maxBytes int, minOne bool) (n int) {
	for n < len(p) {
		b, _, err := core.NextBatch(p[n:])
		if err != nil {
			panic("BUG: what was read ahead holds no whole batches: " + err.Error())
		}
		if n+len(b) > maxBytes && !(minOne && n == 0) {
			break
		}
		n += len(b)
	}
	return n
}

// readAheadPart answers one part of a Fetch from what was read ahead, now or when
// the job under way is done. It answers false where there is nothing for it.
func (s *Shard) readAheadPart(o *readJob, p *partition) (n int, ok bool) {
	part := &o.w.r.Parts[o.part]
	a := p.aheadAt(part.Offset)
	if a == nil {
		return 0, false
	}
	a.used = s.now
	if len(a.ready) > 0 {
		part.Data = s.takeAhead(a, o.maxBytes, o.minOne)
		s.readOn(a)
		return part.Data.Bytes, true
	}
	a.waiter = o
	a.window = min(2*a.window, aheadBytesMax)
	o.w.jobs++
	return o.maxBytes, true
}

// onAheadJob takes what was read in, and answers the reader that waits for it.
func (s *Shard) onAheadJob(a *readAhead, job *raftlog.Job) {
	o := a.waiter
	a.job, a.waiter = nil, nil
	s.aheadBytes -= a.reserved
	if job.Err != nil {
		if o != nil {
			o.w.r.Parts[o.part].Err = jobErr(job.Err)
		}
		s.dropAhead(a)
	} else {
		a.ready = append(a.ready, job.Read.Bufs...)
		a.bytes += job.Read.Bytes
		s.aheadBytes += job.Read.Bytes
		a.end = job.Read.Next
		a.over = job.Read.Bytes == 0
		if o != nil {
			o.w.r.Parts[o.part].Data = s.takeAhead(a, o.maxBytes, o.minOne)
		}
		if a.gone {
			s.releaseAhead(a)
		}
		s.readOn(a)
	}
	if o != nil {
		s.readJobDone(o.w)
	}
}

// dropAhead forgets what was read ahead. A job under way still ends, and answers
// the reader that waits for it.
func (s *Shard) dropAhead(a *readAhead) {
	if a.gone {
		return
	}
	a.gone = true
	s.timers.stop(&a.timer)
	same := func(o *readAhead) bool { return o == a }
	s.aheads = slices.DeleteFunc(s.aheads, same)
	if a.p.aheads = slices.DeleteFunc(a.p.aheads, same); len(a.p.aheads) == 0 {
		a.p.aheads = nil
	}
	s.releaseAhead(a)
}

func (s *Shard) releaseAhead(a *readAhead) {
	releaseAll(a.ready)
	s.aheadBytes -= a.bytes
	a.ready, a.bytes = nil, 0
}

// dropAheads forgets all that was read ahead of a partition.
func (s *Shard) dropAheads(p *partition) {
	for len(p.aheads) > 0 {
		s.dropAhead(p.aheads[0])
	}
}

// MakeRoom gives back payload memory for n bytes that are to be read, or to arrive:
// first what was read ahead for readers that have not come back for a second, then what
// is cached, then all that was read ahead. It says whether there is room now. The
// loop's own.
func (s *Shard) MakeRoom(n int) bool {
	return s.shedAheads(n, s.now-core.Second) || s.opts.Logs.Evict(s.opts.Arena, n) || s.shedAheads(n, s.now)
}

// shedAheads drops what was read ahead for readers that were last here by then.
func (s *Shard) shedAheads(n int, then core.Tick) bool {
	for i := 0; i < len(s.aheads); {
		if s.opts.Arena.Room() >= int64(n) {
			return true
		}
		if a := s.aheads[i]; a.used <= then && a.waiter == nil && len(a.ready) > 0 {
			s.dropAhead(a) // the next one moves here
			continue
		}
		i++
	}
	return s.opts.Arena.Room() >= int64(n)
}

// onTimer is the end of a reader that has not come back.
func (a *readAhead) onTimer(s *Shard, _ core.Tick) {
	if a.waiter != nil || a.job != nil {
		s.timers.set(&a.timer, a, s.now+aheadIdle)
		return
	}
	s.dropAhead(a)
}
