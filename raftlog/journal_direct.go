package raftlog

import (
	"errors"
	"fmt"

	"millrace/core/mutant"
)

// directWriter writes large appends straight to their segments. It belongs to
// the committer.
//
// It writes whole blocks inside an extent only. The blocks at the edges are
// shared with the entries before and after, which flush Jobs write; so the two
// never write the same block, and neither has to know what the other does.
type directWriter struct {
	buf   []byte
	made  int          // buffers for staging
	files []directFile // most recently used last
}

type directFile struct {
	path string
	f    File
	// Of this Commit.
	dirty bool
	dir   string // to be synced
}

const directFilesMax = 8

// write does the direct writes of turns and syncs them. Where the device is
// full, the extent is marked for the journal instead, which has space set
// aside. Other errors are final. While space is low no file stays open, whether
// there are turns or not: no client's append would come to close them.
func (d *directWriter) write(j *Journal, turns []*Turn) error {
	any := false
	for _, t := range turns {
		for i := range t.logs {
			tl := &t.logs[i]
			for k := range tl.extents {
				err := d.extent(j, tl, &tl.extents[k])
				if errors.Is(err, ErrNoSpace) {
					tl.extents[k].inline = true
					j.store.noteNoSpace("writing a segment")
					continue
				}
				if err != nil {
					return fmt.Errorf("writing segment %s: %w", tl.extents[k].path, err)
				}
				any = true
			}
		}
	}
	if any {
		if err := d.sync(j); err != nil {
			return err
		}
	}
	if j.store.SpaceState() == SpaceLow {
		return d.close() // a removed segment that is open keeps its space
	}
	return nil
}

// sync makes the writes of this Commit durable, with the names of new files.
func (d *directWriter) sync(j *Journal) error {
	for i := range d.files {
		f := &d.files[i]
		if !f.dirty {
			continue
		}
		if mutant.On(mutant.DirectAckedEarly) {
			// Not synced.
		} else if err := f.f.Sync(); err != nil {
			return fmt.Errorf("syncing segment %s: %v", f.path, err)
		}
		if f.dir != "" {
			if err := syncPartitionDir(j.fs, f.dir); err != nil {
				return fmt.Errorf("syncing directory %s: %v", f.dir, err)
			}
		}
		f.dirty, f.dir = false, ""
	}
	return nil
}

func (d *directWriter) extent(j *Journal, tl *turnLog, x *turnExtent) error {
	defer x.unstage(j)
	from, n := x.inside()
	if n == 0 {
		return nil
	}
	f, err := d.open(j.fs, x)
	if err != nil {
		return err
	}
	es, skip := tl.entries[x.from:x.to], int64(x.x.head)
	if x.staged == nil {
		d.addStaging(j)
	}
	for part := x.staged; n > 0; part = nil {
		if part == nil {
			if d.buf == nil {
				d.buf = AlignedBuf(j.stagingBytes())
			}
			part = d.buf[:min(n, int64(len(d.buf)))]
			copyRange(part, es, skip)
			j.unstaged.Add(uint64(len(part)))
		}
		if _, err := f.f.WriteAt(part, from); err != nil && !mutant.On(mutant.DirectWriteUnheard) {
			return err
		}
		j.store.wrote(len(part))
		j.direct.Add(uint64(len(part)))
		from, skip, n = from+int64(len(part)), skip+int64(len(part)), n-int64(len(part))
	}
	f.dirty = true
	return nil
}

// stagingMax is how many buffers of stagingBytes there are, for the extents that wait
// for the committer. Where none is free the committer copies for itself.
const stagingMax = 4

func (j *Journal) stagingBytes() int { return int(min(hugePageBytes, j.fileMax)) }

// addStaging makes one more of the buffers, so that their memory is not touched for
// the first time on a loop.
func (d *directWriter) addStaging(j *Journal) {
	if d.made == stagingMax {
		return
	}
	d.made++
	b := AlignedBuf(j.stagingBytes())
	clear(b)
	j.staging <- b[:len(b):len(b)]
}

// inside is what the committer writes of an extent: n bytes at position from.
func (x *turnExtent) inside() (from, n int64) {
	return int64(x.x.pos) + int64(x.x.head), int64(x.x.length) - int64(x.x.head) - int64(x.x.tail)
}

// stage copies the beginning of what is to be written into an aligned buffer, if one
// is free, while the committer waits for the device. On the loop.
func (x *turnExtent) stage(j *Journal, es []turnEntry) {
	_, n := x.inside()
	if n == 0 {
		return
	}
	select {
	case b := <-j.staging:
		x.staged = b[:min(n, int64(len(b)))]
		copyRange(x.staged, es, int64(x.x.head))
	default:
	}
}

// unstage gives the buffer back.
func (x *turnExtent) unstage(j *Journal) {
	if x.staged != nil {
		j.staging <- x.staged[:cap(x.staged)]
		x.staged = nil
	}
}

// open finds the segment's file, keeping a few open beside those of this Commit.
func (d *directWriter) open(fs FS, x *turnExtent) (*directFile, error) {
	for i := range d.files {
		if d.files[i].path == x.path {
			f := d.files[i]
			d.files = append(append(d.files[:i:i], d.files[i+1:]...), f)
			return d.touch(x, false), nil
		}
	}
	for len(d.files) >= directFilesMax && !d.files[0].dirty {
		if err := d.files[0].f.Close(); err != nil {
			return nil, err
		}
		d.files = append(d.files[:0:0], d.files[1:]...)
	}
	f, made, err := openOrCreate(fs, partitionDirOf(x.path), x.path)
	if err != nil {
		return nil, err
	}
	d.files = append(d.files, directFile{path: x.path, f: f})
	return d.touch(x, made), nil
}

func (d *directWriter) touch(x *turnExtent, made bool) *directFile {
	f := &d.files[len(d.files)-1]
	if made {
		f.dir = partitionDirOf(x.path)
	} else if x.dir != "" {
		f.dir = x.dir
	}
	return f
}

func (d *directWriter) close() error {
	var errs []error
	for i := range d.files {
		errs = append(errs, d.files[i].f.Close())
	}
	d.files = nil
	return errors.Join(errs...)
}

// partitionDirOf is the directory part of a segment's name.
func partitionDirOf(path string) string { return path[:len(partitionsDir)+1+16] }
