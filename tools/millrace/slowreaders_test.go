package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTLSClientsThatNeverReadAreBoundedAndKeepNobodyOut has 50 clients ask for
// far more than the payload memory holds and read nothing.
func TestTLSClientsThatNeverReadAreBoundedAndKeepNobodyOut(t *testing.T) {
	const (
		clients, requests = 50, 8
		values            = 96 // of 1 MB, so that the log is three times the payload memory
	)
	cert, key, pool := certificate(t)
	conf := &tls.Config{RootCAs: pool}
	p := startProcess(t, t.TempDir(),
		"--set", "listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
		"--set", "ssl.certificate.file="+cert, "--set", "ssl.key.file="+key,
		"--set", "memory.payload.bytes=33554432", "--set", "memory.inflight.bytes=8388608", "--set", "queued.max.request.bytes=16777216", "--set", "log.segment.bytes=16777216", "--set", "shard.count=1")
	plain := client(t, p.listener("PLAINTEXT"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	createTopic(t, plain, "big", 1, nil)
	createTopic(t, plain, "small", 1, nil)
	for range values {
		r := &kgo.Record{Topic: "big", Value: make([]byte, 999_000)}
		if err := plain.ProduceSync(within(t, 30*time.Second), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	before := memoryBytes(t, p)
	for i := range clients {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", p.listener("SSL"), conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for k := range requests {
			if _, err := c.Write(bigFetch("big", int64((i+k*13)%values), int32(k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	secure := client(t, p.listener("SSL"), kgo.DialTLSConfig(conf),
		kgo.ConsumeTopics("small"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	largest, slowest := before, time.Duration(0)
	for n := range 40 {
		start := time.Now()
		produce(t, secure, "small", 10*n, 10*n+10)
		checkAll(t, consume(t, secure, 10), 10*n, 10*n+10)
		slowest = max(slowest, time.Since(start))
		largest = max(largest, memoryBytes(t, p))
		time.Sleep(25 * time.Millisecond)
	}
	old := client(t, p.listener("PLAINTEXT"), kgo.ConsumeTopics("big"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	read := 0
	for ctx := within(t, 60*time.Second); read < values; {
		fs := old.PollFetches(ctx)
		if fs.Err() != nil {
			t.Fatalf("history: %d of %d records: %v", read, values, fs.Err())
		}
		read += fs.NumRecords()
	}
	largest = max(largest, memoryBytes(t, p))
	t.Logf("memory before %d MB, at most %d MB; slowest round %v", before>>20, largest>>20, slowest)
	// The payload memory, and for each connection its buffers and goroutines.
	if grown := largest - before; grown > 64<<20 {
		t.Errorf("%d clients that read nothing cost %d MB", clients, grown>>20)
	}
	if slowest > 10*time.Second {
		t.Errorf("another client waited %v", slowest)
	}
	p.stop()
}

// bigFetch is a request for 8 MB of a topic's first partition.
func bigFetch(topic string, offset int64, id int32) []byte {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.SessionEpoch = 8<<20, 1, 100, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 8<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, id)
}

// memoryBytes is what the broker holds by its own account: the Go heap and the
// payload memory outside it. What the process has in memory would count the race
// detector too.
func memoryBytes(t *testing.T, p *process) (sum int64) {
	t.Helper()
	_, body := p.get("/metrics")
	for _, name := range []string{"go_memstats_heap_inuse_bytes ", `millrace_payload_memory_bytes{shard="0",state="mapped"} `} {
		_, rest, found := strings.Cut(body, "\n"+name)
		var n float64
		if _, err := fmt.Sscan(rest, &n); err != nil || !found {
			t.Fatalf("metric %s: %v", name, err)
		}
		sum += int64(n)
	}
	return sum
}
