package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
)

// warmUp precedes every load and is not counted: files are prepared in it.
const warmUp = 2 * time.Second

// createTopic makes a topic with a name of its own.
func createTopic(ctx context.Context, b peers.Broker, partitions int32) (string, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RequestTimeoutOverhead(time.Minute))
	if err != nil {
		return "", err
	}
	defer cl.Close()
	topic := fmt.Sprintf("bench-%d", time.Now().UnixNano())
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(60_000)
	if _, err := adm.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return "", fmt.Errorf("create a topic of %d partitions: %w", partitions, err)
	}
	return topic, nil
}

// lanes are connections that one goroutine each writes requests to while another
// reads the answers, in order. The first error ends all of them.
type lanes struct {
	conns []net.Conn
	ctx   context.Context // done when the load is to end
	stop  context.CancelCauseFunc
	wg    sync.WaitGroup
}

// dial opens n connections.
func dial(ctx context.Context, b peers.Broker, n int) (*lanes, error) {
	l := &lanes{}
	l.ctx, l.stop = context.WithCancelCause(ctx)
	for range n {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

// fail notes the first error and wakes whoever waits for a connection.
func (l *lanes) fail(err error) {
	l.stop(err)
	l.close()
}

func (l *lanes) close() {
	for _, c := range l.conns {
		_ = c.Close() // nothing on it is waited for any more
	}
}

// run is send and receive on every connection, until ctx is done and both have
// returned. They end by themselves once ctx is done and all is answered.
func (l *lanes) run(send, receive func(i int, c net.Conn) error) {
	for i, c := range l.conns {
		for _, f := range []func(int, net.Conn) error{send, receive} {
			l.wg.Go(func() {
				if err := f(i, c); err != nil {
					l.fail(err)
				}
			})
		}
	}
}

// errDone ends a load that did what it should.
var errDone = fmt.Errorf("the load is over")

// finish ends the load, waits for the last answers and returns the error.
func (l *lanes) finish() error {
	l.stop(errDone)
	l.wg.Wait()
	l.close()
	if err := context.Cause(l.ctx); err != errDone {
		return err
	}
	return nil
}

// sleep returns when d is over or the load has ended.
func (l *lanes) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.ctx.Done():
	}
}
