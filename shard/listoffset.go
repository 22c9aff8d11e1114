package shard

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/records"
	"millrace/raftlog"
)

// Kafka's special timestamps.
const (
	timeLatest          = -1
	timeEarliest        = -2
	timeMax             = -3 // KIP-734
	timeEarliestLocal   = -4 // KIP-405
	timeLatestTiered    = -5
	timeEarliestPending = -6
)

// lookupBytesMax bounds the memory of decompressing the one batch that a
// timestamp lookup looks into.
const lookupBytesMax = 16 << 20

// timeQuery is a ListOffset by timestamp under way: find the batch, read it,
// find the record in it. The first two may take a job each.
type timeQuery struct {
	r    *ListOffset
	p    *partition
	upTo core.Offset
	// found is the batch; reading is set once it is known.
	found   raftlog.TimeResult
	reading bool
}

// listOffset answers one partition of ListOffsets.
func (s *Shard) listOffset(r *ListOffset) {
	r.Offset, r.FoundTimeMs, r.LeaderEpoch = -1, -1, -1
	p, err := s.lead(r.Partition)
	if err == nil {
		err = p.checkEpoch(r.CurrentEpoch)
	}
	if err != nil {
		s.fail(r, err)
		return
	}
	switch r.Timestamp {
	case timeLatest:
		r.Offset, r.LeaderEpoch = p.high, int32(p.term)
	case timeEarliest, timeEarliestLocal:
		r.Offset = p.log.LogStart()
		if e := p.epochOf(r.Offset); e != NoEpoch {
			r.LeaderEpoch = int32(e)
		}
	case timeLatestTiered, timeEarliestPending: // nothing is tiered: none
	default:
		if r.Timestamp < timeEarliestPending {
			s.fail(r, fmt.Errorf("%w: timestamp %d", core.ErrInvalidRecord, r.Timestamp))
			return
		}
		s.findTime(&timeQuery{r: r, p: p, upTo: p.high})
		return
	}
	s.done(r)
}

func (s *Shard) findTime(q *timeQuery) {
	var job *raftlog.Job
	var err error
	if q.r.Timestamp == timeMax {
		q.found, job, err = q.p.log.FindMaxTimestamp(q.upTo)
	} else {
		q.found, job, err = q.p.log.FindTimestamp(q.r.Timestamp, q.upTo)
	}
	s.continueQuery(q, job, err, s.readFound)
}

// continueQuery goes on at once, or when the job is done.
func (s *Shard) continueQuery(q *timeQuery, job *raftlog.Job, err error, next func(*timeQuery)) {
	switch {
	case err != nil && errors.Is(err, errNoRoom):
		s.fail(q.r, fmt.Errorf("%w: no memory to look up a timestamp", core.ErrOverloaded))
	case err != nil:
		s.fail(q.r, err)
	case job != nil:
		job.Owner = q
		s.startJob(job)
	default:
		next(q)
	}
}

// onTimeJob goes on with a lookup after one of its jobs.
func (s *Shard) onTimeJob(q *timeQuery, job *raftlog.Job) {
	switch {
	case job.Err != nil:
		s.fail(q.r, jobErr(job.Err))
	case q.reading:
		s.findRecord(q, job.Read)
	default:
		q.found = job.Found
		s.readFound(q)
	}
}

// readFound reads the batch that answers.
func (s *Shard) readFound(q *timeQuery) {
	if !q.found.Found || q.p.gone {
		s.done(q.r)
		return
	}
	q.reading = true
	from := max(q.found.BaseOffset, q.p.log.LogStart())
	var res raftlog.ReadResult
	var job *raftlog.Job
	var err error
	if from >= q.upTo {
		s.done(q.r)
		return
	}
	res, job, err = s.read(q.p, from, q.upTo, 1, true)
	s.continueQuery(q, job, err, func(q *timeQuery) { s.findRecord(q, res) })
}

// findRecord finds the first record at or after the timestamp, not just its
// batch; for the largest timestamp, the first record that has it.
func (s *Shard) findRecord(q *timeQuery, res raftlog.ReadResult) {
	want := q.r.Timestamp
	if want == timeMax {
		want = q.found.MaxTimestamp
	}
	start := q.p.log.LogStart()
	err := eachBatch(res, func(b core.Batch, _ arena.Buf) error {
		if q.r.Offset >= 0 || b.MaxTimestamp() < want {
			return nil
		}
		return records.Each(b, lookupBytesMax, func(rec records.Record) bool {
			if rec.TimestampMs < want || rec.Offset < start {
				return true
			}
			q.r.Offset, q.r.FoundTimeMs, q.r.LeaderEpoch = rec.Offset, rec.TimestampMs, b.LeaderEpoch()
			return false
		})
	})
	releaseAll(res.Bufs)
	if err != nil {
		s.fail(q.r, err)
		return
	}
	s.done(q.r)
}
