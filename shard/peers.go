package shard

import (
	"encoding/binary"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// peer is another node: what the failure detector says of it, and the frame of
// this turn's messages for it.
type peer struct {
	id core.NodeID
	up bool

	head    []byte
	bufs    []arena.Buf
	count   int
	payload int
}

// sendPeer puts a message of raft's into the frame for its node. An append takes
// its payloads along; where they are not in memory any more, they are read
// first.
func (s *Shard) sendPeer(p *partition, m *pb.Message) {
	if !wireType(m.Type) {
		panic(fmt.Sprintf("BUG: %s: raft sends a %s", p.name(), m.Type))
	}
	to := s.peer(nodeID(m.To))
	if len(m.Entries) == 0 {
		s.emit(to, p, m, nil)
		return
	}
	part := *m // the entries before i that are not sent yet
	var entries []peerEntry
	bytes := 0
	for i := range m.Entries {
		e := &m.Entries[i]
		le, ok := p.log.Entry(core.Index(e.Index))
		if ok && uint64(le.Term) != e.Term {
			panic(fmt.Sprintf("BUG: %s: entry %d has term %d, raft sends term %d", p.name(), e.Index, le.Term, e.Term))
		}
		if !ok || le.Kind != raftlog.EntryEmpty && le.Payload.Len() == 0 {
			s.emitAppend(to, p, &part, entries)
			s.catchUp(p, to, m, core.Index(e.Index))
			return
		}
		entries = append(entries, peerEntry{le.Index, le.Term, le.Kind, le.Payload})
		if bytes += le.Payload.Len(); bytes >= framePayloadMax {
			s.emitAppend(to, p, &part, entries)
			part.Index, part.LogTerm, entries, bytes = e.Index, e.Term, nil, 0
		}
	}
	s.emitAppend(to, p, &part, entries)
}

func (s *Shard) emitAppend(to *peer, p *partition, m *pb.Message, entries []peerEntry) {
	if len(entries) > 0 {
		s.emit(to, p, m, entries)
	}
}

// emit encodes one message; payloads get a reference of their own.
func (s *Shard) emit(to *peer, p *partition, m *pb.Message, entries []peerEntry) {
	if to.count == 0 {
		to.head = make([]byte, frameHeadBytes, frameHeadBytes+4*frameMessageBytes)
	}
	to.head = appendMessage(to.head, p.id, m, entries)
	for i := range entries {
		if n := entries[i].payload.Len(); n > 0 {
			to.bufs = append(to.bufs, entries[i].payload.Retain())
			to.payload += n
		}
	}
	if to.count++; to.count == frameMessagesMax || to.payload >= framePayloadMax {
		s.closeFrame(to)
	}
}

// closeFrame moves the frame into the effects.
func (s *Shard) closeFrame(to *peer) {
	if to.count == 0 {
		return
	}
	to.head[0] = frameVersion
	binary.BigEndian.PutUint16(to.head[2:], uint16(to.count))
	binary.BigEndian.PutUint32(to.head[4:], uint32(len(to.head)))
	s.out.PeerSends = append(s.out.PeerSends, PeerSend{To: to.id, Header: to.head, Bufs: to.bufs})
	to.head, to.bufs, to.count, to.payload = nil, nil, 0, 0
}

// onPeerFrame steps the messages of a frame. The event's reference is the
// shard's.
func (s *Shard) onPeerFrame(from core.NodeID, frame arena.Buf) {
	err := parseFrame(frame, func(group core.PartitionID, m *pb.Message, entries []peerEntry) error {
		p := s.partitions[group]
		if p == nil || !p.live() {
			return nil // not created here yet, or not served: the sender tries again
		}
		m.From, m.To = uint64(from), uint64(s.opts.Node)
		if err := p.checkMessage(m, entries); err != nil {
			s.stats.PeerDropped++
			if !p.warned { // it will come again and again
				p.warned = true
				s.opts.Logf("message from node %d: %v", from, err)
			}
			return nil
		}
		for i := range entries {
			m.Entries = append(m.Entries, pb.Entry{Index: uint64(entries[i].index), Term: uint64(entries[i].term)})
		}
		if m.Type == pb.MsgHeartbeatResp && p.leading && slices.Contains(p.voters, m.From) {
			p.heard |= p.voterBit(m.From)
		}
		p.stash = entries
		if err := p.node.Step(*m); err != nil {
			s.stats.PeerDropped++
		}
		s.settle(p)
		p.stash = nil
		return nil
	})
	if err != nil {
		s.stats.PeerDropped++
		s.opts.Logf("frame from node %d: %v", from, err)
	}
	frame.Release()
}

// checkMessage refuses what raft or the log would stumble over.
func (p *partition) checkMessage(m *pb.Message, entries []peerEntry) error {
	if m.Type == pb.MsgHeartbeat && m.Commit > uint64(p.log.LastIndex()) {
		return fmt.Errorf("%w: %s: commit %d is above the last entry %d: has this replica lost its disk?",
			core.ErrStorageFailed, p.name(), m.Commit, p.log.LastIndex())
	}
	for i := range entries {
		e := &entries[i]
		switch e.kind {
		case raftlog.EntryEmpty:
		case raftlog.EntryBatch:
			b, rest, err := core.NextBatch(e.payload.Bytes())
			if err == nil && len(rest) > 0 {
				err = fmt.Errorf("%w: %d bytes after the batch", core.ErrCorruptBatch, len(rest))
			}
			if err == nil {
				err = b.Verify()
			}
			if err != nil {
				return fmt.Errorf("%s: entry %d: %w", p.name(), e.index, err)
			}
		case raftlog.EntryLogStart:
			if e.payload.Len() != 8 {
				return fmt.Errorf("%w: %s: entry %d: a log start of %d bytes", errFrame, p.name(), e.index, e.payload.Len())
			}
		default:
			return fmt.Errorf("%w: %s: entry %d is of kind %d", errFrame, p.name(), e.index, e.kind)
		}
	}
	return nil
}

// stashed finds an entry of the message that is being stepped.
func (p *partition) stashed(i core.Index, t core.Term) *peerEntry {
	if len(p.stash) == 0 || i < p.stash[0].index || i > p.stash[len(p.stash)-1].index {
		return nil
	}
	if e := &p.stash[i-p.stash[0].index]; e.term == t {
		return e
	}
	return nil
}
