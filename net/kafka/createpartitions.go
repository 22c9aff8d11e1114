package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveCreatePartitions adds partitions to topics (KIP-195). The answer leaves
// when they take produce requests.
func serveCreatePartitions(r *Request) {
	req := r.Body.(*kmsg.CreatePartitionsRequest)
	r.change(req, req.TimeoutMillis, func(applied *meta.Applied, err error) {
		if applied == nil {
			resp := kmsg.NewPtrCreatePartitionsResponse()
			for _, t := range req.Topics {
				rt := kmsg.NewCreatePartitionsResponseTopic()
				rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, ControllerErrorCode(err), kmsg.StringPtr(err.Error())
				resp.Topics = append(resp.Topics, rt)
			}
			r.Reply(resp)
			return
		}
		resp := applied.Reply.(*kmsg.CreatePartitionsResponse)
		if err != nil {
			for i := range resp.Topics {
				if t := &resp.Topics[i]; t.ErrorCode == codeNone {
					t.ErrorCode, t.ErrorMessage = codeRequestTimedOut, kmsg.StringPtr(notReady)
				}
			}
		}
		r.Reply(resp)
	})
}
