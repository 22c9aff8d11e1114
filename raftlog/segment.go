package raftlog

import (
	"errors"
	"fmt"

	"millrace/core"
)

// A partition's files are partitions/<id>/<segment>.log and .idx. Segments are
// numbered from 1 and a number is never used again.
const partitionsDir = "partitions"

func partitionBase(id core.PartitionID) string { return fmt.Sprintf("%016x", uint64(id)) }

func partitionDir(id core.PartitionID) string { return partitionsDir + "/" + partitionBase(id) }

func segmentName(id core.PartitionID, seg uint32) string {
	return fmt.Sprintf("%s/%08x.log", partitionDir(id), seg)
}

func indexName(id core.PartitionID, seg uint32) string {
	return fmt.Sprintf("%s/%08x.idx", partitionDir(id), seg)
}

// openOrCreate opens a file of a partition, with its directory, making what is
// missing; made says that directory entries are new and to be synced.
func openOrCreate(fs FS, dir, name string) (f File, made bool, err error) {
	if f, err = fs.Open(name); !errors.Is(err, ErrNotExist) {
		return f, false, err
	}
	if err := fs.MkdirAll(dir); err != nil {
		return nil, false, err
	}
	if f, err = fs.Create(name); errors.Is(err, ErrExist) {
		f, err = fs.Open(name) // somebody was faster
	}
	return f, true, err
}

// syncPartitionDir makes the directory entries of a partition's files durable.
func syncPartitionDir(fs FS, dir string) error {
	if err := fs.SyncDir(dir); err != nil {
		return err
	}
	return fs.SyncDir(partitionsDir)
}

// removeDir removes a partition's directory and its files.
func removeDir(fs FS, dir string) error {
	names, err := fs.List(dir)
	if errors.Is(err, ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fs.Remove(dir + "/" + name); err != nil && !errors.Is(err, ErrNotExist) {
			return err
		}
	}
	if err := fs.Remove(dir); err != nil && !errors.Is(err, ErrNotExist) {
		return err
	}
	return fs.SyncDir(partitionsDir)
}
