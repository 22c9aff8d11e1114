package raftlog

import "unsafe"

// bufPool lends aligned buffers of one size to Jobs. A bounded channel, so that
// a burst of Jobs does not keep its memory for ever.
type bufPool struct {
	size int
	free chan []byte
}

const pooledBufsMax = 8

func newBufPool(size int) *bufPool {
	return &bufPool{size: size, free: make(chan []byte, pooledBufsMax)}
}

// get returns a buffer of the pool's size, aligned to BlockBytes, not zeroed.
func (p *bufPool) get() []byte {
	select {
	case b := <-p.free:
		return b
	default:
		return AlignedBuf(p.size)
	}
}

func (p *bufPool) put(b []byte) {
	if len(b) == p.size {
		select {
		case p.free <- b:
			return
		default:
		}
	}
	freeAligned(b)
}

func (p *bufPool) close() {
	for {
		select {
		case b := <-p.free:
			freeAligned(b)
		default:
			return
		}
	}
}

// alignDown and alignUp round a position to a block border.
func alignDown(n int64) int64 { return n &^ (BlockBytes - 1) }
func alignUp(n int64) int64   { return (n + BlockBytes - 1) &^ (BlockBytes - 1) }

// misaligned is how far the first block border in memory is from b.
func misaligned(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (BlockBytes - 1))
}

func aligned(b []byte) bool { return misaligned(b) == 0 }
