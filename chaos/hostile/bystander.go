package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// bystander is a producer and a consumer that do nothing wrong. Each record is
// sent by itself, acknowledged by all, and read by the consumer at the tail. It is
// a process of its own (see watch.go), so that what the attacks cost is not counted
// as the broker's.
type bystander struct {
	producer, consumer *kgo.Client
	reference          *reference
	sending, reading   context.CancelFunc
	sender, goroutines sync.WaitGroup

	mu struct {
		sync.Mutex
		marked  time.Time
		acks    []sample // of records due since the mark
		reads   []sample
		sent    int64
		waiting map[int64]time.Time // not acknowledged yet, by when they were due
		acked   map[int64]bool
		read    map[int64]bool
		errs    []string
	}
}

// sample is a time, and when what took it was due.
type sample struct {
	due  time.Time
	took time.Duration
}

const (
	bystanderEvery = 5 * time.Millisecond
	bystanderBytes = 1 << 10
)

// Window are the times of what was due since the last mark. What still waits counts
// with its wait so far.
type Window struct {
	Samples              int
	Produce50, Produce99 time.Duration
	EndToEnd99           time.Duration
	Slowest              time.Duration
	Reference            int // samples
	Reference50, Ref99   time.Duration
	Acked, Read, Unread  int
	OldestWaiting        time.Duration
	Errors               []string
}

// bystanderMain is the process: a line that it is ready, then an answer to each
// line from the runner: "mark", "window", "finish".
func bystanderMain(addr, referenceAddr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := startBystander(ctx, addr, referenceAddr)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(Window{}); err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var w Window
		switch in.Text() {
		case "mark":
			b.mark()
		case "window":
			w = b.window()
		case "finish":
			b.finish()
			w = b.window()
		}
		if err := out.Encode(w); err != nil {
			return err
		}
	}
	return in.Err()
}

func startBystander(ctx context.Context, addr, referenceAddr string) (*bystander, error) {
	b := &bystander{}
	b.mu.waiting, b.mu.acked, b.mu.read = make(map[int64]time.Time), make(map[int64]bool), make(map[int64]bool)
	var err error
	if b.reference, err = dialReference(referenceAddr); err != nil {
		return nil, err
	}
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
	b.mark()
	b.sender.Go(func() { b.send(sctx) })
	b.goroutines.Go(func() { b.read(rctx) })
	b.goroutines.Go(func() { b.reference.run(rctx) })
	time.Sleep(warmUp)
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
				b.failLocked(fmt.Sprintf("the bystander's record %d: %v", n, err))
				return
			}
			b.mu.acked[n] = true
			if !at.Before(b.mu.marked) {
				b.mu.acks = append(b.mu.acks, sample{at, took})
			}
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
				b.failLocked(fmt.Sprintf("the bystander's record %d was read twice", n))
			}
			b.mu.read[n] = true
			if !at.Before(b.mu.marked) {
				b.mu.reads = append(b.mu.reads, sample{at, now.Sub(at)})
			}
		})
		for _, e := range fs.Errors() {
			if ctx.Err() == nil {
				b.failLocked(fmt.Sprintf("the bystander's fetch: %v", e.Err))
			}
		}
		b.mu.Unlock()
	}
}

// mark begins a window.
func (b *bystander) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.marked, b.mu.acks, b.mu.reads = time.Now(), nil, nil
	b.reference.mark()
}

func (b *bystander) window() Window {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := Window{Acked: len(b.mu.acked), Read: len(b.mu.read), Errors: b.mu.errs}
	var all, reads []time.Duration
	for _, s := range b.mu.acks {
		all = append(all, s.took)
	}
	for _, s := range b.mu.reads {
		reads = append(reads, s.took)
	}
	for _, due := range b.mu.waiting {
		age := time.Since(due)
		w.OldestWaiting = max(w.OldestWaiting, age)
		if !due.Before(b.mu.marked) {
			all = append(all, age)
		}
	}
	for n := range b.mu.acked {
		if !b.mu.read[n] {
			w.Unread++
		}
	}
	w.Samples, w.Produce50, w.Produce99, w.Slowest = len(all), quantile(all, 50), quantile(all, 99), quantile(all, 100)
	w.EndToEnd99 = quantile(reads, 99)
	took := b.reference.taken()
	w.Reference, w.Reference50, w.Ref99 = len(took), quantile(took, 50), quantile(took, 99)
	return w
}

func quantile(d []time.Duration, percent int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, len(d)*percent/100)]
}

// finish sends no more and waits for what is under way.
func (b *bystander) finish() {
	b.sending()
	b.sender.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), restWait)
	defer cancel()
	if err := b.producer.Flush(ctx); err != nil {
		b.fail(fmt.Sprintf("waiting for acknowledgements: %v", err))
	}
	for b.window().Unread > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if n := b.window().Unread; n > 0 {
		b.fail(fmt.Sprintf("%d records of the bystander were acknowledged and are not read", n))
	}
	b.reading()
	b.goroutines.Wait()
	b.producer.Close()
	b.consumer.Close()
}

func (b *bystander) fail(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failLocked(text)
}

// failLocked keeps the first errors; there may be as many as records.
func (b *bystander) failLocked(text string) {
	if len(b.mu.errs) < errorsMax {
		b.mu.errs = append(b.mu.errs, text)
	}
}

const errorsMax = 10

// reference asks a process that does the least that a broker must: it takes
// bystanderBytes, appends them to a file, syncs it and answers. What that takes tells
// how busy the machine and its disk are, the attack included.
type reference struct {
	conn io.ReadWriteCloser

	mu struct {
		sync.Mutex
		took  []time.Duration // since the mark
		begun time.Time       // of the request under way; zero: none
	}
}

const referenceEvery = 20 * time.Millisecond

// run asks again and again, until the connection or ctx ends.
func (r *reference) run(ctx context.Context) {
	b := make([]byte, bystanderBytes)
	for ctx.Err() == nil {
		time.Sleep(referenceEvery)
		due := time.Now()
		r.mu.Lock()
		r.mu.begun = due
		r.mu.Unlock()
		if _, err := r.conn.Write(b); err != nil {
			return
		}
		if _, err := io.ReadFull(r.conn, b[:1]); err != nil {
			return
		}
		r.mu.Lock()
		// What was under way at the mark counts too: the machine stood still meanwhile.
		r.mu.took = append(r.mu.took, time.Since(due))
		r.mu.begun = time.Time{}
		r.mu.Unlock()
	}
}

func (r *reference) mark() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.took = nil
}

func (r *reference) taken() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.mu.took)
	if !r.mu.begun.IsZero() {
		out = append(out, time.Since(r.mu.begun))
	}
	return out
}
