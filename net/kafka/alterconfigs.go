package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveAlterConfigs replaces all settings of each resource (KIP-133).
func serveAlterConfigs(r *Request) {
	req := r.Body.(*kmsg.AlterConfigsRequest)
	resp := kmsg.NewPtrAlterConfigsResponse()
	resp.Resources = make([]kmsg.AlterConfigsResponseResource, len(req.Resources))
	ask := kmsg.NewPtrAlterConfigsRequest()
	ask.Version, ask.ValidateOnly = r.Version, req.ValidateOnly
	var places []int
	for i, res := range req.Resources {
		out := &resp.Resources[i]
		*out = kmsg.NewAlterConfigsResponseResource()
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
			resp.Resources[i] = applied.Reply.(*kmsg.AlterConfigsResponse).Resources[k]
		}
		r.Reply(resp)
	})
}

// checkAltered refuses what the controller cannot judge: the settings of another
// broker are that broker's to take.
func (r *Request) checkAltered(t kmsg.ConfigResourceType, name string) (code int16, msg string) {
	if t == kmsg.ConfigResourceTypeBroker && name != "" {
		return r.checkBrokerName(name, "Node", "")
	}
	return codeNone, ""
}
