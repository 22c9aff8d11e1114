package shard

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/mutant"
	"millrace/core/records"
	"millrace/raftlog"
)

// produce takes one partition's records through the stages
//
//	decode    one whole batch of magic 2 (Kafka allows exactly one from version 3 on)
//	admit     leadership, room in memory and on disk
//	validate  checksum, sizes, counts, timestamps, what clients may not write
//	dedupe    producer state: an exact repeat is answered like its first copy
//	propose   base offset and leader epoch are written, the entry joins the log
//
// and in later turns onPersisted (the journal's turn is durable here, raft
// counts this replica), onCommitted (a majority) and replyProduce.
//
// Between the stages: nothing before propose changes state, so a refusal leaves
// no trace; from propose on the order is fixed, and the producer state that
// dedupe looks at includes what is appended and not committed. A repeat of a
// batch in flight waits for the same commit: to acknowledge it at once would be
// to acknowledge what a failure can still erase.
//
// Rejected: producer state that changes at commit only. Batches of one producer
// that are in flight together would then look out of order.
func (s *Shard) produce(r *Produce) {
	r.BaseOffset, r.AppendTimeMs, r.LogStart, r.CurrentLeader = -1, -1, -1, core.NoNode
	p, err := s.admit(r)
	if p != nil {
		r.CurrentLeader, r.CurrentEpoch = p.leader, p.term
	}
	var b core.Batch
	if err == nil {
		b, err = decode(r.Records.Bytes())
	}
	if err == nil {
		err = s.validate(p, b, r)
		if !errors.Is(err, core.ErrCorruptBatch) && !errors.Is(err, core.ErrBatchTooLarge) { // as in Kafka
			r.LogStart = p.log.LogStart()
		}
	}
	if err != nil {
		s.refuse(r, err)
		return
	}
	e := entry{kind: raftlog.EntryBatch, bytes: int32(len(b)), request: r}
	e.producerID, e.seq = sequenceOf(b)
	if e.producerID >= 0 {
		v, err := p.producers.check(e.producerID, e.seq)
		switch {
		case err != nil:
			s.refuse(r, err)
			return
		case v.pending:
			first := p.tail.find(v.of.base)
			if first == nil {
				panic(fmt.Sprintf("BUG: %s: the batch at offset %d is in flight and not in the tail", p.name(), v.of.base))
			}
			if mutant.On(mutant.RepeatAckedEarly) {
				release(&r.Records)
				s.replyProduce(p, r, v.of.base)
				return
			}
			first.again = append(first.again, r)
			r.AppendTimeMs = v.of.maxMs // as Kafka has it, whatever the type of timestamps
			release(&r.Records)
			return
		case v.duplicate:
			r.AppendTimeMs = v.of.maxMs // as Kafka has it, whatever the type of timestamps
			release(&r.Records)
			s.replyProduce(p, r, v.of.base)
			return
		}
	}
	switch attrs := b.Attributes(); {
	case p.cfg.LogAppendTime:
		b.SetAppendTime(s.now.Millis())
		r.AppendTimeMs = s.now.Millis()
		e.seq.maxMs = b.MaxTimestamp()
	case attrs&core.AttrLogAppendTime != 0:
		// The topic decides on the type of timestamps, not the client.
		b.SetAttributes(attrs & core.AttrKnown &^ core.AttrLogAppendTime)
		b.Seal()
	}
	s.append(p, r, b, e)
}

// append is the propose stage.
func (s *Shard) append(p *partition, r *Produce, b core.Batch, e entry) {
	e.base = p.log.NextOffset()
	e.last = e.base + core.Offset(b.LastOffsetDelta())
	e.seq.base, e.seq.lastOffset = e.base, e.last
	b.SetBase(e.base, int32(p.term))
	payload := r.Records
	if len(b) != payload.Len() {
		payload = payload.Slice(0, len(b))
	}
	if _, err := s.propose(p, e, payload); err != nil {
		s.refuse(r, err)
		return
	}
	r.Records = arena.Buf{} // the log's from here on
	if e.producerID >= 0 {
		before := p.producers.len()
		p.producers.appended(e.producerID, e.seq, s.now.Millis(), s.opts.Limits.ProducersMax)
		s.producersChanged(p, before)
	}
	s.inflightBytes += int64(len(b))
	s.stats.Appends++
	s.stats.AppendedBytes += uint64(len(b))
}

// replyProduce acknowledges a batch that is committed.
func (s *Shard) replyProduce(p *partition, r *Produce, base core.Offset) {
	r.BaseOffset, r.LogStart = base, p.log.LogStart()
	r.CurrentLeader, r.CurrentEpoch = p.leader, p.term
	s.done(r)
}

// refuse answers a Produce that was not appended.
func (s *Shard) refuse(r *Produce, err error) {
	release(&r.Records)
	s.fail(r, err)
}

func release(b *arena.Buf) {
	b.Release()
	*b = arena.Buf{}
}

// admit checks who leads, and what memory and disk have room for. Internal
// partitions go on when the disk is full: without them nothing could be deleted.
func (s *Shard) admit(r *Produce) (*partition, error) {
	p, err := s.lead(r.Partition)
	switch {
	case err != nil:
		return p, err
	case s.stopping:
		return p, core.ErrShuttingDown
	case p.host != nil:
		return p, fmt.Errorf("%w: only its coordinator writes to %s", core.ErrPolicyViolation, p.name())
	case r.Acks < 0 && s.alive(p) < p.inSyncMin():
		return p, fmt.Errorf("%w: %d of the %d replicas of %s are up, min.insync.replicas is %d",
			core.ErrNotEnoughReplicas, s.alive(p), len(p.voters), p.name(), p.cfg.MinInsyncReplicas)
	case p.internal():
		return p, nil
	case s.opts.SpaceState() != raftlog.SpaceOK:
		return p, fmt.Errorf("%w: %s: delete records or topics, or add space", core.ErrStorageFull, p.name())
	case r.Records.Len() > int(p.cfg.MaxMessageBytes):
		return p, nil // validate refuses it, before what a client is to send again for
	case s.inflightBytes > 0 && s.inflightBytes+int64(r.Records.Len()) > s.opts.Limits.InflightBytesMax:
		s.stats.Refused++
		return p, fmt.Errorf("%w: %d bytes wait for the disk", core.ErrOverloaded, s.inflightBytes)
	}
	return p, nil
}

// inSyncMin is how many replicas must be up for an acks=all produce: of a larger
// min.insync.replicas than there are replicas, all of them (KIP-966).
func (p *partition) inSyncMin() int { return min(int(p.cfg.MinInsyncReplicas), len(p.voters)) }

// decode cuts the one batch out of a partition's records.
func decode(p []byte) (core.Batch, error) {
	if len(p) == 0 {
		return nil, fmt.Errorf("%w: no record batch", core.ErrInvalidRecord)
	}
	b, rest, err := core.NextBatch(p)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes follow the first batch; one batch for a partition is allowed", core.ErrInvalidRecord, len(rest))
	}
	return b, nil
}

// validate checks what a client sent, in Kafka's order. It changes nothing.
func (s *Shard) validate(p *partition, b core.Batch, r *Produce) error {
	if o := b.BaseOffset(); o != 0 {
		return fmt.Errorf("%w: base offset %d, clients send 0", core.ErrInvalidRecord, o)
	}
	if len(b) > int(p.cfg.MaxMessageBytes) {
		return tooLarge(len(b), p)
	}
	if err := b.Verify(); err != nil {
		return err
	}
	switch {
	case b.Count() < 1 || b.LastOffsetDelta() != b.Count()-1:
		return fmt.Errorf("%w: %d records with a last offset delta of %d", core.ErrInvalidRecord, b.Count(), b.LastOffsetDelta())
	case b.Codec() > maxCodec:
		return fmt.Errorf("%w: compression codec %d", core.ErrInvalidRecord, b.Codec())
	case b.IsControl():
		return fmt.Errorf("%w: clients may not write control records", core.ErrInvalidRecord)
	case b.IsTransactional() || r.Transactional:
		return fmt.Errorf("%w: transactions are not supported", core.ErrPolicyViolation)
	case b.ProducerID() >= 0 && (b.BaseSequence() < 0 || b.ProducerEpoch() < 0):
		return fmt.Errorf("%w: sequence %d, epoch %d for producer %d", core.ErrInvalidRecord, b.BaseSequence(), b.ProducerEpoch(), b.ProducerID())
	}
	switch {
	case b.Attributes()&core.AttrLogAppendTime != 0:
		return s.validateAppendTime(p.cfg, b, r)
	case p.cfg.LogAppendTime:
		return nil
	}
	return s.validateTimes(p.cfg, b, r)
}

func tooLarge(n int, p *partition) error {
	return fmt.Errorf("%w: %d bytes, max.message.bytes is %d", core.ErrBatchTooLarge, n, p.cfg.MaxMessageBytes)
}

// maxCodec is zstd, the last compression codec that there is.
const maxCodec = 4

// outside says whether a record may not have this timestamp. -1 is none.
// Differences wrap around, as in Kafka, which makes the largest and the smallest
// ones invalid.
func (cfg *TopicConfig) outside(ms, now int64) bool {
	return ms != -1 && (now-ms > cfg.TimestampBeforeMaxMs || ms-now > cfg.TimestampAfterMaxMs)
}

// validateAppendTime checks a batch that says that a broker has set its time. Its
// records all have the largest timestamp, whatever else is in it. As in Kafka this
// is refused where the broker does set the time, and where none is set.
func (s *Shard) validateAppendTime(cfg *TopicConfig, b core.Batch, r *Produce) error {
	ms, now := b.MaxTimestamp(), s.now.Millis()
	text := "producers may not say that the broker has set the time"
	switch {
	case cfg.LogAppendTime || ms == -1:
	case cfg.outside(ms, now):
		text = timeRefusal(cfg, ms, now)
	default:
		return nil
	}
	for i := range min(b.Count(), recordErrorsMax) {
		r.RecordErrors = append(r.RecordErrors, RecordError{Index: i, Message: text})
	}
	return fmt.Errorf("%w: %s", core.ErrInvalidTimestamp, text)
}

// validateTimes holds the header's first and largest timestamp against the
// topic's limits (KIP-937). Only a refused batch is looked into, and only if it is
// not compressed.
func (s *Shard) validateTimes(cfg *TopicConfig, b core.Batch, r *Produce) error {
	now := s.now.Millis()
	if !cfg.outside(b.MaxTimestamp(), now) && !cfg.outside(b.BaseTimestamp(), now) {
		return nil
	}
	if b.Codec() != 0 {
		return invalidTimes(cfg, b, now) // a broker that decompresses invites bombs
	}
	base := b.BaseOffset()
	err := records.Each(b, len(b), func(rec records.Record) bool {
		if cfg.outside(rec.TimestampMs, now) {
			r.RecordErrors = append(r.RecordErrors, RecordError{
				Index:   int32(rec.Offset - base),
				Message: timeRefusal(cfg, rec.TimestampMs, now),
			})
		}
		return len(r.RecordErrors) < recordErrorsMax
	})
	if err != nil && !errors.Is(err, core.ErrCorruptBatch) {
		return err
	}
	return invalidTimes(cfg, b, now)
}

func invalidTimes(cfg *TopicConfig, b core.Batch, now int64) error {
	return fmt.Errorf("%w: timestamps from %d to %d, the limits are %d ms before and %d ms after %d", core.ErrInvalidTimestamp,
		b.BaseTimestamp(), b.MaxTimestamp(), cfg.TimestampBeforeMaxMs, cfg.TimestampAfterMaxMs, now)
}

// timeRefusal says which limit a timestamp is beyond, and by what the broker
// measures.
func timeRefusal(cfg *TopicConfig, ms, now int64) string {
	if ms > now {
		return fmt.Sprintf("timestamp %d is later than the broker's clock, %d, by more than message.timestamp.after.max.ms, %d", ms, now, cfg.TimestampAfterMaxMs)
	}
	return fmt.Sprintf("timestamp %d is earlier than the broker's clock, %d, by more than message.timestamp.before.max.ms, %d", ms, now, cfg.TimestampBeforeMaxMs)
}

// recordErrorsMax bounds how many records an answer names.
const recordErrorsMax = 16

// sequenceOf reads the producer's fields of a batch; id -1 means that there are
// none.
func sequenceOf(b core.Batch) (id int64, seq sequence) {
	seq = sequence{base: b.BaseOffset(), lastOffset: b.LastOffset(), maxMs: b.MaxTimestamp()}
	if id = b.ProducerID(); id < 0 {
		return -1, seq
	}
	seq.first, seq.epoch = b.BaseSequence(), b.ProducerEpoch()
	seq.last = sequenceAt(seq.first, b.LastOffsetDelta())
	return id, seq
}
