package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveCreateTopics makes topics (KIP-4). The answer leaves when the new
// partitions take produce requests, so that a client can go on at once.
func serveCreateTopics(r *Request) {
	req := r.Body.(*kmsg.CreateTopicsRequest)
	r.change(req, req.TimeoutMillis, func(applied *meta.Applied, err error) {
		if applied == nil {
			r.Reply(refuseCreateTopics(req, ControllerErrorCode(err), err))
			return
		}
		resp := applied.Reply.(*kmsg.CreateTopicsResponse)
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

func refuseCreateTopics(req *kmsg.CreateTopicsRequest, code int16, err error) kmsg.Response {
	resp := kmsg.NewPtrCreateTopicsResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, code, kmsg.StringPtr(err.Error())
		rt.NumPartitions, rt.ReplicationFactor = -1, -1
		rt.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
