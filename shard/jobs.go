package shard

import (
	"millrace/core"
	"millrace/raftlog"
)

// maintainEvery is how long the shard waits at most between two looks at what
// the logs want flushed, rolled or removed.
const maintainEvery = 250 * core.Millisecond

// maintainShare is the part of the job slots that maintenance may take: history
// reads go on while the logs are flushed, and the other way round.
const maintainShare = 2

// jobSlots is how many history reads may begin now.
func (s *Shard) jobSlots() int {
	return s.opts.Limits.JobsMax - s.jobsInflight - len(s.jobsQueued)
}

// startJob hands a job to the I/O pool, or queues it until a slot is free.
func (s *Shard) startJob(j *raftlog.Job) {
	if s.jobsInflight >= s.opts.Limits.JobsMax {
		s.jobsQueued = append(s.jobsQueued, j)
		return
	}
	s.jobsInflight++
	s.out.Jobs = append(s.out.Jobs, j)
}

// onJobDone applies a job's outcome and hands its result to who asked.
func (s *Shard) onJobDone(j *raftlog.Job) {
	j.Finish()
	s.jobsInflight--
	if l := j.Log; l != nil && l.Damaged() != nil {
		if p := s.partitions[l.ID()]; p != nil && p.broken == nil {
			s.breakPartition(p, l.Damaged())
		}
	}
	switch o := j.Owner.(type) {
	case nil:
		s.maintaining--
		s.timers.set(&s.maintainTimer, maintainTask{}, s.now)
	case *readJob:
		s.onReadJob(o, j)
	case *readAhead:
		s.onAheadJob(o, j)
	case *timeQuery:
		s.onLookupJob(o, j)
	case *host:
		s.onHostJob(o, j)
	case *catchUp:
		s.onCatchUpJob(o, j)
	default:
		panic("BUG: a job without a known owner")
	}
	if s.fatal != nil {
		return
	}
	for len(s.jobsQueued) > 0 && s.jobsInflight < s.opts.Limits.JobsMax {
		next := s.jobsQueued[0]
		s.jobsQueued[0] = nil
		s.jobsQueued = s.jobsQueued[1:]
		s.startJob(next)
	}
	s.unpark()
}

// maintainBytes is how much is appended before the logs are asked out of turn.
const maintainBytes = 4 << 20

// trimEvery is how often memory that nobody has needed meanwhile is given back.
const trimEvery = 10 * core.Second

// maintainSoon lets the logs be asked when much has been appended.
func (s *Shard) maintainSoon(bytes int) {
	if s.appendedSince += bytes; s.appendedSince >= maintainBytes {
		s.appendedSince = 0
		s.timers.set(&s.maintainTimer, maintainTask{}, s.now)
	}
}

// maintainTask asks the logs for flushes, rolls and removals that are due.
type maintainTask struct{}

func (maintainTask) onTimer(s *Shard, now core.Tick) {
	if now-s.trimmedAt >= trimEvery {
		s.trimmedAt = now
		s.opts.Arena.Trim()
	}
	next := now + maintainEvery
	most := max(s.opts.Limits.JobsMax/maintainShare, 1) - s.maintaining
	if most > 0 {
		jobs, due := s.opts.Logs.Maintain(now, most, s.maintainJobs[:0])
		for i, j := range jobs {
			j.Owner = nil
			s.maintaining++
			s.startJob(j)
			jobs[i] = nil
		}
		s.maintainJobs = jobs[:0]
		if due > now {
			next = min(next, due)
		}
	}
	s.timers.set(&s.maintainTimer, maintainTask{}, next)
}
