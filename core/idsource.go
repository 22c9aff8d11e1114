package core

import "encoding/binary"

// IDSource makes IDs out of a seed, a term, the time and a count: no two leaders
// share a term, so no ID is made twice, and a simulation with the same seed makes
// the same ones.
type IDSource struct {
	Seed  uint64
	Term  Term
	Time  Tick
	count uint64
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func (s *IDSource) word() uint64 {
	s.count++
	return mix(mix(mix(s.Seed^mix(uint64(s.Term)))^uint64(s.Time)) + s.count)
}

// UUID is a random UUID (RFC 9562, version 4).
func (s *IDSource) UUID() (id TopicID) {
	binary.BigEndian.PutUint64(id[:], s.word())
	binary.BigEndian.PutUint64(id[8:], s.word())
	id[6] = id[6]&0x0F | 0x40
	id[8] = id[8]&0x3F | 0x80
	return id
}
