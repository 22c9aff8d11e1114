//go:build unix

package raftlog

import (
	"golang.org/x/sys/unix"

	"millrace/core/hugepage"
)

const hugePageBytes = hugepage.Bytes

// AlignedBuf returns n zero bytes, rounded up to BlockBytes, that start at a page
// border, outside the collector's heap. Those of hugePageBytes and more are rounded up
// to whole huge pages and sit on them where the system has any: direct I/O then maps
// them with a few descriptors instead of one for every 4 KiB. It panics when the
// system has no memory left.
func AlignedBuf(n int) []byte {
	n = int(alignUp(int64(max(n, 1))))
	if heapBufs.Load() {
		return heapBuf(n)
	}
	var b []byte
	var err error
	if n < hugePageBytes {
		b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	} else {
		b, err = hugepage.Map(n)
	}
	if err != nil {
		panic("FATAL: no memory for an I/O buffer: " + err.Error())
	}
	return b
}

// freeAligned gives the memory of AlignedBuf back.
func freeAligned(b []byte) {
	if b == nil || heapBufs.Load() {
		return
	}
	var err error
	if len(b) < hugePageBytes {
		err = unix.Munmap(b)
	} else {
		err = hugepage.Unmap(b)
	}
	if err != nil {
		panic("BUG: munmap of an I/O buffer: " + err.Error())
	}
}
