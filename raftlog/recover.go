package raftlog

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"millrace/core"
	"millrace/core/mutant"
)

// Recovery tells what Open found.
type Recovery struct {
	Groups        int
	JournalBytes  int64 // replayed
	TornTailBytes int64 // cut
	// Damaged names the groups whose log has a hole or a bad checksum before
	// its tail, with the reason. Their Log.Damaged says the same; they are
	// neither served nor allowed to vote.
	Damaged map[core.PartitionID]error
	// LostFrames counts the journal frames that could not be read although later
	// ones can.
	LostFrames uint64
	Fresh      bool // the directory is new
}

// Open recovers the data directory behind fs: replays the journal from its
// oldest needed file, verifies checksums, cuts a torn tail. shardOf maps groups
// to shards. Blocks; startup only.
func Open(fs FS, opts Options, shardOf func(core.PartitionID) core.ShardID) (*Store, *Recovery, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	s := &Store{fs: fs, opts: opts, bufs: newBufPool(int(min(jobBufBytes, opts.JournalFileBytes)))}
	rec := &Recovery{Damaged: map[core.PartitionID]error{}}
	if err := s.openIdentity(rec); err != nil {
		return nil, nil, err
	}
	j := s.newJournal()
	for i := range opts.ShardCount {
		s.sets = append(s.sets, newLogSet(s, core.ShardID(i)))
	}
	r := replay{s: s, j: j, rec: rec, groups: map[core.PartitionID]*groupReplay{}}
	if err := r.run(); err != nil {
		return nil, nil, errors.Join(err, j.close())
	}
	if err := r.install(shardOf); err != nil {
		return nil, nil, errors.Join(err, j.close())
	}
	if r.first == 0 {
		if err := j.begin(); err != nil {
			return nil, nil, errors.Join(err, j.close())
		}
	}
	s.CheckSpace()
	return s, rec, nil
}

func (s *Store) newJournal() *Journal {
	j := &Journal{
		store: s, fs: s.fs, instance: s.identity.Instance, fileMax: s.opts.JournalFileBytes,
		spares: make(chan *jfile, s.opts.JournalSpare), staging: make(chan []byte, stagingMax),
		wake: make(chan struct{}, 1), prepWake: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	j.files.Store(&[]*jfile{})
	j.incomplete.Store(int32(s.opts.ShardCount))
	j.w.unacked = make([]unackedTurns, s.opts.ShardCount)
	j.w.lastOf = map[core.PartitionID]uint64{}
	s.journal = j
	return j
}

// begin writes the first frame of a new journal, without sections: from then on
// an empty journal beside partitions is a loss.
func (j *Journal) begin() error {
	j.encodeFrame()
	if err := j.writeFrame(); err != nil {
		return fmt.Errorf("beginning the journal: %w", err)
	}
	j.placeMarks()
	j.w.frameReady = false
	return nil
}

// openIdentity reads or makes millrace.meta and the directories.
func (s *Store) openIdentity(rec *Recovery) error {
	id, found, err := loadIdentity(s.fs)
	if err != nil {
		return err
	}
	if found {
		s.identity = id
		if err := id.check(&s.opts); err != nil {
			return err
		}
		// The process that wrote it may have been killed before its name was durable;
		// without it, nothing that this one acknowledges could be opened again.
		if err := s.fs.SyncDir("."); err != nil {
			return fmt.Errorf("syncing the data directory: %w", err)
		}
		return nil
	}
	for _, dir := range []string{journalDir, partitionsDir} {
		names, err := s.fs.List(dir)
		if err != nil && !errors.Is(err, ErrNotExist) {
			return fmt.Errorf("looking into the data directory: %w", err)
		}
		if len(names) > 0 {
			return fmt.Errorf("%w: %s is missing, but %s is not empty", ErrNotEmpty, identityName, dir)
		}
		if err := s.fs.MkdirAll(dir); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
	}
	// An identity without its directories would be a damaged directory.
	if err := s.fs.SyncDir("."); err != nil {
		return fmt.Errorf("syncing the data directory: %w", err)
	}
	rec.Fresh = true
	s.identity = identity{Node: s.opts.NodeID, Cluster: s.opts.ClusterID, Instance: s.opts.InstanceID}
	return saveIdentity(s.fs, s.identity)
}

// replay is the state of Open.
type replay struct {
	s      *Store
	j      *Journal
	rec    *Recovery
	groups map[core.PartitionID]*groupReplay
	order  []core.PartitionID // of first appearance

	used    []*jfile
	unused  []*jfile // valid header, no frame
	from    uint64   // frames below are not looked at
	last    frameHeader
	first   uint64
	groups4 [frameBlooms]bloom // of the last frames, newest first
}

func (r *replay) run() error {
	files, err := r.openFiles()
	if err != nil {
		return err
	}
	sc := newScanner(r.s)
	defer sc.free()
	if err := r.orderFiles(sc, files); err != nil {
		return err
	}
	if err := r.replayFiles(sc); err != nil {
		return err
	}
	if from := r.forgottenBelow(); from > 0 {
		r.startOver(from)
		if err := r.replayFiles(sc); err != nil {
			return err
		}
	}
	r.noteLost()
	if err := r.cutTails(); err != nil {
		return err
	}
	return r.adoptFiles()
}

func (r *replay) replayFiles(sc *scanner) error {
	for i, f := range r.used {
		f.ord = uint32(i + 1)
		if err := r.replayFile(sc, f); err != nil {
			return err
		}
	}
	if r.first > 0 && r.last.Oldest < r.first {
		r.lose(r.last.Oldest, r.first, nil)
	}
	return nil
}

// forgottenBelow is where the newest gap ends that is below what the last frame needs,
// 0 if there is none. Nothing is lost there: a file from long ago can be read that
// could not be when its time came to be recycled (a damaged one is kept aside). What
// is before the gap must not be taken for a part of what follows.
func (r *replay) forgottenBelow() (from uint64) {
	for i := range r.s.lost {
		if to := r.s.lost[i].to; to <= r.last.Oldest {
			from = max(from, to)
		}
	}
	return from
}

// startOver forgets what was replayed; the next time begins at a frame.
func (r *replay) startOver(from uint64) {
	r.from, r.first, r.last = from, 0, frameHeader{}
	r.groups, r.order, r.groups4 = map[core.PartitionID]*groupReplay{}, nil, [frameBlooms]bloom{}
	r.s.lost, r.rec.JournalBytes = nil, 0
}

// openFiles opens every journal file and removes leftovers.
func (r *replay) openFiles() (files []*jfile, err error) {
	names, err := r.s.fs.List(journalDir)
	if errors.Is(err, ErrNotExist) && r.rec.Fresh {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the journal: %w", err)
	}
	for _, name := range names {
		var seq uint64
		path := journalDir + "/" + name
		if n, err := fmt.Sscanf(name, "%016x.jnl", &seq); n != 1 || err != nil || path != journalName(seq) {
			if strings.HasSuffix(name, ".tmp") {
				if err := r.s.fs.Remove(path); err != nil {
					return files, fmt.Errorf("removing a leftover: %w", err)
				}
				continue
			}
			return files, fmt.Errorf("%s is no file of the journal; move it away", path)
		}
		f, err := r.s.fs.Open(path)
		if err != nil {
			return files, fmt.Errorf("opening a journal file: %w", err)
		}
		files = append(files, &jfile{seq: seq, f: f})
		if err := r.checkHeader(f, path); err != nil {
			return files, err
		}
		r.j.nextSeq.Store(max(r.j.nextSeq.Load(), seq))
	}
	return files, nil
}

// checkHeader refuses files of other journals. A header that cannot be read is
// either not yet written or damaged: then the frames are looked at, under the
// identity that the file's name gives.
func (r *replay) checkHeader(f File, path string) error {
	block := AlignedBuf(BlockBytes)
	defer freeAligned(block)
	if err := readFull(f, block, 0); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	h, err := decodeFileHeader(block)
	switch {
	case errors.Is(err, ErrOtherVersion):
		return fmt.Errorf("%s: %w", path, err)
	case err == nil && h.Instance != r.j.instance:
		return fmt.Errorf("%w: %s is of another journal; move it away", ErrOtherNode, path)
	}
	return nil
}

// orderFiles finds the first frame of each file, and sorts the files by it.
func (r *replay) orderFiles(sc *scanner, files []*jfile) error {
	for _, f := range files {
		size, err := f.f.Size()
		if err != nil {
			return fmt.Errorf("asking for the size of a journal file: %w", err)
		}
		f.end = alignDown(size)
		f.growing = f.end < r.j.fileMax
		if !f.growing {
			f.size = f.end
		}
		sc.reset(f, r.j.instance)
		h, _, err := sc.next()
		switch {
		case errors.Is(err, errNoMoreFrames):
			r.unused = append(r.unused, f)
		case err != nil:
			return err
		default:
			f.firstFrame = h.Seq
			r.used = append(r.used, f)
		}
	}
	slices.SortFunc(r.used, func(a, b *jfile) int {
		if a.firstFrame < b.firstFrame {
			return -1
		}
		return 1
	})
	return nil
}

// replayFile applies the frames of one file.
func (r *replay) replayFile(sc *scanner, f *jfile) error {
	sc.reset(f, r.j.instance)
	for {
		h, payload, err := sc.next()
		if errors.Is(err, errNoMoreFrames) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Seq < r.from {
			f.lastFrame, f.end = h.Seq, sc.pos
			continue
		}
		if r.first != 0 && h.Seq <= r.last.Seq {
			return fmt.Errorf("journal file %d: frame %d follows frame %d; the journal's files do not belong together", f.seq, h.Seq, r.last.Seq)
		}
		if r.first == 0 {
			r.first = h.Seq
		} else if h.Seq > r.last.Seq+1 {
			r.lose(r.last.Seq+1, h.Seq, &h)
		}
		r.last = h
		f.lastFrame = h.Seq
		f.end = sc.pos
		r.rec.JournalBytes += frameSize(int(h.PayloadLen))
		if err := r.replayFrame(f, &h, payload, sc.payloadAt); err != nil {
			return err
		}
	}
}

// lose notes frames [from, to) as unreadable; next is the frame after them.
func (r *replay) lose(from, to uint64, next *frameHeader) {
	g := lostFrames{from: from, to: to}
	if next == nil { // lost at the front: no list tells
		for i := range g.groups {
			for k := range g.groups[i] {
				g.groups[i][k] = 0xff
			}
		}
	} else {
		g.groups = next.Prev
	}
	r.s.lost = append(r.s.lost, g)
}

// noteLost tells what cannot be read.
func (r *replay) noteLost() {
	for i := range r.s.lost {
		g := &r.s.lost[i]
		if first := r.j.firstLost.Load(); first == 0 || g.from < first {
			r.j.firstLost.Store(g.from)
		}
		r.rec.LostFrames += g.to - g.from
		r.s.opts.Logf("the journal is damaged: frames [%d, %d) cannot be read, later ones can", g.from, g.to)
	}
}

func (r *replay) replayFrame(f *jfile, h *frameHeader, payload []byte, at int64) error {
	copy(r.groups4[1:], r.groups4[:])
	r.groups4[0] = bloom{}
	rest := payload
	for len(rest) > 0 {
		pos := at + int64(len(payload)-len(rest))
		s, next, err := nextSection(rest)
		if err != nil {
			// The checksum holds, so these are the bytes that were written.
			return fmt.Errorf("journal frame %d: %w", h.Seq, err)
		}
		r.groups4[0].add(s.ID)
		g := r.groups[s.ID]
		if g == nil {
			g = &groupReplay{id: s.ID}
			r.groups[s.ID] = g
			r.order = append(r.order, s.ID)
		}
		if err := g.section(f, h.Seq, r.first, &s, pos+sectionHeaderBytes); err != nil {
			return fmt.Errorf("journal frame %d, partition %d: %w", h.Seq, s.ID, err)
		}
		rest = next
	}
	return nil
}

// cutTails makes sure that what is behind the last frame can never be taken
// for a frame, and that all that was read is durable.
func (r *replay) cutTails() error {
	block := AlignedBuf(BlockBytes)
	defer freeAligned(block)
	for _, f := range append(slices.Clone(r.used), r.unused...) {
		end := f.end
		if f.lastFrame == 0 {
			end = BlockBytes
		}
		if f.lastFrame != r.last.Seq && f.lastFrame != 0 {
			continue // closed: a later file has frames
		}
		n, err := r.cutTail(f, end, block)
		if err != nil {
			return fmt.Errorf("cutting the journal's torn tail: %w", err)
		}
		r.rec.TornTailBytes += n
		if mutant.On(mutant.ReadBackNotDurable) {
			continue
		}
		if f.lastFrame == r.last.Seq && f.lastFrame != 0 {
			if err := rewriteFrame(f, f.end-frameSize(int(r.last.PayloadLen)), f.end); err != nil {
				return fmt.Errorf("writing the journal's last frame again: %w", err)
			}
		}
		if err := f.f.Sync(); err != nil {
			return fmt.Errorf("syncing the journal: %w", err)
		}
	}
	return nil
}

// rewriteFrame writes the bytes [from, to) again as they are. The sync of the last
// frame may have failed before the restart: then the system's cache can hold it
// as if it were written, and another sync alone would not bring it to the medium.
func rewriteFrame(f *jfile, from, to int64) error {
	buf := AlignedBuf(int(to - from))
	defer freeAligned(buf)
	if err := readFull(f.f, buf[:to-from], from); err != nil {
		return err
	}
	_, err := f.f.WriteAt(buf[:to-from], from)
	return err
}

// cutTail overwrites the head of a torn frame at position end. One that is not newer
// than the last readable frame is not torn but damaged: the file is left as it is, so
// that where the start is refused because of it, somebody may get the bytes back. So is
// one that may hold a frame that is missing, of which not even the header can be read.
func (r *replay) cutTail(f *jfile, end int64, block []byte) (int64, error) {
	size, err := f.f.Size()
	if err != nil || end+BlockBytes > size {
		return 0, err
	}
	if err := readFull(f.f, block, end); err != nil {
		return 0, err
	}
	file := fileHeader{r.j.instance, f.seq}
	h, err := parseFrameHeader(block, file)
	if err != nil {
		f.damaged = len(r.s.lost) > 0 && !file.unused(block)
		return 0, nil
	}
	if h.Seq <= r.last.Seq {
		f.damaged = h.Seq >= r.last.Oldest
		return 0, nil
	}
	clear(block)
	if _, err := f.f.WriteAt(block, end); err != nil {
		return 0, err
	}
	return min(frameSize(int(h.PayloadLen)), alignDown(size)-end), nil
}

// adoptFiles hands the files to the journal.
func (r *replay) adoptFiles() error {
	j := r.j
	for _, f := range r.unused {
		if f.damaged {
			r.s.opts.Logf("%s holds a damaged frame: it is kept for whoever can repair it, until a start does not need it", journalName(f.seq))
			if err := f.f.Close(); err != nil {
				return fmt.Errorf("closing a damaged journal file: %w", err)
			}
			continue
		}
		if f.growing || len(j.spares) == cap(j.spares) {
			err := errors.Join(f.f.Close(), r.s.fs.Remove(journalName(f.seq)))
			if err != nil {
				return fmt.Errorf("removing an unused journal file: %w", err)
			}
			continue
		}
		f.end = BlockBytes
		block := AlignedBuf(BlockBytes)
		fileHeader{j.instance, f.seq}.encode(block)
		_, err := f.f.WriteAt(block, 0)
		freeAligned(block)
		if err == nil {
			err = f.f.Sync()
		}
		if err != nil {
			return fmt.Errorf("preparing a journal file: %w", err)
		}
		j.spares <- f
	}
	if err := r.s.fs.SyncDir(journalDir); err != nil {
		return fmt.Errorf("syncing the journal's directory: %w", err)
	}
	used := slices.Clone(r.used) // not r's own field, which would keep all of r
	j.files.Store(&used)
	w := &j.w
	if n := len(r.used); n > 0 {
		w.cur = r.used[n-1]
		w.pos = w.cur.end
	}
	j.publishUse()
	w.frameSeq, w.prev = r.last.Seq, r.groups4
	j.oldest.Store(r.last.Oldest)
	return nil
}
