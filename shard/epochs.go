package shard

import (
	"millrace/core"
	"millrace/raftlog"
)

// epochs is the partition's epoch table without the terms that hold no record,
// as in Kafka, whose table keeps the newest of several epochs that begin at one
// offset.
func (p *partition) epochs() []raftlog.EpochStart {
	all := p.log.Epochs()
	out := make([]raftlog.EpochStart, 0, len(all))
	for _, e := range all {
		if n := len(out); n > 0 && out[n-1].Offset == e.Offset {
			out[n-1] = e
			continue
		}
		out = append(out, e)
	}
	return out
}

// epochEnd answers where an epoch ended (KIP-101, KIP-279): the largest known
// epoch that is not above it, and the offset where the next one begins. End -1
// where the epoch is newer than all known ones.
func (p *partition) epochEnd(epoch core.Term) EpochEndOffset {
	if epoch == p.term {
		return EpochEndOffset{Epoch: epoch, End: p.log.NextOffset()}
	}
	table := p.epochs()
	for i, e := range table {
		if e.Term > epoch {
			if i == 0 {
				return EpochEndOffset{Epoch: epoch, End: max(e.Offset, p.log.LogStart())}
			}
			return EpochEndOffset{Epoch: table[i-1].Term, End: max(e.Offset, p.log.LogStart())}
		}
	}
	if n := len(table); n > 0 && table[n-1].Term == epoch {
		return EpochEndOffset{Epoch: epoch, End: p.log.NextOffset()}
	}
	return EpochEndOffset{Epoch: NoEpoch, End: -1}
}

// epochOf is the epoch of the record at an offset; NoEpoch if none is known.
func (p *partition) epochOf(o core.Offset) core.Term {
	epoch := NoEpoch
	for _, e := range p.epochs() {
		if e.Offset > o {
			break
		}
		epoch = e.Term
	}
	return epoch
}

// NoEpoch is the epoch where there is none; Kafka writes -1.
const NoEpoch = ^core.Term(0)

// epochEndRequest answers OffsetForLeaderEpoch.
func (s *Shard) epochEndRequest(r *EpochEnd) {
	r.End = EpochEndOffset{Epoch: NoEpoch, End: -1}
	p, err := s.lead(r.Partition)
	if err == nil {
		err = p.checkEpoch(r.CurrentEpoch)
	}
	if err != nil {
		s.fail(r, err)
		return
	}
	if r.Epoch != -1 {
		r.End = p.epochEnd(core.Term(max(r.Epoch, 0)))
		if r.Epoch < 0 && r.End.End >= 0 {
			r.End.Epoch = core.Term(r.Epoch) // before the first: as it was asked for
		}
	}
	s.done(r)
}
