package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveLeaveGroup removes one member, or several since version 3 (KIP-345).
func serveLeaveGroup(r *Request) {
	req := r.Body.(*kmsg.LeaveGroupRequest)
	r.toGroup(req.Group, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = code
		return resp
	})
}
