package shard

import "millrace/core"

// wait puts a Fetch into the lists of its partitions. When there are too many
// waiters, it is answered with what there is instead.
func (s *Shard) wait(w *fetchWait, have int) {
	if s.fetchWaiters >= s.opts.Limits.FetchWaitersMax {
		s.stats.Refused++
		w.r.AtOnce = true
		s.answerFetch(w)
		return
	}
	w.r.dropData()
	w.state, w.have = fetchWaiting, have
	if w.pos == nil {
		w.pos = make([]int32, len(w.r.Parts))
	}
	for i := range w.r.Parts {
		p := s.partitions[w.r.Parts[i].Partition]
		w.pos[i] = int32(len(p.waits))
		p.waits = append(p.waits, waitRef{w, int32(i)})
	}
	s.fetchWaiters++
	s.timers.set(&w.timer, w, w.r.Deadline)
}

// unwait takes a Fetch out of all lists.
func (s *Shard) unwait(w *fetchWait) {
	for i := range w.r.Parts {
		p := s.partitions[w.r.Parts[i].Partition]
		if p == nil || w.pos[i] < 0 {
			continue
		}
		at, last := w.pos[i], len(p.waits)-1
		if moved := p.waits[last]; int(at) != last {
			p.waits[at] = moved
			moved.w.pos[moved.part] = at
		}
		p.waits[last] = waitRef{}
		p.waits = p.waits[:last]
		w.pos[i] = -1
		if last == 0 {
			p.waits = nil
		}
	}
	s.fetchWaiters--
	s.timers.stop(&w.timer)
	w.state = fetchIdle
}

// park lets a Fetch wait for a job slot or for memory, bounded like wait.
func (s *Shard) park(w *fetchWait) {
	if len(s.parked) >= s.opts.Limits.FetchWaitersMax {
		s.stats.Refused++
		w.r.AtOnce = true
		s.answerFetch(w)
		return
	}
	w.r.dropData()
	w.state = fetchParked
	s.parked = append(s.parked, w)
	s.timers.set(&w.timer, w, w.r.Deadline)
}

// unpark retries what waits for room, oldest first, as far as slots go.
func (s *Shard) unpark() {
	for n := len(s.parked); n > 0 && s.jobSlots() > 0; n-- {
		w := s.parked[0]
		s.dropParked(w)
		s.tryFetch(w, false)
		if w.state == fetchParked {
			return // no memory: the next release or deadline tries again
		}
	}
}

func (s *Shard) dropParked(w *fetchWait) {
	for i := range s.parked {
		if s.parked[i] == w {
			copy(s.parked[i:], s.parked[i+1:])
			s.parked[len(s.parked)-1] = nil
			s.parked = s.parked[:len(s.parked)-1]
			break
		}
	}
	s.timers.stop(&w.timer)
	w.state = fetchIdle
}

// wakeForBytes counts newly committed bytes for the readers of a partition.
func (s *Shard) wakeForBytes(p *partition, bytes int) {
	for _, ref := range p.waits {
		if ref.w.have += bytes; ref.w.have >= ref.w.r.MinBytes {
			s.wake(ref.w)
		}
	}
}

// wakeAll wakes every reader of a partition: its leadership or existence has
// changed.
func (s *Shard) wakeAll(p *partition) {
	for _, ref := range p.waits {
		s.wake(ref.w)
	}
}

// wake lets a Fetch be tried again at the end of the turn: one try for all that
// the turn commits.
func (s *Shard) wake(w *fetchWait) {
	if !w.woken {
		w.woken = true
		s.woken = append(s.woken, w)
	}
}

// tryWoken tries the Fetches that were woken in this turn.
func (s *Shard) tryWoken() {
	for i := 0; i < len(s.woken); i++ {
		w := s.woken[i]
		s.woken[i] = nil
		w.woken = false
		if w.state == fetchWaiting {
			s.unwait(w)
			s.tryFetch(w, s.stopping)
		}
	}
	s.woken = s.woken[:0]
}

// finish answers a Fetch that waits with what there is; one that reads history
// is answered by its jobs.
func (s *Shard) finishFetch(w *fetchWait) {
	switch w.state {
	case fetchWaiting:
		s.unwait(w)
	case fetchParked:
		s.dropParked(w)
	default:
		return
	}
	s.tryFetch(w, true)
}

// onTimer is the deadline of a Fetch.
func (w *fetchWait) onTimer(s *Shard, now core.Tick) { s.finishFetch(w) }
