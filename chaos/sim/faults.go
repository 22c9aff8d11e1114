package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/chaos/check"
	"millrace/core"
	"millrace/raftlog"
	"millrace/shard"
)

// flip is one damaged bit.
type flip struct {
	file string
	off  int64
	bit  uint
}

// planFaults schedules what the kind of the history asks for.
func (s *Sim) planFaults() {
	switch s.p.kind {
	case KindFull:
		s.after(s.between(500*core.Millisecond, 3*core.Second), s.fill)
	case KindEIO:
		s.after(s.between(500*core.Millisecond, 3*core.Second), s.breakDisk)
	case KindFlip:
		if s.p.misdirect == 0 {
			s.after(s.between(500*core.Millisecond, 6*core.Second), s.flipRunning)
		}
	}
}

// flipRunning damages a stored byte under the running process.
func (s *Sim) flipRunning() {
	if s.ending {
		return
	}
	made := s.stats.FlipsMade
	if s.flip(); s.stats.FlipsMade > made {
		s.stats.FlipsRunning++
	}
	s.after(s.between(200*core.Millisecond, 2*core.Second), s.flipRunning)
}

// fill leaves little or no space for a while.
func (s *Sim) fill() {
	if s.ending {
		return
	}
	left := s.rng.Int64N(3 * reserveBytes / 2)
	if s.chance(0.3) {
		left = 0
	}
	s.trace("the disk has %d bytes left", left)
	s.disk.SetCapacity(s.disk.Used() + left)
	s.after(s.between(300*core.Millisecond, 3*core.Second), func() {
		if !s.ending {
			s.trace("space is back")
			s.disk.SetCapacity(256 << 20)
			s.after(s.between(500*core.Millisecond, 4*core.Second), s.fill)
		}
	})
}

// breakDisk lets operations fail for a while.
func (s *Sim) breakDisk() {
	if s.ending {
		return
	}
	f := &s.disk.Faults
	p := []float64{0.001, 0.01, 0.1}[s.rng.IntN(3)]
	switch s.rng.IntN(4) {
	case 0:
		f.ReadEIO = p
	case 1:
		f.WriteEIO = p
	case 2:
		f.SyncEIO = p
	default:
		f.ReadEIO, f.WriteEIO, f.SyncEIO = p/3, p/3, p/3
	}
	s.trace("the disk fails: read %v write %v sync %v", f.ReadEIO, f.WriteEIO, f.SyncEIO)
	s.after(s.between(100*core.Millisecond, 2*core.Second), func() {
		if !s.ending {
			s.trace("the disk works again")
			s.calmDisk()
			s.after(s.between(500*core.Millisecond, 4*core.Second), s.breakDisk)
		}
	})
}

// noteWrite remembers where the last frames of the journal are: damage to the
// very tail cannot be told from a write that was torn by the crash.
func (s *Sim) noteWrite(name string, off, n int64) {
	if !strings.Contains(name, "journal") {
		if s.commits {
			s.stats.DirectWrites++
		}
		return
	}
	s.tail = append(s.tail, written{name, off, off + n})
	if len(s.tail) > tailWrites {
		s.tail = slices.Delete(s.tail, 0, len(s.tail)-tailWrites)
	}
}

// segmentSuffix ends the name of a segment's file.
const segmentSuffix = ".log"

// noteFault counts who is hit: the journal, or what the committer writes straight
// to a segment.
func (s *Sim) noteFault(name string) {
	switch {
	case strings.Contains(name, "journal"):
		s.stats.JournalFaults++
	case s.commits && strings.HasSuffix(name, segmentSuffix):
		s.stats.DirectFaults++
	}
}

// noteMisdirected makes the damage known: what was meant to be there is not, and
// something else is overwritten.
func (s *Sim) noteMisdirected(name string, off, to, n int64) {
	s.trace("%d bytes for %s [%d, ...) go to %d", n, name, off, to)
	s.hist.Flips = append(s.hist.Flips, check.Flip{At: int64(s.now), Where: fmt.Sprintf("%s byte %d, misdirected to %d", name, off, to)})
	if strings.Contains(name, "journal") {
		s.astray = append(s.astray, written{name, off, off + n}, written{name, to, to + n})
	}
}

// undecidable says whether a journal write that went astray, or what it has
// overwritten, is among the journal's last: a crash makes that look like a tail
// that was never written, and no reader of one disk can tell the two apart.
func (s *Sim) undecidable() bool {
	for _, a := range s.astray {
		for _, w := range s.tail {
			if a.name == w.name && a.from < w.to && w.from < a.to {
				return true
			}
		}
	}
	return false
}

// endUndecided ends a history of which nothing more can be asked.
func (s *Sim) endUndecided(why string) {
	s.trace("the history ends: %s", why)
	s.stats.Undecidable++
	s.over = true
}

type written struct {
	name     string
	from, to int64
}

const tailWrites = 6

// whileDown damages stored bytes between a crash and the next start.
func (s *Sim) whileDown() {
	if s.p.kind == KindFlip && s.p.misdirect == 0 && !s.ending && s.chance(0.5) {
		s.flip()
	}
}

// segmentFlipsMax bounds how many bits of segments are damaged at a time. Of the
// journal it is one: its lists of lost partitions reach back a few frames.
const segmentFlipsMax = 8

// flip damages one stored bit: a bit of a segment now and then, so that readers
// find it, or any bit where none is damaged.
func (s *Sim) flip() {
	files := s.disk.Files()
	if len(s.flips) > 0 || s.chance(0.5) {
		files = slices.DeleteFunc(files, func(name string) bool { return !strings.HasSuffix(name, segmentSuffix) })
	}
	if len(s.flips) >= segmentFlipsMax {
		return
	}
	if len(files) == 0 {
		return
	}
	name := files[s.rng.IntN(len(files))]
	size := int64(len(s.disk.Bytes(name)))
	if size == 0 {
		return
	}
	off := s.rng.Int64N(size)
	for range 20 { // rather bytes that mean something
		if s.disk.Bytes(name)[off] != 0 {
			break
		}
		off = s.rng.Int64N(size)
	}
	for _, w := range s.tail {
		if w.name == name && w.from <= off && off < w.to {
			return
		}
	}
	f := flip{name, off, uint(s.rng.IntN(8))}
	s.trace("bit %d of byte %d of %s flips", f.bit, f.off, f.file)
	s.disk.FlipBit(f.file, f.off, f.bit)
	s.flips = append(s.flips, f)
	s.stats.FlipsMade++
	s.hist.Flips = append(s.hist.Flips, check.Flip{At: int64(s.now), Where: fmt.Sprintf("%s byte %d bit %d", f.file, f.off, f.bit)})
}

// repair undoes the damage, where the process was right to stop for it.
func (s *Sim) repair() {
	for _, f := range s.flips {
		if b := s.disk.Bytes(f.file); f.off < int64(len(b)) {
			s.disk.FlipBit(f.file, f.off, f.bit)
		}
	}
	s.trace("the damage is repaired")
	s.flips = nil
}

// damageKnown says whether storage may be reported as damaged or failed: bits
// have been flipped, or reads have failed so often that the log gave up on them.
func (s *Sim) damageKnown() bool {
	return s.p.kind == KindFlip && s.stats.FlipsMade+s.disk.Stats.Misdirected > 0 || s.p.kind == KindEIO && s.disk.Stats.EIO > 0 && !s.cured
}

// damaged records a report of damage.
func (s *Sim) damaged(p part, err error) {
	s.trace("%v is damaged: %v", p.Part, err)
	s.stats.DamagedParts++
	if s.p.kind == KindEIO {
		s.hist.Flips = append(s.hist.Flips, check.Flip{At: int64(s.now), Part: p.Part, Where: "failed reads"})
	} else {
		s.stats.FlipsFound++
	}
	s.hist.Damaged = append(s.hist.Damaged, check.Damaged{At: int64(s.now), Part: p.Part, Reason: err.Error()})
}

// opened looks at what recovery found.
func (s *Sim) opened(rec *raftlog.Recovery) {
	s.trace("recovered %d groups, %d bytes of journal, %d cut", rec.Groups, rec.JournalBytes, rec.TornTailBytes)
	if rec.TornTailBytes > 0 {
		s.stats.TornTails++
	}
	for _, id := range sortedIDs(rec.Damaged) {
		s.trace("partition %d is damaged: %v", id, rec.Damaged[id])
	}
	if len(rec.Damaged) > 0 && !s.damageKnown() {
		s.fail(fmt.Errorf("recovery reports damage where there is none: %v", rec.Damaged))
	}
}

func sortedIDs(m map[core.PartitionID]error) []core.PartitionID {
	var out []core.PartitionID
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// stopGracefully is SIGTERM: shards answer what waits, the journal writes what
// it has, the process ends.
func (s *Sim) stopGracefully() {
	n := s.node
	if n.store == nil {
		return
	}
	s.stats.Stops++
	s.trace("stop")
	for _, p := range n.shards {
		p.post(shard.Event{Kind: shard.EventShutdown})
	}
	n.after(s.between(10*core.Millisecond, 100*core.Millisecond), "stop", func() {
		if err := n.store.Close(); err != nil {
			if s.p.kind != KindEIO && s.p.kind != KindFull {
				s.fail(fmt.Errorf("closing the store: %w", err))
				return
			}
			s.trace("close: %v", err)
		}
		s.kill()
	})
}

func isStorageFailed(err error) bool { return errors.Is(err, core.ErrStorageFailed) }
