package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of the requests that are sent, which both Millrace and Kafka 4.4
// serve; neither is flexible, so that the answers are easy to walk through.
const (
	produceVersion = 8
	fetchVersion   = 11
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// makeBatch builds an uncompressed record batch of at most size bytes with
// records of about 1 KiB, whose values do not compress.
func makeBatch(size int) []byte {
	const header, overhead = 61, 16
	count := max((size-header)/1024, 1)
	value := aligned((size - header) / count)[:(size-header)/count-overhead]
	b := make([]byte, header, size)
	for i := range count {
		var body []byte
		body = append(body, 0)                     // attributes
		body = binary.AppendVarint(body, 0)        // timestamp delta
		body = binary.AppendVarint(body, int64(i)) // offset delta
		body = binary.AppendVarint(body, -1)       // no key
		body = binary.AppendVarint(body, int64(len(value)))
		body = append(body, value...)
		body = binary.AppendVarint(body, 0) // no headers
		b = binary.AppendVarint(b, int64(len(body)))
		b = append(b, body...)
	}
	now := uint64(time.Now().UnixMilli())
	put32, put64 := binary.BigEndian.PutUint32, binary.BigEndian.PutUint64
	put32(b[8:], uint32(len(b)-12))
	put32(b[12:], ^uint32(0)) // leader epoch
	b[16] = 2
	put32(b[23:], uint32(count-1))
	put64(b[27:], now)
	put64(b[35:], now)
	put64(b[43:], ^uint64(0)) // no producer ID
	binary.BigEndian.PutUint16(b[51:], ^uint16(0))
	put32(b[53:], ^uint32(0))
	put32(b[57:], uint32(count))
	put32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// recordsIn is the number of records that a batch's header tells.
func recordsIn(batch []byte) uint32 { return binary.BigEndian.Uint32(batch[57:]) }

// produceFrame encodes a Produce request, acks=all, of one batch.
func produceFrame(topic string, partition int32, batch []byte) []byte {
	r := kmsg.NewProduceRequest()
	r.SetVersion(produceVersion)
	r.Acks, r.TimeoutMillis = -1, 30_000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, p.Partition, p.Records = topic, partition, batch
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return slices.Clip(kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, &r, 1))
}

// checkProduced reads the error code out of the answer to a produceFrame, whose
// frame length has been read already.
func checkProduced(answer []byte) error {
	// Correlation ID, number of topics, name, number of partitions, partition.
	at := 8
	if len(answer) >= at+2 {
		at += 2 + int(binary.BigEndian.Uint16(answer[at:])) + 8
	}
	if len(answer) < at+2 {
		return fmt.Errorf("an answer to Produce of %d bytes", len(answer))
	}
	if code := int16(binary.BigEndian.Uint16(answer[at:])); code != 0 {
		return fmt.Errorf("answer to Produce: error %d", code)
	}
	return nil
}

// readAnswer reads one answer into buf, which it may grow.
func readAnswer(r io.Reader, buf []byte) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return buf, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	buf = slices.Grow(buf[:0], n)[:n]
	_, err := io.ReadFull(r, buf)
	return buf, err
}
