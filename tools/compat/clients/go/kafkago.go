package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

type kafkaGo struct {
	brokers []string
	client  *kafka.Client
}

func newKafkaGo(brokers []string) (client, error) {
	return &kafkaGo{brokers, &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 20 * time.Second}}, nil
}

func (k *kafkaGo) create(topic string, partitions int) error {
	ctx, cancel := minute()
	defer cancel()
	r, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err != nil {
		return err
	}
	return r.Errors[topic]
}

func (k *kafkaGo) partitionCount(topic string) (int, error) {
	ctx, cancel := minute()
	defer cancel()
	m, err := k.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	return len(m.Topics[0].Partitions), nil
}

func (k *kafkaGo) remove(topic string) error {
	ctx, cancel := minute()
	defer cancel()
	r, err := k.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return r.Errors[topic]
}

func (k *kafkaGo) writer(topic, codec, acks string) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(k.brokers...), Topic: topic, BatchTimeout: 5 * time.Millisecond,
		// One batch: with acks=0 the client does not keep batches in order.
		BatchSize:    1000,
		RequiredAcks: map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}[acks],
		Compression:  map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}[codec],
	}
}

func (k *kafkaGo) produce(topic, codec, acks string, idempotent bool, messages []message) error {
	if idempotent {
		return errors.New("kafka-go has no idempotent producer")
	}
	w := k.writer(topic, codec, acks)
	ctx, cancel := minute()
	defer cancel()
	var batch []kafka.Message
	for _, m := range messages {
		batch = append(batch, kafka.Message{Key: []byte(m.key), Value: []byte(m.value)})
	}
	return errors.Join(w.WriteMessages(ctx, batch...), w.Close())
}

func (k *kafkaGo) read(topic string, count int, place func(context.Context, *kafka.Reader) error) ([]message, error) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: k.brokers, Topic: topic, Partition: 0, MaxWait: 200 * time.Millisecond})
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := place(ctx, r); err != nil {
		return nil, err
	}
	var got []message
	for len(got) < count {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", len(got), count, err)
		}
		got = append(got, message{string(m.Key), string(m.Value)})
	}
	return got, nil
}

func (k *kafkaGo) consume(topic string, count int) ([]message, error) {
	return k.read(topic, count, func(_ context.Context, r *kafka.Reader) error { return r.SetOffset(kafka.FirstOffset) })
}

func (k *kafkaGo) consumeFrom(topic string, timestamp int64, count int) ([]message, error) {
	return k.read(topic, count, func(ctx context.Context, r *kafka.Reader) error {
		return r.SetOffsetAt(ctx, time.UnixMilli(timestamp))
	})
}

// kafkaGoMember uses the generation API: a Reader hides its partitions.
type kafkaGoMember struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // valid after done
	mu   struct {
		sync.Mutex
		assigned []int
	}
}

func (m *kafkaGoMember) set(parts []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.assigned = parts
}

func (m *kafkaGoMember) partitions() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.assigned
}

func (m *kafkaGoMember) leave() error { m.stop(); <-m.done; return m.err }

func (k *kafkaGo) member(group, topic string, in *inbox) (member, error) {
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: group, Brokers: k.brokers, Topics: []string{topic},
		StartOffset: kafka.FirstOffset, SessionTimeout: 10 * time.Second, HeartbeatInterval: time.Second, RebalanceTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &kafkaGoMember{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			gen, err := g.Next(ctx)
			if err != nil {
				continue
			}
			var parts []int
			for _, a := range gen.Assignments[topic] {
				parts = append(parts, a.ID)
				gen.Start(func(gctx context.Context) {
					if err := k.claim(ctx, gctx, gen, topic, a, in); err != nil {
						fmt.Println("claim:", err)
					}
				})
			}
			gen.Start(func(gctx context.Context) { <-gctx.Done(); m.set(nil) })
			m.set(parts)
		}
		m.err = g.Close()
	}()
	return m, nil
}

// claim reads one partition until the generation or the member ends, then
// commits.
func (k *kafkaGo) claim(member, generation context.Context, gen *kafka.Generation, topic string, a kafka.PartitionAssignment, in *inbox) error {
	ctx, cancel := context.WithCancel(generation)
	defer cancel()
	defer context.AfterFunc(member, cancel)()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: k.brokers, Topic: topic, Partition: a.ID, MaxWait: 200 * time.Millisecond})
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		return err
	}
	next := int64(-1)
	for {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			if next < 0 {
				return nil
			}
			return gen.CommitOffsets(map[string]map[int]int64{topic: {a.ID: next}})
		}
		in.add(string(m.Value))
		next = m.Offset + 1
	}
}

func (k *kafkaGo) sender(topic string) (func(message) error, func(), error) {
	w := k.writer(topic, "none", "all")
	w.MaxAttempts = 100
	w.WriteBackoffMax = 500 * time.Millisecond
	return func(m message) error {
		ctx, cancel := minute()
		defer cancel()
		return w.WriteMessages(ctx, kafka.Message{Key: []byte(m.key), Value: []byte(m.value)})
	}, func() { w.Close() }, nil
}

func (k *kafkaGo) tail(topic string, partitions int, in *inbox) (func(), error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for p := range partitions {
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: k.brokers, Topic: topic, Partition: p, MaxWait: 200 * time.Millisecond, MaxAttempts: 100})
		if err := r.SetOffset(kafka.FirstOffset); err != nil {
			cancel()
			return nil, err
		}
		wg.Go(func() {
			defer r.Close()
			for {
				m, err := r.ReadMessage(ctx)
				if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
					return
				}
				if err == nil {
					in.add(string(m.Value))
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }, nil
}
