package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"millrace/bench/peers"
)

// paced is an open loop of Produce requests: rate of them are due every second,
// whatever the answers do, and each is measured from when it was due.
type paced struct {
	conns, rate int
	frames      [][]byte // in turn
}

// latency is in milliseconds.
type latency struct{ P50, P99, P999, Max, PerSecond, BrokerCores, LoadCores float64 }

// latencies collects times in microseconds, up to a minute.
type latencies struct {
	mu struct {
		sync.Mutex
		h       *hdrhistogram.Histogram
		seconds float64 // of all windows
	}
}

func newLatencies() *latencies {
	l := &latencies{}
	l.mu.h = hdrhistogram.New(1, 60_000_000, 3)
	return l
}

// window is a part of the time; what was due outside is not counted.
type window struct {
	times    *latencies
	from, to time.Time
}

func (l *latencies) window(from time.Time, span time.Duration) window {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.seconds += span.Seconds()
	return window{l, from, from.Add(span)}
}

// record counts from when the request was due, not from when it was sent.
func (w window) record(due, done time.Time) {
	if due.Before(w.from) || !due.Before(w.to) {
		return
	}
	w.times.mu.Lock()
	defer w.times.mu.Unlock()
	// Longer than a minute is recorded as a minute.
	_ = w.times.mu.h.RecordValue(min(max(done.Sub(due).Microseconds(), 1), 60_000_000))
}

func (l *latencies) result() latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := func(percentile float64) float64 { return float64(l.mu.h.ValueAtPercentile(percentile)) / 1000 }
	return latency{P50: ms(50), P99: ms(99), P999: ms(99.9), Max: float64(l.mu.h.Max()) / 1000,
		PerSecond: float64(l.mu.h.TotalCount()) / l.mu.seconds}
}

// pacer wakes at times that are due. It owns an OS thread, since the runtime's
// timers are late by up to a millisecond.
type pacer struct {
	begin time.Time
	every time.Duration
}

// newPacer binds the goroutine to its thread until release.
func newPacer(begin time.Time, rate int) (p pacer, release func()) {
	runtime.LockOSThread()
	// The default slack of 50 us is of the order of what is measured; a thread
	// that may not change it is late by so much.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	return pacer{begin, time.Second / time.Duration(rate)}, runtime.UnlockOSThread
}

func (p pacer) due(i int) time.Time { return p.begin.Add(time.Duration(i) * p.every) }

// waitFor sleeps until event i is due.
func (p pacer) waitFor(i int) {
	for {
		d := time.Until(p.due(i))
		if d <= 0 {
			return
		}
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&ts, nil) // interrupted: the loop sleeps the rest
	}
}

// run loads the broker for span after a warm-up and adds what it saw to times. It
// returns the cores that were used.
func (p *paced) run(ctx context.Context, b peers.Broker, warm, span time.Duration, times *latencies) (u used, err error) {
	l, err := dial(ctx, b, p.conns)
	if err != nil {
		return u, err
	}
	begin := time.Now().Add(10 * time.Millisecond)
	w := times.window(begin.Add(warm), span)
	sent := make([]chan time.Time, p.conns) // due times of what is not answered
	for i := range sent {
		sent[i] = make(chan time.Time, 1<<16)
	}
	l.run(func(i int, c net.Conn) error {
		defer close(sent[i])
		return p.send(l, i, c, begin, w.to, sent[i])
	}, func(i int, c net.Conn) error {
		return receiveTimes(c, sent[i], w)
	})
	l.sleep(time.Until(w.from))
	m, err := startMeter(b.PID())
	if err != nil {
		l.fail(err)
	}
	l.sleep(time.Until(w.to))
	u, merr := m.read()
	l.wg.Wait()
	if err := l.finish(); err != nil {
		return u, err
	}
	return u, merr
}

// send writes what is due for connection i: each request when its time comes,
// or at once with all that is due by then when the last write took long.
func (p *paced) send(l *lanes, i int, c net.Conn, begin, end time.Time, sent chan<- time.Time) error {
	pace, release := newPacer(begin, p.rate)
	defer release()
	for next := i; l.ctx.Err() == nil && pace.due(next).Before(end); {
		pace.waitFor(next)
		var out net.Buffers
		for now := time.Now(); !pace.due(next).After(now) && pace.due(next).Before(end); next += p.conns {
			select {
			case sent <- pace.due(next):
			default:
				return fmt.Errorf("%d requests of one connection wait for their answers", cap(sent))
			}
			out = append(out, p.frames[next%len(p.frames)])
		}
		if _, err := out.WriteTo(c); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

func receiveTimes(c net.Conn, sent <-chan time.Time, times window) error {
	in, buf := bufio.NewReaderSize(c, 16<<10), []byte(nil)
	for due := range sent {
		if err := c.SetReadDeadline(due.Add(2 * time.Minute)); err != nil {
			return err
		}
		var err error
		if buf, err = readAnswer(in, buf); err == nil {
			err = checkProduced(buf)
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		times.record(due, time.Now())
	}
	return nil
}
