package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveIncrementalAlterConfigs changes single settings (KIP-339).
func serveIncrementalAlterConfigs(r *Request) {
	req := r.Body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, len(req.Resources))
	ask := kmsg.NewPtrIncrementalAlterConfigsRequest()
	ask.Version, ask.ValidateOnly = r.Version, req.ValidateOnly
	var places []int
	for i, res := range req.Resources {
		out := &resp.Resources[i]
		*out = kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
		if code, msg := r.checkAltered(res.ResourceType, res.ResourceName); code != codeNone {
			out.ErrorCode, out.ErrorMessage = code, kmsg.StringPtr(msg)
			continue
		}
		ask.Resources = append(ask.Resources, res)
		places = append(places, i)
	}
	if len(places) == 0 {
		r.Reply(resp)
		return
	}
	r.change(ask, 0, func(applied *meta.Applied, err error) {
		for k, i := range places {
			if applied == nil {
				resp.Resources[i].ErrorCode, resp.Resources[i].ErrorMessage = ControllerErrorCode(err), kmsg.StringPtr(err.Error())
				continue
			}
			resp.Resources[i] = applied.Reply.(*kmsg.IncrementalAlterConfigsResponse).Resources[k]
		}
		r.Reply(resp)
	})
}
