package shard

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// catchUp sends an append whose payloads have left memory: they are read from
// the segments, a piece at a time. Entries that hold no records are sent as
// empty ones with their term.
type catchUp struct {
	p    *partition
	to   *peer
	m    pb.Message // without entries
	next core.Index // the first entry not sent
	last core.Index
}

// catchUp begins with entry next of m. While one is under way for a follower, a
// further append to it is dropped: raft notices and asks again.
func (s *Shard) catchUp(p *partition, to *peer, m *pb.Message, next core.Index) {
	for _, c := range p.sending {
		if c.to == to {
			s.stats.PeerDropped++
			return
		}
	}
	c := &catchUp{p: p, to: to, m: *m, next: next, last: core.Index(m.Entries[len(m.Entries)-1].Index)}
	c.m.Entries = nil
	p.sending = append(p.sending, c)
	s.catchUpMore(c)
}

// catchUpMore reads and sends until a job is needed or all is sent.
func (s *Shard) catchUpMore(c *catchUp) {
	for c.next <= c.last {
		from, err := c.p.log.OffsetOf(c.next - 1)
		if err != nil {
			s.catchUpEnds(c, err)
			return
		}
		upTo, err := c.p.log.OffsetOf(c.last)
		if err != nil {
			s.catchUpEnds(c, err)
			return
		}
		var res raftlog.ReadResult
		if from < upTo {
			var job *raftlog.Job
			if res, job, err = s.read(c.p, from, upTo, framePayloadMax, true); err != nil {
				s.catchUpEnds(c, err)
				return
			}
			if job != nil {
				job.Owner = c
				s.startJob(job)
				return
			}
		}
		if err := s.sendRead(c, res); err != nil {
			s.catchUpEnds(c, err)
			return
		}
	}
	s.catchUpEnds(c, nil)
}

// onCatchUpJob sends what was read, unless the leadership was lost meanwhile.
func (s *Shard) onCatchUpJob(c *catchUp, job *raftlog.Job) {
	if c.p.gone || !c.p.leading || c.m.Term != uint64(c.p.term) || job.Err != nil {
		releaseAll(job.Read.Bufs)
		s.catchUpEnds(c, job.Err)
		return
	}
	if err := s.sendRead(c, job.Read); err != nil {
		s.catchUpEnds(c, err)
		return
	}
	s.catchUpMore(c)
}

// sendRead sends the entries that a read covers and releases it.
func (s *Shard) sendRead(c *catchUp, res raftlog.ReadResult) error {
	defer releaseAll(res.Bufs)
	var batches []arena.Buf
	if err := eachBatch(res, func(_ core.Batch, buf arena.Buf) error { batches = append(batches, buf); return nil }); err != nil {
		return err
	}
	m := c.m
	term, err := c.p.log.Term(c.next - 1)
	if err != nil {
		return err
	}
	m.Index, m.LogTerm = uint64(c.next-1), uint64(term)
	var entries []peerEntry
	for ; c.next <= c.last && len(entries) < 1<<15; c.next++ {
		base, err := c.p.log.OffsetOf(c.next - 1)
		if err != nil {
			return err
		}
		end, err := c.p.log.OffsetOf(c.next)
		if err != nil {
			return err
		}
		if term, err = c.p.log.Term(c.next); err != nil {
			return err
		}
		e := peerEntry{index: c.next, term: term, kind: raftlog.EntryEmpty}
		if base < end {
			if len(batches) == 0 {
				break
			}
			if got := core.Batch(batches[0].Bytes()).BaseOffset(); got != base {
				return fmt.Errorf("%w: batch at offset %d where entry %d has offset %d", core.ErrCorruptBatch, got, c.next, base)
			}
			e.kind, e.payload = raftlog.EntryBatch, batches[0]
			batches = batches[1:]
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return fmt.Errorf("%w: nothing could be read for entry %d", core.ErrStorageFailed, c.next)
	}
	s.emit(c.to, c.p, &m, entries)
	return nil
}

func (s *Shard) catchUpEnds(c *catchUp, err error) {
	if err != nil && err != errNoRoom {
		s.opts.Logf("reading %s from entry %d on for node %d: %v", c.p.name(), c.next, c.to.id, err)
	}
	for i := range c.p.sending {
		if c.p.sending[i] == c {
			c.p.sending = append(c.p.sending[:i], c.p.sending[i+1:]...)
			break
		}
	}
	if len(c.p.sending) == 0 {
		c.p.sending = nil
	}
}

// dropCatchUps forgets what is under way; jobs that come back send nothing.
func (s *Shard) dropCatchUps(p *partition) { p.sending = nil }
