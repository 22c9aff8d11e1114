// Package arena gives out payload memory that the garbage collector does not
// see: mmap'ed chunks, recycled, with reference counts.
//
// Any goroutine may release; one goroutine, the arena's owner, allocates.
// Nothing here blocks. Memory is bounded by the size given to New: Alloc
// refuses with ErrFull beyond it. Read Buf first.
package arena

import (
	"errors"
	"fmt"
	"sync/atomic"

	"millrace/core/hugepage"
)

// ChunkBytes is the size of one chunk, half a huge page. Larger allocations get a
// mapping of their own.
const ChunkBytes = hugepage.Bytes / 2

const (
	alignBytes    = 64
	freeChunksMax = 512 // kept mapped for reuse until Trim; beyond it chunks are unmapped
)

// ErrFull is returned by Alloc when the arena's limit is reached.
var ErrFull = errors.New("payload memory is exhausted")

type chunk struct {
	arena *Arena
	mem   []byte
	refs  atomic.Int32
}

// Arena allocates from chunks in order of time, so that buffers allocated
// together are released together.
type Arena struct {
	// Immutable.
	limitBytes int64
	heap       bool
	stock      *hugepage.Stock // nil: none
	free       chan *chunk

	// Owned by the allocating goroutine.
	cur     *chunk
	used    int
	freeMin int // the fewest chunks in free since the last Trim

	// Atomic; read by metrics.
	mappedBytes atomic.Int64
	liveBytes   atomic.Int64 // in chunks that some Buf refers to
}

// New makes an arena that maps at most limitBytes, in whole chunks (at least one): the
// rest would count as room, and no allocation could use it.
func New(limitBytes int64) *Arena {
	return &Arena{limitBytes: max(limitBytes&^(ChunkBytes-1), ChunkBytes), free: make(chan *chunk, freeChunksMax)}
}

// NewStocked makes an arena that takes its chunks from the stock as long as that has
// any, so that Alloc does not wait for the system's memory. What lies in the stock
// does not count for the limit.
func NewStocked(limitBytes int64, stock *hugepage.Stock) *Arena {
	a := New(limitBytes)
	a.stock = stock
	return a
}

// NewHeap makes an arena whose chunks are the collector's. It is for simulations,
// where a crash drops an arena with all its buffers unreleased.
func NewHeap(limitBytes int64) *Arena {
	a := New(limitBytes)
	a.heap = true
	return a
}

// Stats returns the bytes mapped, and the bytes in chunks still referred to.
func (a *Arena) Stats() (mapped, live int64) {
	return a.mappedBytes.Load(), a.liveBytes.Load()
}

// Room is how many bytes of whole chunks an Alloc could still get. Any
// goroutine; by the time it returns, a release may have added to it.
func (a *Arena) Room() int64 { return a.limitBytes - a.liveBytes.Load() }

// CostBytes is what an Alloc of n bytes takes of the limit: whole chunks where n is
// more than half of one.
func CostBytes(n int) int64 {
	if n <= ChunkBytes/2 {
		return int64(n)
	}
	return int64((n + ChunkBytes - 1) &^ (ChunkBytes - 1))
}

// LimitBytes is the most that the arena maps.
func (a *Arena) LimitBytes() int64 { return a.limitBytes }

// Buf is a piece of arena memory. The zero Buf is empty and needs no release.
// A Buf stays valid until as many Releases as 1 + Retains have been called on
// it and on the slices made of it.
type Buf struct {
	b []byte
	c *chunk
}

// Alloc returns n bytes, not zeroed, with one reference. Only the arena's owner
// calls it. It returns ErrFull when the limit is reached; the caller then sheds
// load or evicts what it caches.
func (a *Arena) Alloc(n int) (Buf, error) {
	if n <= 0 {
		return Buf{}, nil
	}
	if n > ChunkBytes/2 {
		var c *chunk
		var err error
		if n <= ChunkBytes {
			c, err = a.nextChunk()
		} else {
			c, err = a.mapChunk((n + ChunkBytes - 1) &^ (ChunkBytes - 1))
		}
		if err != nil {
			return Buf{}, err
		}
		c.refs.Store(1)
		return Buf{b: c.mem[:n:n], c: c}, nil
	}
	if a.cur != nil && a.used+n > len(a.cur.mem) && a.cur.refs.Load() == 1 {
		a.used = 0 // the reference is our own, and only we could add another
	}
	if a.cur == nil || a.used+n > len(a.cur.mem) {
		c, err := a.nextChunk()
		if err != nil {
			return Buf{}, err
		}
		if a.cur != nil {
			a.cur.release() // the allocator's own reference
		}
		c.refs.Store(1)
		a.cur, a.used = c, 0
	}
	b := a.cur.mem[a.used : a.used+n : a.used+n]
	a.used += (n + alignBytes - 1) &^ (alignBytes - 1)
	a.cur.refs.Add(1)
	return Buf{b: b, c: a.cur}, nil
}

// Seal makes the next Alloc start a new chunk, so that what was allocated so far
// can be recycled when its last reference goes.
func (a *Arena) Seal() {
	if a.cur != nil {
		a.cur.release()
		a.cur, a.used = nil, 0
	}
}

func (a *Arena) nextChunk() (*chunk, error) {
	select {
	case c := <-a.free:
		a.freeMin = min(a.freeMin, len(a.free))
		a.liveBytes.Add(int64(len(c.mem)))
		return c, nil
	default:
		a.freeMin = 0
		return a.mapChunk(ChunkBytes)
	}
}

func (a *Arena) mapChunk(size int) (*chunk, error) {
	if a.mappedBytes.Load()+int64(size) > a.limitBytes {
		a.dropFree()
		if a.mappedBytes.Load()+int64(size) > a.limitBytes {
			return nil, ErrFull
		}
	}
	if a.heap {
		a.mappedBytes.Add(int64(size))
		a.liveBytes.Add(int64(size))
		return &chunk{arena: a, mem: make([]byte, size)}, nil
	}
	slab, err := a.mapSlab(size)
	if err != nil {
		return nil, fmt.Errorf("payload memory: %w", err)
	}
	a.mappedBytes.Add(int64(size))
	a.liveBytes.Add(int64(size))
	if rest := slab[size:]; len(rest) > 0 {
		a.keepRest(rest)
	}
	return &chunk{arena: a, mem: slab[:size:size]}, nil
}

// mapSlab returns size bytes, rounded up to whole huge pages.
func (a *Arena) mapSlab(size int) ([]byte, error) {
	if a.stock != nil && size <= hugepage.Bytes {
		if slab := a.stock.Take(); slab != nil {
			return slab, nil
		}
	}
	return hugepage.Map(size)
}

// keepRest makes a free chunk of the other part of a huge page, where one more is
// allowed.
func (a *Arena) keepRest(rest []byte) {
	c := &chunk{arena: a, mem: rest}
	a.mappedBytes.Add(int64(len(rest)))
	if a.mappedBytes.Load() > a.limitBytes {
		a.unmap(c)
		return
	}
	a.keep(c)
}

func (a *Arena) dropFree() {
	for {
		select {
		case c := <-a.free:
			a.unmap(c)
		default:
			return
		}
	}
}

// Trim gives the free chunks back to the system that no Alloc has needed since the
// last Trim; the stock, where there is one, takes some at a time. Only the arena's
// owner calls it.
func (a *Arena) Trim() {
	for range min(a.freeMin, len(a.free)) {
		c := <-a.free
		if a.stock == nil {
			a.unmap(c)
			continue
		}
		size := int64(len(c.mem))
		if !a.stock.Give(c.mem) {
			a.keep(c)
			break
		}
		c.mem = nil
		a.mappedBytes.Add(-size)
	}
	a.freeMin = len(a.free)
}

func (a *Arena) unmap(c *chunk) {
	a.mappedBytes.Add(-int64(len(c.mem)))
	if a.heap {
		c.mem = nil
		return
	}
	if err := hugepage.Unmap(c.mem); err != nil {
		panic("BUG: munmap of arena memory: " + err.Error())
	}
	c.mem = nil
}

func (c *chunk) release() {
	n := c.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("BUG: arena buffer released twice")
	}
	c.arena.liveBytes.Add(-int64(len(c.mem)))
	c.arena.keep(c)
}

// keep makes c a free chunk, where it is one and there is room.
func (a *Arena) keep(c *chunk) {
	if len(c.mem) == ChunkBytes {
		select {
		case a.free <- c:
			return
		default:
		}
	}
	a.unmap(c)
}

// Arena is where the memory came from; nil for the zero Buf and foreign memory.
func (b Buf) Arena() *Arena {
	if b.c == nil {
		return nil
	}
	return b.c.arena
}

// Bytes is the memory itself.
func (b Buf) Bytes() []byte { return b.b }

// Len is the number of bytes.
func (b Buf) Len() int { return len(b.b) }

// Slice is bytes [i, j) of b; it shares b's references and adds none.
func (b Buf) Slice(i, j int) Buf { return Buf{b: b.b[i:j:j], c: b.c} }

// Retain adds a reference and returns b.
func (b Buf) Retain() Buf {
	if b.c != nil {
		b.c.refs.Add(1)
	}
	return b
}

// Release gives one reference back. Using b afterwards is a bug.
func (b Buf) Release() {
	if b.c != nil {
		b.c.release()
	}
}

// Foreign wraps ordinary memory as a Buf: Retain and Release do nothing.
func Foreign(p []byte) Buf { return Buf{b: p} }
