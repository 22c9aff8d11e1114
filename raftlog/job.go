package raftlog

import (
	"fmt"

	"millrace/core"
	"millrace/core/arena"
)

// Job is one blocking piece of I/O. The loop starts it, a pool (or the
// simulator) calls Run, the loop then calls Finish.
type Job struct {
	Log *Log // nil where it concerns none
	// CatchUp is true for history reads: lower priority.
	CatchUp bool
	// Err is set by Run; Finish has already taken note of it.
	Err error
	// GoesOn says of a read that it begins where an earlier one of its log ended.
	GoesOn bool
	// Read is the result of a job made by Log.Read.
	Read ReadResult
	// Found is the result of a job made by FindTimestamp or FindMaxTimestamp.
	Found TimeResult
	// Places is the result of a job made by FindPlaces.
	Places Places
	Owner  any // the caller's own

	work jobWork
}

// jobWork is one kind of Job. run may be on any goroutine and touches nothing
// of the Log but what is immutable; finish is on the loop.
type jobWork interface {
	run(j *Job) error
	finish(j *Job)
}

// NewJob makes a Job of the caller's own, of something that takes long; fn touches
// nothing of the log or the loop.
func NewJob(l *Log, fn func() error) *Job {
	return &Job{Log: l, CatchUp: true, work: ownWork(fn)}
}

type ownWork func() error

func (w ownWork) run(*Job) error { return w() }
func (w ownWork) finish(*Job)    {}

// Run does the I/O. Blocks; any goroutine.
func (j *Job) Run() { j.Err = j.work.run(j) }

// Finish applies the outcome to the Log; the shard's loop only.
func (j *Job) Finish() { j.work.finish(j) }

// ReadResult is a run of whole batches, in order, contiguous in offsets but for
// what compaction removed. The receiver releases Bufs.
type ReadResult struct {
	Bufs  []arena.Buf
	Bytes int
	Next  core.Offset // the offset after the last batch
}

// TimeResult is the batch that answers a timestamp query.
type TimeResult struct {
	Found        bool
	BaseOffset   core.Offset
	MaxTimestamp int64
	Term         core.Term
}

// damagedAt makes the error of a read that found something else than it should.
func damagedAt(id core.PartitionID, format string, args ...any) error {
	return fmt.Errorf("%w: partition %d: %s", core.ErrStorageFailed, id, fmt.Sprintf(format, args...))
}
