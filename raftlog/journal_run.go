package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/core"
)

const (
	// noSpaceRetry is how often a commit that found the device full tries again.
	noSpaceRetry = 50 * time.Millisecond
	idleCheck    = time.Second
)

// Run commits whatever is submitted, on the calling goroutine, until ctx ends or
// Close, and all that was submitted before is written; beside it, a goroutine of
// its own prepares files. done gets the turns of each Commit, in order; it must
// not block. Production only, once; after Close it returns at once.
func (j *Journal) Run(ctx context.Context, done func([]*Turn)) {
	if !j.running.CompareAndSwap(false, true) {
		if j.closing.Load() {
			return // Close has the committer's part
		}
		panic("BUG: Journal.Run called twice")
	}
	defer close(j.stopped)
	prepared := make(chan struct{})
	go j.prepareLoop(ctx, prepared)
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		if turns := j.Commit(); len(turns) > 0 {
			done(turns)
		}
		retry := (<-chan time.Time)(nil)
		if j.stalled() {
			retry = time.After(noSpaceRetry)
		}
		select {
		case <-j.wake:
			continue
		case <-tick.C:
			continue
		case <-retry:
			continue
		case <-ctx.Done():
		case <-j.stop:
		}
		break
	}
	<-prepared
	if turns := j.Commit(); len(turns) > 0 {
		done(turns)
	}
	if j.stalled() { // the device is full and stays so: tell who waits
		err := fmt.Errorf("%w: the journal stopped while the device was full", core.ErrStorageFull)
		j.failure.CompareAndSwap(nil, &err)
		done(j.Commit())
	}
}

func (j *Journal) prepareLoop(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	defer func() {
		if v := recover(); v != nil {
			what, fatal := core.FatalText(v)
			if !fatal {
				panic(v)
			}
			j.fail(errors.New(what))
		}
	}()
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		for ctx.Err() == nil && !j.closing.Load() {
			more, err := j.Prepare()
			if err != nil || !more {
				break // the failure is the journal's, already noted
			}
		}
		select {
		case <-j.prepWake:
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-j.stop:
			return
		}
	}
}
