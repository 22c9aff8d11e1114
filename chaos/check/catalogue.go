package check

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// Catalogue checks every view of the topics against the attempts to change them.
func Catalogue(h *History) []Violation {
	var l list
	byName := map[string][]*TopicOp{}
	for _, op := range h.TopicOps {
		if op.Outcome != Failed {
			byName[op.Name] = append(byName[op.Name], op)
		}
	}
	seen := slices.Clone(h.TopicSeen)
	slices.SortStableFunc(seen, func(a, b TopicList) int { return cmp.Compare(a.Return, b.Return) })
	for _, view := range seen {
		names := map[string]bool{}
		for name := range view.Topics {
			names[name] = true
		}
		for name := range byName {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			state, present := view.Topics[name]
			presence(&l, name, byName[name], view.Span, state, present)
			if present {
				contents(&l, name, byName[name], view.Span, state)
			}
		}
	}
	identities(&l, seen)
	return l.out
}

// anyID is the register value of a topic made by a create whose answer was lost.
const anyID = "?"

// presence treats a name as a register that holds the topic's ID or nothing.
func presence(l *list, name string, ops []*TopicOp, at Span, state TopicState, present bool) {
	writes := []write{initial("")}
	known := map[string]bool{}
	for _, op := range ops {
		if op.Kind == TopicCreate && op.ID != "" {
			known[op.ID] = true
		}
	}
	for _, op := range ops {
		switch op.Kind {
		case TopicCreate:
			writes = append(writes, write{op.Span, op.Outcome == Acked, cmp.Or(op.ID, anyID)})
		case TopicDelete:
			writes = append(writes, write{op.Span, op.Outcome == Acked, ""})
		}
	}
	value := ""
	if present {
		value = state.ID
		if !known[value] {
			value = anyID
		}
	}
	ok, forged := regular(writes, read{at, value})
	switch {
	case ok:
	case !present:
		l.add(KindTopicLost, name, "the topic is not there, though its creation was acknowledged and no deletion was asked for since")
	case forged:
		l.add(KindTopicInvented, name, "topic %s is there, and nobody made it", state.ID)
	default:
		l.add(KindTopicBack, name, "topic %s is there, though its deletion was acknowledged", state.ID)
	}
}

// contents checks partition count and settings of a topic that is there.
func contents(l *list, name string, ops []*TopicOp, at Span, state TopicState) {
	least, known := int32(0), false
	configs := map[string][]write{}
	for _, op := range ops {
		if op.ID != state.ID {
			continue
		}
		for key, value := range op.Configs {
			configs[key] = append(configs[key], write{op.Span, op.Outcome == Acked, value})
		}
		switch op.Kind {
		case TopicCreate, TopicGrow:
			known = known || op.Kind == TopicCreate
			if op.Outcome == Acked && op.before(at) {
				least = max(least, op.Partitions)
			}
		case TopicConfig:
			configs[op.ConfigKey] = append(configs[op.ConfigKey], write{op.Span, op.Outcome == Acked, op.ConfigValue})
		}
	}
	if state.Partitions < least {
		l.add(KindTopicShrunk, name, "%d partitions, %d were acknowledged", state.Partitions, least)
	}
	if state.Configs == nil || !known {
		return // not asked for, or made by a request whose answer was lost
	}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := state.Configs[key]
		if ok, _ := regular(append(configs[key], initial("")), read{at, value}); !ok {
			l.add(KindConfigLost, name, "%s is %q, though another value was acknowledged later", key, value)
		}
	}
}

// identities: an ID once gone stays gone; partitions of an ID never get fewer.
func identities(l *list, seen []TopicList) {
	type past struct {
		last  Span
		gone  bool
		parts int32
		name  string
	}
	ids := map[string]*past{}
	for _, view := range seen {
		here := map[string]bool{}
		for _, name := range slices.Sorted(maps.Keys(view.Topics)) {
			t := view.Topics[name]
			here[t.ID] = true
			p := ids[t.ID]
			if p == nil {
				p = &past{name: name}
				ids[t.ID] = p
			}
			if p.gone && p.last.before(view.Span) {
				l.add(KindTopicBack, name, "topic %s was gone and is back", t.ID)
			}
			if t.Partitions < p.parts && p.last.before(view.Span) {
				l.add(KindTopicShrunk, name, "%d partitions, %d were there before", t.Partitions, p.parts)
			}
			p.last, p.gone, p.parts = view.Span, false, max(p.parts, t.Partitions)
		}
		for id, p := range ids {
			if !here[id] && !p.gone && p.last.before(view.Span) {
				p.gone, p.last = true, view.Span
			}
		}
	}
}
