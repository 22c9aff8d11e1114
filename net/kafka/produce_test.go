package kafka

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

// testBatch is a sealed batch of n records of some bytes.
func testBatch(n int, payload string) core.Batch {
	b := core.Batch(make([]byte, core.BatchHeaderBytes+len(payload)))
	copy(b[core.BatchHeaderBytes:], payload)
	b.InitHeader(int32(n), 1000, 1000)
	return b
}

type producePartition struct {
	num     int32
	records []byte
}

// produceRequest asks for partitions of topic "t", or what name says.
func produceRequest(name string, acks int16, parts ...producePartition) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1500
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = name, core.TopicID{15: 1}
	if name != "t" {
		t.TopicID = core.TopicID{15: 99}
	}
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.num, p.records
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// acked answers every Produce with offset 100 plus its partition number.
func acked(f *fixture, seen *[]string) func(core.ShardID, shard.Request) bool {
	return func(_ core.ShardID, q shard.Request) bool {
		p := q.(*shard.Produce)
		place, _ := f.loop.image.Locate(p.Partition)
		p.BaseOffset, p.AppendTimeMs, p.LogStart = core.Offset(100+place.Num), -1, 5
		*seen = append(*seen, fmt.Sprint(place.Num, " acks ", p.Acks))
		return true
	}
}

func TestProduceSendsEachPartitionToItsShard(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		f := newFixture(t)
		var seen []string
		var payloads [][]byte
		answer := acked(f, &seen)
		f.loop.answer = answer
		a, b := testBatch(2, "first"), testBatch(3, "second")
		req := produceRequest("t", -1, producePartition{2, a}, producePartition{0, b})
		place := f.serve(frameBytes(req, v))
		for _, q := range f.loop.submitted {
			p := q.(*shard.Produce)
			payloads = append(payloads, bytes.Clone(p.Records.Bytes()))
			if want := core.ShardOf(p.Partition, 2); f.loop.queue[len(payloads)-1].to != want {
				t.Errorf("version %d: partition %d went to the wrong shard", v, p.Partition)
			}
		}
		f.loop.run()
		resp := f.response(place, req).(*kmsg.ProduceResponse)
		if got := fmt.Sprint(seen); got != "[2 acks -1 0 acks -1]" {
			t.Errorf("version %d: shards saw %s", v, got)
		}
		if len(payloads) != 2 || !bytes.Equal(payloads[0], a) || !bytes.Equal(payloads[1], b) {
			t.Errorf("version %d: the records changed on the way", v)
		}
		ps := resp.Topics[0].Partitions
		if len(ps) != 2 || ps[0].Partition != 2 || ps[0].BaseOffset != 102 || ps[1].BaseOffset != 100 || ps[0].ErrorCode != 0 {
			t.Errorf("version %d: answered %+v", v, ps)
		}
		if v >= 5 && ps[0].LogStartOffset != 5 {
			t.Errorf("version %d: log start %d", v, ps[0].LogStartOffset)
		}
	}
}

func TestProduceRefusals(t *testing.T) {
	one := testBatch(1, "x")
	zstd := testBatch(1, "z")
	zstd.SetAttributes(4)
	zstd.Seal()
	old := bytes.Clone(one)
	old[16] = 1
	for _, c := range []struct {
		name    string
		topic   string
		acks    int16
		num     int32
		records []byte
		version int16
		want    int16
	}{
		{"unknown topic", "nope", 1, 0, one, 9, codeUnknownTopicOrPartition},
		{"unknown topic id", "nope", 1, 0, one, 13, codeUnknownTopicID},
		{"unknown partition", "t", 1, 4, one, 9, codeUnknownTopicOrPartition},
		{"negative partition", "t", 1, -1, one, 13, codeUnknownTopicOrPartition},
		{"acks 2", "t", 2, 0, one, 9, codeInvalidRequiredAcks},
		{"acks -2", "t", -2, 0, one, 3, codeInvalidRequiredAcks},
		{"null records", "t", 1, 0, nil, 9, codeInvalidRecord},
		{"no records", "t", 1, 0, []byte{}, 9, codeInvalidRecord},
		{"two batches", "t", 1, 0, append(bytes.Clone(one), one...), 9, codeInvalidRecord},
		{"cut batch", "t", 1, 0, one[:len(one)-1], 9, codeInvalidRecord},
		{"old format", "t", 1, 0, old[:40], 9, codeInvalidRecord},
		{"zstd before its time", "t", 1, 0, zstd, 6, codeUnsupportedCompression},
		// Of several faults the first in Kafka's order: existence, records, acks.
		{"unknown topic and acks 2", "nope", 2, 0, one, 9, codeUnknownTopicOrPartition},
		{"unknown topic id and no records", "nope", 1, 0, nil, 13, codeUnknownTopicID},
		{"unknown partition and zstd before its time", "t", 1, 4, zstd, 6, codeUnknownTopicOrPartition},
		{"two batches and acks 2", "t", 2, 0, append(bytes.Clone(one), one...), 9, codeInvalidRecord},
		{"zstd before its time, twice", "t", 2, 0, append(bytes.Clone(zstd), zstd...), 6, codeUnsupportedCompression},
	} {
		f := newFixture(t)
		var seen []string
		f.loop.answer = acked(f, &seen)
		// The other partition of the request is served.
		req := produceRequest(c.topic, c.acks, producePartition{c.num, c.records})
		resp := f.ask(req, c.version).(*kmsg.ProduceResponse)
		got := resp.Topics[0].Partitions[0]
		if got.ErrorCode != c.want || got.BaseOffset != -1 {
			t.Errorf("%s: error %d, offset %d, want error %d", c.name, got.ErrorCode, got.BaseOffset, c.want)
		}
		if len(seen) > 0 {
			t.Errorf("%s: reached a shard", c.name)
		}
	}
}

func TestProduceToAnInternalTopicIsRefused(t *testing.T) {
	f := newFixture(t)
	topic := testTopic(offsetsTopic, 3, 1)
	topic.Internal = true
	f.loop.image = testImage(topic)
	req := produceRequest(offsetsTopic, 1, producePartition{0, testBatch(1, "x")})
	got := f.ask(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if got.ErrorCode != codeInvalidTopic || len(f.loop.submitted) > 0 {
		t.Errorf("answered %+v, %d requests reached a shard", got, len(f.loop.submitted))
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	f := newFixture(t)
	place := f.serve(frameBytes(produceRequest("t", 0, producePartition{0, testBatch(1, "x")}), 9))
	f.loop.run()
	if b, ok := f.conn.replies[place]; !ok || len(b) > 0 || f.conn.closed != "" {
		t.Errorf("reply %x (%v), closed %q, want the place filled with nothing", b, ok, f.conn.closed)
	}
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		q.Base().Err = core.ErrStorageFull
		return true
	}
	place = f.serve(frameBytes(produceRequest("t", 0, producePartition{0, testBatch(1, "x")}), 9))
	f.loop.run()
	if _, ok := f.conn.replies[place]; ok || !strings.Contains(f.conn.closed, "acks=0") || !strings.Contains(f.conn.closed, "KAFKA_STORAGE_ERROR") {
		t.Errorf("replied %v, closed %q, want the connection closed and the error named", ok, f.conn.closed)
	}
}

func TestProduceAnswersAtItsTimeout(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		p := q.(*shard.Produce)
		place, _ := f.loop.image.Locate(p.Partition)
		p.BaseOffset = 9
		return place.Num == 0
	}
	req := produceRequest("t", -1, producePartition{0, testBatch(1, "x")}, producePartition{1, testBatch(1, "y")})
	place := f.serve(frameBytes(req, 9))
	f.loop.run()
	f.loop.advance(1400 * core.Millisecond)
	if len(f.conn.replies) > 0 {
		t.Fatal("answered before the timeout")
	}
	f.loop.advance(200 * core.Millisecond)
	ps := f.response(place, req).(*kmsg.ProduceResponse).Topics[0].Partitions
	if ps[0].ErrorCode != 0 || ps[0].BaseOffset != 9 || ps[1].ErrorCode != codeRequestTimedOut || ps[1].BaseOffset != -1 {
		t.Errorf("answered %+v", ps)
	}
	// The late answer changes nothing.
	late := f.loop.held[0]
	late.Base().Owner.(Continuation).Resume(late)
}

func TestProduceNamesRecordsAndLeader(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		p := q.(*shard.Produce)
		if place, _ := f.loop.image.Locate(p.Partition); place.Num == 0 {
			p.Err = fmt.Errorf("%w: record 3", core.ErrInvalidRecord)
			p.RecordErrors = []shard.RecordError{{Index: 3, Message: "no key"}}
		} else {
			p.Err, p.CurrentLeader, p.CurrentEpoch = core.ErrNotLeader, 1, 8
		}
		return true
	}
	req := produceRequest("t", 1, producePartition{0, testBatch(1, "x")}, producePartition{1, testBatch(1, "y")})
	resp := f.ask(req, 12).(*kmsg.ProduceResponse)
	ps := resp.Topics[0].Partitions
	if ps[0].ErrorCode != codeInvalidRecord || len(ps[0].ErrorRecords) != 1 || ps[0].ErrorRecords[0].RelativeOffset != 3 || *ps[0].ErrorMessage == "" {
		t.Errorf("answered %+v", ps[0])
	}
	if ps[1].ErrorCode != codeNotLeaderOrFollower || ps[1].CurrentLeader.LeaderID != 1 || ps[1].CurrentLeader.LeaderEpoch != 8 {
		t.Errorf("answered %+v", ps[1])
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].Host != "broker.test" {
		t.Errorf("brokers %+v", resp.Brokers)
	}
}
