package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveJoinGroup lets a member join and waits for the rebalance (KIP-62, KIP-345,
// KIP-394, KIP-800).
func serveJoinGroup(r *Request) {
	req := r.Body.(*kmsg.JoinGroupRequest)
	r.Parked(nil) // the coordinator counts what it keeps
	r.toGroup(req.Group, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode = code
		return resp
	})
}
