package check

import (
	"cmp"
	"slices"
)

// write and read are operations on one register, for the checks of committed
// offsets and of topic settings.
type write struct {
	Span
	acked bool
	value string
}

type read struct {
	Span
	value string
}

// initial is the write that made a register what it is before all others.
func initial(value string) write { return write{Span: Span{-1, -1}, acked: true, value: value} }

// regular says whether r may have seen its value: a write of it had begun, and
// no acknowledged write lies wholly between that write and r. If not, forged
// tells whether nobody wrote the value at all.
func regular(writes []write, r read) (ok, forged bool) {
	forged = true
	for _, w := range writes {
		if w.value != r.value || w.Invoke > r.Return {
			continue
		}
		forged = false
		if !slices.ContainsFunc(writes, func(w2 write) bool {
			return w2.acked && w.before(w2.Span) && w2.before(r.Span)
		}) {
			return true, false
		}
	}
	return false, forged
}

// wentBack finds two reads, one after the other, of which the second saw a
// value that was written, acknowledged, before the write of the first had begun.
// It needs values that are written once; others are passed over.
func wentBack(writes []write, reads []read) (first, second read, found bool) {
	byValue := map[string][]write{}
	for _, w := range writes {
		byValue[w.value] = append(byValue[w.value], w)
	}
	only := func(value string) (write, bool) {
		if w := byValue[value]; len(w) == 1 {
			return w[0], true
		}
		return write{}, false
	}
	sorted := slices.Clone(reads)
	slices.SortStableFunc(sorted, func(a, b read) int { return cmp.Compare(a.Return, b.Return) })
	for i, a := range sorted {
		wa, ok := only(a.value)
		if !ok {
			continue
		}
		for _, b := range sorted[i+1:] {
			if !a.before(b.Span) {
				continue
			}
			if wb, ok := only(b.value); ok && wb.before(wa.Span) {
				return a, b, true
			}
		}
	}
	return read{}, read{}, false
}

// Groups checks ownership within generations and committed offsets.
func Groups(h *History) []Violation {
	var l list
	owners(h, &l)
	committed(h, &l)
	return l.out
}

func owners(h *History, l *list) {
	type slot struct {
		group      string
		generation int32
		part       Part
	}
	held := map[slot]string{}
	for _, o := range h.Owners {
		for _, p := range o.Parts {
			s := slot{o.Group, o.Generation, p}
			if other, ok := held[s]; ok && other != o.Member {
				l.add(KindTwoOwners, o.Group, "%v belongs to %s and to %s in generation %d", p, other, o.Member, o.Generation)
			}
			held[s] = o.Member
		}
	}
}

func committed(h *History, l *list) {
	type slot struct {
		group string
		part  Part
	}
	writes, reads := map[slot][]write{}, map[slot][]read{}
	var order []slot
	for _, c := range h.Commits {
		s := slot{c.Group, c.Part}
		if c.Outcome != Failed {
			writes[s] = append(writes[s], write{c.Span, c.Outcome == Acked, itoa(c.Offset)})
		}
	}
	for _, f := range h.Fetches {
		s := slot{f.Group, f.Part}
		if reads[s] == nil {
			order = append(order, s)
		}
		reads[s] = append(reads[s], read{f.Span, itoa(f.Offset)})
	}
	for _, s := range order {
		where := s.group + " " + s.part.String()
		w := append(writes[s], initial(itoa(-1)))
		for _, r := range reads[s] {
			switch ok, forged := regular(w, r); {
			case ok:
			case forged:
				l.add(KindOffsetForged, where, "committed offset %s, which nobody committed", r.value)
			default:
				l.add(KindOffsetLost, where, "committed offset %s, though a later commit was acknowledged", r.value)
			}
		}
		if a, b, found := wentBack(w, reads[s]); found {
			l.add(KindOffsetBack, where, "committed offset %s was seen, then %s", a.value, b.value)
		}
	}
}
