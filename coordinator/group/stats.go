package group

// Stats counts what a coordinator holds; only a leader has members.
type Stats struct {
	Groups  map[string]int // by state, as Kafka names it
	Members int
	Offsets int    // committed offsets
	Refused uint64 // groups, members and offsets that a bound kept out
}

// AddStats adds this partition's counts to s. Called on the partition's loop; it
// looks at every group once.
func (m *Machine) AddStats(s *Stats) {
	if s.Groups == nil {
		s.Groups = make(map[string]int)
	}
	s.Refused += m.refused
	if !m.leading {
		return
	}
	for id, saved := range m.saved {
		s.Offsets += len(saved.offsets)
		if m.groups[id] == nil {
			s.Groups[stateEmpty.String()]++
		}
	}
	for _, g := range m.groups {
		s.Groups[g.state.String()]++
	}
	s.Members += m.members
}
