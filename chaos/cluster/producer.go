package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/chaos/check"
)

// producer sends numbered records to the partitions of one topic, with acks=all.
type producer struct {
	id                 int32
	topic              topicSpec
	idempotent         bool
	minBytes, maxBytes int
	perSecond          int
	linger             time.Duration
}

// startProducer runs p until the load stops sending, then flushes.
//
// An idempotent producer retries without end. The plain one tries each record
// once, so that a record can be in the log at most once there too.
func (l *load) startProducer(p producer) error {
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(p.linger),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(1000),
	}
	if !p.idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
	}
	cl, err := l.client(opts...)
	if err != nil {
		return err
	}
	l.producers.Go(func() {
		defer cl.Close()
		l.produce(cl, p)
		// Bounded by the caller, which gives up on records without an answer.
		if err := cl.Flush(l.reading); err != nil {
			l.complain("producer %d: flush: %v", p.id, err)
		}
	})
	return nil
}

func (l *load) produce(cl *kgo.Client, p producer) {
	r := l.rand(100 + uint64(p.id))
	seq := int64(0)
	began := time.Now()
	for l.producing.Err() == nil {
		// Catch up with the rate in small bursts, so that batches differ in size.
		due := int64(time.Since(began).Seconds()*float64(p.perSecond)) + l.bursts.Load()*int64(p.perSecond)/4
		if seq >= due {
			pause(l.producing, time.Duration(1+r.IntN(10))*time.Millisecond)
			continue
		}
		size := p.minBytes + r.IntN(p.maxBytes-p.minBytes)
		l.send(cl, p, check.Key{Producer: p.id, Seq: seq}, r.Int32N(p.topic.partitions), size, nil)
		seq++
	}
}

// send hands one record to the client; Produce blocks while too much is
// buffered, as it is while the broker is away. done, where given, is called with
// the answer.
func (l *load) send(cl *kgo.Client, p producer, k check.Key, partition int32, size int, done func(error)) {
	value := payload(k, size)
	s := &check.Send{
		Span: check.Span{Invoke: now(), Return: check.Never}, Part: check.Part{Topic: p.topic.name, Num: partition},
		Producer: k.Producer, First: k.Seq, Sums: []uint64{sum(value)}, Attempts: 1,
		Idempotent: p.idempotent, Durable: true, Outcome: check.Unknown, Base: -1,
	}
	l.rec.Record(func(h *check.History) { h.Sends = append(h.Sends, s) })
	// Not the load's context: a record in flight is answered or stays unknown.
	cl.Produce(context.Background(), &kgo.Record{Topic: p.topic.name, Partition: partition, Value: value}, func(r *kgo.Record, err error) {
		outcome := outcomeOf(err)
		l.rec.Record(func(*check.History) {
			s.Return, s.Outcome = now(), outcome
			if err == nil {
				s.Base = r.Offset
			}
		})
		switch outcome {
		case check.Acked:
			l.acked.Add(1)
		case check.Failed:
			l.refused.Add(1)
		default:
			l.unknown.Add(1)
		}
		if done != nil {
			done(err)
		}
	})
}

// outcomeOf tells a refusal from an answer that leaves it open. Errors about
// time and storage leave it open: the record may have been written. So does a
// coordinator or controller that resigns with a request under way. So do the
// errors that the client takes from metadata: with them it also fails records
// that are on their way.
func outcomeOf(err error) check.Outcome {
	var refused *kerr.Error
	switch {
	case err == nil:
		return check.Acked
	case errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.NotEnoughReplicasAfterAppend),
		errors.Is(err, kerr.KafkaStorageError), errors.Is(err, kerr.UnknownServerError),
		errors.Is(err, kerr.NotController), errors.Is(err, kerr.NotCoordinator), errors.Is(err, kerr.CoordinatorNotAvailable),
		errors.Is(err, kerr.LeaderNotAvailable), errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return check.Unknown
	case errors.As(err, &refused):
		return check.Failed
	}
	return check.Unknown
}
