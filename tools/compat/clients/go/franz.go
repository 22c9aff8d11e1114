package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ brokers []string }

func newFranz(brokers []string) (client, error) { return &franz{brokers}, nil }

func (f *franz) open(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.brokers...)}, opts...)...)
}

func minute() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

func (f *franz) create(topic string, partitions int) error {
	cl, err := f.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := minute()
	defer cancel()
	_, err = kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

func (f *franz) partitionCount(topic string) (int, error) {
	cl, err := f.open()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	ctx, cancel := minute()
	defer cancel()
	d, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	return len(d[topic].Partitions), err
}

func (f *franz) remove(topic string) error {
	cl, err := f.open()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := minute()
	defer cancel()
	_, err = kadm.NewClient(cl).DeleteTopic(ctx, topic)
	return err
}

func (f *franz) produce(topic, codec, acks string, idempotent bool, messages []message) error {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	required := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codecs[codec]), kgo.RequiredAcks(required[acks])}
	if !idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := f.open(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := minute()
	defer cancel()
	var batch []*kgo.Record
	for _, m := range messages {
		batch = append(batch, &kgo.Record{Topic: topic, Key: []byte(m.key), Value: []byte(m.value)})
	}
	return cl.ProduceSync(ctx, batch...).FirstErr()
}

func (f *franz) read(topic string, at kgo.Offset, count int) ([]message, error) {
	cl, err := f.open(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: at}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var got []message
	for len(got) < count {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", len(got), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, message{string(r.Key), string(r.Value)}) })
	}
	return got, nil
}

func (f *franz) consume(topic string, count int) ([]message, error) {
	return f.read(topic, kgo.NewOffset().AtStart(), count)
}

func (f *franz) consumeFrom(topic string, timestamp int64, count int) ([]message, error) {
	return f.read(topic, kgo.NewOffset().AfterMilli(timestamp), count)
}

// franzReader polls a client into an inbox until it is stopped.
type franzReader struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}
	mu   struct {
		sync.Mutex
		assigned []int
	}
}

func (r *franzReader) run(ctx context.Context, in *inbox) {
	defer close(r.done)
	for ctx.Err() == nil {
		r.cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) { in.add(string(rec.Value)) })
	}
}

func (r *franzReader) partitions() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.assigned)
}

func (r *franzReader) leave() error {
	r.stop()
	<-r.done
	ctx, cancel := minute()
	defer cancel()
	err := r.cl.CommitUncommittedOffsets(ctx)
	r.cl.Close()
	return errors.Join(err)
}

func (f *franz) member(group, topic string, in *inbox) (member, error) {
	r := &franzReader{done: make(chan struct{})}
	change := func(f func(have []int, p int) []int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, p := range changed[topic] {
				r.mu.assigned = f(r.mu.assigned, int(p))
			}
		}
	}
	drop := change(func(have []int, p int) []int { return slices.DeleteFunc(have, func(q int) bool { return q == p }) })
	cl, err := f.open(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(change(func(have []int, p int) []int { return append(have, p) })),
		kgo.OnPartitionsRevoked(drop), kgo.OnPartitionsLost(drop))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cl, r.stop = cl, cancel
	go r.run(ctx, in)
	return r, nil
}

func (f *franz) sender(topic string) (func(message) error, func(), error) {
	cl, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	return func(m message) error {
		ctx, cancel := minute()
		defer cancel()
		return cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte(m.key), Value: []byte(m.value)}).FirstErr()
	}, cl.Close, nil
}

func (f *franz) tail(topic string, _ int, in *inbox) (func(), error) {
	cl, err := f.open(kgo.ConsumeTopics(topic))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &franzReader{cl: cl, done: make(chan struct{})}
	go r.run(ctx, in)
	return func() { cancel(); <-r.done; cl.Close() }, nil
}
