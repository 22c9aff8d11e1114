package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFetchOverShardsWaitsForTheSum fetches partitions of three shards with a
// minimum that no partition and no shard has by itself.
func TestFetchOverShardsWaitsForTheSum(t *testing.T) {
	const partitions = 12
	p := startProcess(t, t.TempDir(), "--set", "shard.count=3")
	cl := client(t, p.kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	createTopic(t, cl, "t", partitions, nil)
	fill := func(num int32) {
		t.Helper()
		r := &kgo.Record{Topic: "t", Partition: num, Value: make([]byte, 1000)}
		if err := cl.ProduceSync(within(t, 20*time.Second), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for num := range int32(partitions) {
		fill(num)
	}

	topics, err := kadm.NewClient(cl).ListTopics(within(t, 20*time.Second), "t")
	if err != nil {
		t.Fatal(err)
	}
	id := topics["t"].ID

	type answer struct {
		bytes int
		took  time.Duration
		err   error
	}
	fetch := func(offset int64, minBytes int) <-chan answer {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 20_000, int32(minBytes), 1<<20, -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = "t", id
		for num := range int32(partitions) {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = num, offset, 1<<20
			rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		out := make(chan answer, 1)
		began := time.Now()
		reader := client(t, p.kafka)
		go func() {
			resp, err := req.RequestWith(within(t, 40*time.Second), reader)
			a := answer{took: time.Since(began), err: err}
			if err == nil {
				for _, rt := range resp.Topics {
					for _, rp := range rt.Partitions {
						a.bytes += len(rp.RecordBatches)
						if rp.ErrorCode != 0 {
							a.err = fmt.Errorf("partition %d: error %d", rp.Partition, rp.ErrorCode)
						}
					}
				}
			}
			out <- a
		}()
		return out
	}

	check := func(what string, a answer, minBytes int) {
		t.Helper()
		if a.err != nil || a.bytes < minBytes || a.took > 15*time.Second {
			t.Errorf("%s: %d bytes after %v, %v; %d are there", what, a.bytes, a.took, a.err, minBytes)
		}
	}
	all := <-fetch(0, partitions*1000)
	check("everything is there", all, partitions*1000)
	each := all.bytes / partitions

	waiting := fetch(1, 5*each)
	for num := range int32(5) {
		select {
		case a := <-waiting:
			t.Fatalf("%d batches are there, 5 are the minimum: answered with %d bytes, %v", num, a.bytes, a.err)
		case <-time.After(50 * time.Millisecond):
		}
		fill(2 * num)
	}
	check("five batches came", <-waiting, 5*each)
}
