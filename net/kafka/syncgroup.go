package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveSyncGroup exchanges the assignment of a generation (KIP-559).
func serveSyncGroup(r *Request) {
	req := r.Body.(*kmsg.SyncGroupRequest)
	r.Parked(nil) // the coordinator counts what it keeps
	r.toGroup(req.Group, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = code
		return resp
	})
}
