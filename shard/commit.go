package shard

import (
	"encoding/binary"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/mutant"
	"millrace/raftlog"
)

// apply takes committed entries in: they are durable on a majority, this node
// included. It is the only place where the high watermark moves.
func (s *Shard) apply(p *partition, entries []pb.Entry) {
	high, bytes := p.high, 0
	for i := range entries {
		e := p.tail.at(0)
		if uint64(e.index) != entries[i].Index || uint64(e.term) != entries[i].Term {
			panic(fmt.Sprintf("BUG: %s: entry (%d, term %d) committed where (%d, term %d) is next",
				p.name(), entries[i].Index, entries[i].Term, e.index, e.term))
		}
		p.applied = e.index
		switch e.kind {
		case raftlog.EntryBatch:
			if e.base < high {
				panic(fmt.Sprintf("BUG: %s: offset %d committed below the high watermark %d", p.name(), e.base, high))
			}
			high, bytes = e.last+1, bytes+int(e.bytes)
			p.high = high
			if e.producerID >= 0 {
				before := p.producers.len()
				p.producers.committed(e.producerID, e.seq, s.now.Millis(), s.opts.Limits.ProducersMax)
				s.producersChanged(p, before)
			}
		case raftlog.EntryLogStart:
			s.startMoved(p, e.base)
		case raftlog.EntryEmpty:
			if p.leading && !p.serving && e.term == p.term {
				s.serve(p)
			}
		default:
			panic(fmt.Sprintf("BUG: %s: entry %d is of kind %d", p.name(), e.index, e.kind))
		}
		s.onCommitted(p, p.tail.at(0))
		p.tail.pop()
	}
	p.storage.commit = p.applied
	if bytes > 0 {
		p.committedBytes += uint64(bytes)
		s.wakeForBytes(p, bytes)
	}
	if p.host != nil {
		s.hostCommitted(p)
	}
}

// onCommitted answers whoever waited for the entry.
func (s *Shard) onCommitted(p *partition, e *entry) {
	switch r := e.request.(type) {
	case nil:
	case *Produce:
		s.inflightBytes -= int64(e.bytes)
		s.replyProduce(p, r, e.base)
	case *DeleteRecords:
		r.LogStart = p.log.LogStart()
		s.done(r)
	default:
		panic(fmt.Sprintf("BUG: a %T waits for a commit", r))
	}
	for _, r := range e.again {
		s.replyProduce(p, r.(*Produce), e.base)
	}
}

// startMoved applies a committed log start.
func (s *Shard) startMoved(p *partition, start core.Offset) {
	if start = min(start, p.high); start > p.log.LogStart() {
		p.log.SetLogStart(start)
	}
}

// offsetAt reads a big-endian offset.
func offsetAt(p []byte) core.Offset { return core.Offset(binary.BigEndian.Uint64(p)) }

// recover rebuilds the committed state of a log found at start. Blocks; startup
// only.
func (s *Shard) recover(p *partition) (err error) {
	for range recoverTries { // a failed read may pass
		p.producers, p.tail = producers{}, tail{}
		if err = s.recoverOnce(p); err == nil || p.log.Damaged() != nil {
			break
		}
	}
	return err
}

// recoverTries is how often a log is read at startup before its partition
// counts as broken.
const recoverTries = 3

// recoverOnce takes the checkpoint, then the headers of what follows. What is
// above the hard state's commit is kept in the tail until raft commits it.
func (s *Shard) recoverOnce(p *partition) error {
	at, state := p.log.Checkpoint()
	if state != nil {
		if err := p.producers.decode(state, s.opts.Limits.ProducersMax); err != nil {
			return err
		}
	} else {
		at = 0
	}
	commit := max(p.log.HardState().Commit, at, p.log.FirstIndex()-1)
	if commit > p.log.LastIndex() {
		return fmt.Errorf("entries up to %d are committed and the log ends at %d", commit, p.log.LastIndex())
	}
	from := max(at+1, p.log.FirstIndex())
	err := p.log.ScanHeaders(from, func(le raftlog.Entry, header []byte) error {
		e := entry{index: le.Index, term: le.Term, kind: le.Kind, producerID: -1}
		switch le.Kind {
		case raftlog.EntryBatch:
			b := core.Batch(header)
			e.base, e.last, e.bytes = le.BaseOffset, le.LastOffset, int32(b.SizeBytes())
			e.producerID, e.seq = sequenceOf(b)
			e.seq.base, e.seq.lastOffset = le.BaseOffset, le.LastOffset
		case raftlog.EntryLogStart:
			fillEntry(&e, le.Payload.Bytes())
		}
		if e.index > commit {
			p.tail.push(e)
			return nil
		}
		if e.producerID >= 0 {
			p.producers.committed(e.producerID, e.seq, 0, s.opts.Limits.ProducersMax)
		}
		if e.kind == raftlog.EntryLogStart && e.base > p.log.LogStart() {
			p.log.SetLogStart(e.base)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if mutant.On(mutant.ProducerStateLost) {
		p.producers = producers{}
	}
	p.applied = commit
	if p.high, err = p.log.OffsetOf(commit); err != nil {
		return fmt.Errorf("offset at index %d: %w", commit, err)
	}
	p.high = max(p.high, p.log.LogStart())
	return nil
}

// keepCheckpoint gives the log the committed producer state before a flush.
func (p *partition) keepCheckpoint() {
	p.log.SetCheckpoint(p.applied, p.producers.encode())
}
