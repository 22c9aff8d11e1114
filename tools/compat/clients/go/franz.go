package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	brokers []string
	adm     *kadm.Client
}

func newFranz(brokers []string) (client, error) {
	f := &franz{brokers: brokers}
	cl, err := f.dial()
	if err != nil {
		return nil, err
	}
	f.adm = kadm.NewClient(cl)
	return f, nil
}

func (f *franz) dial(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.brokers...)}, opts...)...)
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func (f *franz) create(topic string, partitions int, configs map[string]string) error {
	ctx, cancel := soon()
	defer cancel()
	m := map[string]*string{}
	for k, v := range configs {
		m[k] = &v
	}
	_, err := f.adm.CreateTopic(ctx, int32(partitions), 1, m, topic)
	return err
}

func (f *franz) partitions(topic string) (int, error) {
	ctx, cancel := soon()
	defer cancel()
	d, err := f.adm.ListTopics(ctx, topic)
	return len(d[topic].Partitions), errors.Join(err, d[topic].Err)
}

func (f *franz) remove(topic string) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := f.adm.DeleteTopic(ctx, topic)
	return err
}

func (f *franz) grow(topic string, partitions int) error {
	ctx, cancel := soon()
	defer cancel()
	r, err := f.adm.UpdatePartitions(ctx, partitions, topic)
	return errors.Join(err, r.Error())
}

func (f *franz) trim(topic string, partition int, offset int64) (int64, error) {
	ctx, cancel := soon()
	defer cancel()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: int32(partition), At: offset})
	r, err := f.adm.DeleteRecords(ctx, os)
	if err = errors.Join(err, r.Error()); err != nil {
		return 0, err
	}
	return r[topic][int32(partition)].LowWatermark, nil
}

func (f *franz) deleteGroup(group string) error {
	ctx, cancel := soon()
	defer cancel()
	_, err := f.adm.DeleteGroup(ctx, group)
	return err
}

// place finds the offset of a position; shift is relative to the group's.
func (f *franz) place(ctx context.Context, group, topic string, partition int32, at position) (int64, error) {
	var listed kadm.ListedOffsets
	var err error
	switch at.form {
	case "offset":
		return at.value, nil
	case "start":
		listed, err = f.adm.ListStartOffsets(ctx, topic)
	case "end":
		listed, err = f.adm.ListEndOffsets(ctx, topic)
	case "timestamp":
		listed, err = f.adm.ListOffsetsAfterMilli(ctx, at.value, topic)
	case "shift":
		have, err := f.adm.FetchOffsets(ctx, group)
		o, _ := have.Lookup(topic, partition)
		return o.At + at.value, errors.Join(err, o.Err)
	default:
		return 0, errors.New("unknown position " + at.form)
	}
	o, _ := listed.Lookup(topic, partition)
	return o.Offset, errors.Join(err, o.Err)
}

func (f *franz) reset(group, topic string, partition int, to position) error {
	ctx, cancel := soon()
	defer cancel()
	at, err := f.place(ctx, group, topic, int32(partition), to)
	if err != nil {
		return err
	}
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: int32(partition), At: at, LeaderEpoch: -1})
	return f.adm.CommitAllOffsets(ctx, group, os)
}

func (f *franz) transact(topic, id string, messages []message) error {
	cl, err := f.dial(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, franzRecords(topic, messages, 0)...).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

func franzRecords(topic string, messages []message, timestamp int64) []*kgo.Record {
	var all []*kgo.Record
	for _, m := range messages {
		r := &kgo.Record{Topic: topic, Key: []byte(m.key), Value: []byte(m.value)}
		if timestamp > 0 {
			r.Timestamp = time.UnixMilli(timestamp)
		}
		all = append(all, r)
	}
	return all
}

// franzProducer has a client for records of partition 0 and one that chooses.
type franzProducer struct{ manual, free *kgo.Client }

func (f *franz) open(o producerOptions) (producer, error) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	required := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codecs[o.codec]), kgo.RequiredAcks(required[o.acks])}
	if !o.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if o.batch > 0 {
		opts = append(opts, kgo.ProducerBatchMaxBytes(int32(o.batch*230)))
	}
	free, err := f.dial(opts...)
	if err != nil {
		return nil, err
	}
	manual, err := f.dial(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	return &franzProducer{manual, free}, err
}

func (p *franzProducer) send(topic string, messages []message, timestamp int64) error {
	ctx, cancel := soon()
	defer cancel()
	return p.manual.ProduceSync(ctx, franzRecords(topic, messages, timestamp)...).FirstErr()
}

func (p *franzProducer) sendOne(topic string, m message) error {
	return p.free.ProduceSync(context.Background(), franzRecords(topic, []message{m}, 0)...).FirstErr()
}

func (p *franzProducer) close() error { p.manual.Close(); p.free.Close(); return nil }

// franzConsumer polls a client in the background until it is left.
type franzConsumer struct {
	cl   *kgo.Client
	stop context.CancelFunc
	done chan struct{}
}

func consumeFranz(cl *kgo.Client) *franzConsumer {
	ctx, cancel := context.WithCancel(context.Background())
	c := &franzConsumer{cl: cl, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			fetches.EachError(func(t string, p int32, err error) {
				fmt.Fprintln(os.Stderr, t, p, err)
				if ctx.Err() == nil {
					out.line("fault %s", codeOf(err))
				}
			})
			fetches.EachRecord(func(r *kgo.Record) { out.got(int(r.Partition), r.Offset, r.Key, r.Value) })
		}
	}()
	return c
}

func (c *franzConsumer) commit() error {
	ctx, cancel := soon()
	defer cancel()
	return c.cl.CommitUncommittedOffsets(ctx)
}

func (c *franzConsumer) leave() error {
	c.stop()
	<-c.done
	c.cl.Close()
	return nil
}

func (f *franz) assign(topic string, from position) (consumer, error) {
	ctx, cancel := soon()
	defer cancel()
	at, err := f.place(ctx, "", topic, 0, from)
	if err != nil {
		return nil, err
	}
	cl, err := f.dial(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(at)}}))
	if err != nil {
		return nil, err
	}
	return consumeFranz(cl), nil
}

func (f *franz) join(o joinOptions) (consumer, error) {
	var held assignment
	change := func(f func(...int)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			var parts []int
			for _, p := range changed[o.topic] {
				parts = append(parts, int(p))
			}
			f(parts...)
		}
	}
	reset := kgo.NewOffset().AtStart()
	if o.fromEnd {
		reset = kgo.NewOffset().AtEnd()
	}
	opts := []kgo.Opt{kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(reset),
		kgo.SessionTimeout(o.sessionTimeout()), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.MetadataMinAge(500 * time.Millisecond), kgo.MetadataMaxAge(time.Second),
		kgo.OnPartitionsAssigned(change(held.add)), kgo.OnPartitionsRevoked(change(held.remove)), kgo.OnPartitionsLost(change(held.remove))}
	switch o.assignor {
	case "range":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case "cooperative-sticky":
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if o.static != "" {
		opts = append(opts, kgo.InstanceID(o.static))
	}
	cl, err := f.dial(opts...)
	if err != nil {
		return nil, err
	}
	return consumeFranz(cl), nil
}
