package listener

import "millrace/net/kafka"

// slot is one request's place in the order of replies.
type slot struct {
	filled        bool
	reply         kafka.Reply
	ticketBytes   int64 // reserved for the request
	overtook      bool  // of loop.overtaking
	expectedBytes int64 // announced for the reply
	waiter        kafka.Waiter
}

// slotRing holds the places of the requests that are not answered yet, in order:
// place head is the oldest. It grows to the number of requests in flight that
// the connection may have.
type slotRing struct {
	ring []slot // a power of two
	head uint64
	next uint64
}

func (r *slotRing) len() int { return int(r.next - r.head) }

// add makes a place and returns its number.
func (r *slotRing) add(s slot) uint64 {
	if r.len() == len(r.ring) {
		grown := make([]slot, max(4, 2*len(r.ring)))
		for p := r.head; p < r.next; p++ {
			grown[p&uint64(len(grown)-1)] = *r.slot(p)
		}
		r.ring = grown
	}
	*r.slot(r.next) = s
	r.next++
	return r.next - 1
}

func (r *slotRing) slot(p uint64) *slot { return &r.ring[p&uint64(len(r.ring)-1)] }

// at finds a place; nil when it is no longer, or not yet, there.
func (r *slotRing) at(place uint64) *slot {
	if place < r.head || place >= r.next {
		return nil
	}
	return r.slot(place)
}

// first is the oldest place; nil when there is none.
func (r *slotRing) first() *slot { return r.at(r.head) }

// drop forgets the oldest place.
func (r *slotRing) drop() {
	*r.slot(r.head) = slot{}
	r.head++
}
