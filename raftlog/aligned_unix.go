//go:build unix

package raftlog

import "golang.org/x/sys/unix"

const hugePageBytes = 2 << 20

// AlignedBuf returns n zero bytes, rounded up to BlockBytes, that start at a page
// border, outside the collector's heap. Larger ones are advised to sit on huge
// pages, which direct I/O maps with fewer descriptors. It panics when the
// system has no memory left.
func AlignedBuf(n int) []byte {
	n = int(alignUp(int64(max(n, 1))))
	if heapBufs.Load() {
		return heapBuf(n)
	}
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic("FATAL: no memory for an I/O buffer: " + err.Error())
	}
	if n >= hugePageBytes {
		adviseHuge(b)
	}
	return b
}

// freeAligned gives the memory of AlignedBuf back.
func freeAligned(b []byte) {
	if b == nil || heapBufs.Load() {
		return
	}
	if err := unix.Munmap(b); err != nil {
		panic("BUG: munmap of an I/O buffer: " + err.Error())
	}
}
