package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// frameOf encodes messages as the shard does.
func frameOf(groups []core.PartitionID, ms []*pb.Message, entries [][]peerEntry) []byte {
	head := make([]byte, frameHeadBytes)
	var payload []byte
	for i := range ms {
		head = appendMessage(head, groups[i], ms[i], entries[i])
		for _, e := range entries[i] {
			payload = append(payload, e.payload.Bytes()...)
		}
	}
	head[0] = frameVersion
	binary.BigEndian.PutUint16(head[2:], uint16(len(ms)))
	binary.BigEndian.PutUint32(head[4:], uint32(len(head)))
	return append(head, payload...)
}

func sampleFrame() []byte {
	return frameOf([]core.PartitionID{7, 8, 9},
		[]*pb.Message{
			{Type: pb.MsgApp, Term: 3, LogTerm: 2, Index: 10, Commit: 9},
			{Type: pb.MsgAppResp, Term: 3, Index: 10, Reject: true, RejectHint: 4, LogTerm: 1},
			{Type: pb.MsgVote, Term: 4, Index: 11, LogTerm: 3, Context: []byte(transferContext)},
		},
		[][]peerEntry{{
			{index: 11, term: 3, kind: raftlog.EntryEmpty},
			{index: 12, term: 3, kind: raftlog.EntryBatch, payload: arena.Foreign(batchOf(2, 5, 1))},
			{index: 13, term: 3, kind: raftlog.EntryLogStart, payload: arena.Foreign(make([]byte, 8))},
		}, nil, nil})
}

func TestFrameRoundTrip(t *testing.T) {
	frame := sampleFrame()
	var groups []core.PartitionID
	var ms []*pb.Message
	var entries [][]peerEntry
	err := parseFrame(arena.Foreign(frame), func(g core.PartitionID, m *pb.Message, es []peerEntry) error {
		groups, ms, entries = append(groups, g), append(ms, m), append(entries, append([]peerEntry(nil), es...))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(groups, []core.PartitionID{7, 8, 9}) || len(entries[0]) != 3 || entries[0][1].index != 12 ||
		!ms[1].Reject || ms[1].RejectHint != 4 || string(ms[2].Context) != transferContext {
		t.Fatalf("%v %v %v", groups, ms, entries)
	}
	if again := frameOf(groups, ms, entries); !bytes.Equal(again, frame) {
		t.Fatal("what was parsed encodes to something else")
	}
}

func TestFrameCutAnywhereIsRefused(t *testing.T) {
	frame := sampleFrame()
	for n := range frame {
		err := parseFrame(arena.Foreign(frame[:n]), func(core.PartitionID, *pb.Message, []peerEntry) error { return nil })
		if !errors.Is(err, errFrame) {
			t.Fatalf("cut at %d of %d: %v", n, len(frame), err)
		}
	}
}
