package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordBatch is a valid batch of one record, which tests then spoil.
func recordBatch(edit func(b *kmsg.RecordBatch)) []byte {
	r := kmsg.NewRecord()
	r.Key, r.Value = []byte("key"), bytes.Repeat([]byte("v"), 100)
	body := r.AppendTo(nil)[1:] // without the length, which is one byte of 0
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 2, 1, -1, -1, -1
	now := time.Now().UnixMilli()
	b.FirstTimestamp, b.MaxTimestamp = now, now
	b.Records = append(binary.AppendVarint(nil, int64(len(body))), body...)
	if edit != nil {
		edit(&b)
	}
	return sealed(b)
}

// sealed writes a batch with the length and checksum that fit, unless the batch
// has some of its own.
func sealed(b kmsg.RecordBatch) []byte {
	ownLength, ownCRC := b.Length, b.CRC
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	if ownLength != 0 {
		binary.BigEndian.PutUint32(out[8:], uint32(ownLength))
	}
	if ownCRC != 0 {
		binary.BigEndian.PutUint32(out[17:], uint32(ownCRC))
	}
	return out
}

// produceOf is a Produce of records to one partition.
func produceOf(acks int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

const produceVersion = 9

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	// Writes to a Buffer do not fail.
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// produceAttacks are records that a broker must not take, one partition each.
func produceAttacks() []attack {
	edits := []struct {
		name string
		edit func(b *kmsg.RecordBatch)
	}{
		{"in order", nil},
		{"corrupt checksum", func(b *kmsg.RecordBatch) { b.CRC = 12345 }},
		{"magic 0", func(b *kmsg.RecordBatch) { b.Magic = 0 }},
		{"magic 1", func(b *kmsg.RecordBatch) { b.Magic = 1 }},
		{"magic 3", func(b *kmsg.RecordBatch) { b.Magic = 3 }},
		{"magic -1", func(b *kmsg.RecordBatch) { b.Magic = -1 }},
		{"length of the batch too large", func(b *kmsg.RecordBatch) { b.Length = 1 << 30 }},
		{"length of the batch -1", func(b *kmsg.RecordBatch) { b.Length = -1 }},
		{"length of the batch too small", func(b *kmsg.RecordBatch) { b.Length = 60 }},
		{"length of the batch 0 records", func(b *kmsg.RecordBatch) { b.Length = 10 }},
		{"-1 records", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = -1, -2 }},
		{"0 records", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta, b.Records = 0, -1, nil }},
		{"2^31-1 records of which one is there", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 1<<31-1, 1<<31-2 }},
		{"2 records of which one is there", func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 2, 1 }},
		{"1 record, a last offset delta of 5", func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 5 }},
		{"a last offset delta of -1", func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -1 }},
		{"a base offset of 7", func(b *kmsg.RecordBatch) { b.FirstOffset = 7 }},
		{"a base offset of -1", func(b *kmsg.RecordBatch) { b.FirstOffset = -1 }},
		{"a control batch", func(b *kmsg.RecordBatch) { b.Attributes = 0x20 }},
		{"a transactional batch without a transaction", func(b *kmsg.RecordBatch) {
			b.Attributes = 0x10
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = 5, 0, 0
		}},
		{"codec 5", func(b *kmsg.RecordBatch) { b.Attributes = 5 }},
		{"codec 7", func(b *kmsg.RecordBatch) { b.Attributes = 7 }},
		{"gzip that is none", func(b *kmsg.RecordBatch) { b.Attributes = 1 }},
		{"zstd that is none", func(b *kmsg.RecordBatch) { b.Attributes = 4 }},
		{"a record of -1 bytes", func(b *kmsg.RecordBatch) { b.Records = []byte{1} }},
		{"a record of 2^31 bytes", func(b *kmsg.RecordBatch) { b.Records = binary.AppendVarint(nil, 1<<31) }},
		{"records that are noise", func(b *kmsg.RecordBatch) { b.Records = bytes.Repeat([]byte{0xff}, 200) }},
		{"a timestamp in a year", func(b *kmsg.RecordBatch) { b.FirstTimestamp += 365 * 86400_000; b.MaxTimestamp = b.FirstTimestamp }},
		{"a timestamp of 2^63-1", func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = 1<<63-1, 1<<63-1 }},
		{"a timestamp of -2^63", func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = -1<<63, -1<<63 }},
		{"a producer id without a sequence", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch = 77, 0 }},
		{"a producer id and an epoch of -1", func(b *kmsg.RecordBatch) { b.ProducerID, b.FirstSequence = 77, 0 }},
		{"a producer id of -2", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = -2, 0, 0 }},
		{"a sequence of 2^31-1", func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 78, 0, 1<<31-1 }},
		{"a batch above max.message.bytes", func(b *kmsg.RecordBatch) { b.Records = bytes.Repeat(b.Records, 10_000) }},
		{"a batch of 40 MiB", func(b *kmsg.RecordBatch) { b.Records = make([]byte, 40<<20) }},
		{"a decompression bomb of 64 MiB", func(b *kmsg.RecordBatch) { b.Attributes, b.Records = 1, gzipped(make([]byte, 64<<20)) }},
		{"a bomb with a timestamp in a year", func(b *kmsg.RecordBatch) {
			b.FirstTimestamp += 365 * 86400_000
			b.MaxTimestamp = b.FirstTimestamp
			b.Attributes, b.Records = 1, gzipped(make([]byte, 64<<20))
		}},
	}
	var list []attack
	for _, x := range edits {
		// Made when it is sent: some are large, and timestamps are of that time.
		list = append(list, attack{name: "Produce, " + x.name, do: func(ctx context.Context, e *env) (outcome, error) {
			return talk("", encode(produceOf(-1, topicName, 0, recordBatch(x.edit)), produceVersion)).do(ctx, e)
		}})
	}
	good := recordBatch(nil)
	produce := func(name string, version int16, req *kmsg.ProduceRequest) {
		list = append(list, talk("Produce, "+name, encode(req, version)))
	}
	produce("null records", produceVersion, produceOf(-1, topicName, 0, nil))
	produce("empty records", produceVersion, produceOf(-1, topicName, 0, []byte{}))
	produce("ten bytes of records", produceVersion, produceOf(-1, topicName, 0, good[:10]))
	produce("half a batch", produceVersion, produceOf(-1, topicName, 0, good[:70]))
	produce("two batches", produceVersion, produceOf(-1, topicName, 0, append(append([]byte{}, good...), good...)))
	produce("a batch and ten bytes", produceVersion, produceOf(-1, topicName, 0, append(append([]byte{}, good...), good[:10]...)))
	produce("partition -1", produceVersion, produceOf(-1, topicName, -1, good))
	produce("partition 2^31-1", produceVersion, produceOf(-1, topicName, 1<<31-1, good))
	produce("a topic that is not there", produceVersion, produceOf(-1, "nowhere", 0, good))
	produce("__consumer_offsets", produceVersion, produceOf(-1, "__consumer_offsets", 0, good))
	produce("acks=2", produceVersion, produceOf(2, topicName, 0, good))
	produce("acks=-2", produceVersion, produceOf(-2, topicName, 0, good))
	produce("acks=0 to a topic that is not there", produceVersion, produceOf(0, "nowhere", 0, good))
	produce("a timeout of -1", produceVersion, func() *kmsg.ProduceRequest { r := produceOf(-1, topicName, 0, good); r.TimeoutMillis = -1; return r }())
	produce("no topics", produceVersion, func() *kmsg.ProduceRequest { r := kmsg.NewPtrProduceRequest(); r.Acks = -1; return r }())
	produce("an unknown topic ID", 13, func() *kmsg.ProduceRequest {
		r := produceOf(-1, "", 0, good)
		r.Topics[0].TopicID = [16]byte{1}
		return r
	}())
	produce("a transactional id", produceVersion, func() *kmsg.ProduceRequest {
		r := produceOf(-1, topicName, 0, good)
		id := "tx"
		r.TransactionID = &id
		return r
	}())
	twice := produceOf(-1, topicName, 0, good)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
	produce("a partition twice", produceVersion, twice)
	both := produceOf(-1, topicName, 0, good)
	both.Topics = append(both.Topics, produceOf(-1, topicName, 1, good).Topics...)
	produce("a topic twice", produceVersion, both)
	list = append(list,
		talk("Produce, v3 cut short", encode(produceOf(-1, topicName, 0, good), 3).cut(20)),
		talk("Produce, v3 with bytes after its end", encode(produceOf(-1, topicName, 0, good), 3).with(1, 2, 3)),
		talk("Produce, v3 an array of 2^31-1", rawRequest(kmsg.NewPtrProduceRequest(), 3, []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 100, 0x7f, 0xff, 0xff, 0xff})),
		talk("Produce, v3 an array of -2", rawRequest(kmsg.NewPtrProduceRequest(), 3, []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 100, 0xff, 0xff, 0xff, 0xfe})),
		talk("Produce, v9 a null topic", rawRequest(kmsg.NewPtrProduceRequest(), 9, []byte{0, 0xff, 0xff, 0, 0, 0, 100, 2, 0, 1, 0, 0})),
	)
	return list
}
