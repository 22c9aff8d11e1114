package group

import (
	"millrace/core"
)

// expiryStepOffsets is how many offsets are looked at before the loop gets to do
// something else.
const expiryStepOffsets = 2000

// scheduleExpiry looks at all groups every ExpiryIntervalMs.
func (m *Machine) scheduleExpiry() {
	m.timers.set(m.expiry, m.now+core.Tick(m.opts.ExpiryIntervalMs)*core.Millisecond, func() {
		m.expireGroups(m.groupIDs())
	})
}

// expireGroups removes what has expired in these groups, some at a time.
func (m *Machine) expireGroups(ids []string) {
	var records []core.Record
	looked := 0
	for len(ids) > 0 && looked < expiryStepOffsets {
		id := ids[0]
		ids = ids[1:]
		looked++
		if s := m.saved[id]; s != nil {
			looked += len(s.offsets)
		}
		records = append(records, m.expired(id)...)
	}
	m.writeBatches(records, nil)
	if len(ids) == 0 {
		m.scheduleExpiry()
		return
	}
	m.timers.set(m.expiry, m.now, func() { m.expireGroups(ids) })
}

// expired lists the tombstones that are due in a group (KIP-211): of its offsets,
// those of topics that were deleted included, and of the group itself once it is empty and has none left.
func (m *Machine) expired(id string) []core.Record {
	s, g := m.saved[id], m.groups[id]
	if s == nil {
		if g != nil {
			m.forgetUnused(g)
		}
		return nil
	}
	var out []core.Record
	im := m.image()
	for _, at := range s.sortedOffsets() {
		if c := s.offsets[at]; c.stale(im, at.topic) || m.offsetExpired(g, at.topic, c) {
			out = append(out, encodeOffset(id, at, nil))
		}
	}
	if s.metadata != nil && len(out) == len(s.offsets) && (g == nil || g.state == stateEmpty && len(g.pending) == 0) {
		out = append(out, core.Record{Key: groupKey(id)})
	}
	return out
}

// offsetExpired applies the retention. It counts from the commit where nobody
// manages the group, or where a group in use does not read the topic (any
// more), and from the moment the group became empty otherwise.
func (m *Machine) offsetExpired(g *liveGroup, topic string, c *committed) bool {
	since := c.commitMs
	switch {
	case g == nil || g.protocolType == "":
	case g.state == stateEmpty:
		if g.stateMs >= 0 {
			since = g.stateMs
		}
	case g.state == stateStable && g.subscribedKnown:
		if g.subscribed[topic] {
			return false
		}
	default:
		return false
	}
	if c.expireMs >= 0 {
		return m.now.Millis() >= c.expireMs
	}
	return m.now.Millis()-since >= m.opts.OffsetsRetentionMs
}
