package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct{ brokers []string }

func newSarama(brokers []string) (client, error) { return &saramaClient{brokers}, nil }

func (s *saramaClient) config() *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID = "compat"
	c.Version = sarama.MaxVersion
	c.Producer.Return.Successes = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = 10 * time.Second
	c.Consumer.Group.Heartbeat.Interval = time.Second
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	return c
}

func (s *saramaClient) admin(f func(sarama.ClusterAdmin) error) error {
	a, err := sarama.NewClusterAdmin(s.brokers, s.config())
	if err != nil {
		return err
	}
	defer a.Close()
	return f(a)
}

func (s *saramaClient) create(topic string, partitions int) error {
	return s.admin(func(a sarama.ClusterAdmin) error {
		return a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false)
	})
}

func (s *saramaClient) partitionCount(topic string) (n int, err error) {
	err = s.admin(func(a sarama.ClusterAdmin) error {
		m, err := a.DescribeTopics([]string{topic})
		if err == nil {
			n = len(m[0].Partitions)
		}
		return err
	})
	return n, err
}

func (s *saramaClient) remove(topic string) error {
	return s.admin(func(a sarama.ClusterAdmin) error { return a.DeleteTopic(topic) })
}

func (s *saramaClient) produce(topic, codec, acks string, idempotent bool, messages []message) error {
	c := s.config()
	c.Producer.Compression = map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}[codec]
	c.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}[acks]
	if idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	p, err := sarama.NewSyncProducer(s.brokers, c)
	if err != nil {
		return err
	}
	var batch []*sarama.ProducerMessage
	for _, m := range messages {
		batch = append(batch, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(m.key), Value: sarama.StringEncoder(m.value)})
	}
	if err := p.SendMessages(batch); err != nil {
		return fmt.Errorf("%w", err)
	}
	return p.Close()
}

func (s *saramaClient) read(topic string, offset int64, count int) ([]message, error) {
	c, err := sarama.NewConsumer(s.brokers, s.config())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	pc, err := c.ConsumePartition(topic, 0, offset)
	if err != nil {
		return nil, err
	}
	defer pc.Close()
	limit := time.After(20 * time.Second)
	var got []message
	for len(got) < count {
		select {
		case m := <-pc.Messages():
			got = append(got, message{string(m.Key), string(m.Value)})
		case <-limit:
			return nil, fmt.Errorf("%d of %d records within 20 s", len(got), count)
		}
	}
	return got, nil
}

func (s *saramaClient) consume(topic string, count int) ([]message, error) {
	return s.read(topic, sarama.OffsetOldest, count)
}

func (s *saramaClient) consumeFrom(topic string, timestamp int64, count int) ([]message, error) {
	c, err := sarama.NewClient(s.brokers, s.config())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	offset, err := c.GetOffset(topic, 0, timestamp)
	if err != nil {
		return nil, err
	}
	return s.read(topic, offset, count)
}

// saramaMember is a group member and its own handler.
type saramaMember struct {
	in    *inbox
	topic string
	group sarama.ConsumerGroup
	stop  context.CancelFunc
	done  chan struct{}
	mu    struct {
		sync.Mutex
		assigned []int
	}
}

func (m *saramaMember) set(parts []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.assigned = nil
	for _, p := range parts {
		m.mu.assigned = append(m.mu.assigned, int(p))
	}
}

func (m *saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	m.set(s.Claims()[m.topic])
	return nil
}

func (m *saramaMember) Cleanup(s sarama.ConsumerGroupSession) error {
	s.Commit()
	m.set(nil)
	return nil
}

func (m *saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case msg, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			m.in.add(string(msg.Value))
			s.MarkMessage(msg, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func (m *saramaMember) partitions() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]int(nil), m.mu.assigned...)
}

func (m *saramaMember) leave() error {
	m.stop()
	<-m.done
	return m.group.Close()
}

func (s *saramaClient) member(group, topic string, in *inbox) (member, error) {
	g, err := sarama.NewConsumerGroup(s.brokers, group, s.config())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{in: in, topic: topic, group: g, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{topic}, m); err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m, nil
}

func (s *saramaClient) sender(topic string) (func(message) error, func(), error) {
	c := s.config()
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Retry.Max = 240
	c.Producer.Retry.Backoff = 250 * time.Millisecond
	c.Metadata.Retry.Max = 240
	p, err := sarama.NewSyncProducer(s.brokers, c)
	if err != nil {
		return nil, nil, err
	}
	return func(m message) error {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(m.key), Value: sarama.StringEncoder(m.value)})
		return err
	}, func() { p.Close() }, nil
}

func (s *saramaClient) tail(topic string, partitions int, in *inbox) (func(), error) {
	c, err := sarama.NewConsumer(s.brokers, s.config())
	if err != nil {
		return nil, err
	}
	var all []sarama.PartitionConsumer
	for p := range partitions {
		pc, err := c.ConsumePartition(topic, int32(p), sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		all = append(all, pc)
		go func() {
			for m := range pc.Messages() {
				in.add(string(m.Value))
			}
		}()
	}
	return func() {
		for _, pc := range all {
			pc.Close()
		}
		c.Close()
	}, nil
}
