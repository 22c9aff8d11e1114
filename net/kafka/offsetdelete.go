package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveOffsetDelete removes committed offsets of topics that the group does not
// consume (KIP-496).
func serveOffsetDelete(r *Request) {
	req := r.Body.(*kmsg.OffsetDeleteRequest)
	r.toGroup(req.Group, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = code
		return resp
	})
}
