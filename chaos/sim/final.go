package sim

import (
	"fmt"
	"slices"

	"millrace/chaos/check"
	"millrace/core"
	"millrace/shard"
)

// settleMax is how long the clients may take to finish once nothing fails any
// more.
const settleMax = 60 * core.Second

// settle lets producers finish their windows.
func (s *Sim) settle() {
	for _, r := range s.readers {
		r.stopped = true
	}
	busy := func() *lane {
		i := slices.IndexFunc(s.lanes, func(l *lane) bool { return !l.done && len(l.window) > 0 })
		if i < 0 {
			return nil
		}
		return s.lanes[i]
	}
	patience := settleMax
	if s.damageKnown() {
		patience = 5 * core.Second // damaged partitions answer nobody
	}
	s.runUntil(s.now+patience, func() bool { return s.up() && s.node.registered && busy() == nil })
	if s.failure != nil || s.over {
		return
	}
	l := busy()
	var stuck []*lane
	for _, l := range s.lanes {
		if !l.done && len(l.window) > 0 {
			stuck = append(stuck, l)
		}
	}
	for _, l := range s.lanes {
		l.done = true // nothing is sent after the last crash
	}
	if l != nil && s.damageKnown() {
		for _, l := range stuck {
			if !isStorageFailed(l.lastErr) {
				s.fail(fmt.Errorf("hang: producer %d of %v has %d batches without an answer, and its partition is not reported as damaged: %v", l.id, l.part.Part, len(l.window), l.lastErr))
				return
			}
			s.damaged(l.part, l.lastErr)
		}
	} else if l != nil {
		s.fail(fmt.Errorf("hang: producer %d of %v still has %d batches without an answer after %ds of peace", l.id, l.part.Part, len(l.window), settleMax/core.Second))
	}
	if s.metadataDamaged() {
		return
	}
	if !s.up() || !s.node.registered {
		s.fail(fmt.Errorf("hang: the node is not up after %ds of peace", settleMax/core.Second))
	}
}

// metadataDamaged says that the node is up and reports its metadata as damaged,
// where there is damage: then nothing is served, and nothing can be read.
func (s *Sim) metadataDamaged() bool {
	if s.p.kind != KindFlip || !s.damageKnown() || s.node == nil || s.node.dead || s.node.registered || !isStorageFailed(s.node.refusal) {
		return false
	}
	s.trace("the metadata is damaged: %v", s.node.refusal)
	s.stats.MetadataDamaged++
	return true
}

// finalReads reads everything that there is after the last start.
func (s *Sim) finalReads() {
	s.runUntil(s.now+settleMax, func() bool { return s.up() && s.node.registered })
	if s.failure != nil || s.over {
		return
	}
	if s.metadataDamaged() {
		return
	}
	if !s.up() || !s.node.registered {
		s.fail(fmt.Errorf("hang: the node is not up %ds after the last start", settleMax/core.Second))
		return
	}
	s.seeTopics()
	parts := s.parts()
	left := len(parts)
	for _, p := range parts {
		s.readFinally(p, func() { left-- })
	}
	groups := s.finalOffsets()
	s.runUntil(s.now+settleMax, func() bool { return left == 0 && groups() })
	if s.over {
		return
	}
	if s.failure == nil && left > 0 {
		s.fail(fmt.Errorf("hang: %d of %d partitions could not be read to their end within %ds", left, len(parts), settleMax/core.Second))
	}
	if s.failure == nil && !groups() && !s.damageKnown() {
		s.fail(fmt.Errorf("hang: committed offsets could not be read"))
	}
}

// readFinally reads a partition once all that its log has is committed.
func (s *Sim) readFinally(p part, done func()) {
	s.describe(s.connect(), p, func(d *shard.Describe, err error) {
		if err != nil && !retriable(err) {
			s.fail(fmt.Errorf("describing %v: %w", p.Part, err))
			return
		}
		if err != nil && s.damageKnown() && isStorageFailed(err) {
			s.damaged(p, err)
			done()
			return
		}
		if err != nil || !d.Serving || d.HighWatermark < d.LogEnd {
			s.after(20*core.Millisecond, func() { s.readFinally(p, done) })
			return
		}
		s.readToEnd(p, d.LogStart, done)
	})
}

func (s *Sim) readToEnd(p part, start core.Offset, done func()) {
	r := s.newReader("final", p, start)
	r.maxBytes = 1 << 20
	finish := func() {
		r.stopped = true
		last := s.hist.Polls[len(s.hist.Polls)-1]
		s.stats.Final += int(r.end) - int(last.LogStart)
		s.hist.Finals = append(s.hist.Finals, check.Final{Part: p.Part, Reader: "final", Start: last.LogStart, End: last.End})
		done()
	}
	r.onRead = func() {
		if r.next >= r.end {
			finish()
		}
	}
	r.onFailed = func(error) { done() }
	r.poll()
}
