package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataOfAll asks for all topics.
func metadataOfAll() request { return encode(kmsg.NewPtrMetadataRequest(), 9) }

func fetchOf(topic string, parts int, maxBytes, minBytes, waitMs int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis = maxBytes, minBytes, waitMs
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for i := range parts {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = int32(i), maxBytes
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// fill appends batches of 900 KiB until a partition of the attacked topic has so
// many bytes.
func (e *env) fill(ctx context.Context, bytes int) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	batch := recordBatch(func(b *kmsg.RecordBatch) {
		r := make([]byte, 900<<10)
		b.Records = append(binary.AppendVarint(nil, int64(len(r))), r...)
	})
	for n := 0; n < bytes; n += len(batch) {
		if said := c.ask(encode(produceOf(-1, topicName, 0, batch), produceVersion), answerWait); said != answered("NONE") {
			return fmt.Errorf("filling the topic: %s", said)
		}
	}
	return nil
}

// readerLoads ask and do not read.
func readerLoads() []attack {
	silent := func(name string, n int, hold time.Duration, prepare func(context.Context, *env) error, q func() []byte) attack {
		return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
			if prepare != nil {
				if err := prepare(ctx, e); err != nil {
					return outcome{}, err
				}
			}
			s, err := connect(ctx, e.broker.Addr(), e.n(n))
			if err != nil {
				return outcome{}, err
			}
			defer s.close()
			b := q()
			got := s.each(64, func(_ int, c *conn) string {
				if c.send(b, 200*time.Millisecond) != nil {
					return "requests not taken"
				}
				return "requests taken"
			})
			time.Sleep(hold)
			return outcome{figures: got.String()}, nil
		}}
	}
	topics := func(n int) func(context.Context, *env) error {
		return func(ctx context.Context, e *env) error { return e.manyTopics(ctx, n) }
	}
	return []attack{
		silent("50 slow readers that ask for 8 MiB", 50, 4*time.Second, func(ctx context.Context, e *env) error { return e.fill(ctx, 48<<20) },
			func() []byte { return encode(fetchOf(topicName, 1, 8<<20, 1, 500), 11).frame }),
		silent("500 readers of all metadata that never read", 500, 4*time.Second, topics(1000), func() []byte { return repeated(metadataOfAll().frame, 200) }),
		silent("3,000 readers of all metadata that never read", 3000, 2*time.Second, nil, func() []byte { return repeated(metadataOfAll().frame, 2) }),
		{name: "20,000 requests on one connection before reading", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.pipeline(ctx, e.n(20_000), apiVersions(0))
		}},
		{name: "5,000 produce requests on one connection before reading", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.pipeline(ctx, e.n(5_000), encode(produceOf(-1, topicName, 1, recordBatch(nil)), produceVersion))
		}},
	}
}

// pipeline sends everything and begins to read after a second: each request must
// be answered, in order.
func (e *env) pipeline(ctx context.Context, n int, q request) (outcome, error) {
	c, err := e.dial(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer c.Close()
	c.r = bufio.NewReaderSize(c.Conn, 64<<10)
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			b := append([]byte(nil), q.frame...)
			binary.BigEndian.PutUint32(b[8:], uint32(i))
			if err := c.send(b, time.Minute); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	time.Sleep(time.Second)
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Second)); err != nil {
		return outcome{}, err
	}
	for i := range n {
		b, err := c.readFrame()
		if err != nil {
			return outcome{}, fmt.Errorf("answer %d of %d: %w", i, n, err)
		}
		if got := binary.BigEndian.Uint32(b); got != uint32(i) {
			return outcome{}, fmt.Errorf("answer %d came where %d is next", got, i)
		}
	}
	return said("all answered in order"), <-sent
}

// manyTopics makes topics of one partition up to a number, a few hundred at a time.
func (e *env) manyTopics(ctx context.Context, n int) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for from := 0; from < n; from += 500 {
		req := createTopics()
		for i := from; i < min(from+500, n); i++ {
			req.Topics = append(req.Topics, createTopic(fmt.Sprintf("many-%05d-%s", i, strings.Repeat("x", 100)), 1, 1))
		}
		if got := c.ask(encode(req, 7), 50*time.Second); !strings.HasPrefix(got, "answer NONE") && !strings.HasPrefix(got, "answer TOPIC_ALREADY") {
			return fmt.Errorf("making topics: %s", got)
		}
	}
	return nil
}

// requestLoads are single requests that ask for too much.
func requestLoads() []attack {
	one := func(name string, q func() request, times int) attack {
		return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
			c, err := e.dial(ctx)
			if err != nil {
				return outcome{}, err
			}
			defer c.Close()
			got, q := counts{}, q()
			for range times {
				said := c.ask(q, 50*time.Second)
				if i := strings.IndexByte(said, ','); i >= 0 {
					said = said[:i] + ", ..."
				}
				got[said]++
				if said == closedText {
					break
				}
			}
			return outcome{figures: fmt.Sprintf("%v", got)}, nil
		}}
	}
	return []attack{
		one("Metadata for 100,000 names, 5 times", func() request {
			req := kmsg.NewPtrMetadataRequest()
			for i := range 100_000 {
				t := kmsg.NewMetadataRequestTopic()
				name := fmt.Sprintf("no-such-topic-%06d", i)
				t.Topic = &name
				req.Topics = append(req.Topics, t)
			}
			return encode(req, 9)
		}, 5),
		one("Metadata with 30 million empty names", func() request {
			body := binary.AppendUvarint(nil, 30_000_001)
			for range 30_000_000 {
				body = append(body, 1, 0)
			}
			return rawRequest(kmsg.NewPtrMetadataRequest(), 9, append(body, 0, 0, 0, 0))
		}, 1),
		one("Metadata with 7 million empty names", func() request {
			body := binary.AppendUvarint(nil, 7_000_001)
			for range 7_000_000 {
				body = append(body, 1, 0)
			}
			return rawRequest(kmsg.NewPtrMetadataRequest(), 9, append(body, 0, 0, 0, 0))
		}, 1),
		one("DescribeGroups of 14 million empty names", func() request {
			body := binary.AppendUvarint(nil, 14_000_001)
			for range 14_000_000 {
				body = append(body, 1)
			}
			return rawRequest(kmsg.NewPtrDescribeGroupsRequest(), 5, append(body, 0, 0))
		}, 1),
		one("DescribeConfigs of one topic 20,000 times", func() request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topicName
			for range 20_000 {
				req.Resources = append(req.Resources, r)
			}
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			return encode(req, 4)
		}, 1),
		one("ListOffsets of one partition 100,000 times", func() request {
			req := kmsg.NewPtrListOffsetsRequest()
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = topicName
			for range 100_000 {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Timestamp = 1
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
			return encode(req, 7)
		}, 1),
		one("CreateTopics of 5,000 topics", func() request {
			req := createTopics()
			for i := range 5_000 {
				req.Topics = append(req.Topics, createTopic(fmt.Sprintf("thousands-%d", i), 1, 1))
			}
			return encode(req, 7)
		}, 1),
		one("CreateTopics of 500,000 bad topics", func() request {
			req := createTopics()
			for i := range 500_000 {
				req.Topics = append(req.Topics, createTopic(fmt.Sprintf("%d", i), 0, 1))
			}
			return encode(req, 7)
		}, 1),
		one("Produce to 200,000 partitions that are not there", func() request {
			req := produceOf(-1, "nowhere", 0, nil)
			good := recordBatch(nil)
			for i := range 200_000 {
				p := kmsg.NewProduceRequestTopicPartition()
				p.Partition, p.Records = int32(i), good
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			}
			return encode(req, produceVersion)
		}, 1),
		{name: "5,000 fetches that wait for 2^31 bytes for 24 days", do: func(ctx context.Context, e *env) (outcome, error) {
			s, err := connect(ctx, e.broker.Addr(), e.n(5_000))
			if err != nil {
				return outcome{}, err
			}
			defer s.close()
			b := encode(fetchOf(topicName, 2, 1<<31-1, 1<<31-1, 1<<31-1), 11).frame
			s.each(64, func(_ int, c *conn) string { return fmt.Sprint(c.send(b, time.Second) == nil) })
			time.Sleep(2 * time.Second)
			return outcome{figures: s.states().String()}, nil
		}},
		bombs("300 decompression bombs of 64 MiB", 0, nil),
		bombs("300 bombs with a timestamp in a year", 365*86400_000, nil),
		bombs("40 lookups in bombs", 0, func() request {
			req := kmsg.NewPtrListOffsetsRequest()
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = topicName
			for range 40 {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp = 1, time.Now().Add(-time.Hour).UnixMilli()
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
			return encode(req, 7)
		}),
	}
}

// bombs produces batches that are 64 MiB when decompressed, or asks something of
// one.
func bombs(name string, later int64, ask func() request) attack {
	return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
		c, err := e.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		packed := gzipped(make([]byte, 64<<20))
		bomb := encode(produceOf(-1, topicName, 1, recordBatch(func(b *kmsg.RecordBatch) {
			b.FirstTimestamp += later
			b.MaxTimestamp = b.FirstTimestamp
			b.Attributes, b.Records = 1, packed
		})), produceVersion)
		before, err := e.cpu()
		if err != nil {
			return outcome{}, err
		}
		times, q := e.n(300), bomb
		if ask != nil {
			if said := c.ask(bomb, answerWait); said != answered("NONE") {
				return outcome{}, fmt.Errorf("a bomb is not taken: %s", said)
			}
			times, q = 1, ask()
		}
		got := counts{}
		for range times {
			got[c.ask(q, 50*time.Second)]++
		}
		after, err := e.cpu()
		if err != nil {
			return outcome{}, err
		}
		spent := after - before
		out := outcome{figures: fmt.Sprintf("%v; the broker took %.2f CPU s", got, spent.Seconds())}
		// Inflating 64 MiB takes a tenth of a second at the least.
		if each := spent / time.Duration(times); ask == nil && e.o.broker.Ours() && each > 50*time.Millisecond {
			return out, fmt.Errorf("%v of CPU time for each: the broker decompresses", each)
		}
		return out, nil
	}}
}
