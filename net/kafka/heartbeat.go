package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveHeartbeat keeps a member alive and tells it of a rebalance.
func serveHeartbeat(r *Request) {
	req := r.Body.(*kmsg.HeartbeatRequest)
	r.toGroup(req.Group, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = code
		return resp
	})
}
