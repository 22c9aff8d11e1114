package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveHeartbeat keeps a member alive and tells it of a rebalance. A coordinator
// that still reads its log answers that all is well, as in Kafka: the members get
// their session's time anew when it has read it, and clients know no answer here
// that says "later" (aiokafka ends its heartbeats for ever).
func serveHeartbeat(r *Request) {
	req := r.Body.(*kmsg.HeartbeatRequest)
	r.toGroup(req.Group, func(code int16) kmsg.Response {
		if code == codeCoordinatorLoading {
			code = codeNone
		}
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = code
		return resp
	})
}
