package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveAlterPartitionReassignments moves partitions to other nodes (KIP-455); on
// one node there is nowhere to move them to.
func serveAlterPartitionReassignments(r *Request) {
	req := r.Body.(*kmsg.AlterPartitionAssignmentsRequest)
	r.change(req, 0, func(applied *meta.Applied, err error) {
		if applied != nil {
			r.Reply(applied.Reply)
			return
		}
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.ErrorCode, resp.ErrorMessage = ControllerErrorCode(err), kmsg.StringPtr(err.Error())
		r.Reply(resp)
	})
}

// serveListPartitionReassignments lists the moves under way (KIP-455), of which
// one node has none.
func serveListPartitionReassignments(r *Request) {
	r.Reply(kmsg.NewPtrListPartitionReassignmentsResponse())
}
