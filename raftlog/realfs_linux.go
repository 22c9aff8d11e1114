package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const directFlag = unix.O_DIRECT

// probeDirect writes one block with O_DIRECT. File systems in memory refuse the
// flag or the write; then all files are written through the page cache and made
// durable by fdatasync alone.
func probeDirect(root string) (bool, error) {
	name := filepath.Join(root, ".direct-io-probe")
	defer os.Remove(name)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|directFlag, 0o644)
	if err != nil {
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSPC) {
			return false, nil
		}
		return false, fmt.Errorf("trying direct I/O in %s: %w", root, err)
	}
	defer f.Close()
	buf := AlignedBuf(BlockBytes)
	defer freeAligned(buf)
	if _, err := f.WriteAt(buf, 0); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return !inMemory(root), nil
		}
		return false, nil
	}
	// Since Linux 6.6 tmpfs takes the flag and ignores it.
	return !inMemory(root), nil
}

const tmpfsMagic, ramfsMagic = 0x01021994, 0x858458f6

func inMemory(root string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return false
	}
	return int64(st.Type) == tmpfsMagic || int64(st.Type) == ramfsMagic
}

// syncData is fdatasync, repeated only when a signal interrupted it before it
// began.
func syncData(f *os.File) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = rc.Control(func(fd uintptr) {
		for {
			serr = unix.Fdatasync(int(fd))
			if serr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return serr
}
