package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"millrace/bench/peers"
)

// flood is a closed loop of Produce requests: on each of conns connections
// depth of them are under way at any time. The frames go out in turn.
type flood struct {
	conns, depth int
	frames       [][]byte
	batchBytes   int // of the records in a frame
}

// flooded is what the flood did after its warm-up, with the cores that the
// broker and this process used.
type flooded struct{ MBps, BrokerCores, LoadCores float64 }

// run loads the broker for span after a warm-up.
func (f *flood) run(ctx context.Context, b peers.Broker, warm, span time.Duration) (r flooded, err error) {
	l, acked, err := f.start(ctx, b)
	if err != nil {
		return r, err
	}
	l.sleep(warm)
	m, err := startMeter(b.PID())
	if err != nil {
		l.fail(err)
	}
	from := acked.Load()
	l.sleep(span)
	bytes := acked.Load() - from
	used, err := m.read()
	if ferr := l.finish(); ferr != nil {
		return r, ferr
	}
	return flooded{float64(bytes) / 1e6 / used.seconds, used.broker / used.seconds, used.own / used.seconds}, err
}

// write loads the broker until bytes are acknowledged, and returns how many were.
func (f *flood) write(ctx context.Context, b peers.Broker, bytes int64) (int64, error) {
	l, acked, err := f.start(ctx, b)
	if err != nil {
		return 0, err
	}
	for acked.Load() < bytes && l.ctx.Err() == nil {
		l.sleep(time.Millisecond)
	}
	err = l.finish()
	return acked.Load(), err
}

func (f *flood) start(ctx context.Context, b peers.Broker) (*lanes, *atomic.Int64, error) {
	l, err := dial(ctx, b, f.conns)
	if err != nil {
		return nil, nil, err
	}
	acked := new(atomic.Int64)
	credits := make([]chan struct{}, f.conns) // full: depth requests are under way
	over := make([]atomic.Bool, f.conns)
	for i := range credits {
		credits[i] = make(chan struct{}, f.depth)
	}
	l.run(func(i int, c net.Conn) error {
		err := f.send(l, i, c, credits[i])
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		for range f.depth { // all is answered when all credits can be had
			select {
			case credits[i] <- struct{}{}:
			case <-time.After(time.Minute):
				return fmt.Errorf("requests were not answered within a minute")
			}
		}
		over[i].Store(true)
		return c.Close()
	}, func(i int, c net.Conn) error {
		err := f.receive(c, credits[i], acked)
		if over[i].Load() {
			return nil
		}
		return fmt.Errorf("receive: %w", err)
	})
	return l, acked, nil
}

// send writes as many frames at a time as there are credits.
func (f *flood) send(l *lanes, i int, c net.Conn, credits chan struct{}) error {
	out := make(net.Buffers, 0, f.depth)
	for next := i; ; {
		select {
		case <-l.ctx.Done():
			return nil
		case credits <- struct{}{}:
		}
		batch := out[:0]
		for room := true; room; next += f.conns {
			batch = append(batch, f.frames[next%len(f.frames)])
			select {
			case credits <- struct{}{}:
			default:
				room = false
			}
		}
		if _, err := batch.WriteTo(c); err != nil {
			return err
		}
	}
}

func (f *flood) receive(c net.Conn, credits chan struct{}, acked *atomic.Int64) error {
	in, buf := bufio.NewReaderSize(c, 16<<10), []byte(nil)
	for {
		var err error
		if buf, err = readAnswer(in, buf); err == nil {
			err = checkProduced(buf)
		}
		if err != nil {
			return err
		}
		acked.Add(int64(f.batchBytes))
		<-credits
	}
}
