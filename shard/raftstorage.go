package shard

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/raftlog"
)

// storage shows a Log to raft. Entries are bare descriptors: term and index,
// and nothing else. Kind and payload stay in the Log and are looked up there.
type storage struct {
	log    *raftlog.Log
	voters []uint64
	commit core.Index // at least what was applied; a floor for the hard state
}

// InitialState implements raft.Storage.
func (st *storage) InitialState() (pb.HardState, pb.ConfState, error) {
	hs := st.log.HardState()
	out := pb.HardState{Term: uint64(hs.Term), Commit: uint64(max(hs.Commit, st.commit))}
	if hs.Vote != core.NoNode {
		out.Vote = uint64(hs.Vote)
	}
	return out, pb.ConfState{Voters: st.voters}, nil
}

// Entries implements raft.Storage; at most maxSize bytes of descriptors.
func (st *storage) Entries(lo, hi, maxSize uint64) ([]pb.Entry, error) {
	if lo < uint64(st.log.FirstIndex()) {
		return nil, raft.ErrCompacted
	}
	if hi > uint64(st.log.LastIndex())+1 {
		return nil, raft.ErrUnavailable
	}
	out := make([]pb.Entry, 0, min(hi-lo, maxSize/descriptorBytes+1))
	for size := uint64(0); lo < hi; lo++ {
		term, err := st.Term(lo)
		if err != nil {
			return nil, err
		}
		e := pb.Entry{Term: term, Index: lo}
		if size += uint64(e.Size()); size > maxSize && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// Term implements raft.Storage.
func (st *storage) Term(i uint64) (uint64, error) {
	t, err := st.log.Term(core.Index(i))
	switch {
	case err == nil:
		return uint64(t), nil
	case i+1 < uint64(st.log.FirstIndex()):
		return 0, raft.ErrCompacted
	case i > uint64(st.log.LastIndex()):
		return 0, raft.ErrUnavailable
	}
	return 0, fmt.Errorf("term of entry %d: %w", i, err)
}

// LastIndex implements raft.Storage.
func (st *storage) LastIndex() (uint64, error) { return uint64(st.log.LastIndex()), nil }

// FirstIndex implements raft.Storage.
func (st *storage) FirstIndex() (uint64, error) { return uint64(st.log.FirstIndex()), nil }

// Snapshot implements raft.Storage. There is none to send yet: a follower that
// needs what is below the log start waits.
func (st *storage) Snapshot() (pb.Snapshot, error) {
	return pb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
}

// logger counts what raft would print: with thousands of groups, every role
// change would be a line.
type logger struct{ infos, warnings, errors uint64 }

func (l *logger) Debug(...any)            {}
func (l *logger) Debugf(string, ...any)   {}
func (l *logger) Info(...any)             { l.infos++ }
func (l *logger) Infof(string, ...any)    { l.infos++ }
func (l *logger) Warning(...any)          { l.warnings++ }
func (l *logger) Warningf(string, ...any) { l.warnings++ }
func (l *logger) Error(...any)            { l.errors++ }
func (l *logger) Errorf(string, ...any)   { l.errors++ }
func (l *logger) Fatal(v ...any)          { panic("BUG: raft: " + fmt.Sprint(v...)) }
func (l *logger) Fatalf(f string, v ...any) {
	panic("BUG: raft: " + fmt.Sprintf(f, v...))
}
func (l *logger) Panic(v ...any) { panic("BUG: raft: " + fmt.Sprint(v...)) }
func (l *logger) Panicf(f string, v ...any) {
	panic("BUG: raft: " + fmt.Sprintf(f, v...))
}
