package shard

import "millrace/core"

// describe reads a partition's state; it is answered at once, also where the
// node does not lead.
func (s *Shard) describe(r *Describe) {
	r.Leader = core.NoNode
	p, err := s.find(r.Partition)
	if err != nil {
		s.fail(r, err)
		return
	}
	r.SizeBytes, r.LogStart, r.LogEnd = p.log.SizeBytes(), p.log.LogStart(), p.log.NextOffset()
	r.HighWatermark, r.Leader, r.Epoch = p.high, p.leader, p.term
	r.Serving = p.serving
	if r.Producers {
		for pr := p.producers.oldest; pr != nil; pr = pr.newer {
			last := pr.last()
			r.Active = append(r.Active, ActiveProducer{
				ID: pr.id, Epoch: last.epoch, LastSequence: last.last, LastTimestamp: last.maxMs,
				TxnStart: -1, CoordinatorEp: -1,
			})
		}
	}
	s.done(r)
}
