package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
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
			served := e.reads(ctx, hold)
			return got.told(served, "requests taken", "requests not taken")
		}}
	}
	topics := func(n int) func(context.Context, *env) error {
		return func(ctx context.Context, e *env) error { return e.manyTopics(ctx, n) }
	}
	return []attack{
		silent("50 slow readers that ask for 8 MiB", 50, 2*time.Second, func(ctx context.Context, e *env) error { return e.fill(ctx, 48<<20) },
			func() []byte { return encode(fetchOf(topicName, 1, 8<<20, 1, 500), 11).frame }),
		silent("500 readers of all metadata that never read", 500, 2*time.Second, topics(1000), func() []byte { return repeated(metadataOfAll().frame, 200) }),
		silent("3,000 readers of all metadata that never read", 3000, 2*time.Second, nil, func() []byte { return repeated(metadataOfAll().frame, 2) }),
		{name: "20,000 requests on one connection before reading", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.pipeline(ctx, e.n(20_000), apiVersions(0))
		}},
		{name: "200 readers of all metadata that pipeline and read", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.readers(ctx, e.n(200), 20, metadataOfAll())
		}},
		{name: "5,000 produce requests on one connection before reading", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.pipeline(ctx, e.n(5_000), encode(produceOf(-1, topicName, 1, recordBatch(nil)), produceVersion))
		}},
	}
}

// reads lets a client of its own read the history that is there, for as long as the
// others stand still.
func (e *env) reads(ctx context.Context, d time.Duration) string {
	got, end := counts{}, time.Now().Add(d)
	c, err := e.dial(ctx)
	if err != nil {
		return ""
	}
	defer c.Close()
	q := encode(fetchOf(topicName, 1, 1<<20, 1, 100), 11)
	for time.Now().Before(end) {
		got[c.ask(q, answerWait)]++
	}
	return fmt.Sprintf("; a reader of history meanwhile: %v", got)
}

// readers ask for the same, so many times each, and read the answers.
func (e *env) readers(ctx context.Context, n, times int, q request) (outcome, error) {
	s, err := connect(ctx, e.broker.Addr(), n)
	if err != nil {
		return outcome{}, err
	}
	defer s.close()
	began := time.Now()
	got := s.each(n, func(_ int, c *conn) string {
		c.r = bufio.NewReaderSize(c.Conn, 32<<10)
		if c.send(repeated(q.frame, times), answerWait) != nil {
			return "not taken"
		}
		for i := range times {
			if err := c.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
				return closedText
			}
			if err := c.skipFrame(); err != nil {
				return fmt.Sprintf("answer %d of %d: %v", i, times, err)
			}
		}
		return "all answered"
	})
	return got.told(fmt.Sprintf(" in %.1f s", time.Since(began).Seconds()), "all answered")
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
	one := func(name string, q func() request, times int, allowed ...string) attack {
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
			return got.told("", allowed...)
		}}
	}
	empty := func(kind kmsg.Request, version int16, n int, item, tail []byte) request {
		body := binary.AppendUvarint(nil, uint64(n)+1)
		return rawRequest(kind, version, append(append(body, repeated(item, n)...), tail...))
	}
	return []attack{
		one("Metadata for 90,000 names, 5 times", func() request {
			req := kmsg.NewPtrMetadataRequest()
			for i := range 90_000 {
				t := kmsg.NewMetadataRequestTopic()
				name := fmt.Sprintf("no-such-topic-%06d", i)
				t.Topic = &name
				req.Topics = append(req.Topics, t)
			}
			return encode(req, 9)
		}, 5, "answer UNKNOWN_TOPIC_OR_PARTITION"),
		one("Metadata with 4 million empty names", func() request {
			return empty(kmsg.NewPtrMetadataRequest(), 9, 4_000_000, []byte{1, 0}, []byte{0, 0, 0, 0})
		}, 1, closedText),
		one("Metadata with 1 million empty names, 5 times", func() request {
			return empty(kmsg.NewPtrMetadataRequest(), 9, 1_000_000, []byte{1, 0}, []byte{0, 0, 0, 0})
		}, 5, closedText, "answer"),
		one("DescribeGroups of 500,000 empty names, 5 times", func() request {
			return empty(kmsg.NewPtrDescribeGroupsRequest(), 5, 500_000, []byte{1}, []byte{0, 0})
		}, 5, closedText, "answer"),
		one("FindCoordinator of 500,000 empty keys, 5 times", func() request {
			body := binary.AppendUvarint([]byte{0}, 500_001)
			return rawRequest(kmsg.NewPtrFindCoordinatorRequest(), 4, append(append(body, repeated([]byte{1}, 500_000)...), 0))
		}, 5, closedText, "answer"),
		one("OffsetFetch of one offset 400,000 times", func() request {
			req := kmsg.NewPtrOffsetFetchRequest()
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = "commits-0-" + strings.Repeat("x", 200)
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.Partitions = topicName, make([]int32, 400_000)
			g.Topics = append(g.Topics, t)
			req.Groups = append(req.Groups, g)
			return encode(req, 8)
		}, 1, closedText, "answer"),
		one("DescribeConfigs of one topic 20,000 times", func() request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topicName
			for range 20_000 {
				req.Resources = append(req.Resources, r)
			}
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			return encode(req, 4)
		}, 1, "answer NONE"),
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
		}, 1, "answer NONE"),
		one("CreateTopics of 5,000 topics", func() request {
			req := createTopics()
			for i := range 5_000 {
				req.Topics = append(req.Topics, createTopic(fmt.Sprintf("thousands-%d", i), 1, 1))
			}
			return encode(req, 7)
		}, 1, "answer NONE"),
		one("CreateTopics of 500,000 bad topics", func() request {
			req := createTopics()
			for i := range 500_000 {
				req.Topics = append(req.Topics, createTopic(fmt.Sprintf("%d", i), 0, 1))
			}
			return encode(req, 7)
		}, 1, "answer INVALID_PARTITIONS", closedText),
		one("Produce to 200,000 partitions that are not there", func() request {
			req := produceOf(-1, "nowhere", 0, nil)
			good := recordBatch(nil)
			for i := range 200_000 {
				p := kmsg.NewProduceRequestTopicPartition()
				p.Partition, p.Records = int32(i), good
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
			}
			return encode(req, produceVersion)
		}, 1, "answer UNKNOWN_TOPIC_OR_PARTITION"),
		{name: "5,000 fetches that wait for 2^31 bytes for 24 days", do: func(ctx context.Context, e *env) (outcome, error) {
			s, err := connect(ctx, e.broker.Addr(), e.n(5_000))
			if err != nil {
				return outcome{}, err
			}
			defer s.close()
			b := encode(fetchOf(topicName, 2, 1<<31-1, 1<<31-1, 1<<31-1), 11).frame
			s.each(64, func(_ int, c *conn) string { return fmt.Sprint(c.send(b, time.Second) == nil) })
			time.Sleep(time.Second)
			return s.states().told("", "open")
		}},
		bombs("300 decompression bombs of 64 MiB", 0, nil),
		bombs("300 bombs with a timestamp in a year", 365*86400_000, nil),
		bombs("300 lookups in a bomb", lookupsLater, func() request {
			req := kmsg.NewPtrListOffsetsRequest()
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = topicName
			for i := range 300 { // nothing but the bomb is as young; each is another lookup
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp = 1, time.Now().UnixMilli()+lookupsLater/2+int64(i)
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
			return encode(req, 7)
		}),
	}
}

// bombs produces batches that are 64 MiB when decompressed, or asks something of
// one. Each may take a quarter of the CPU time that inflating it takes here.
func bombs(name string, later int64, ask func() request) attack {
	return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
		c, err := e.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		packed := gzipped(make([]byte, bombBytes))
		bomb := encode(produceOf(-1, topicName, 1, recordBatch(func(b *kmsg.RecordBatch) {
			b.FirstTimestamp += later
			b.MaxTimestamp = b.FirstTimestamp
			b.Attributes, b.Records = 1, packed
		})), produceVersion)
		inflating, err := inflatingTakes(packed)
		if err != nil {
			return outcome{}, err
		}
		before, err := e.cpu()
		if err != nil {
			return outcome{}, err
		}
		times, q, allowed := e.n(300), bomb, []string{answered("NONE"), answered("INVALID_TIMESTAMP")}
		if ask != nil {
			if said := c.ask(bomb, answerWait); said != answered("NONE") {
				return outcome{}, fmt.Errorf("a bomb is not taken: %s", said)
			}
			times, q, allowed = 1, ask(), []string{"answer"}
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
		text := fmt.Sprintf("; the broker took %.2f CPU s, inflating one takes %.2f", spent.Seconds(), inflating.Seconds())
		if each := spent / time.Duration(times); ask == nil && e.o.broker.Ours() && each > inflating/4 {
			return outcome{figures: got.String() + text}, fmt.Errorf("%v of CPU time for each: the broker decompresses", each)
		}
		return got.told(text, allowed...)
	}}
}

const bombBytes = 64 << 20

// lookupsLater is how much younger than now the bomb is that is looked up, in ms;
// an hour is allowed.
const lookupsLater = 40 * 60_000

// inflatingTakes is the CPU time of this thread for inflating once.
func inflatingTakes(packed []byte) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := func() (time.Duration, error) {
		var u syscall.Rusage
		err := syscall.Getrusage(rusageThread, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
	}
	before, err := cpu()
	if err != nil {
		return 0, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return 0, err
	}
	if n, err := io.Copy(io.Discard, r); err != nil || n != bombBytes {
		return 0, fmt.Errorf("a bomb of %d bytes, want %d: %w", n, bombBytes, err)
	}
	after, err := cpu()
	return after - before, err
}

// rusageThread is RUSAGE_THREAD of Linux.
const rusageThread = 1
