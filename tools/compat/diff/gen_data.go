package main

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (g *gen) dataStep() {
	switch n := g.r.IntN(100); {
	case n < 40:
		g.produce()
	case n < 62:
		g.fetch()
	case n < 77:
		g.listOffsets()
	case n < 84:
		g.deleteRecords()
	case n < 90:
		g.leaderEpoch()
	case n < 94:
		g.describeProducers()
	case n < 97:
		g.initProducer()
	default:
		g.metadata()
	}
}

func (g *gen) idempotentStep() {
	switch n := g.r.IntN(100); {
	case n < 15:
		g.initProducer()
	case n < 75:
		g.produceWith(func(key string) batchSpec { return g.idempotentBatch(key) })
	case n < 88:
		g.describeProducers()
	default:
		g.fetch()
	}
}

func (g *gen) produce() {
	g.produceWith(func(key string) batchSpec {
		switch n := g.r.IntN(100); {
		case n < 58:
			return g.plainBatch()
		case n < 72:
			return g.idempotentBatch(key)
		}
		return g.wrongBatch()
	})
}

func (g *gen) produceWith(batch func(key string) batchSpec) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks = mostly(g, 75, int16(-1), 1, 1, 0, 0, 2, -2)
	req.TimeoutMillis = timeoutMs
	if g.chance(2) {
		req.TransactionID = kmsg.StringPtr(oneOf(g, "", prefixToken+"-tx"))
	}
	for range mostly(g, 85, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = name, topicIDOf(name)
		for range mostly(g, 85, 1, 2, 0) {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = g.partition(partitions)
			spec := batch(at(name, part.Partition))
			part.Records = spec.encode()
			switch {
			case g.chance(1):
				part.Records = oneOf(g, nil, []byte{}, []byte{1, 2, 3}, make([]byte, 70))
			case g.chance(2):
				part.Records = append(part.Records, g.plainBatch().encode()...)
			default:
				g.records[at(name, part.Partition)] += int64(spec.records)
			}
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) plainBatch() batchSpec {
	s := plainBatch(1 + g.r.IntN(5))
	s.size = mostly(g, 85, g.r.IntN(30), 150, 2000)
	s.keys, s.headers = g.chance(40), g.chance(20)
	s.codec = mostly(g, 60, int8(0), 1, 2, 3, 4)
	s.first = baseTime + g.r.Int64N(20)*100
	s.step = mostly(g, 70, int64(1), 0, 50, -10)
	if s.step < 0 { // the largest timestamp is the first record's
		s.maxTime = -int64(s.records-1) * s.step
	}
	return s
}

// wrongBatch is a plain batch with one thing wrong.
func (g *gen) wrongBatch() batchSpec {
	s := g.plainBatch()
	switch g.r.IntN(24) {
	case 0, 1:
		s.badCRC = true
	case 2:
		s.lastDelta = oneOf[int32](g, 1, -1, 100)
	case 3:
		s.base = oneOf[int64](g, 5, -1, 1<<40)
	case 4, 5:
		s.magic = oneOf[int8](g, -1, 1, 3, 127)
	case 6:
		s.codec = oneOf[int8](g, 5, 6, 7)
	case 7:
		s.attrs = 0x10 // transactional
		s.producer, s.pEpoch, s.sequence = 77, 0, 0
	case 8:
		s.attrs = 0x20 // control
	case 9:
		s.attrs = oneOf[int16](g, 0x08, 0x40, 0x80, 0x7F00)
	case 10:
		s = plainBatch(0)
	case 11:
		s.tail = oneOf(g, 1, 3, 11)
	case 12:
		s.cut = oneOf(g, 1, 10, 80)
	case 13:
		s.length = oneOf[int32](g, -1, 1, -60, 1000, math.MaxInt32-500, -500)
	case 14:
		s.epoch = oneOf[int32](g, 5, -1)
	case 15:
		s.first = oneOf[int64](g, -1, -2, 0, 1<<50)
	case 16:
		s.maxTime = oneOf[int64](g, -1000, 1000, 1<<50)
	case 17:
		s.producer, s.pEpoch, s.sequence = 78, -1, 0
	case 18:
		s.producer, s.pEpoch, s.sequence = 78, 0, -1
	case 19:
		s.producer, s.pEpoch, s.sequence = -1, 3, 3
	case 20:
		s.size = 2_000_000
	case 21:
		s.producer, s.pEpoch, s.sequence = -2, 0, 0
	case 22:
		s.records, s.size = 1, 0
	default:
		g.wrongInside(&s)
	}
	return s
}

// wrongInside makes records that do not agree with the header, now and then:
// brokers that do not read them take them, and nothing after can be compared.
func (g *gen) wrongInside(s *batchSpec) {
	if !g.chance(30) {
		return
	}
	switch g.r.IntN(3) {
	case 0:
		s.garbage = true
	case 1:
		s.count, s.lastDelta = 1, 1
	default:
		s.deltaShift = 1
	}
}

// idempotentBatch continues a producer's sequence, repeats it, leaves a gap,
// wraps or changes the epoch.
func (g *gen) idempotentBatch(key string) batchSpec {
	if len(g.producers) == 0 || g.chance(10) {
		g.producers = append(g.producers, &genProducer{
			id: 1000 + g.r.Int64N(3), epoch: mostly(g, 70, int16(0), 1, 5),
			next: map[string]int32{}, last: map[string]batchSpec{},
		})
	}
	p := g.producers[g.r.IntN(len(g.producers))]
	s := plainBatch(1 + g.r.IntN(3))
	s.producer, s.pEpoch, s.sequence = p.id, p.epoch, p.next[key]
	switch n := g.r.IntN(100); {
	case n < 55:
	case n < 70:
		if last, ok := p.last[key]; ok {
			return last // a repetition
		}
	case n < 76:
		s.sequence += oneOf[int32](g, 1, 5)
	case n < 81:
		s.sequence = max(0, s.sequence-oneOf[int32](g, 1, 2))
	case n < 86:
		s.sequence = math.MaxInt32 - oneOf[int32](g, 0, 1, 2)
	case n < 91:
		p.epoch++
		s.pEpoch, s.sequence = p.epoch, mostly(g, 70, int32(0), s.sequence, 3)
	case n < 95:
		s.pEpoch--
	case n < 98:
		s.sequence = 0
	default:
		s.records = 1 + g.r.IntN(12)
	}
	p.last[key] = s
	p.next[key] = (s.sequence + int32(s.records)) & math.MaxInt32
	return s
}

func (g *gen) initProducer() {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = mostly(g, 90, int32(60000), 0, -1, math.MaxInt32)
	req.ProducerID, req.ProducerEpoch = -1, -1
	switch {
	case g.chance(6):
		req.TransactionalID = kmsg.StringPtr(oneOf(g, "", prefixToken+"-tx"))
	case g.chance(12):
		req.ProducerID = oneOf(g, 1000, -1, producerOf(max(0, g.nextID()-1)))
		req.ProducerEpoch = oneOf[int16](g, 0, -1, 5, math.MaxInt16)
	}
	p := &genProducer{id: producerOf(g.nextID()), next: map[string]int32{}, last: map[string]batchSpec{}}
	g.add(req)
	g.producers = append(g.producers, p)
}

func (g *gen) describeProducers() {
	req := kmsg.NewPtrDescribeProducersRequest()
	for range mostly(g, 90, 1, 2) {
		name, partitions := g.topic()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic = name
		for range mostly(g, 80, 1, 2, 0) {
			t.Partitions = append(t.Partitions, g.partition(partitions))
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) listOffsets() {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = mostly(g, 97, int32(-1), -2, 1)
	req.IsolationLevel = oneOf[int8](g, 0, 0, 1)
	req.TimeoutMillis = 5000
	for range mostly(g, 85, 1, 2) {
		name, partitions := g.topic()
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for range mostly(g, 85, 1, 2) {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition = g.partition(partitions)
			p.CurrentLeaderEpoch = g.epoch()
			p.Timestamp = oneOf[int64](g, -1, -2, -3, -4, -5, -6, -7, -8, 0, baseTime, baseTime+1, baseTime+150, baseTime+1000, baseTime+3000, math.MaxInt64, math.MinInt64)
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) deleteRecords() {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = timeoutMs
	for range mostly(g, 90, 1, 2) {
		name, partitions := g.topic()
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = name
		for range mostly(g, 85, 1, 2, 0) {
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition = g.partition(partitions)
			p.Offset = g.offset(name, p.Partition)
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}

func (g *gen) leaderEpoch() {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = mostly(g, 90, int32(-1), -2, 1)
	for range mostly(g, 90, 1, 2, 0) {
		name, partitions := g.topic()
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = name
		for range mostly(g, 85, 1, 2) {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition = g.partition(partitions)
			p.CurrentLeaderEpoch, p.LeaderEpoch = g.epoch(), mostly(g, 60, int32(0), -1, 1, 9, -2)
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	g.add(req)
}
