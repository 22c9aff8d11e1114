package raftlog

// fifo is a queue over one slice: amortised O(1), no allocation per element.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int       { return len(q.items) - q.head }
func (q *fifo[T]) at(i int) *T    { return &q.items[q.head+i] }
func (q *fifo[T]) push(v T)       { q.items = append(q.items, v) }
func (q *fifo[T]) truncate(n int) { clear(q.items[q.head+n:]); q.items = q.items[:q.head+n] }

// popFront drops n elements and gives memory back once most of it is unused.
func (q *fifo[T]) popFront(n int) {
	clear(q.items[q.head : q.head+n])
	q.head += n
	switch {
	case q.head == len(q.items):
		q.head = 0
		if cap(q.items) > 64 {
			q.items = nil
		} else {
			q.items = q.items[:0]
		}
	case q.head >= 64 && q.head > len(q.items)/2:
		m := copy(q.items, q.items[q.head:])
		clear(q.items[m:])
		q.items, q.head = q.items[:m], 0
	}
}
