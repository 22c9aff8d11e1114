package raftlog

import (
	"sync/atomic"
	"unsafe"
)

var heapBufs atomic.Bool

// UseHeapBuffers makes AlignedBuf take memory of the collector from now on, for
// the whole process. It is for simulations, where a crash leaves buffers behind
// that nobody gives back; call it before the first Open.
func UseHeapBuffers() { heapBufs.Store(true) }

// heapBuf is n bytes of the heap at a block border; n is a multiple of BlockBytes.
func heapBuf(n int) []byte {
	b := make([]byte, n+BlockBytes)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (BlockBytes - 1))
	return b[skip : skip+n : skip+n]
}
