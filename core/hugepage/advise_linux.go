package hugepage

import "golang.org/x/sys/unix"

// advise asks for huge pages. A kernel without them refuses; the memory is good
// either way.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// populate makes the system give all of b's memory; it blocks. In a system call, and
// not by touching, since the collector cannot stop a goroutine in a page fault.
func populate(b []byte) {
	if err := unix.Madvise(b, unix.MADV_POPULATE_WRITE); err != nil { // Linux before 5.14
		touch(b)
	}
}
