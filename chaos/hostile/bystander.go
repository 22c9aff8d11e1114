package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// bystander is a producer and a consumer that do nothing wrong. Each record is
// sent by itself, acknowledged by all, and read by the consumer at the tail.
type bystander struct {
	producer, consumer *kgo.Client
	sending, reading   context.CancelFunc
	sender, goroutines sync.WaitGroup

	mu struct {
		sync.Mutex
		from, to []time.Duration // samples of the window: produce, end to end
		sent     int64
		waiting  map[int64]time.Time // not acknowledged yet, by when they were due
		acked    map[int64]bool
		read     map[int64]bool
		slowest  time.Duration
		errs     []error
	}
}

const (
	bystanderEvery = 5 * time.Millisecond
	bystanderBytes = 1 << 10
	// standstillMax is what counts as standing still.
	standstillMax = 20 * time.Second
)

func startBystander(ctx context.Context, addr string) (*bystander, error) {
	b := &bystander{}
	b.mu.waiting, b.mu.acked, b.mu.read = make(map[int64]time.Time), make(map[int64]bool), make(map[int64]bool)
	var err error
	b.producer, err = kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(bystanderName), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		return nil, err
	}
	b.consumer, err = kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(bystanderName), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(b.producer.Ping(ctx), b.consumer.Ping(ctx)); err != nil {
		return nil, err
	}
	sctx, stopSending := context.WithCancel(context.Background())
	rctx, stopReading := context.WithCancel(context.Background())
	b.sending, b.reading = stopSending, stopReading
	b.sender.Go(func() { b.send(sctx) })
	b.goroutines.Go(func() { b.read(rctx) })
	time.Sleep(warmUp)
	b.mark()
	time.Sleep(2 * warmUp)
	return b, nil
}

const warmUp = time.Second

// send keeps its pace whatever the answers do: times count from when a record was
// due.
func (b *bystander) send(ctx context.Context) {
	due := time.Now()
	for ctx.Err() == nil {
		due = due.Add(bystanderEvery)
		time.Sleep(time.Until(due))
		value := make([]byte, bystanderBytes)
		b.mu.Lock()
		n := b.mu.sent
		b.mu.sent++
		b.mu.waiting[n] = due
		b.mu.Unlock()
		binary.BigEndian.PutUint64(value, uint64(n))
		binary.BigEndian.PutUint64(value[8:], uint64(due.UnixNano()))
		at := due
		b.producer.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			took := time.Since(at)
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.mu.waiting, n)
			if err != nil {
				b.mu.errs = append(b.mu.errs, fmt.Errorf("the bystander's record %d: %w", n, err))
				return
			}
			b.mu.acked[n] = true
			b.mu.from = append(b.mu.from, took)
			b.mu.slowest = max(b.mu.slowest, took)
		})
	}
}

func (b *bystander) read(ctx context.Context) {
	for ctx.Err() == nil {
		fs := b.consumer.PollFetches(ctx)
		now := time.Now()
		b.mu.Lock()
		fs.EachRecord(func(r *kgo.Record) {
			n, at := int64(binary.BigEndian.Uint64(r.Value)), time.Unix(0, int64(binary.BigEndian.Uint64(r.Value[8:])))
			if b.mu.read[n] {
				b.mu.errs = append(b.mu.errs, fmt.Errorf("the bystander's record %d was read twice", n))
			}
			b.mu.read[n] = true
			b.mu.to = append(b.mu.to, now.Sub(at))
		})
		for _, e := range fs.Errors() {
			if ctx.Err() == nil {
				b.mu.errs = append(b.mu.errs, fmt.Errorf("the bystander's fetch: %w", e.Err))
			}
		}
		b.mu.Unlock()
	}
}

// window are the times since the last mark.
type window struct {
	samples           int
	produce, endToEnd time.Duration // p99
	slowest           time.Duration
}

// mark begins a window.
func (b *bystander) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.from, b.mu.to, b.mu.slowest = nil, nil, 0
}

// window counts records that still wait with their wait so far.
func (b *bystander) window() window {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := window{slowest: b.mu.slowest, endToEnd: p99(b.mu.to)}
	all := slices.Clone(b.mu.from)
	for _, due := range b.mu.waiting {
		age := time.Since(due)
		all = append(all, age)
		w.slowest = max(w.slowest, age)
	}
	w.samples, w.produce = len(all), p99(all)
	return w
}

func p99(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, len(d)*99/100)]
}

// finish waits for what is under way, and says what went wrong.
func (b *bystander) finish(ctx context.Context) error {
	b.sending()
	b.sender.Wait()
	ctx, cancel := context.WithTimeout(ctx, standstillMax)
	defer cancel()
	err := b.producer.Flush(ctx)
	for err == nil && b.missing() > 0 {
		select {
		case <-ctx.Done():
			err = fmt.Errorf("%d records of the bystander were acknowledged and are not read", b.missing())
		case <-time.After(10 * time.Millisecond):
		}
	}
	b.reading()
	b.goroutines.Wait()
	b.producer.Close()
	b.consumer.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Printf("bystander: %d records acknowledged, %d read\n", len(b.mu.acked), len(b.mu.read))
	return errors.Join(append(b.mu.errs, err)...)
}

// missing counts the records that were acknowledged and not read.
func (b *bystander) missing() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.mu.acked {
		if !b.mu.read[k] {
			n++
		}
	}
	return n
}
