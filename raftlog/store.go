package raftlog

import (
	"errors"
	"fmt"
	"sync/atomic"

	"millrace/core"
)

// Store is a data directory: the journal and the logs found in it.
//
//	store, recovery, err := Open(fs, opts, shardOf)
//	set := store.LogSet(shard)            // one per shard, handed to its loop
//	go store.Journal().Run(ctx, done)     // or Commit from a scheduler
type Store struct {
	// Immutable after Open.
	fs       FS
	opts     Options
	identity identity
	journal  *Journal
	sets     []*LogSet
	bufs     *bufPool
	lost     []lostFrames

	// Atomic.
	space    atomic.Int32
	flushing atomic.Int32 // flush Jobs under way
	unlooked atomic.Int64 // bytes that took space since the last look at the free space
	refused  atomic.Bool  // a write found the device full since space was last OK
	noFlush  atomic.Bool  // a write found the device full since the last look
}

// SpaceState is how full the device is.
type SpaceState int32

const (
	SpaceOK SpaceState = iota
	// SpaceLow refuses clients' appends; deletes, trims, hard states and the
	// internal partitions go on.
	SpaceLow
)

// Journal is the device's one journal.
func (s *Store) Journal() *Journal { return s.journal }

// LogSet is the logs of one shard; owned by that shard's loop from then on.
func (s *Store) LogSet(shard core.ShardID) *LogSet { return s.sets[shard] }

// ClusterID is the cluster that the directory belongs to.
func (s *Store) ClusterID() string { return s.identity.Cluster }

// NodeID is the node that the directory belongs to.
func (s *Store) NodeID() core.NodeID { return s.identity.Node }

// SpaceState is read by any goroutine; the Store refreshes it when a write finds
// the device full and in CheckSpace.
func (s *Store) SpaceState() SpaceState { return SpaceState(s.space.Load()) }

// lookEvery is after how many bytes written the free space is looked at: a small
// part of the reserve, which a fast producer would use up between two seconds.
func (s *Store) lookEvery() int64 { return max(s.opts.ReserveBytes/16, lookBytesMin) }

// lookBytesMin keeps looks rare beside the writes that they follow.
const lookBytesMin = 4 << 20

// wrote is told of writes that may have taken space from the file system, before
// their sync; those to pre-written journal files take none. Blocks at times.
func (s *Store) wrote(n int) {
	if s.unlooked.Add(int64(n)) >= s.lookEvery() {
		s.CheckSpace()
	}
}

// CheckSpace asks the file system, and lets the journal see to what it has put
// off; called about once a second off the loops, and by those who write. After the device was full,
// space counts as back when a journal file fits beside the reserve.
func (s *Store) CheckSpace() SpaceState {
	defer s.journal.kick()
	defer s.journal.kickPrepare()
	s.unlooked.Store(0)
	free, _, err := s.fs.Space()
	if err != nil {
		s.opts.Logf("asking for the free space: %v", err)
		return s.SpaceState()
	}
	if free >= 2*flushJobBytes {
		s.noFlush.Store(false) // flushing is how the journal gets smaller
	}
	need := s.opts.ReserveBytes + s.spokenFor()
	if s.refused.Load() || len(s.journal.spares) == 0 && s.opts.JournalSpare > 0 && s.SpaceState() == SpaceLow {
		need += s.opts.JournalFileBytes
	}
	if free < need {
		s.setSpace(SpaceLow, fmt.Sprintf("%d bytes are free, %d must be", free, need))
		return SpaceLow
	}
	s.refused.Store(false)
	s.setSpace(SpaceOK, fmt.Sprintf("%d bytes are free", free))
	return SpaceOK
}

// spokenFor is what the segments still need for bytes that the journal holds, at
// most. What went straight to its segment counts too until it is flushed, but
// never more in all than the journal's files could hold.
func (s *Store) spokenFor() (n int64) {
	for _, set := range s.sets {
		n += set.pending.Load()
	}
	return max(0, min(n, int64(len(*s.journal.files.Load()))*s.opts.JournalFileBytes))
}

// roomForFile says whether another journal file, or the n bytes that one still takes,
// fits beside the reserve. Where it does not, appends of clients are refused from now
// on: the rest of the file in use is for what goes on when the disk is full.
func (s *Store) roomForFile(n int64) bool {
	free, _, err := s.fs.Space()
	if err != nil {
		s.opts.Logf("asking for the free space: %v", err)
		return true // the write will tell
	}
	need := s.opts.ReserveBytes + s.spokenFor() + n
	if free >= need {
		return true
	}
	s.setSpace(SpaceLow, fmt.Sprintf("%d bytes are free, %d must be for another journal file", free, need))
	return false
}

// noteNoSpace is told of every write that found the device full.
func (s *Store) noteNoSpace(what string) {
	s.refused.Store(true)
	s.noFlush.Store(true)
	s.setSpace(SpaceLow, what)
}

// setSpace logs a change once and wakes whoever waits for space.
func (s *Store) setSpace(to SpaceState, why string) {
	if SpaceState(s.space.Swap(int32(to))) == to {
		return
	}
	if to == SpaceLow {
		s.opts.Logf("the disk is full (%s): appends of clients are refused; free space or delete topics, the rest goes on", why)
		return
	}
	s.opts.Logf("the disk has space again (%s): appends are taken", why)
}

// Close stops after what was submitted has been written. Blocks. Turns that
// are completed while it waits go to the done of Run; where there is no Run, the
// caller has none in flight. It does not close the FS.
func (s *Store) Close() error {
	j := s.journal
	if !j.closing.CompareAndSwap(false, true) {
		return nil
	}
	close(j.stop)
	// Either Run was there first and is waited for, or Close takes its place: a
	// Run that a goroutine gets round to only now must not commit beside it.
	if j.running.CompareAndSwap(false, true) {
		j.Commit()
	} else {
		<-j.stopped
	}
	var errs []error
	if j.stalled() {
		errs = append(errs, fmt.Errorf("%w: turns were left unwritten", ErrNoSpace))
	}
	err := ErrClosed
	j.failure.CompareAndSwap(nil, &err)
	j.Commit() // releases what was left
	errs = append(errs, j.close())
	s.freeMemory()
	return errors.Join(errs...)
}

// Discard frees the memory of a store whose process is taken for dead, without
// touching the file system or waiting. Simulations only.
func (s *Store) Discard() {
	s.journal.closing.Store(true)
	s.freeMemory()
}

func (s *Store) freeMemory() {
	w := &s.journal.w
	freeAligned(w.frame.buf)
	freeAligned(w.direct.buf)
	w.frame.buf, w.direct.buf = nil, nil
	for len(s.journal.staging) > 0 {
		freeAligned(<-s.journal.staging)
	}
	s.bufs.close()
}

func (j *Journal) close() error {
	var errs []error
	for _, f := range *j.files.Load() {
		errs = append(errs, f.f.Close())
	}
	for len(j.spares) > 0 {
		errs = append(errs, (<-j.spares).f.Close())
	}
	if j.making != nil { // the next Open removes it
		errs = append(errs, j.making.f.Close())
	}
	errs = append(errs, j.w.direct.close())
	return errors.Join(errs...)
}

// lostFrames is a run of frames [from, to) that recovery could not read.
type lostFrames struct {
	from, to uint64
	// groups[i] holds the partitions of frame to-1-i, as far as the frame after
	// the hole tells.
	groups [frameBlooms]bloom
}

// may says whether the run may hold something of a partition.
func (g *lostFrames) may(id core.PartitionID) bool {
	if g.to-g.from > frameBlooms {
		return true
	}
	for i := range g.to - g.from {
		if g.groups[i].has(id) {
			return true
		}
	}
	return false
}

// mayBeLost says whether unreadable frames may hold something of a partition of
// which nothing else was found.
func (s *Store) mayBeLost(id core.PartitionID) bool {
	for i := range s.lost {
		if s.lost[i].may(id) {
			return true
		}
	}
	return false
}
