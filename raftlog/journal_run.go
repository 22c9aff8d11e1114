package raftlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	defer j.gate.set(false, false)
	prepared := make(chan struct{})
	go j.prepareLoop(ctx, prepared)
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		j.gate.set(true, true)
		turns := j.Commit()
		j.gate.set(true, false)
		if len(turns) > 0 {
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

// asideIdle is how long nothing is committed before what else is written goes on.
const asideIdle = 500 * time.Microsecond

// commitGate lets what else is written to the device go between the journal's
// commits. Where Run does not, a scheduler does all in turn, and it is open.
type commitGate struct {
	mu struct {
		sync.Mutex
		running, committing bool
		ended               chan struct{} // closed by the end of the next commit; nil: nobody waits
	}
}

// set is told when Run begins and ends, and each Commit.
func (g *commitGate) set(running, committing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.running, g.mu.committing = running, committing
	if g.mu.ended != nil && !committing {
		close(g.mu.ended)
		g.mu.ended = nil
	}
}

// await returns when the next commit has ended, or when for asideIdle none has begun,
// and says whether one has.
func (g *commitGate) await() (busy bool) {
	g.mu.Lock()
	if !g.mu.running {
		g.mu.Unlock()
		return false
	}
	if g.mu.ended == nil {
		g.mu.ended = make(chan struct{})
	}
	ended, committing := g.mu.ended, g.mu.committing
	g.mu.Unlock()
	if !committing {
		t := time.NewTimer(asideIdle)
		defer t.Stop()
		select {
		case <-ended:
			return true
		case <-t.C:
		}
		g.mu.Lock()
		committing = g.mu.committing && g.mu.ended == ended
		g.mu.Unlock()
	}
	if committing {
		<-ended
	}
	return committing
}
