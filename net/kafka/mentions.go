package kafka

// mentionsMax is how often one request is told of the same thing. What comes after
// is left out of the answer, so that a request with a byte for each mention has no
// huge answer. Clients name a thing once.
const mentionsMax = 10

// mentions counts how often a request names each thing.
type mentions[K comparable] map[K]int

// tooMany counts one more, and says whether it is to be left out.
func (m mentions[K]) tooMany(k K) bool {
	m[k]++
	return m[k] > mentionsMax
}
