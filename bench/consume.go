package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/peers"
)

// fetchBytes is how much one Fetch asks of the partition: the default of Kafka's
// consumer.
const fetchBytes = 1 << 20

// consumer reads one partition over one connection, one request at a time, as
// consumers do. It looks at the headers of the batches alone.
type consumer struct {
	c      net.Conn
	in     *bufio.Reader
	frame  []byte // of a Fetch request
	offset []byte // its place in frame
	topic  string
	buf    []byte

	bytes, requests int64
}

// newConsumer connects and encodes the request for partition 0 of a topic.
func newConsumer(b peers.Broker, topic string) (*consumer, error) {
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		return nil, err
	}
	k := &consumer{c: c, in: bufio.NewReaderSize(c, 4<<10), topic: topic, buf: make([]byte, 2*fetchBytes)}
	k.frame, k.offset = fetchFrame(topic)
	return k, nil
}

func (k *consumer) close() { _ = k.c.Close() } // all answers have been read

// fetchFrame encodes a Fetch request without a session and returns the place of
// its offset.
func fetchFrame(topic string) (frame, offset []byte) {
	const mark = 0x1122334455667788
	r := kmsg.NewFetchRequest()
	r.SetVersion(fetchVersion)
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes = 500, 1, 50<<20
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, p.FetchOffset, p.PartitionMaxBytes = topic, mark, fetchBytes
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	frame = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, &r, 1)
	for i := range frame {
		if binary.BigEndian.Uint64(frame[i:]) == mark {
			return frame, frame[i : i+8]
		}
	}
	panic("BUG: the offset is not in the request")
}

// fetch asks for what follows offset at and returns the offset to go on from.
func (k *consumer) fetch(at int64) (next int64, err error) {
	binary.BigEndian.PutUint64(k.offset, uint64(at))
	if err := k.c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return at, err
	}
	if _, err := k.c.Write(k.frame); err != nil {
		return at, err
	}
	k.requests++
	records, err := k.records()
	if err != nil {
		return at, fmt.Errorf("fetch from offset %d: %w", at, err)
	}
	k.bytes += int64(len(records))
	return endOf(records, at)
}

// records reads an answer up to its records, and these into buf.
func (k *consumer) records() ([]byte, error) {
	// Length, correlation ID, throttle, error, session, topics, name, partitions;
	// then partition, error, three offsets, aborted transactions, replica, length.
	head := make([]byte, 4+4+4+2+4+4+2+len(k.topic)+4+4+2+3*8+4+4+4)
	if _, err := io.ReadFull(k.in, head); err != nil {
		return nil, err
	}
	u16, u32 := binary.BigEndian.Uint16, binary.BigEndian.Uint32
	part := head[28+len(k.topic):]
	if code := u16(head[12:]); code != 0 {
		return nil, fmt.Errorf("error %d", code)
	}
	if code := u16(part[4:]); code != 0 {
		return nil, fmt.Errorf("error %d of the partition", code)
	}
	n := max(int(int32(u32(part[len(part)-4:]))), 0) // null: none
	if left := int(u32(head)) + 4 - len(head); n != left {
		return nil, fmt.Errorf("%d bytes of records in %d that are left of the answer", n, left)
	}
	if n > len(k.buf) {
		k.buf = make([]byte, n)
	}
	_, err := io.ReadFull(k.in, k.buf[:n])
	return k.buf[:n], err
}

// endOf is the offset after the last of the batches.
func endOf(records []byte, at int64) (int64, error) {
	for len(records) >= 61 {
		n := int(binary.BigEndian.Uint32(records[8:])) + 12
		if n > len(records) {
			break // cut off, as the protocol allows
		}
		base := int64(binary.BigEndian.Uint64(records))
		if base > at {
			return at, fmt.Errorf("a batch of offset %d where %d was due", base, at)
		}
		at = base + int64(binary.BigEndian.Uint32(records[23:])) + 1
		records = records[n:]
	}
	return at, nil
}

// consumed is what a consumer did, with the cores that were used.
type consumed struct {
	MBps, BrokerCores, LoadCores, KiBPerFetch float64
	bytes                                     int64
}

// consume reads [0, end), again and again for span; once where span is 0.
func consume(ctx context.Context, b peers.Broker, topic string, end int64, span time.Duration) (r consumed, err error) {
	k, err := newConsumer(b, topic)
	if err != nil {
		return r, err
	}
	defer k.close()
	m, err := startMeter(b.PID())
	if err != nil {
		return r, err
	}
	for at := int64(0); ; {
		if at, err = k.fetch(at); err != nil {
			return r, err
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if over := time.Since(m.begin) >= span; over && (span > 0 || at >= end) {
			break
		}
		if at >= end {
			at = 0
		}
	}
	u, err := m.read()
	return consumed{float64(k.bytes) / 1e6 / u.seconds, u.broker / u.seconds, u.own / u.seconds,
		float64(k.bytes) / 1024 / float64(k.requests), k.bytes}, err
}
