package check

import (
	"cmp"
	"maps"
	"slices"
)

// Log checks sends against polls, per partition.
//
// Deleted records are known by their offsets being below a log start that some
// poll or final read told. Of a partition that was reported damaged everything
// is checked but that there is a final read; one that is served in the end must
// be complete.
func Log(h *History) []Violation {
	var l list
	parts := map[Part]*partLog{}
	var order []Part
	get := func(p Part) *partLog {
		pl := parts[p]
		if pl == nil {
			pl = &partLog{part: p, sent: map[Key]sentRecord{}, at: map[int64]Record{}, offsets: map[Key][]int64{}}
			parts[p] = pl
			order = append(order, p)
		}
		return pl
	}
	for _, s := range h.Sends {
		get(s.Part).sends = append(get(s.Part).sends, s)
	}
	for _, p := range h.Polls {
		get(p.Part).polls = append(get(p.Part).polls, p)
	}
	for _, f := range h.Finals {
		get(f.Part).finals = append(get(f.Part).finals, f)
	}
	for _, d := range h.Damaged {
		if len(h.Flips) == 0 {
			l.add(KindFalseDamage, d.Part.String(), "%s", d.Reason)
		}
	}
	for _, p := range order {
		parts[p].check(&l)
		if h.OneNode {
			parts[p].current(&l)
		}
	}
	return l.out
}

type sentRecord struct {
	send *Send
	i    int
}

type partLog struct {
	part   Part
	sends  []*Send
	polls  []*Poll
	finals []Final

	sent    map[Key]sentRecord
	at      map[int64]Record // what some reader saw at an offset
	offsets map[Key][]int64  // where it was seen
}

func (p *partLog) check(l *list) {
	p.index()
	p.readings(l)
	p.duplicates(l)
	p.acknowledged(l)
	p.ordered(l)
	p.monotonic(l)
	p.bounds(l)
	for _, f := range p.finals {
		p.complete(l, f)
	}
}

func (p *partLog) index() {
	for _, s := range p.sends {
		for i := range s.Sums {
			p.sent[Key{s.Producer, s.First + int64(i)}] = sentRecord{s, i}
		}
	}
	slices.SortStableFunc(p.polls, func(a, b *Poll) int { return cmp.Compare(a.Return, b.Return) })
}

// readings checks each record read: sent before, same bytes, same at its offset
// for all readers, below the end, without a hole.
func (p *partLog) readings(l *list) {
	where := p.part.String()
	for _, poll := range p.polls {
		next := poll.From
		for _, r := range poll.Records {
			if !poll.Sparse && next >= 0 && r.Offset != next {
				l.add(KindHole, where, "%s asked for offset %d and was given %d", poll.Reader, next, r.Offset)
			}
			next = r.Offset + 1
			if poll.End >= 0 && r.Offset >= poll.End {
				l.add(KindBeyondEnd, where, "%s read offset %d with the end at %d", poll.Reader, r.Offset, poll.End)
			}
			p.reading(l, poll, r)
		}
	}
}

func (p *partLog) reading(l *list, poll *Poll, r Record) {
	where := p.part.String()
	s, ok := p.sent[r.Key]
	switch {
	case !ok:
		l.add(KindInvented, where, "%s read %v at offset %d, never sent", poll.Reader, r.Key, r.Offset)
	case s.send.Invoke > poll.Return:
		l.add(KindInvented, where, "%s read %v at offset %d before it was sent", poll.Reader, r.Key, r.Offset)
	case s.send.Outcome == Failed:
		l.add(KindInvented, where, "%s read %v at offset %d, which was refused", poll.Reader, r.Key, r.Offset)
	case s.send.Sums[s.i] != r.Sum:
		l.add(KindCorrupt, where, "%s read %v at offset %d with other bytes than sent", poll.Reader, r.Key, r.Offset)
	}
	old, seen := p.at[r.Offset]
	if !seen {
		p.at[r.Offset] = r
		p.offsets[r.Key] = append(p.offsets[r.Key], r.Offset)
		return
	}
	if old.Key != r.Key || old.Sum != r.Sum {
		l.add(KindInconsistent, where, "offset %d held %v, then %s read %v there", r.Offset, old.Key, poll.Reader, r.Key)
	}
}

// duplicates: a record is at one offset, or at as many as there were attempts
// of a producer that is not idempotent.
func (p *partLog) duplicates(l *list) {
	for _, s := range p.sends {
		allowed := 1
		if !s.Idempotent {
			allowed = max(1, s.Attempts)
		}
		for i := range s.Sums {
			k := Key{s.Producer, s.First + int64(i)}
			if o := p.offsets[k]; len(o) > allowed {
				l.add(KindDuplicate, p.part.String(), "%v is at offsets %v after %d attempts", k, o, s.Attempts)
			}
		}
	}
}

// acknowledged: what an acknowledgement told of offsets agrees with the reads
// and with other acknowledgements.
func (p *partLog) acknowledged(l *list) {
	where := p.part.String()
	claimed := map[int64]Key{}
	for _, s := range p.sends {
		// Only an acknowledgement that promises durability holds its offset: after
		// a crash another record may take the place of one of acks=1.
		if s.Outcome != Acked || !s.Durable || s.Base < 0 {
			continue
		}
		for i := range s.Sums {
			k, o := Key{s.Producer, s.First + int64(i)}, s.Base+int64(i)
			if r, ok := p.at[o]; ok && r.Key != k {
				l.add(KindInconsistent, where, "%v was acknowledged at offset %d, where %v is", k, o, r.Key)
			}
			if at := p.offsets[k]; s.Idempotent && len(at) > 0 && at[0] != o {
				l.add(KindInconsistent, where, "%v was acknowledged at offset %d and is at %d", k, o, at[0])
			}
			if other, ok := claimed[o]; ok && other != k {
				l.add(KindInconsistent, where, "offset %d was acknowledged for %v and for %v", o, other, k)
			}
			claimed[o] = k
		}
	}
}

// offsetOf is where a record is, by a read or by its acknowledgement; -1: unknown.
func (p *partLog) offsetOf(s *Send, i int) int64 {
	if o := p.offsets[Key{s.Producer, s.First + int64(i)}]; len(o) > 0 {
		return slices.Min(o)
	}
	if s.Outcome == Acked && s.Durable && s.Base >= 0 {
		return s.Base + int64(i)
	}
	return -1
}

// ordered: records of a batch, and of an idempotent producer, are in the order
// in which they were sent; a record sent after another one was acknowledged is
// behind it.
func (p *partLog) ordered(l *list) {
	where := p.part.String()
	sends := slices.Clone(p.sends)
	slices.SortStableFunc(sends, func(a, b *Send) int {
		return cmp.Or(cmp.Compare(a.Producer, b.Producer), cmp.Compare(a.First, b.First))
	})
	producer, last := int32(-1), int64(-1)
	for _, s := range sends {
		if s.Producer != producer || !s.Idempotent {
			producer, last = s.Producer, -1
		}
		p.together(l, s)
		for i := range s.Sums {
			o := p.offsetOf(s, i)
			if o < 0 {
				continue
			}
			// Of a batch that is there twice, a deletion may have cut the first copy.
			if o <= last && (s.Idempotent || s.Attempts <= 1) {
				l.add(KindReorder, where, "%v is at offset %d, behind it is offset %d of an earlier record", Key{s.Producer, s.First + int64(i)}, o, last)
			}
			last = o
		}
	}
	p.realTime(l)
}

// together: before each copy of a record of a batch is the one before it.
func (p *partLog) together(l *list, s *Send) {
	if p.sparse() {
		return
	}
	for i := 1; i < len(s.Sums); i++ {
		before := Key{s.Producer, s.First + int64(i) - 1}
		for _, o := range p.offsets[Key{s.Producer, s.First + int64(i)}] {
			if r, ok := p.at[o-1]; ok && r.Key != before {
				l.add(KindReorder, p.part.String(), "%v at offset %d is behind %v, not behind the record before it in its batch", Key{s.Producer, s.First + int64(i)}, o, r.Key)
			}
		}
	}
}

func (p *partLog) realTime(l *list) {
	type ack struct{ at, offset int64 }
	var acks []ack
	for _, s := range p.sends {
		if s.Outcome == Acked && s.Durable && s.Base >= 0 {
			acks = append(acks, ack{s.Return, s.Base})
		}
	}
	slices.SortFunc(acks, func(a, b ack) int { return cmp.Compare(a.at, b.at) })
	sends := slices.Clone(p.sends)
	slices.SortStableFunc(sends, func(a, b *Send) int { return cmp.Compare(a.Invoke, b.Invoke) })
	highest, i := int64(-1), 0
	for _, s := range sends {
		for ; i < len(acks) && acks[i].at < s.Invoke; i++ {
			highest = max(highest, acks[i].offset)
		}
		if len(s.Sums) == 0 {
			continue
		}
		if o := p.offsetOf(s, 0); o >= 0 && o < highest {
			l.add(KindReorder, p.part.String(), "%v was sent after offset %d had been acknowledged and is at %d", Key{s.Producer, s.First}, highest, o)
		}
	}
}

// monotonic: the end and the log start that polls tell never go back.
func (p *partLog) monotonic(l *list) {
	byInvoke := slices.Clone(p.polls)
	slices.SortStableFunc(byInvoke, func(a, b *Poll) int { return cmp.Compare(a.Invoke, b.Invoke) })
	end, start, i := int64(-1), int64(-1), 0
	for _, poll := range byInvoke {
		for ; i < len(p.polls) && p.polls[i].Return < poll.Invoke; i++ {
			end, start = max(end, p.polls[i].End), max(start, p.polls[i].LogStart)
		}
		if poll.End >= 0 && poll.End < end {
			l.add(KindNonmonotonic, p.part.String(), "%s was told of end %d after the end had been %d", poll.Reader, poll.End, end)
		}
		if poll.LogStart >= 0 && poll.LogStart < start {
			l.add(KindNonmonotonic, p.part.String(), "%s was told of log start %d after it had been %d", poll.Reader, poll.LogStart, start)
		}
	}
}

// current: the end that a poll tells is not below what was acknowledged before it
// was asked for.
func (p *partLog) current(l *list) {
	type fact struct{ at, end int64 }
	var acks []fact
	for _, s := range p.sends {
		if s.Outcome == Acked && s.Durable && s.Base >= 0 {
			acks = append(acks, fact{s.Return, s.Base + int64(len(s.Sums))})
		}
	}
	slices.SortFunc(acks, func(a, b fact) int { return cmp.Compare(a.at, b.at) })
	byInvoke := slices.Clone(p.polls)
	slices.SortStableFunc(byInvoke, func(a, b *Poll) int { return cmp.Compare(a.Invoke, b.Invoke) })
	end, i := int64(-1), 0
	for _, poll := range byInvoke {
		for ; i < len(acks) && acks[i].at < poll.Invoke; i++ {
			end = max(end, acks[i].end)
		}
		if poll.End >= 0 && poll.End < end {
			l.add(KindStaleEnd, p.part.String(), "%s was told of end %d after offset %d had been acknowledged", poll.Reader, poll.End, end-1)
		}
	}
}

// bounds: a poll's log start is not above its end, nor that above its log end.
func (p *partLog) bounds(l *list) {
	for _, poll := range p.polls {
		if poll.LogStart >= 0 && poll.End >= 0 && poll.LogStart > poll.End || poll.LogEnd > 0 && poll.End > poll.LogEnd {
			l.add(KindBounds, p.part.String(), "%s was told of log start %d, high watermark %d, log end %d", poll.Reader, poll.LogStart, poll.End, poll.LogEnd)
		}
	}
}

// complete: all that was acknowledged, or ever read, and is not below the log
// start, is in the final read.
func (p *partLog) complete(l *list, f Final) {
	where := p.part.String()
	have := map[int64]Key{}
	found := map[Key]bool{}
	next := f.Start
	for _, poll := range p.polls {
		if poll.Reader != f.Reader {
			continue
		}
		for _, r := range poll.Records {
			if !poll.Sparse && r.Offset > next {
				l.add(KindHole, where, "the final read has nothing between offsets %d and %d", next, r.Offset)
			}
			next = max(next, r.Offset+1)
			have[r.Offset] = r.Key
			found[r.Key] = true
		}
		if poll.Sparse {
			next = f.End
		}
	}
	if next < f.End {
		l.add(KindHole, where, "the final read has nothing between offset %d and the end %d", next, f.End)
	}
	for _, s := range p.sends {
		p.survived(l, f, s, found)
	}
	for _, o := range slices.Sorted(maps.Keys(p.at)) {
		r := p.at[o]
		if _, ok := have[o]; !ok && o >= f.Start && !p.sparse() {
			l.add(KindLost, where, "%v was read at offset %d and is gone from the final read [%d, %d)", r.Key, o, f.Start, f.End)
		}
	}
}

func (p *partLog) sparse() bool {
	return slices.ContainsFunc(p.polls, func(poll *Poll) bool { return poll.Sparse })
}

func (p *partLog) survived(l *list, f Final, s *Send, found map[Key]bool) {
	if s.Outcome != Acked || !s.Durable || p.sparse() {
		return
	}
	where := p.part.String()
	for i := range s.Sums {
		k := Key{s.Producer, s.First + int64(i)}
		if found[k] {
			continue
		}
		o := p.offsetOf(s, i)
		switch {
		case o >= f.End:
			l.add(KindUnseen, where, "%v was acknowledged at offset %d; the final end is %d", k, o, f.End)
		case o >= f.Start:
			l.add(KindLost, where, "%v was acknowledged at offset %d and is gone; the final read is [%d, %d)", k, o, f.Start, f.End)
		case o < 0 && f.Start == 0:
			l.add(KindLost, where, "%v was acknowledged, without an offset, and is nowhere in [0, %d)", k, f.End)
		}
	}
}
