package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func key(i int) string   { return fmt.Sprintf("k%06d", i) }
func value(i int) string { return fmt.Sprintf("v%06d-%s", i, strings.Repeat("x", 200)) }

var codecNames = map[uint8]string{0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

// create makes topics and returns when metadata shows them and their leaders
// answer.
func (s *suite) create(ctx context.Context, partitions int, configs map[string]*string, topics ...string) error {
	r, err := s.adm.CreateTopics(ctx, int32(partitions), 1, configs, topics...)
	if err != nil {
		return err
	}
	for _, t := range r.Sorted() {
		if t.Err != nil {
			return fmt.Errorf("create %s: %w", t.Topic, t.Err)
		}
		if err := s.awaitPartitions(ctx, t.Topic, func(n int) bool { return n == partitions }); err != nil {
			return err
		}
		// A produce request without an acknowledgement is lost on a leader that is
		// not ready.
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			_, err := s.ends(ctx, t.Topic)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s after 10 s: %w", t.Topic, err)
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// partitions is the number that metadata shows, 0 for an unknown topic.
func (s *suite) partitions(ctx context.Context, topic string) (int, error) {
	// Not through kadm, which may answer from the client's cache.
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return 0, err
	}
	return len(resp.Topics[0].Partitions), nil
}

func (s *suite) produce(ctx context.Context, records []*kgo.Record, opts ...kgo.Opt) error {
	opts = append([]kgo.Opt{kgo.SeedBrokers(s.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx, records...).FirstErr()
}

func records(topic string, begin, end int) []*kgo.Record {
	var out []*kgo.Record
	for i := begin; i < end; i++ {
		out = append(out, &kgo.Record{Topic: topic, Key: []byte(key(i)), Value: []byte(value(i)),
			Headers: []kgo.RecordHeader{{Key: "number", Value: []byte{byte(i)}}}})
	}
	return out
}

// fillEveryCodec creates a topic with count records, a fifth in each codec.
func (s *suite) fillEveryCodec(ctx context.Context, topic string, count int) error {
	if err := s.create(ctx, 1, nil, topic); err != nil {
		return err
	}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, c := range codecs {
		n := count / len(codecs)
		if err := s.produce(ctx, records(topic, i*n, (i+1)*n), kgo.ProducerBatchCompression(c)); err != nil {
			return err
		}
	}
	return nil
}

// fillTimed creates a topic with count records from base on, step apart, in
// batches of perBatch.
func (s *suite) fillTimed(ctx context.Context, topic string, count, perBatch int, base time.Time, step time.Duration) error {
	if err := s.create(ctx, 1, nil, topic); err != nil {
		return err
	}
	all := records(topic, 0, count)
	for i, r := range all {
		r.Timestamp = base.Add(time.Duration(i) * step)
	}
	for len(all) > 0 {
		if err := s.produce(ctx, all[:perBatch]); err != nil {
			return err
		}
		all = all[perBatch:]
	}
	return nil
}

// more produces the next hundred records, spread over four partitions.
func (s *suite) more(ctx context.Context, topic string, round int) error {
	rs := records(topic, round*moreCount, (round+1)*moreCount)
	for i, r := range rs {
		r.Partition = int32(i % 4)
	}
	return s.produce(ctx, rs)
}

// read returns all records of partition 0, which must be count and the log's
// end with them; it waits for them, at most 15 seconds.
func (s *suite) read(ctx context.Context, topic string, count int) ([]*kgo.Record, error) {
	got, err := s.poll(ctx, topic, count)
	if err != nil {
		return nil, err
	}
	ends, err := s.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(topic, 0)
	if len(got) != count || end.Offset != int64(count) {
		return nil, fmt.Errorf("%s holds %d records and ends at %d, want %d", topic, len(got), end.Offset, count)
	}
	return got, nil
}

// poll returns the records of partition 0 once there are at least count of them.
func (s *suite) poll(ctx context.Context, topic string, count int) ([]*kgo.Record, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var got []*kgo.Record
	for len(got) < count {
		fetches := cl.PollFetches(ctx)
		got = append(got, fetches.Records()...)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%s holds %d of %d records: %w", topic, len(got), count, err)
		}
	}
	return got, nil
}

// committed adds up a group's committed offsets of a topic.
func (s *suite) committed(ctx context.Context, group, topic string) (int64, error) {
	r, err := s.adm.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, p := range r[topic] {
		if p.Err != nil {
			return 0, p.Err
		}
		sum += max(p.At, 0)
	}
	return sum, nil
}

// commit sets a group's offset of partition 0.
func (s *suite) commit(ctx context.Context, group, topic string, offset int64) error {
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset, LeaderEpoch: -1})
	return s.adm.CommitAllOffsets(ctx, group, os)
}

// ends adds up the end offsets of a topic.
func (s *suite) ends(ctx context.Context, topic string) (int64, error) {
	all, err := s.adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	all.Each(func(o kadm.ListedOffset) { sum, err = sum+o.Offset, errors.Join(err, o.Err) })
	return sum, err
}

// trim deletes the records of partition 0 below an offset.
func (s *suite) trim(ctx context.Context, topic string, offset int64) error {
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset})
	r, err := s.adm.DeleteRecords(ctx, os)
	if err != nil {
		return err
	}
	return r.Error()
}

// grow makes a topic n partitions in all.
func (s *suite) grow(ctx context.Context, topic string, n int) error {
	r, err := s.adm.UpdatePartitions(ctx, n, topic)
	if err != nil {
		return err
	}
	return r.Error()
}

// describeGroup asks for a group of the classic protocol.
func (s *suite) describeGroup(ctx context.Context, group string) (kadm.DescribedGroup, error) {
	all, err := s.adm.DescribeGroups(ctx, group)
	if err != nil {
		return kadm.DescribedGroup{}, err
	}
	g := all[group]
	return g, g.Err
}

// serves says whether the broker lists an API key.
func (s *suite) serves(ctx context.Context, key int16) (bool, error) {
	v, err := s.adm.ApiVersions(ctx)
	if err != nil {
		return false, err
	}
	for _, b := range v {
		if b.Err != nil {
			return false, b.Err
		}
		_, _, has := b.KeyVersions(key)
		return has, nil
	}
	return false, errors.New("no broker answered")
}

// open connects the suite's own client.
func (s *suite) open() error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...))
	if err != nil {
		return err
	}
	s.cl, s.adm = cl, kadm.NewClient(cl)
	return nil
}
