// Package budget counts bytes against a limit, so that load is shed before
// memory is short.
//
// Any goroutine may call it; nothing blocks: a reservation is granted or
// refused at once. Nothing is durable. Read Budget first.
package budget

import "sync/atomic"

// Budget is a limit in bytes and what is reserved of it. Make it with New.
// Budgets form a tree: what is reserved from one is reserved from all of its
// parents too.
type Budget struct {
	// Immutable.
	limitBytes int64
	parent     *Budget

	// Atomic; read by metrics.
	usedBytes atomic.Int64
	refused   atomic.Uint64
}

// New makes a budget of limitBytes below parent, which may be nil.
func New(limitBytes int64, parent *Budget) *Budget {
	return &Budget{limitBytes: limitBytes, parent: parent}
}

// Reserve takes n bytes and says whether they were granted. A single
// reservation larger than the whole limit is granted when nothing else is
// reserved, so that no request is refused for ever.
func (b *Budget) Reserve(n int64) bool {
	if n < 0 {
		panic("BUG: negative reservation")
	}
	used := b.usedBytes.Add(n)
	if used > b.limitBytes && used != n {
		b.usedBytes.Add(-n)
		b.refused.Add(1)
		return false
	}
	if b.parent != nil && !b.parent.Reserve(n) {
		b.usedBytes.Add(-n)
		b.refused.Add(1)
		return false
	}
	return true
}

// Take reserves n bytes whatever the limit says: for what is there anyway, and
// leaves less room for what may be refused.
func (b *Budget) Take(n int64) {
	for ; b != nil; b = b.parent {
		b.usedBytes.Add(n)
	}
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) {
	for ; b != nil; b = b.parent {
		if b.usedBytes.Add(-n) < 0 {
			panic("BUG: more bytes released than reserved")
		}
	}
}

// UsedBytes is what is reserved now.
func (b *Budget) UsedBytes() int64 { return b.usedBytes.Load() }

// LimitBytes is the limit given to New.
func (b *Budget) LimitBytes() int64 { return b.limitBytes }

// Refused counts the reservations that were refused.
func (b *Budget) Refused() uint64 { return b.refused.Load() }
