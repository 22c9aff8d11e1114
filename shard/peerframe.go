package shard

import (
	"encoding/binary"
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

// A frame carries raft messages of several groups from one shard of a node to
// the same shard of another. Big endian:
//
//	u8  version, 1
//	u8  0
//	u16 messages
//	u32 bytes of the header, these eight included
//	messages, each
//	    u64 group, u8 type, u8 flags (1 reject, 2 leadership transfer), u16 entries
//	    u64 term, u64 log term, u64 index, u64 commit, u64 reject hint
//	    entries, of index+1 on, each
//	        u64 term, u8 kind, u8[3] 0, u32 payload bytes
//	payloads, in the order of their entries, without gaps
const (
	frameVersion      = 1
	frameHeadBytes    = 8
	frameMessageBytes = 52
	frameEntryBytes   = 16

	flagReject   = 1
	flagTransfer = 2

	// framePayloadMax is the payload from which on a frame is closed, and
	// frameMessagesMax the number of messages.
	framePayloadMax  = 1 << 20
	frameMessagesMax = 4096
)

// transferContext is what raft writes into a vote request of a leadership
// transfer.
const transferContext = "CampaignTransfer"

var errFrame = errors.New("malformed peer frame")

// peerEntry is one entry of a message with its payload.
type peerEntry struct {
	index   core.Index
	term    core.Term
	kind    raftlog.EntryKind
	payload arena.Buf
}

// wireTypes are the message types that may cross the network.
var wireTypes = [...]pb.MessageType{
	pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp,
	pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow,
}

func wireType(t pb.MessageType) bool {
	for _, w := range wireTypes {
		if w == t {
			return true
		}
	}
	return false
}

// appendMessage encodes one message after the frame's head.
func appendMessage(dst []byte, group core.PartitionID, m *pb.Message, entries []peerEntry) []byte {
	flags := byte(0)
	if m.Reject {
		flags |= flagReject
	}
	if len(m.Context) > 0 {
		flags |= flagTransfer
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(group))
	dst = append(dst, byte(m.Type), flags)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(entries)))
	for _, v := range [...]uint64{m.Term, m.LogTerm, m.Index, m.Commit, m.RejectHint} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	for i := range entries {
		dst = binary.BigEndian.AppendUint64(dst, uint64(entries[i].term))
		dst = append(dst, byte(entries[i].kind), 0, 0, 0)
		dst = binary.BigEndian.AppendUint32(dst, uint32(entries[i].payload.Len()))
	}
	return dst
}

// parseFrame calls fn for each message of a frame. The entries' payloads are
// slices of the frame and share its reference; entries is valid until fn
// returns. Errors: errFrame, or what fn returned.
func parseFrame(frame arena.Buf, fn func(group core.PartitionID, m *pb.Message, entries []peerEntry) error) error {
	b := frame.Bytes()
	if len(b) < frameHeadBytes || b[0] != frameVersion {
		return fmt.Errorf("%w: no head of version %d", errFrame, frameVersion)
	}
	count, head := int(binary.BigEndian.Uint16(b[2:])), int64(binary.BigEndian.Uint32(b[4:]))
	if head < frameHeadBytes || head > int64(len(b)) {
		return fmt.Errorf("%w: header of %d bytes in a frame of %d", errFrame, head, len(b))
	}
	at, payload := frameHeadBytes, int(head)
	var entries []peerEntry
	for i := 0; i < count; i++ {
		if int(head)-at < frameMessageBytes {
			return fmt.Errorf("%w: cut off at message %d of %d", errFrame, i, count)
		}
		group, m, n := parseMessage(b[at:])
		at += frameMessageBytes
		if !wireType(m.Type) || m.Type != pb.MsgApp && n > 0 {
			return fmt.Errorf("%w: message %d is of type %d with %d entries", errFrame, i, m.Type, n)
		}
		if (int(head)-at)/frameEntryBytes < n {
			return fmt.Errorf("%w: cut off in the entries of message %d", errFrame, i)
		}
		entries = entries[:0]
		for j := 0; j < n; j, at = j+1, at+frameEntryBytes {
			size := int64(binary.BigEndian.Uint32(b[at+12:]))
			if size > int64(len(b)-payload) {
				return fmt.Errorf("%w: payload of %d bytes where %d are left", errFrame, size, len(b)-payload)
			}
			entries = append(entries, peerEntry{
				index: core.Index(m.Index) + 1 + core.Index(j), term: core.Term(binary.BigEndian.Uint64(b[at:])),
				kind: raftlog.EntryKind(b[at+8]), payload: frame.Slice(payload, payload+int(size)),
			})
			payload += int(size)
		}
		if err := fn(group, m, entries); err != nil {
			return err
		}
	}
	if at != int(head) || payload != len(b) {
		return fmt.Errorf("%w: %d bytes of header and %d of payload are left over", errFrame, int(head)-at, len(b)-payload)
	}
	return nil
}

// parseMessage reads a message's fixed part.
func parseMessage(b []byte) (core.PartitionID, *pb.Message, int) {
	u64 := func(i int) uint64 { return binary.BigEndian.Uint64(b[i:]) }
	m := &pb.Message{
		Type: pb.MessageType(b[8]), Reject: b[9]&flagReject != 0,
		Term: u64(12), LogTerm: u64(20), Index: u64(28), Commit: u64(36), RejectHint: u64(44),
	}
	if b[9]&flagTransfer != 0 {
		m.Context = []byte(transferContext)
	}
	return core.PartitionID(u64(0)), m, int(binary.BigEndian.Uint16(b[10:]))
}
