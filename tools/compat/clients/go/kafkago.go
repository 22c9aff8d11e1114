package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

func (k *kafkaGo) create(topic string, partitions int, configs map[string]string) error {
	ctx, cancel := soon()
	defer cancel()
	t := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	for name, v := range configs {
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: v})
	}
	r, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{t}})
	if err != nil {
		return err
	}
	return r.Errors[topic]
}

func (k *kafkaGo) partitions(topic string) (int, error) {
	ctx, cancel := soon()
	defer cancel()
	m, err := k.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	return len(m.Topics[0].Partitions), m.Topics[0].Error
}

func (k *kafkaGo) remove(topic string) error {
	ctx, cancel := soon()
	defer cancel()
	r, err := k.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return r.Errors[topic]
}

func (k *kafkaGo) grow(topic string, partitions int) error {
	ctx, cancel := soon()
	defer cancel()
	r, err := k.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(partitions)}}})
	if err != nil {
		return err
	}
	return r.Errors[topic]
}

func (k *kafkaGo) trim(string, int, int64) (int64, error) { return 0, errUnsupported }

func (k *kafkaGo) deleteGroup(group string) error {
	ctx, cancel := soon()
	defer cancel()
	r, err := k.client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return r.Errors[group]
}

// place finds the offset of a position; shift is relative to the group's.
func (k *kafkaGo) place(group, topic string, partition int, at position) (int64, error) {
	ctx, cancel := soon()
	defer cancel()
	switch at.form {
	case "offset":
		return at.value, nil
	case "shift":
		r, err := k.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {partition}}})
		if err != nil {
			return 0, err
		}
		p := r.Topics[topic][0]
		return p.CommittedOffset + at.value, errors.Join(r.Error, p.Error)
	}
	ask := kafka.OffsetRequest{Partition: partition, Timestamp: at.value}
	switch at.form {
	case "start":
		ask = kafka.FirstOffsetOf(partition)
	case "end":
		ask = kafka.LastOffsetOf(partition)
	}
	r, err := k.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {ask}}})
	if err != nil {
		return 0, err
	}
	p := r.Topics[topic][0]
	switch at.form {
	case "start":
		return p.FirstOffset, p.Error
	case "end":
		return p.LastOffset, p.Error
	}
	for o := range p.Offsets {
		return o, p.Error
	}
	return 0, errors.Join(p.Error, errors.New("no offset for the timestamp"))
}

func (k *kafkaGo) reset(group, topic string, partition int, to position) error {
	at, err := k.place(group, topic, partition, to)
	if err != nil {
		return err
	}
	ctx, cancel := soon()
	defer cancel()
	r, err := k.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1,
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: at}}}})
	if err != nil {
		return err
	}
	return r.Topics[topic][0].Error
}

func (k *kafkaGo) transact(string, string, []message) error { return errUnsupported }

// kafkaGoProducer has a writer for records of partition 0 and one that chooses.
type kafkaGoProducer struct {
	manual, free *kafka.Writer
	transport    *kafka.Transport
}

func (k *kafkaGo) open(o producerOptions) (producer, error) {
	if o.idempotent {
		return nil, errUnsupported
	}
	// The default transport knows the topics of some seconds ago.
	transport := &kafka.Transport{}
	w := func(balancer kafka.Balancer) *kafka.Writer {
		return &kafka.Writer{
			Addr: kafka.TCP(k.brokers...), Transport: transport, BatchTimeout: 5 * time.Millisecond, Balancer: balancer,
			// One batch: with acks=0 the client does not keep batches in order.
			BatchSize:    1000,
			MaxAttempts:  100,
			RequiredAcks: map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll}[o.acks],
			Compression:  map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}[o.codec],

			WriteBackoffMax: 500 * time.Millisecond,
		}
	}
	zero := kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 })
	return &kafkaGoProducer{w(zero), w(&kafka.RoundRobin{}), transport}, nil
}

func kafkaGoMessages(topic string, messages []message, timestamp int64) []kafka.Message {
	var all []kafka.Message
	for _, m := range messages {
		r := kafka.Message{Topic: topic, Key: []byte(m.key), Value: []byte(m.value)}
		if timestamp > 0 {
			r.Time = time.UnixMilli(timestamp)
		}
		all = append(all, r)
	}
	return all
}

func (p *kafkaGoProducer) send(topic string, messages []message, timestamp int64) error {
	ctx, cancel := soon()
	defer cancel()
	err := p.manual.WriteMessages(ctx, kafkaGoMessages(topic, messages, timestamp)...)
	var all kafka.WriteErrors
	if errors.As(err, &all) {
		return errors.Join(all...)
	}
	return err
}

func (p *kafkaGoProducer) sendOne(topic string, m message) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return p.free.WriteMessages(ctx, kafkaGoMessages(topic, []message{m}, 0)...)
}

func (p *kafkaGoProducer) close() error {
	defer p.transport.CloseIdleConnections()
	return errors.Join(p.manual.Close(), p.free.Close())
}

// kafkaGoReader consumes one partition from an offset until it is left.
type kafkaGoReader struct {
	stop context.CancelFunc
	done chan struct{}
}

func (k *kafkaGo) readers(partition int, topic string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{Brokers: k.brokers, Topic: topic, Partition: partition, MaxWait: 200 * time.Millisecond})
}

func (k *kafkaGo) assign(topic string, from position) (consumer, error) {
	at, err := k.place("", topic, 0, from)
	if err != nil {
		return nil, err
	}
	r := k.readers(0, topic)
	if err := r.SetOffset(at); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &kafkaGoReader{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer r.Close()
		for {
			m, err := r.ReadMessage(ctx)
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "read:", err)
				continue
			}
			out.got(m.Partition, m.Offset, m.Key, m.Value)
		}
	}()
	return c, nil
}

func (c *kafkaGoReader) commit() error { return errUnsupported }

func (c *kafkaGoReader) leave() error { c.stop(); <-c.done; return nil }

// kafkaGoMember uses the generation API: a Reader hides its partitions.
type kafkaGoMember struct {
	k     *kafkaGo
	topic string
	stop  context.CancelFunc
	done  chan struct{}
	err   error // valid after done
	held  assignment
	mu    struct {
		sync.Mutex
		generation *kafka.Generation // nil: between two
		next       map[int]int64
	}
}

func (m *kafkaGoMember) begin(gen *kafka.Generation, parts []int) {
	m.mu.Lock()
	m.mu.generation, m.mu.next = gen, map[int]int64{}
	m.mu.Unlock()
	m.held.change(func() { m.held.held = slices.Clone(parts) })
}

func (m *kafkaGoMember) commit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.generation == nil || len(m.mu.next) == 0 {
		return nil
	}
	return m.mu.generation.CommitOffsets(map[string]map[int]int64{m.topic: m.mu.next})
}

func (m *kafkaGoMember) leave() error { m.stop(); <-m.done; return m.err }

func (k *kafkaGo) join(o joinOptions) (consumer, error) {
	if o.static != "" || o.assignor == "cooperative-sticky" {
		return nil, errUnsupported
	}
	start := kafka.FirstOffset
	if o.fromEnd {
		start = kafka.LastOffset
	}
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: o.group, Brokers: k.brokers, Topics: []string{o.topic},
		StartOffset: start, SessionTimeout: o.sessionTimeout(), HeartbeatInterval: 500 * time.Millisecond, RebalanceTimeout: 10 * time.Second,
		WatchPartitionChanges: true, PartitionWatchInterval: time.Second, GroupBalancers: []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &kafkaGoMember{k: k, topic: o.topic, stop: cancel, done: make(chan struct{})}
	go m.run(ctx, g)
	return m, nil
}

func (m *kafkaGoMember) run(ctx context.Context, g *kafka.ConsumerGroup) {
	defer close(m.done)
	for ctx.Err() == nil {
		gen, err := g.Next(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, "next generation:", err)
			continue
		}
		var parts []int
		for _, a := range gen.Assignments[m.topic] {
			parts = append(parts, a.ID)
		}
		m.begin(gen, parts)
		for _, a := range gen.Assignments[m.topic] {
			gen.Start(func(gctx context.Context) { m.claim(ctx, gctx, a) })
		}
		gen.Start(func(gctx context.Context) { <-gctx.Done(); m.begin(nil, nil) })
	}
	m.err = g.Close()
}

// claim reads one partition until the generation or the member ends.
func (m *kafkaGoMember) claim(member, generation context.Context, a kafka.PartitionAssignment) {
	ctx, cancel := context.WithCancel(generation)
	defer cancel()
	defer context.AfterFunc(member, cancel)()
	r := m.k.readers(a.ID, m.topic)
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		fmt.Fprintln(os.Stderr, "set offset:", err)
		return
	}
	for {
		msg, err := r.ReadMessage(ctx)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "read:", err)
			continue
		}
		m.mu.Lock()
		if m.mu.next != nil {
			m.mu.next[a.ID] = msg.Offset + 1
		}
		m.mu.Unlock()
		out.got(msg.Partition, msg.Offset, msg.Key, msg.Value)
	}
}
