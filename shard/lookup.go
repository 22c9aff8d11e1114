package shard

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/records"
	"millrace/raftlog"
)

// A lookup of a timestamp reads a batch and may have to decompress it: one request can
// ask for more of them than a core finishes in minutes. So few run at a time, a
// partition's after each other and the partitions in turn, and what costs more than
// microseconds is done by a job. Bounded by what requests may hold.
const (
	// lookupsMax run at a time, one of them in a job that looks through a batch.
	lookupsMax = 4
	// lookupBytesMax bounds the memory of decompressing that batch.
	lookupBytesMax = 16 << 20
	// lookupInlineMax is what is looked through on the loop, where it is not compressed.
	lookupInlineMax = 32 << 10
	// lookupsPerTurn begin between two looks at other requests.
	lookupsPerTurn = 16
	// lookupWaitMax is when one that has not begun is given up: its client has.
	lookupWaitMax = 30 * core.Second
)

// lookups are those of a shard that wait.
type lookups struct {
	turns   []*partition // that have some, the next one first
	waiting int
	running int
	left    int // may begin before the timer
	timer   timer
	// scanning says that a job looks through a batch; scans wait for it.
	scanning bool
	scans    []*timeQuery
}

// timeQuery is a ListOffset by timestamp: find the batch, read it, find the record in
// it. Each may take a job.
type timeQuery struct {
	r       *ListOffset
	p       *partition
	since   core.Tick
	upTo    core.Offset
	found   raftlog.TimeResult
	reading bool // found is known
	scan    *recordScan
}

func (s *Shard) queueLookup(p *partition, r *ListOffset) {
	if len(p.lookups) == 0 {
		s.lookups.turns = append(s.lookups.turns, p)
	}
	p.lookups = append(p.lookups, &timeQuery{r: r, p: p, since: s.now})
	s.lookups.waiting++
	s.startLookups()
}

// startLookups begins those that wait, as many as may run.
func (s *Shard) startLookups() {
	l := &s.lookups
	for len(l.turns) > 0 && l.running < lookupsMax {
		if l.left == 0 {
			s.timers.set(&l.timer, lookupTask{}, s.now)
			return
		}
		l.left--
		l.running++
		s.startLookup(l.next())
	}
}

// lookupTask lets more begin, after other requests.
type lookupTask struct{}

func (lookupTask) onTimer(s *Shard, _ core.Tick) {
	s.lookups.left = lookupsPerTurn
	s.startLookups()
}

// next takes one off the partition whose turn it is.
func (l *lookups) next() *timeQuery {
	p := l.turns[0]
	l.turns[0] = nil
	l.turns = l.turns[1:]
	q := p.lookups[0]
	p.lookups[0] = nil
	if p.lookups = p.lookups[1:]; len(p.lookups) > 0 {
		l.turns = append(l.turns, p)
	} else {
		p.lookups = nil
	}
	l.waiting--
	return q
}

// failLookups answers all that have not begun.
func (s *Shard) failLookups(err error) {
	for len(s.lookups.turns) > 0 {
		s.fail(s.lookups.next().r, err)
	}
}

// endLookup answers one that has begun.
func (s *Shard) endLookup(q *timeQuery, err error) {
	s.lookups.running--
	if err != nil {
		s.fail(q.r, err)
		return
	}
	s.done(q.r)
}

func (s *Shard) startLookup(q *timeQuery) {
	if s.now-q.since > lookupWaitMax {
		s.endLookup(q, fmt.Errorf("%w: too many timestamps are being looked up", core.ErrOverloaded))
		return
	}
	// What was true when the request came may not be any more.
	p, err := s.lead(q.p.id)
	if err == nil {
		err = p.checkEpoch(q.r.CurrentEpoch)
	}
	if err != nil {
		s.endLookup(q, err)
		return
	}
	q.p, q.upTo = p, p.high
	var job *raftlog.Job
	if q.r.Timestamp == timeMax {
		q.found, job, err = p.log.FindMaxTimestamp(q.upTo)
	} else {
		q.found, job, err = p.log.FindTimestamp(q.r.Timestamp, q.upTo)
	}
	s.continueLookup(q, job, err, s.readFound)
}

// continueLookup goes on at once, or when the job is done.
func (s *Shard) continueLookup(q *timeQuery, job *raftlog.Job, err error, next func(*timeQuery)) {
	switch {
	case err != nil && errors.Is(err, errNoRoom):
		s.endLookup(q, fmt.Errorf("%w: no memory to look up a timestamp", core.ErrOverloaded))
	case err != nil:
		s.endLookup(q, err)
	case job != nil:
		job.Owner = q
		s.startJob(job)
	default:
		next(q)
	}
}

// onLookupJob goes on with a lookup after one of its jobs.
func (s *Shard) onLookupJob(q *timeQuery, job *raftlog.Job) {
	switch {
	case q.scan != nil:
		s.lookups.scanning = false
		s.endScan(q, job.Err)
		s.startScan()
	case job.Err != nil:
		s.endLookup(q, jobErr(job.Err))
	case q.reading:
		s.findRecord(q, job.Read)
	default:
		q.found = job.Found
		s.readFound(q)
	}
	s.startLookups()
}

// readFound reads the batch that answers.
func (s *Shard) readFound(q *timeQuery) {
	from := max(q.found.BaseOffset, q.p.log.LogStart())
	if !q.found.Found || q.p.gone || from >= q.upTo {
		s.endLookup(q, nil)
		return
	}
	q.reading = true
	res, job, err := s.read(q.p, from, q.upTo, 1, true)
	s.continueLookup(q, job, err, func(q *timeQuery) { s.findRecord(q, res) })
}

// recordScan finds the first record at or after a timestamp in what was read. It
// touches nothing of the shard.
type recordScan struct {
	bufs    []arena.Buf
	want    int64
	start   core.Offset // of the log
	offset  core.Offset
	foundMs int64
	epoch   int32
}

func (c *recordScan) run() error {
	return eachBatch(raftlog.ReadResult{Bufs: c.bufs}, func(b core.Batch, _ arena.Buf) error {
		if c.offset >= 0 || b.MaxTimestamp() < c.want {
			return nil
		}
		return records.Each(b, lookupBytesMax, func(rec records.Record) bool {
			if rec.TimestampMs < c.want || rec.Offset < c.start {
				return true
			}
			c.offset, c.foundMs, c.epoch = rec.Offset, rec.TimestampMs, b.LeaderEpoch()
			return false
		})
	})
}

// cheap says whether a scan takes microseconds.
func (c *recordScan) cheap() bool {
	n, plain := 0, true
	err := eachBatch(raftlog.ReadResult{Bufs: c.bufs}, func(b core.Batch, _ arena.Buf) error {
		n += len(b)
		plain = plain && b.Codec() == 0
		return nil
	})
	return err == nil && plain && n <= lookupInlineMax
}

// findRecord finds the first record at or after the timestamp, not just its
// batch; for the largest timestamp, the first record that has it.
func (s *Shard) findRecord(q *timeQuery, res raftlog.ReadResult) {
	q.scan = &recordScan{bufs: res.Bufs, want: q.r.Timestamp, start: q.p.log.LogStart(), offset: -1}
	if q.r.Timestamp == timeMax {
		q.scan.want = q.found.MaxTimestamp
	}
	if q.scan.cheap() {
		s.endScan(q, q.scan.run())
		return
	}
	s.lookups.scans = append(s.lookups.scans, q)
	s.startScan()
}

// startScan lets a job look through the next batch that waits for it.
func (s *Shard) startScan() {
	l := &s.lookups
	if l.scanning || len(l.scans) == 0 {
		return
	}
	q := l.scans[0]
	l.scans = append(l.scans[:0], l.scans[1:]...)
	l.scanning = true
	s.continueLookup(q, raftlog.NewJob(q.p.log, q.scan.run), nil, nil)
}

func (s *Shard) endScan(q *timeQuery, err error) {
	c := q.scan
	releaseAll(c.bufs)
	if err == nil && c.offset >= 0 {
		q.r.Offset, q.r.FoundTimeMs, q.r.LeaderEpoch = c.offset, c.foundMs, c.epoch
	}
	s.endLookup(q, err)
}
