package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	c.Producer.Retry.Max = 120
	c.Producer.Retry.Backoff = 250 * time.Millisecond
	c.Metadata.Retry.Max = 120
	c.Consumer.Offsets.AutoCommit.Enable = false
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

func (s *saramaClient) create(topic string, partitions int, configs map[string]string) error {
	d := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	for k, v := range configs {
		d.ConfigEntries[k] = &v
	}
	return s.admin(func(a sarama.ClusterAdmin) error { return a.CreateTopic(topic, d, false) })
}

func (s *saramaClient) partitions(topic string) (n int, err error) {
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

func (s *saramaClient) grow(topic string, partitions int) error {
	return s.admin(func(a sarama.ClusterAdmin) error { return a.CreatePartitions(topic, int32(partitions), nil, false) })
}

func (s *saramaClient) trim(topic string, partition int, offset int64) (low int64, err error) {
	err = s.admin(func(a sarama.ClusterAdmin) error {
		return a.DeleteRecords(topic, map[int32]int64{int32(partition): offset})
	})
	if err != nil {
		return 0, err
	}
	return s.place("", topic, int32(partition), position{form: "start"})
}

func (s *saramaClient) deleteGroup(group string) error {
	return s.admin(func(a sarama.ClusterAdmin) error { return a.DeleteConsumerGroup(group) })
}

// place finds the offset of a position; shift is relative to the group's.
func (s *saramaClient) place(group, topic string, partition int32, at position) (offset int64, err error) {
	time := map[string]int64{"start": sarama.OffsetOldest, "end": sarama.OffsetNewest, "timestamp": at.value}[at.form]
	switch at.form {
	case "offset":
		return at.value, nil
	case "shift":
		err = s.admin(func(a sarama.ClusterAdmin) error {
			r, err := a.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
			if err == nil {
				offset = r.GetBlock(topic, partition).Offset + at.value
			}
			return err
		})
		return offset, err
	}
	c, err := sarama.NewClient(s.brokers, s.config())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.GetOffset(topic, partition, time)
}

func (s *saramaClient) reset(group, topic string, partition int, to position) error {
	at, err := s.place(group, topic, int32(partition), to)
	if err != nil {
		return err
	}
	return s.admin(func(a sarama.ClusterAdmin) error {
		offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: {int32(partition): {Offset: at, LeaderEpoch: -1}}}
		r, err := a.AlterConsumerGroupOffsets(group, offsets, nil)
		if err != nil {
			return err
		}
		if code := r.Errors[topic][int32(partition)]; code != sarama.ErrNoError {
			return code
		}
		return nil
	})
}

func (s *saramaClient) transact(topic, id string, messages []message) error {
	c := s.config()
	c.Producer.Transaction.ID = id
	c.Producer.Transaction.Retry.Max = 20
	idempotent(c)
	c.Producer.Partitioner = sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(s.brokers, c)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.BeginTxn(); err != nil {
		return err
	}
	if err := p.SendMessages(saramaMessages(topic, messages, 0)); err != nil {
		return err
	}
	return p.CommitTxn()
}

func idempotent(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Net.MaxOpenRequests = 1
}

func saramaMessages(topic string, messages []message, timestamp int64) []*sarama.ProducerMessage {
	var all []*sarama.ProducerMessage
	for _, m := range messages {
		p := &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(m.key), Value: sarama.StringEncoder(m.value)}
		if timestamp > 0 {
			p.Timestamp = time.UnixMilli(timestamp)
		}
		all = append(all, p)
	}
	return all
}

// saramaProducer has a producer for records of partition 0 and one that chooses.
type saramaProducer struct{ manual, free sarama.SyncProducer }

func (s *saramaClient) open(o producerOptions) (producer, error) {
	c := s.config()
	c.Producer.Compression = map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
		"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}[o.codec]
	c.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}[o.acks]
	if o.idempotent {
		idempotent(c)
	}
	c.Producer.Flush.MaxMessages = o.batch
	free, err := sarama.NewSyncProducer(s.brokers, c)
	if err != nil {
		return nil, err
	}
	m := *c
	m.Producer.Partitioner = sarama.NewManualPartitioner
	manual, err := sarama.NewSyncProducer(s.brokers, &m)
	return &saramaProducer{manual, free}, err
}

func (p *saramaProducer) send(topic string, messages []message, timestamp int64) error {
	err := p.manual.SendMessages(saramaMessages(topic, messages, timestamp))
	var all sarama.ProducerErrors
	if errors.As(err, &all) && len(all) > 0 {
		return all[0]
	}
	return err
}

func (p *saramaProducer) sendOne(topic string, m message) error {
	_, _, err := p.free.SendMessage(saramaMessages(topic, []message{m}, 0)[0])
	return err
}

func (p *saramaProducer) close() error { return errors.Join(p.manual.Close(), p.free.Close()) }

// saramaReader consumes one partition without a group.
type saramaReader struct {
	consumer  sarama.Consumer
	partition sarama.PartitionConsumer
}

func (s *saramaClient) assign(topic string, from position) (consumer, error) {
	at, err := s.place("", topic, 0, from)
	if err != nil {
		return nil, err
	}
	c, err := sarama.NewConsumer(s.brokers, s.config())
	if err != nil {
		return nil, err
	}
	p, err := c.ConsumePartition(topic, 0, at)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go func() {
		for m := range p.Messages() {
			out.got(int(m.Partition), m.Offset, m.Key, m.Value)
		}
	}()
	return &saramaReader{c, p}, nil
}

func (r *saramaReader) commit() error { return errUnsupported }

func (r *saramaReader) leave() error { return errors.Join(r.partition.Close(), r.consumer.Close()) }

// saramaMember is a group member and its own handler.
type saramaMember struct {
	group sarama.ConsumerGroup
	stop  context.CancelFunc
	done  chan struct{}
	held  assignment
	mu    struct {
		sync.Mutex
		session sarama.ConsumerGroupSession // nil: between two sessions
		errors  int
	}
}

func (m *saramaMember) set(s sarama.ConsumerGroupSession) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.session = s
}

func (m *saramaMember) Setup(s sarama.ConsumerGroupSession) error   { m.set(s); return nil }
func (m *saramaMember) Cleanup(s sarama.ConsumerGroupSession) error { m.set(nil); return nil }

func (m *saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.held.add(int(claim.Partition()))
	defer m.held.remove(int(claim.Partition()))
	for {
		select {
		case r, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			s.MarkMessage(r, "")
			out.got(int(r.Partition), r.Offset, r.Key, r.Value)
		case <-s.Context().Done():
			return nil
		}
	}
}

// commit repeats until there was a session to commit in and no error came of it:
// Commit returns nothing.
func (m *saramaMember) commit() error {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		m.mu.Lock()
		session, before := m.mu.session, m.mu.errors
		m.mu.Unlock()
		if session == nil {
			continue
		}
		session.Commit()
		m.mu.Lock()
		after := m.mu.errors
		m.mu.Unlock()
		if after == before {
			return nil
		}
	}
	return errors.New("no commit without an error within 20 s")
}

func (m *saramaMember) leave() error {
	m.stop()
	<-m.done
	return m.group.Close()
}

func (s *saramaClient) join(o joinOptions) (consumer, error) {
	c := s.config()
	c.Metadata.RefreshFrequency = time.Second
	c.Consumer.Group.Session.Timeout = o.sessionTimeout()
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	c.Consumer.Group.InstanceId = o.static
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	if o.fromEnd {
		c.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	strategy := sarama.NewBalanceStrategyRange()
	if o.assignor == "cooperative-sticky" {
		strategy = sarama.NewBalanceStrategyCooperativeSticky()
	}
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	c.Consumer.Return.Errors = true
	g, err := sarama.NewConsumerGroup(s.brokers, o.group, c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: g, stop: cancel, done: make(chan struct{})}
	go func() {
		for err := range g.Errors() {
			fmt.Fprintln(os.Stderr, err)
			out.line("fault %s", codeOf(err))
			m.mu.Lock()
			m.mu.errors++
			m.mu.Unlock()
		}
	}()
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{o.topic}, m); err != nil {
				fmt.Fprintln(os.Stderr, "consume:", err)
				out.line("fault %s", codeOf(err))
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m, nil
}
