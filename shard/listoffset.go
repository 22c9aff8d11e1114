package shard

import (
	"fmt"

	"millrace/core"
)

// Kafka's special timestamps.
const (
	timeLatest          = -1
	timeEarliest        = -2
	timeMax             = -3 // KIP-734
	timeEarliestLocal   = -4 // KIP-405
	timeLatestTiered    = -5
	timeEarliestPending = -6
)

// listOffset answers one partition of ListOffsets.
func (s *Shard) listOffset(r *ListOffset) {
	r.Offset, r.FoundTimeMs, r.LeaderEpoch = -1, -1, -1
	p, err := s.lead(r.Partition)
	if err == nil {
		err = p.checkEpoch(r.CurrentEpoch)
	}
	if err != nil {
		s.fail(r, err)
		return
	}
	switch r.Timestamp {
	case timeLatest:
		r.Offset, r.LeaderEpoch = p.high, int32(p.term)
	case timeEarliest, timeEarliestLocal:
		r.Offset = p.log.LogStart()
		if e := p.epochOf(r.Offset); e != NoEpoch {
			r.LeaderEpoch = int32(e)
		}
	case timeLatestTiered, timeEarliestPending: // nothing is tiered: none
	default:
		if r.Timestamp < timeEarliestPending {
			s.fail(r, fmt.Errorf("%w: timestamp %d", core.ErrInvalidRecord, r.Timestamp))
			return
		}
		s.queueLookup(p, r)
		return
	}
	s.done(r)
}
