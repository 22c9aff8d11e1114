package raftlog

import (
	"errors"
	"fmt"
)

const (
	journalDir  = "journal"
	recycleName = journalDir + "/recycle.tmp"
)

func journalName(seq uint64) string { return fmt.Sprintf("%s/%016x.jnl", journalDir, seq) }

// chooseFile makes w.cur a file with room for size bytes at w.pos.
func (j *Journal) chooseFile(size int64) error {
	w := &j.w
	if w.cur != nil {
		fits := w.pos+size <= j.fileMax
		if fits && !(w.cur.growing && len(j.spares) > 0 && w.cur.firstFrame != 0) {
			return nil
		}
		if w.cur.firstFrame == 0 && w.cur.growing {
			return nil // a frame larger than a file gets one of its own
		}
	}
	var next *jfile
	if BlockBytes+size <= j.fileMax {
		select {
		case next = <-j.spares:
			j.kickPrepare()
		default:
		}
	}
	if next == nil {
		var err error
		if next, err = j.createFile(0); err != nil {
			return err
		}
	}
	old := *j.files.Load()
	next.ord = 1
	if len(old) > 0 {
		next.ord = old[len(old)-1].ord + 1
	}
	w.cur, w.pos = next, BlockBytes
	next.end = w.pos
	j.updateFiles(func(files []*jfile) []*jfile { return append(files, next) })
	return nil
}

// updateFiles replaces the list of files in use. Committer and preparer both do.
func (j *Journal) updateFiles(edit func([]*jfile) []*jfile) {
	for {
		old := j.files.Load()
		next := edit(append([]*jfile(nil), *old...))
		if j.files.CompareAndSwap(old, &next) {
			return
		}
	}
}

// createFile makes a new file with its header durable; prewrite > 0 fills it
// with zeros up to that size, so that later syncs write no metadata.
func (j *Journal) createFile(prewrite int64) (*jfile, error) {
	seq := j.nextSeq.Add(1)
	name := journalName(seq)
	f, err := j.fs.Create(name)
	if err != nil {
		return nil, fmt.Errorf("creating a journal file: %w", err)
	}
	jf := &jfile{seq: seq, f: f, size: prewrite, growing: prewrite == 0}
	if err := j.fillFile(jf, prewrite); err != nil {
		f.Close()
		if rerr := j.fs.Remove(name); rerr != nil && !errors.Is(rerr, ErrNotExist) {
			return nil, errors.Join(err, rerr)
		}
		return nil, fmt.Errorf("preparing a journal file: %w", err)
	}
	return jf, nil
}

func (j *Journal) fillFile(jf *jfile, prewrite int64) error {
	buf := j.store.bufs.get()
	defer j.store.bufs.put(buf)
	clear(buf[:min(int64(len(buf)), max(prewrite, BlockBytes))])
	for off := int64(BlockBytes); off < prewrite; {
		n := min(int64(len(buf)), prewrite-off)
		if _, err := jf.f.WriteAt(buf[:n], off); err != nil {
			return err
		}
		j.store.wrote(int(n))
		off += n
		if j.closing.Load() {
			break // an unfinished file is removed by the next Open
		}
	}
	fileHeader{Instance: j.instance, Seq: jf.seq}.encode(buf)
	if _, err := jf.f.WriteAt(buf[:BlockBytes], 0); err != nil {
		return err
	}
	if err := jf.f.Sync(); err != nil {
		return err
	}
	return j.fs.SyncDir(journalDir)
}

// Prepare pre-writes spare files and recycles what is no longer needed. Blocks;
// called off the commit path. It returns false when there was nothing to do. A
// full device is not an error.
func (j *Journal) Prepare() (bool, error) {
	if err := j.Failed(); err != nil {
		return false, err
	}
	more, err := j.prepareOne()
	if errors.Is(err, ErrNoSpace) {
		j.store.noteNoSpace("pre-writing the journal")
		return false, nil
	}
	if err != nil {
		j.fail(err)
	}
	return more, err
}

func (j *Journal) prepareOne() (bool, error) {
	low := j.store.SpaceState() == SpaceLow
	files := *j.files.Load()
	free := len(files) > 1 && j.freeable(files[0])
	if len(j.spares) < cap(j.spares) {
		if free {
			return true, j.retire(files[0], true)
		}
		if !j.store.roomForFile() {
			return false, nil
		}
		jf, err := j.createFile(j.fileMax)
		if err != nil {
			return false, err
		}
		j.spares <- jf // there is room: nobody else sends
		return true, nil
	}
	if free && (low || len(files) > j.store.opts.JournalFilesMax) {
		return true, j.retire(files[0], false)
	}
	return false, nil
}

// freeable says that no group needs f, that a durable frame says so, and that
// no Job reads it. The order matters: a Job is made only while its log needs
// the file.
func (j *Journal) freeable(f *jfile) bool {
	return f.ord < j.minFile.Load() && f.lastFrame < j.oldest.Load() && f.refs.Load() == 0
}

// retire takes the oldest file out of use: it becomes a spare under a new
// identity, or is removed where it is not of full size.
func (j *Journal) retire(f *jfile, recycle bool) error {
	j.updateFiles(func(files []*jfile) []*jfile { return files[1:] })
	name := journalName(f.seq)
	if !recycle || f.size != j.fileMax {
		err := errors.Join(f.f.Close(), j.fs.Remove(name), j.fs.SyncDir(journalDir))
		if err != nil {
			return fmt.Errorf("removing a journal file: %w", err)
		}
		return nil
	}
	if err := j.fs.Rename(name, recycleName); err != nil {
		return fmt.Errorf("recycling a journal file: %w", err)
	}
	if err := j.fs.SyncDir(journalDir); err != nil {
		return fmt.Errorf("recycling a journal file: %w", err)
	}
	next := &jfile{seq: j.nextSeq.Add(1), f: f.f, size: f.size}
	err := j.fillFile(next, 0) // the header alone; the rest is written already
	if err == nil {
		err = j.fs.Rename(recycleName, journalName(next.seq))
	}
	if err == nil {
		err = j.fs.SyncDir(journalDir)
	}
	if err != nil {
		return fmt.Errorf("recycling a journal file: %w", err)
	}
	j.spares <- next
	return nil
}
