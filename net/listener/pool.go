package listener

import (
	"sync"

	"millrace/raftlog"
)

// pool runs the shards' blocking I/O on a few goroutines. What waits is bounded
// by the shards: each has at most Limits.JobsMax jobs in flight. Reads of history
// give way to other jobs, and never hold all the goroutines.
type pool struct {
	// Immutable.
	workers int

	mu struct {
		sync.Mutex
		urgent, catchUp []poolJob
		catchingUp      int // goroutines that run a catch-up job
		closed          bool
	}
	ready *sync.Cond // of mu; a job may be there
	done  sync.WaitGroup
}

type poolJob struct {
	job  *raftlog.Job
	loop *Loop
}

func newPool(workers int) *pool {
	p := &pool{workers: workers}
	p.ready = sync.NewCond(&p.mu)
	return p
}

// start runs the goroutines; guard is deferred on each.
func (p *pool) start(guard func()) {
	for range p.workers {
		p.done.Go(func() { defer guard(); p.work() })
	}
}

// run queues a job of a loop; its completion comes back as a message.
func (p *pool) run(l *Loop, j *raftlog.Job) {
	p.mu.Lock()
	if j.CatchUp {
		p.mu.catchUp = append(p.mu.catchUp, poolJob{j, l})
	} else {
		p.mu.urgent = append(p.mu.urgent, poolJob{j, l})
	}
	p.mu.Unlock()
	p.ready.Signal()
}

func (p *pool) work() {
	for {
		j, catchUp, ok := p.next()
		if !ok {
			return
		}
		j.job.Run()
		if catchUp {
			p.caughtUp()
		}
		j.loop.force(message{kind: msgJobDone, job: j.job})
	}
}

// caughtUp makes room for another catch-up job. All are woken only where they are
// to end: this goroutine itself looks for work next.
func (p *pool) caughtUp() {
	p.mu.Lock()
	p.mu.catchingUp--
	waiting, closed := len(p.mu.catchUp) > 0, p.mu.closed
	p.mu.Unlock()
	switch {
	case closed:
		p.ready.Broadcast()
	case waiting:
		p.ready.Signal()
	}
}

// next waits for a job; ok is false when the pool is closed and empty.
func (p *pool) next() (j poolJob, catchUp, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if len(p.mu.urgent) > 0 {
			j, p.mu.urgent = shift(p.mu.urgent)
			return j, false, true
		}
		if len(p.mu.catchUp) > 0 && p.mu.catchingUp < p.workers-1 {
			j, p.mu.catchUp = shift(p.mu.catchUp)
			p.mu.catchingUp++
			return j, true, true
		}
		if p.mu.closed && len(p.mu.catchUp) == 0 {
			return poolJob{}, false, false
		}
		p.ready.Wait()
	}
}

// shift takes the first job and keeps the array: queues are short.
func shift(q []poolJob) (poolJob, []poolJob) {
	j := q[0]
	copy(q, q[1:])
	q[len(q)-1] = poolJob{}
	return j, q[:len(q)-1]
}

// close runs what is queued and ends the goroutines.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.ready.Broadcast()
	p.done.Wait()
}
