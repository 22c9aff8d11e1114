//go:build unix && !linux

package raftlog

import "os"

// Other systems are for development: writes go through the page cache.
const directFlag = 0

func probeDirect(string) (bool, error) { return false, nil }

// syncData is fsync; on darwin the standard library issues F_FULLFSYNC, which
// also empties the drive's cache.
func syncData(f *os.File) error { return f.Sync() }
