package shard

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"millrace/core"
)

// batchesKept is how many of a producer's newest batches can be recognised when
// they come again (KIP-98: max.in.flight up to five).
const batchesKept = 5

// sequence describes one idempotent batch.
type sequence struct {
	first, last int32
	epoch       int16
	base        core.Offset
	lastOffset  core.Offset
	maxMs       int64
}

// producer is what a partition remembers of one producer id. batches are
// committed, oldest first; inflight are in this leader's log and not committed
// yet: they are dropped when the leadership is lost, and become batches when
// they are committed.
type producer struct {
	id       int64
	epoch    int16 // of the newest committed batch
	n        int
	batches  [batchesKept]sequence
	inflight []sequence
	seenMs   int64 // when it last appended; 0 = not known yet

	older, newer *producer // by last append
}

// producers is the producer state of one partition, bounded by dropping the
// producer that has been idle longest.
type producers struct {
	byID           map[int64]*producer
	oldest, newest *producer
}

func (ps *producers) len() int { return len(ps.byID) }

// producersFloor is how many producers a partition may remember, whatever others do.
const producersFloor = 10

// producersChanged counts a partition's producers after a change from so many, and
// keeps the shard's bound: the partition that has the most forgets those that have been
// idle longest, a sixteenth of what it has at a time, so that the search for it is rare.
// Which they are depends on the other partitions of the shard: like expiry by time it
// is no part of the log, and a restart may remember some of them again.
func (s *Shard) producersChanged(p *partition, before int) {
	s.producers += p.producers.len() - before
	for s.producers > max(s.opts.Limits.ShardProducersMax, producersFloor*len(s.order)) {
		most := slices.MaxFunc(s.order, func(a, b *partition) int { return cmp.Compare(a.producers.len(), b.producers.len()) })
		n := most.producers.len()
		dropped := most.producers.dropIdle(min(max(n/16, 1), n-producersFloor))
		if dropped == 0 {
			return // all have batches in flight, whose bytes bound them
		}
		s.producers -= dropped
		s.stats.ProducersDropped += uint64(dropped)
	}
}

// verdict is what check found.
type verdict struct {
	duplicate bool
	pending   bool // the first copy is not committed yet
	of        sequence
}

// check decides on the next batch of a producer (KIP-98; the rules are those of
// Kafka's ProducerAppendInfo). Errors: core.ErrFencedProducer,
// core.ErrOutOfOrderSeq.
func (ps *producers) check(id int64, next sequence) (verdict, error) {
	p := ps.byID[id]
	if p == nil || p.n == 0 && len(p.inflight) == 0 {
		return verdict{}, nil // whoever is unknown may start anywhere
	}
	newest := p.last()
	if next.epoch == newest.epoch {
		if v := p.find(next); v.duplicate {
			return v, nil
		}
	}
	switch {
	case next.epoch < newest.epoch:
		return verdict{}, fmt.Errorf("%w: epoch %d, the newest seen is %d (producer %d)",
			core.ErrFencedProducer, next.epoch, newest.epoch, id)
	case next.epoch > newest.epoch:
		if next.first != 0 {
			return verdict{}, fmt.Errorf("%w: new epoch %d starts with sequence %d, want 0 (producer %d)",
				core.ErrOutOfOrderSeq, next.epoch, next.first, id)
		}
	case next.first != after(newest.last):
		return verdict{}, fmt.Errorf("%w: sequence %d where %d is next (producer %d, epoch %d)",
			core.ErrOutOfOrderSeq, next.first, after(newest.last), id, next.epoch)
	}
	return verdict{}, nil
}

// after is the sequence number that follows s: 0 after the largest.
func after(s int32) int32 {
	if s == math.MaxInt32 {
		return 0
	}
	return s + 1
}

// sequenceAt is first plus delta with the wrap of sequence numbers.
func sequenceAt(first, delta int32) int32 {
	if first > math.MaxInt32-delta {
		return delta - (math.MaxInt32 - first) - 1
	}
	return first + delta
}

func (p *producer) last() sequence {
	if n := len(p.inflight); n > 0 {
		return p.inflight[n-1]
	}
	return p.batches[p.n-1]
}

// find looks for next among the newest batches.
func (p *producer) find(next sequence) verdict {
	looked := 0
	for i := len(p.inflight) - 1; i >= 0 && looked < batchesKept; i, looked = i-1, looked+1 {
		if s := p.inflight[i]; s.epoch == next.epoch && s.first == next.first && s.last == next.last {
			return verdict{duplicate: true, pending: true, of: s}
		}
	}
	for i := p.n - 1; i >= 0 && looked < batchesKept; i, looked = i-1, looked+1 {
		if s := p.batches[i]; s.epoch == next.epoch && s.first == next.first && s.last == next.last {
			return verdict{duplicate: true, of: s}
		}
	}
	return verdict{}
}

// appended notes a batch that this leader has put into its log.
func (ps *producers) appended(id int64, s sequence, nowMs int64, limit int) {
	p := ps.touch(id, nowMs, limit)
	p.inflight = append(p.inflight, s)
}

// committed notes a committed batch, whoever appended it.
func (ps *producers) committed(id int64, s sequence, nowMs int64, limit int) {
	p := ps.touch(id, nowMs, limit)
	if len(p.inflight) > 0 {
		if p.inflight[0].base != s.base {
			panic(fmt.Sprintf("BUG: producer %d: offset %d committed before offset %d", id, s.base, p.inflight[0].base))
		}
		p.inflight = p.inflight[1:]
		if len(p.inflight) == 0 {
			p.inflight = nil
		}
	}
	p.push(s)
}

func (p *producer) push(s sequence) {
	if p.n > 0 && s.epoch != p.epoch {
		p.n = 0
	}
	if p.n == batchesKept {
		copy(p.batches[:], p.batches[1:])
		p.n--
	}
	p.batches[p.n] = s
	p.n++
	p.epoch = s.epoch
}

// dropInflight forgets what was appended and not committed: the next leader
// decides on it.
func (ps *producers) dropInflight() {
	for p := ps.oldest; p != nil; {
		next := p.newer
		p.inflight = nil
		if p.n == 0 {
			ps.remove(p)
		}
		p = next
	}
}

// touch finds or makes a producer and makes it the newest.
func (ps *producers) touch(id int64, nowMs int64, limit int) *producer {
	p := ps.byID[id]
	if p == nil {
		if len(ps.byID) >= limit {
			ps.dropIdlest()
		}
		if ps.byID == nil {
			ps.byID = make(map[int64]*producer)
		}
		p = &producer{id: id}
		ps.byID[id] = p
	} else {
		ps.unlink(p)
	}
	p.seenMs = nowMs
	ps.link(p)
	return p
}

// dropIdle forgets up to n producers, the longest idle first, and says how many. Those
// with batches in flight stay.
func (ps *producers) dropIdle(n int) (dropped int) {
	for p := ps.oldest; p != nil && dropped < n; {
		next := p.newer
		if len(p.inflight) == 0 {
			ps.remove(p)
			dropped++
		}
		p = next
	}
	return dropped
}

// dropIdlest makes room. Producers with batches in flight stay: the bytes in
// flight bound them.
func (ps *producers) dropIdlest() {
	for p := ps.oldest; p != nil; p = p.newer {
		if len(p.inflight) == 0 {
			ps.remove(p)
			return
		}
	}
}

// expire drops the producers that have been idle for idleMs.
func (ps *producers) expire(nowMs, idleMs int64) {
	for p := ps.oldest; p != nil; {
		next := p.newer
		if p.seenMs == 0 {
			p.seenMs = nowMs // found at start: its idle time counts from here
		}
		if len(p.inflight) == 0 && nowMs-p.seenMs >= idleMs {
			ps.remove(p)
		}
		p = next
	}
}

func (ps *producers) remove(p *producer) {
	ps.unlink(p)
	delete(ps.byID, p.id)
}

func (ps *producers) link(p *producer) {
	p.older, p.newer = ps.newest, nil
	if ps.newest != nil {
		ps.newest.newer = p
	} else {
		ps.oldest = p
	}
	ps.newest = p
}

func (ps *producers) unlink(p *producer) {
	if p.older != nil {
		p.older.newer = p.newer
	} else {
		ps.oldest = p.newer
	}
	if p.newer != nil {
		p.newer.older = p.older
	} else {
		ps.newest = p.older
	}
	p.older, p.newer = nil, nil
}
