package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
)

// warmUp precedes every measurement of latency and is not counted.
const warmUp = 2 * time.Second

const (
	clients           = 4
	latencyPartitions = 16
	recordBytes       = 1024
	// batchBytes is a batch of one record of 64 KiB less the framing.
	batchBytes = 64<<10 - 100
)

// latencies collects times in microseconds, up to a minute.
type latencies struct {
	// Immutable once recording has begun.
	from time.Time // what was due earlier is warm-up

	mu struct {
		sync.Mutex
		h *hdrhistogram.Histogram
	}
}

func newLatencies() *latencies {
	l := &latencies{}
	l.mu.h = hdrhistogram.New(1, 60_000_000, 3)
	return l
}

// record counts from when the request was due, not from when it was sent.
func (l *latencies) record(due, done time.Time) {
	if due.Before(l.from) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Longer than a minute is recorded as a minute.
	_ = l.mu.h.RecordValue(min(max(done.Sub(due).Microseconds(), 1), 60_000_000))
}

func (l *latencies) result(span time.Duration) latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := func(percentile float64) float64 { return float64(l.mu.h.ValueAtPercentile(percentile)) / 1000 }
	return latency{P50: ms(50), P99: ms(99), P999: ms(99.9), Max: float64(l.mu.h.Max()) / 1000,
		Achieved: float64(l.mu.h.TotalCount()) / span.Seconds()}
}

func open(b peers.Broker, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
}

func createTopic(ctx context.Context, b peers.Broker, topic string, partitions int32) error {
	cl, err := open(b)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic)
	return err
}

// measureLatency sends rate records a second from four clients to sixteen
// partitions, each record a request of its own unless the broker is behind.
func measureLatency(ctx context.Context, b peers.Broker, rate int, span time.Duration) (latency, error) {
	topic := fmt.Sprintf("latency-%d", time.Now().UnixNano())
	if err := createTopic(ctx, b, topic, latencyPartitions); err != nil {
		return latency{}, err
	}
	l := newLatencies()
	begin := time.Now()
	l.from = begin.Add(warmUp)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	cpu, err := cpuSeconds(b.PID())
	if err != nil {
		return latency{}, err
	}
	value := aligned(recordBytes)
	for c := range clients {
		cl, err := open(b, kgo.MaxBufferedRecords(100_000))
		if err != nil {
			return latency{}, err
		}
		defer cl.Close()
		wg.Go(func() {
			for i := c; ; i += clients {
				due := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
				if due.After(l.from.Add(span)) || ctx.Err() != nil {
					break
				}
				time.Sleep(time.Until(due))
				cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % latencyPartitions), Value: value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
					l.record(due, time.Now())
				})
			}
			if err := cl.Flush(ctx); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return latency{}, *err
	}
	r := l.result(span)
	used, err := cpuSeconds(b.PID())
	r.Cores = (used - cpu) / time.Since(begin).Seconds()
	return r, err
}

// measureThroughput keeps one partition busy from four clients with batches of
// 64 KiB, as fast as they are acknowledged.
func measureThroughput(ctx context.Context, b peers.Broker, span time.Duration) (throughput, error) {
	topic := fmt.Sprintf("throughput-%d", time.Now().UnixNano())
	if err := createTopic(ctx, b, topic, 1); err != nil {
		return throughput{}, err
	}
	cpu, err := cpuSeconds(b.PID())
	if err != nil {
		return throughput{}, err
	}
	begin := time.Now()
	bytes, err := flood(ctx, b, topic, 1, batchBytes, func(int64) bool { return time.Since(begin) < span })
	if err != nil {
		return throughput{}, err
	}
	took := time.Since(begin).Seconds()
	used, err := cpuSeconds(b.PID())
	return throughput{MBps: float64(bytes) / 1e6 / took, CPUPerGB: (used - cpu) / (float64(bytes) / 1e9)}, err
}

// flood sends records of size bytes for as long as more(bytes sent) holds and
// returns the bytes acknowledged. Memory is bounded by the clients' buffers.
func flood(ctx context.Context, b peers.Broker, topic string, partitions, size int, more func(int64) bool) (int64, error) {
	var sent, acked atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	value := aligned(size)
	for c := range clients {
		cl, err := open(b, kgo.ProducerBatchMaxBytes(64<<10), kgo.MaxBufferedRecords(max(64, 4*(64<<10)/size)))
		if err != nil {
			return 0, err
		}
		defer cl.Close()
		wg.Go(func() {
			for i := c; more(sent.Load()) && ctx.Err() == nil && failed.Load() == nil; i++ {
				sent.Add(int64(size))
				cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value}, func(_ *kgo.Record, err error) {
					if err != nil {
						failed.CompareAndSwap(nil, &err)
						return
					}
					acked.Add(int64(size))
				})
			}
			if err := cl.Flush(ctx); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return acked.Load(), ctx.Err()
}

// cpuSeconds is the CPU time that a process has used.
func cpuSeconds(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// After the name in parentheses: state is field 0, utime 11, stime 12, in
	// ticks of which Linux has a hundred a second on every platform.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat is too short")
	}
	var user, system float64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return (user + system) / 100, nil
}
