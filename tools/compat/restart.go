package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// restart: a producer and a group of two go on through a stop and a kill of the
// broker; nothing acknowledged is lost, all of it is consumed.
func restart(t *trial) {
	const partitions = 4
	t.create(partitions)
	d := t.driver(0)
	one, two := t.join(0, ""), t.join(1, "")
	t.settle(partitions, "", one, two)
	t.do(d, "stream topic=%s", t.topic)
	t.await(40*time.Second, func() bool { return len(t.times()) >= 50 }, func() string { return "50 records before the restart" })
	for _, m := range []*driver{one, two} {
		t.do(m, "commit")
	}
	if t.err != nil {
		return
	}
	t.check(t.s.barrier.restart(t.ctx), "restart the broker")
	mark := len(d.acked())
	t.await(60*time.Second, func() bool { return len(d.acked()) >= mark+50 }, func() string { return "50 records acknowledged after the restart" })
	sent := int(t.number(t.do(d, "stop"), "sent"))
	t.do(d, "close-producer")
	if acked := len(d.acked()); t.err == nil && acked != sent {
		t.fail("%d of %d records were acknowledged", acked, sent)
	}
	missing := func() int {
		n, seen := 0, t.times()
		for i := range sent {
			if seen[i] == 0 {
				n++
			}
		}
		return n
	}
	t.await(40*time.Second, func() bool { return missing() == 0 }, func() string {
		return fmt.Sprintf("%d of %d acknowledged records were not consumed", missing(), sent)
	})
	if n := len(t.times()); t.err == nil && n != sent {
		t.fail("%d records that nobody sent were consumed", n-sent)
	}
	t.settle(partitions, "", one, two)
	if t.c.cannot["partitions"] == "" {
		if n := t.number(t.do(d, "partitions topic=%s", t.topic), "count"); t.err == nil && n != partitions {
			t.fail("the client sees %d partitions, want %d", n, partitions)
		}
	}
	t.commitAll(one, two)
	t.quit(two)
	t.quit(one)
}

// commitAll commits until all of the topic is. Members that a late rebalance took
// back to the last commit are handed their records once more first.
func (t *trial) commitAll(members ...*driver) {
	if t.err != nil {
		return
	}
	end, err := t.s.ends(t.ctx, t.topic)
	t.check(err, "list end offsets")
	sum := int64(-1)
	t.await(30*time.Second, func() bool {
		for _, m := range members {
			t.do(m, "commit")
		}
		if t.err != nil {
			return false
		}
		var err error
		sum, err = t.s.committed(t.ctx, t.group, t.topic)
		t.check(err, "fetch the committed offsets")
		return sum == end
	}, func() string { return fmt.Sprintf("committed offsets add up to %d, want %d", sum, end) })
}

// barrier lets all drivers that wait for a restart see the same one.
type barrier struct {
	restarts []func(context.Context) error
	mu       struct {
		sync.Mutex
		expected int // drivers that have neither asked nor ended
		asked    bool
		started  bool
	}
	done chan struct{}
	err  error // valid once done is closed
}

func newBarrier(n int, restarts []func(context.Context) error) *barrier {
	b := &barrier{restarts: restarts, done: make(chan struct{})}
	b.mu.expected = n
	return b
}

// restart returns when the broker has been restarted. Errors: that failed, or
// ctx ended.
func (b *barrier) restart(ctx context.Context) error {
	b.mu.Lock()
	b.mu.expected--
	b.mu.asked = true
	b.mu.Unlock()
	b.perhaps(ctx)
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave is called once by each cell at its end, whether it had asked or not.
func (b *barrier) leave(ctx context.Context) {
	select {
	case <-b.done: // it had asked, or is late
		return
	default:
	}
	b.mu.Lock()
	b.mu.expected--
	b.mu.Unlock()
	b.perhaps(ctx)
}

func (b *barrier) perhaps(ctx context.Context) {
	b.mu.Lock()
	due := b.mu.expected <= 0 && b.mu.asked && !b.mu.started
	if due {
		b.mu.started = true
	}
	b.mu.Unlock()
	if !due {
		return
	}
	for _, r := range b.restarts {
		if b.err = r(ctx); b.err != nil {
			break
		}
		// Between two restarts the clients get some traffic through.
		if b.err = sleep(ctx, 2*time.Second); b.err != nil {
			break
		}
	}
	close(b.done)
}
