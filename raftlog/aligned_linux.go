package raftlog

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages. A kernel without them refuses; the buffer is
// good either way.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
