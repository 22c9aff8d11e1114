package kafka

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listedResources are the types that may be asked for; of those without
// settings here (client metrics, groups, loggers) there are none to list.
var listedResources = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig,
}

// serveListConfigResources lists what has configs (KIP-1142). Version 0 asked
// for client metrics alone, of which there are none.
func serveListConfigResources(r *Request) {
	req := r.Body.(*kmsg.ListConfigResourcesRequest)
	resp := kmsg.NewPtrListConfigResourcesResponse()
	if r.Version == 0 {
		r.Reply(resp)
		return
	}
	wanted := make([]kmsg.ConfigResourceType, 0, len(listedResources))
	for _, t := range req.ResourceTypes {
		if !slices.Contains(listedResources, kmsg.ConfigResourceType(t)) {
			resp.ErrorCode = codeUnsupportedVersion
			r.Reply(resp)
			return
		}
		if !slices.Contains(wanted, kmsg.ConfigResourceType(t)) {
			wanted = append(wanted, kmsg.ConfigResourceType(t))
		}
	}
	if len(wanted) == 0 {
		wanted = listedResources
	}
	add := func(name string, t kmsg.ConfigResourceType) {
		if slices.Contains(wanted, t) {
			x := kmsg.NewListConfigResourcesResponseConfigResource()
			x.Name, x.Type = name, int8(t)
			resp.ConfigResources = append(resp.ConfigResources, x)
		}
	}
	im := r.Image()
	for _, b := range im.Brokers {
		add(strconv.Itoa(int(b.ID)), kmsg.ConfigResourceTypeBroker)
	}
	for _, t := range im.Topics() {
		add(t.Name, kmsg.ConfigResourceTypeTopic)
	}
	r.Reply(resp)
}
