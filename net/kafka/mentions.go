package kafka

import "fmt"

// mentionsMax is how often one request is told of the same thing where that takes
// much longer to tell than to ask. What comes after is refused with INVALID_REQUEST,
// so that a small request has no huge answer. Clients name a thing once.
const mentionsMax = 10

// tooOften is why.
var tooOften = fmt.Sprintf("named more than %d times in one request", mentionsMax)

// mentions counts how often a request names each thing.
type mentions[K comparable] map[K]int

// tooMany counts one more, and says whether it is to be refused.
func (m mentions[K]) tooMany(k K) bool {
	m[k]++
	return m[k] > mentionsMax
}
