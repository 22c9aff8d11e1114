package hugepage

import "golang.org/x/sys/unix"

// advise asks for huge pages. A kernel without them refuses; the memory is good
// either way.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
