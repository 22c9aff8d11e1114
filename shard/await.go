package shard

import (
	"fmt"

	"millrace/core"
	"millrace/core/meta"
)

// awaiting is an Await that is not answered yet.
type awaiting struct {
	r     *Await
	at    int // partitions before it have a leader
	timer timer
	done  bool
}

// await answers when the image is applied and the partitions lead. The waiters
// are bounded like those of Fetch.
func (s *Shard) await(r *Await) {
	w := &awaiting{r: r}
	if s.awaitReady(w) {
		return
	}
	if len(s.awaits) >= s.opts.Limits.FetchWaitersMax {
		s.stats.Refused++
		s.fail(r, fmt.Errorf("%w: %d requests wait for leaders", core.ErrOverloaded, len(s.awaits)))
		return
	}
	s.awaits = append(s.awaits, w)
	s.timers.set(&w.timer, w, r.Deadline)
}

// awaitReady answers w if nothing is left to wait for.
func (s *Shard) awaitReady(w *awaiting) bool {
	r := w.r
	if s.image == nil && r.MinVersion > 0 || s.image != nil && s.image.Version < r.MinVersion {
		return false
	}
	for ; w.at < len(r.Partitions); w.at++ {
		p := s.partitions[r.Partitions[w.at]]
		if p == nil {
			cell := s.elsewhere(r.Partitions[w.at])
			if cell == nil {
				w.done = true
				s.fail(r, fmt.Errorf("%w: partition %d", core.ErrUnknownPartition, r.Partitions[w.at]))
				return true
			}
			if leader, _ := cell.Get(); leader == core.NoNode {
				return false
			}
			continue
		}
		if p.broken == nil && !p.serving && (p.leading || p.leader == core.NoNode) {
			return false
		}
	}
	w.done = true
	s.done(r)
	return true
}

// elsewhere finds what is believed of a partition that has no replica here.
func (s *Shard) elsewhere(id core.PartitionID) *meta.LeaderCell {
	if s.image == nil {
		return nil
	}
	place, ok := s.image.Locate(id)
	if !ok {
		return nil
	}
	return place.Topic.Partitions[place.Num].Leader
}

// checkAwaits looks at all waiters after an image or an election.
func (s *Shard) checkAwaits() {
	kept := s.awaits[:0]
	for _, w := range s.awaits {
		if s.awaitReady(w) {
			s.timers.stop(&w.timer)
			continue
		}
		kept = append(kept, w)
	}
	clear(s.awaits[len(kept):])
	s.awaits = kept
}

// onTimer is the deadline.
func (w *awaiting) onTimer(s *Shard, now core.Tick) {
	s.endAwait(w, fmt.Errorf("%w: not within the time given", core.ErrNoLeader))
}

// endAwait answers an Await that did not get what it waits for.
func (s *Shard) endAwait(w *awaiting, err error) {
	for i := range s.awaits {
		if s.awaits[i] == w {
			s.awaits = append(s.awaits[:i], s.awaits[i+1:]...)
			break
		}
	}
	s.timers.stop(&w.timer)
	if !w.done {
		w.done = true
		s.fail(w.r, err)
	}
}
