package shard

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// catchUp sends an append whose payloads have left memory, a piece at a time:
// where only segments know the entries, their places are looked up first; then
// the batches are read. Entries that hold no records are sent as empty ones with
// their term. A follower that needs what is below the log start gets nothing:
// that takes a snapshot.
type catchUp struct {
	p    *partition
	to   *peer
	m    pb.Message // without entries
	next core.Index // the first entry not sent
	last core.Index
	// places were looked up for the entries of [next, places.UpTo].
	places  raftlog.Places
	looking bool // the job under way looks up places
}

// catchUpEntries bounds the entries of one piece.
const catchUpEntries = 1024

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

// place says which offsets entry i holds: base == end for none. It answers false
// where that must be looked up.
func (c *catchUp) place(i core.Index) (base, end core.Offset, ok bool) {
	if e, known := c.p.log.Entry(i); known {
		return e.BaseOffset, e.LastOffset + 1, true
	}
	if i > c.places.UpTo {
		return 0, 0, false
	}
	for _, b := range c.places.Batches {
		if b.Index >= i {
			if b.Index == i {
				return b.BaseOffset, b.NextOffset, true
			}
			break
		}
	}
	return 0, 0, true
}

// span is the range of offsets that the next piece reads, and whether it is known
// at all.
func (c *catchUp) span() (from, upTo core.Offset, ok bool) {
	for i := c.next; i <= c.last && i < c.next+catchUpEntries; i++ {
		base, end, known := c.place(i)
		if !known {
			return from, upTo, i > c.next
		}
		if base < end {
			if from == upTo {
				from = base
			}
			upTo = end
		}
	}
	return from, upTo, true
}

// catchUpMore looks up, reads and sends until a job is needed or all is sent.
func (s *Shard) catchUpMore(c *catchUp) {
	for c.next <= c.last {
		from, upTo, known := c.span()
		var res raftlog.ReadResult
		var job *raftlog.Job
		var err error
		switch {
		case !known:
			if job, err = c.p.log.FindPlaces(c.next); err == nil {
				c.looking = true
			}
		case from < upTo:
			res, job, err = s.read(c.p, from, upTo, framePayloadMax, true)
		}
		if job != nil {
			job.Owner = c
			s.startJob(job)
			return
		}
		if err == nil {
			err = s.sendRead(c, res)
		}
		if err != nil {
			s.catchUpEnds(c, err)
			return
		}
	}
	s.catchUpEnds(c, nil)
}

// onCatchUpJob goes on, unless the leadership was lost meanwhile.
func (s *Shard) onCatchUpJob(c *catchUp, job *raftlog.Job) {
	looked := c.looking
	c.looking = false
	if !c.p.live() || !c.p.leading || c.m.Term != uint64(c.p.term) || job.Err != nil {
		releaseAll(job.Read.Bufs)
		s.catchUpEnds(c, job.Err)
		return
	}
	if looked {
		c.places = job.Places
		if c.places.UpTo < c.next {
			s.catchUpEnds(c, fmt.Errorf("%w: entry %d is in no segment", core.ErrStorageFailed, c.next))
			return
		}
	} else if err := s.sendRead(c, job.Read); err != nil {
		s.catchUpEnds(c, err)
		return
	}
	s.catchUpMore(c)
}

// sendRead sends the entries that a read covers and releases it.
func (s *Shard) sendRead(c *catchUp, res raftlog.ReadResult) error {
	defer releaseAll(res.Bufs)
	var batches []arena.Buf
	err := eachBatch(res, func(_ core.Batch, buf arena.Buf) error { batches = append(batches, buf); return nil })
	if err != nil {
		return err
	}
	m := c.m
	term, err := c.p.log.Term(c.next - 1)
	if err != nil {
		return err
	}
	m.Index, m.LogTerm = uint64(c.next-1), uint64(term)
	var entries []peerEntry
	for ; c.next <= c.last && len(entries) < catchUpEntries; c.next++ {
		base, end, known := c.place(c.next)
		if !known {
			break
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
	if err != nil && err != errNoRoom && !c.p.warned { // it will come again and again
		c.p.warned = true
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
