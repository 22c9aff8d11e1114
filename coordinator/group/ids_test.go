package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// All machines of a node have one seed, and often lead in one term since one
// moment.
func TestMemberIDsOfTwoPartitionsDiffer(t *testing.T) {
	seen := make(map[string]int32)
	for num := range int32(50) {
		h := newHarness(t, DefaultConfig())
		h.opts.Partition = num
		h.term = 0
		h.failover()
		for range 3 {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.SessionTimeoutMillis, req.ProtocolType = 4, "g", 10_000, "consumer"
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			id := h.send("a", req, core.ClientInfo{ClientID: "c"}).Reply.(*kmsg.JoinGroupResponse).MemberID
			if other, twice := seen[id]; twice || id == "" {
				t.Fatalf("partitions %d and %d make the member id %q", other, num, id)
			}
			seen[id] = num
		}
	}
}
