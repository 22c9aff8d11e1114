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
		if next, err = j.createFile(); err != nil {
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
	j.publishUse()
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

// createFile makes a file that grows, with its header durable.
func (j *Journal) createFile() (*jfile, error) {
	jf, err := j.startFile()
	if err != nil {
		return nil, err
	}
	jf.growing = true
	if err := j.finishFile(jf); err != nil {
		return nil, j.abandonFile(jf, err)
	}
	return jf, nil
}

// startFile makes an empty file. One without a header is removed by the next Open.
func (j *Journal) startFile() (*jfile, error) {
	seq := j.nextSeq.Add(1)
	f, err := j.fs.Create(journalName(seq))
	if err != nil {
		return nil, fmt.Errorf("creating a journal file: %w", err)
	}
	return &jfile{seq: seq, f: f}, nil
}

// finishFile gives a file its header and makes it durable.
func (j *Journal) finishFile(jf *jfile) error {
	buf := j.store.bufs.get()
	defer j.store.bufs.put(buf)
	clear(buf[:BlockBytes])
	fileHeader{Instance: j.instance, Seq: jf.seq}.encode(buf)
	if _, err := jf.f.WriteAt(buf[:BlockBytes], 0); err != nil {
		return err
	}
	if err := jf.f.Sync(); err != nil {
		return err
	}
	return j.fs.SyncDir(journalDir)
}

// abandonFile removes a file that is not wanted or, with an error, could not be
// finished.
func (j *Journal) abandonFile(jf *jfile, why error) error {
	err := errors.Join(why, jf.f.Close())
	if rerr := j.fs.Remove(journalName(jf.seq)); rerr != nil && !errors.Is(rerr, ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return fmt.Errorf("preparing a journal file: %w", err)
	}
	return nil
}

// prewritePieces is the least that is pre-written at a time: this part of a file.
const prewritePieces = 256

func (j *Journal) prewritePiece() int64 { return max(alignDown(j.fileMax/prewritePieces), BlockBytes) }

// prewriteDue is how much of the next file must be pre-written by now. A whole file
// at once would hold up the journal's own writes, and their syncs, for as long as it
// takes; in step with the file in use, it is ready when that is two thirds full.
func (j *Journal) prewriteDue() int64 {
	used := j.used.Load()
	return min(alignDown(used+used/2), j.fileMax)
}

// publishUse tells the preparer how far the file in use is filled. One that grows,
// or none, makes the next file urgent.
func (j *Journal) publishUse() {
	w := &j.w
	used := j.fileMax
	if w.cur != nil && !w.cur.growing {
		used = w.pos
	}
	piece := j.prewritePiece()
	if before := j.used.Swap(used); before/piece != used/piece && len(j.spares) < cap(j.spares) {
		j.kickPrepare()
	}
}

// prewrite fills the next file with zeros as far as it is due, so that later syncs
// write no metadata; it says whether more can be done now.
func (j *Journal) prewrite() (more bool, err error) {
	jf := j.making
	if jf == nil {
		if !j.store.roomForFile(j.fileMax) {
			return false, nil
		}
		if jf, err = j.startFile(); err != nil {
			return false, err
		}
		jf.size = BlockBytes // the header comes last
		j.making = jf
	}
	if rest := j.fileMax - jf.size; rest > 0 {
		due := j.prewriteDue() - jf.size
		if due < min(j.prewritePiece(), rest) {
			return false, nil
		}
		if !j.store.roomForFile(rest) {
			j.making = nil
			return false, j.abandonFile(jf, nil)
		}
		err = j.fillFile(jf, min(due, rest))
	}
	if err == nil && jf.size == j.fileMax {
		err = j.finishFile(jf)
	}
	if err != nil {
		j.making = nil
		return false, j.abandonFile(jf, err)
	}
	if jf.size == j.fileMax {
		j.making = nil
		j.spares <- jf // there is room: nobody else sends
	}
	return true, nil
}

// fillFile adds n zeros, or as many as one buffer has.
func (j *Journal) fillFile(jf *jfile, n int64) error {
	buf := j.store.bufs.get()
	defer j.store.bufs.put(buf)
	n = min(n, int64(len(buf)))
	clear(buf[:n])
	if err := j.writeAside(jf.f, buf[:n], jf.size); err != nil {
		return err
	}
	j.store.wrote(int(n))
	jf.size += n
	return nil
}

// Prepare pre-writes a part of a spare file or recycles what is no longer needed.
// Blocks; called off the commit path. It returns false when there was nothing to do. A
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
		return j.prewrite()
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
	err := j.finishFile(next) // the rest is written already
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
