package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// TestHeartbeatsDoNotWaitForTheLog: an answer behind the group's commits would
// come after the session when the disk stands still for that long.
func TestHeartbeatsDoNotWaitForTheLog(t *testing.T) {
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelayMs = 0
	h := newHarness(t, cfg)
	h.topic("t1", 1)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 3, "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 6000, 6000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription([]string{"t1"})}}
	joined := h.send("join", join, core.ClientInfo{}).Reply.(*kmsg.JoinGroupResponse)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 3, "g", joined.MemberID, joined.Generation
	h.send("sync", sync, core.ClientInfo{})

	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.Generation = 3, "g", joined.MemberID, joined.Generation
	stale := *beat
	stale.Generation++
	for _, req := range []*kmsg.HeartbeatRequest{beat, &stale} {
		cmd := &core.Command{Body: req}
		var out core.Output
		h.m.Handle(h.now, cmd, &out)
		if len(out.Writes) != 0 || len(out.Replies) != 1 || out.Replies[0] != cmd {
			t.Fatalf("the answer to a heartbeat waits: %d writes, %d answers at once", len(out.Writes), len(out.Replies))
		}
		if ok := cmd.Reply.(*kmsg.HeartbeatResponse).ErrorCode == 0; ok != (req == beat) {
			t.Fatalf("generation %d: %v", req.Generation, cmd.Reply)
		}
	}
}
