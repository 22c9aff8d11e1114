//go:build invariants

package shard

import (
	"fmt"

	"millrace/core"
	"millrace/raftlog"
)

// checkPartition asserts what must hold of a partition between two turns.
func (s *Shard) checkPartition(p *partition) {
	if !p.live() {
		return
	}
	if n := p.log.LastIndex() - p.applied; core.Index(p.tail.len()) != n {
		panic(fmt.Sprintf("BUG: %s: %d entries in the tail, %d above the applied %d", p.name(), p.tail.len(), n, p.applied))
	}
	next := p.high
	for i := range p.tail.len() {
		e := p.tail.at(i)
		if e.index != p.applied+1+core.Index(i) {
			panic(fmt.Sprintf("BUG: %s: entry %d at place %d of the tail, applied %d", p.name(), e.index, i, p.applied))
		}
		if t, err := p.log.Term(e.index); err != nil || t != e.term {
			panic(fmt.Sprintf("BUG: %s: entry %d has term %d, the log says %d, %v", p.name(), e.index, e.term, t, err))
		}
		if e.kind == raftlog.EntryBatch {
			if e.base != next {
				panic(fmt.Sprintf("BUG: %s: batch at offset %d where %d is next", p.name(), e.base, next))
			}
			next = e.last + 1
		}
	}
	if next != p.log.NextOffset() || p.high < p.log.LogStart() {
		panic(fmt.Sprintf("BUG: %s: high watermark %d, tail up to %d, log [%d, %d)", p.name(), p.high, next, p.log.LogStart(), p.log.NextOffset()))
	}
	if p.serving && !p.leading {
		panic(fmt.Sprintf("BUG: %s: serves and does not lead", p.name()))
	}
	for i, ref := range p.waits {
		if ref.w.state != fetchWaiting || ref.w.pos[ref.part] != int32(i) {
			panic(fmt.Sprintf("BUG: %s: waiter %d does not know its place", p.name(), i))
		}
	}
}

// checkShard asserts what must hold of the sums over all partitions.
func (s *Shard) checkShard() {
	bytes, leaders, producers := int64(0), 0, 0
	for _, p := range s.order {
		s.checkPartition(p)
		producers += p.producers.len()
		if p.serving {
			leaders++
		}
		for i := range p.tail.len() {
			if e := p.tail.at(i); e.request != nil && e.kind == raftlog.EntryBatch {
				bytes += int64(e.bytes)
			}
		}
	}
	if bytes != s.inflightBytes || leaders != s.leaders {
		panic(fmt.Sprintf("BUG: %d bytes in flight, counted %d; %d leaders, counted %d", bytes, s.inflightBytes, leaders, s.leaders))
	}
	if producers != s.producers {
		panic(fmt.Sprintf("BUG: %d producers, counted %d", producers, s.producers))
	}
	s.checkAheads()
	for i := range s.timers.heap {
		if t := s.timers.heap[i].t; int(t.pos) != i+1 || i > 0 && s.timers.less(i, (i-1)/2) {
			panic(fmt.Sprintf("BUG: the timer heap is out of order at %d", i))
		}
	}
}

// checkAheads asserts what must hold of what was read ahead.
func (s *Shard) checkAheads() {
	bytes, listed := 0, 0
	for _, p := range s.order {
		listed += len(p.aheads)
	}
	for _, a := range s.aheads {
		n := 0
		for _, b := range a.ready {
			n += b.Len()
		}
		if n != a.bytes || a.gone || len(a.ready) == 0 && a.job == nil || a.waiter != nil && a.job == nil {
			panic(fmt.Sprintf("BUG: %s: read ahead at %d: %d bytes, counted %d, gone %v, job %v", a.p.name(), a.from, n, a.bytes, a.gone, a.job != nil))
		}
		bytes += n
	}
	if listed != len(s.aheads) || bytes > s.aheadBytes || s.aheadBytes > int(s.opts.Arena.LimitBytes()/aheadArenaShare)+2*raftlog.ReadJobBytesMax {
		panic(fmt.Sprintf("BUG: %d of %d streams read ahead are listed; %d bytes, counted %d", len(s.aheads), listed, bytes, s.aheadBytes))
	}
}
