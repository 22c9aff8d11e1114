package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/chaos/check"
)

// clockBase starts the clock of all histories.
var clockBase = time.Now()

func now() int64 { return int64(time.Since(clockBase)) }

// topicSpec is one of the topics under load.
type topicSpec struct {
	name       string
	partitions int32
	configs    map[string]string
}

// load is the clients of one epoch. Every client is a goroutine; what they do
// goes into rec.
type load struct {
	// Immutable.
	addr   string
	prefix string
	seed   uint64
	rec    *check.Recorder
	// lagging: the broker's metadata and high watermarks may lag behind what it
	// acknowledged, so views of the catalogue are taken only while nothing changes.
	lagging      bool
	small, plain topicSpec
	large        topicSpec
	catalogue    *catalogue

	producing context.Context // ends first
	stopSends context.CancelFunc
	reading   context.Context // ends once all was flushed
	stopReads context.CancelFunc
	producers sync.WaitGroup
	others    sync.WaitGroup

	clientLog io.Writer // what the clients' libraries say; nil: nowhere

	// Atomic.
	acked, refused, unknown, polled, commits, bursts atomic.Int64
	fault                                            atomic.Pointer[string] // what a client saw that no checker knows
}

// newLoad prepares the clients; clientLog as in load.
func newLoad(ctx context.Context, addr, prefix string, seed uint64, rec *check.Recorder, clientLog io.Writer) *load {
	segments := map[string]string{"segment.bytes": "1048576"}
	l := &load{addr: addr, prefix: prefix, seed: seed, rec: rec, clientLog: clientLog,
		small: topicSpec{prefix + "small", 4, segments},
		plain: topicSpec{prefix + "plain", 2, segments},
		large: topicSpec{prefix + "large", 2, segments},
	}
	l.producing, l.stopSends = context.WithCancel(ctx)
	l.reading, l.stopReads = context.WithCancel(ctx)
	l.catalogue = newCatalogue(l)
	return l
}

// complain notes the first thing that no checker knows of.
func (l *load) complain(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	l.fault.CompareAndSwap(nil, &s)
}

// client opens a franz-go client that comes back quickly after a restart.
func (l *load) client(opts ...kgo.Opt) (*kgo.Client, error) {
	if l.clientLog != nil {
		opts = append(opts, kgo.WithLogger(kgo.BasicLogger(l.clientLog, kgo.LogLevelInfo, func() string {
			return time.Now().Format("15:04:05.000 ")
		})))
	}
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(l.addr), kgo.DialTimeout(2 * time.Second),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(time.Duration(tries)*20*time.Millisecond, 200*time.Millisecond)
		}),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(10 * time.Second),
		kgo.FetchMaxWait(200 * time.Millisecond),
	}, opts...)...)
}

// start creates the topics and sets all clients going.
func (l *load) start() error {
	for _, t := range []topicSpec{l.small, l.plain, l.large} {
		if err := l.catalogue.createForSure(l.producing, t); err != nil {
			return err
		}
	}
	producers := []producer{
		{id: 1, topic: l.small, idempotent: true, minBytes: 50, maxBytes: 1500, perSecond: 600},
		{id: 2, topic: l.small, idempotent: true, minBytes: 50, maxBytes: 300, perSecond: 300, linger: 5 * time.Millisecond},
		{id: 3, topic: l.plain, minBytes: 50, maxBytes: 5000, perSecond: 300},
		{id: 4, topic: l.large, idempotent: true, minBytes: 20_000, maxBytes: 400_000, perSecond: 25, linger: 2 * time.Millisecond},
	}
	for _, p := range producers {
		if err := l.startProducer(p); err != nil {
			return err
		}
	}
	for _, t := range []topicSpec{l.small, l.plain, l.large} {
		if err := l.startReader("reader "+t.name, t); err != nil {
			return err
		}
	}
	for m := range 2 {
		l.others.Go(func() { l.groupMember(fmt.Sprintf("member-%d", m), m == 1) })
	}
	l.others.Go(l.groupObserver)
	l.others.Go(l.catalogue.change)
	if !l.lagging {
		l.others.Go(l.catalogue.watch)
	}
	return nil
}

// stop ends the producers once everything in flight is answered, then the rest.
// Errors: records were not answered in time.
func (l *load) stop() error {
	l.stopSends()
	done := make(chan struct{})
	go func() { l.producers.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		err = l.unanswered()
	}
	l.stopReads()
	l.others.Wait()
	if f := l.fault.Load(); f != nil && err == nil {
		err = fmt.Errorf("%s", *f)
	}
	return err
}

// unanswered names the records that are on their way for too long.
func (l *load) unanswered() error {
	type place struct {
		producer int32
		part     check.Part
	}
	count, first := map[place]int{}, map[place]int64{}
	l.rec.Record(func(h *check.History) {
		for _, s := range h.Sends {
			p := place{s.Producer, s.Part}
			if s.Return != check.Never {
				continue
			}
			if count[p]++; count[p] == 1 {
				first[p] = s.First
			}
		}
	})
	var b strings.Builder
	for p, n := range count {
		fmt.Fprintf(&b, "; producer %d, %v: %d from record %d on", p.producer, p.part, n, first[p])
	}
	return fmt.Errorf("records are still unanswered a minute after the last fault%s", b.String())
}

func (l *load) rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(l.seed, stream)) }

// pause sleeps unless ctx ends first, and says whether it did not.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
