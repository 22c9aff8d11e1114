package shard

import (
	"encoding/binary"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// Retention looks at every partition once in a round, a few at a time.
const (
	retentionEvery = 5 * core.Second
	retentionStep  = 20 * core.Millisecond
	retentionBatch = 256
)

// deleteRecords moves the log start up (KIP-107); the answer leaves when the
// move is committed.
func (s *Shard) deleteRecords(r *DeleteRecords) {
	r.LogStart = -1
	p, err := s.lead(r.Partition)
	if err == nil && !p.cfg.Log.Delete {
		err = fmt.Errorf("%w: %s: cleanup.policy does not hold delete", core.ErrPolicyViolation, p.name())
	}
	if err != nil {
		s.fail(r, err)
		return
	}
	to := r.Offset
	if to == -1 {
		to = p.high
	}
	switch {
	case to < 0 || to > p.high:
		s.fail(r, fmt.Errorf("%w: %s: offset %d, the high watermark is %d", core.ErrOffsetOutOfRange, p.name(), to, p.high))
	case to <= p.log.LogStart():
		r.LogStart = p.log.LogStart()
		s.done(r)
	default:
		if err := s.proposeStart(p, to, r); err != nil {
			s.fail(r, err)
		}
	}
}

// proposeStart proposes a new log start. r, if not nil, is answered at the
// commit.
func (s *Shard) proposeStart(p *partition, start core.Offset, r *DeleteRecords) error {
	e := entry{kind: raftlog.EntryLogStart, base: start, producerID: -1}
	if r != nil {
		e.request = r
	}
	// A handful of bytes, and rare: ordinary memory will do.
	payload := arena.Foreign(binary.BigEndian.AppendUint64(nil, uint64(start)))
	_, err := s.propose(p, e, payload)
	return err
}

// retentionTask goes through the partitions in order of their IDs.
type retentionTask struct{}

func (retentionTask) onTimer(s *Shard, now core.Tick) {
	for n := 0; n < retentionBatch && s.retentionAt < len(s.order); n++ {
		s.tidy(s.order[s.retentionAt], now)
		s.retentionAt++
	}
	if s.retentionAt < len(s.order) {
		s.timers.set(&s.retentionTimer, retentionTask{}, now+retentionStep)
		return
	}
	s.retentionAt = 0
	s.timers.set(&s.retentionTimer, retentionTask{}, now+retentionEvery)
}

// tidy applies retention to one partition and forgets idle producers.
func (s *Shard) tidy(p *partition, now core.Tick) {
	if p.broken != nil {
		return
	}
	if before := p.producers.len(); before > 0 {
		p.producers.expire(now.Millis(), s.opts.Limits.ProducerExpirationMs)
		s.producersChanged(p, before)
	}
	if !p.serving || p.host != nil || s.stopping {
		return // a state machine trims its own log
	}
	start, ok := p.log.RetentionStart(now, p.high)
	if !ok || start <= p.log.LogStart() || p.startPending() {
		return
	}
	if err := s.proposeStart(p, min(start, p.high), nil); err != nil {
		s.opts.Logf("retention of %s is put off: %v", p.name(), err)
	}
}

// startPending says whether a log start is on its way already.
func (p *partition) startPending() bool {
	for i := 0; i < p.tail.len(); i++ {
		if p.tail.at(i).kind == raftlog.EntryLogStart {
			return true
		}
	}
	return false
}
