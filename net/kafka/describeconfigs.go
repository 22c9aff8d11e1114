package kafka

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/config"
)

// serveDescribeConfigs tells the settings of topics, of this broker and of all
// brokers, with where each value comes from (KIP-226, KIP-569).
func serveDescribeConfigs(r *Request) {
	req := r.Body.(*kmsg.DescribeConfigsRequest)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	named := make(mentions[resource])
	req.Resources = slices.DeleteFunc(req.Resources, func(res kmsg.DescribeConfigsRequestResource) bool {
		return named.tooMany(resource{res.ResourceType, res.ResourceName})
	})
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, res := range req.Resources {
		if !slices.Contains(listedResources, res.ResourceType) {
			r.Reply(refuseDescribeConfigs(req, res.ResourceType)) // all of it, as in Kafka
			return
		}
	}
	for _, res := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = res.ResourceType, res.ResourceName
		out.ErrorMessage = kmsg.StringPtr("")
		entries, code, msg := r.describeConfigs(res.ResourceType, res.ResourceName)
		if code != codeNone {
			out.ErrorCode, out.ErrorMessage = code, kmsg.StringPtr(msg)
		}
		for _, e := range entries {
			if len(res.ConfigNames) == 0 || slices.Contains(res.ConfigNames, e.Setting.Name) {
				out.Configs = append(out.Configs, configReply(e, req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	r.Reply(resp)
}

func refuseDescribeConfigs(req *kmsg.DescribeConfigsRequest, t kmsg.ConfigResourceType) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for _, res := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorCode = res.ResourceType, res.ResourceName, codeInvalidRequest
		out.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("there is no resource type %d", t))
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func (r *Request) describeConfigs(t kmsg.ConfigResourceType, name string) (entries []config.Entry, code int16, msg string) {
	cfg, im := r.Options().Config(), r.Image()
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		if why := core.CheckTopicName(name); why != "" {
			return nil, codeInvalidTopic, why
		}
		topic := im.Topic(name)
		if topic == nil {
			return nil, codeUnknownTopicOrPartition, fmt.Sprintf("The topic '%s' does not exist.", name)
		}
		return cfg.DescribeTopic(topic.Configs), codeNone, ""
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return config.DescribeCluster(im.ClusterConfigs), codeNone, ""
		}
		if code, msg := r.checkBrokerName(name, "Broker", " or empty string"); code != codeNone {
			return nil, code, msg
		}
		return cfg.DescribeBroker(), codeNone, ""
	}
	return nil, codeInvalidRequest, fmt.Sprintf("configs of resource type %d are not served", t)
}

// checkBrokerName refuses a broker resource of another node.
func (r *Request) checkBrokerName(name, what, orElse string) (code int16, msg string) {
	id, err := strconv.ParseInt(name, 10, 32)
	switch own := r.Options().Node; {
	case err != nil:
		return codeInvalidRequest, fmt.Sprintf("%s id must be an integer, but it is: %s", what, name)
	case int32(id) != int32(own):
		return codeInvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d%s, but received %s", own, orElse, name)
	}
	return codeNone, ""
}

func configReply(e config.Entry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	s := e.Setting
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.ReadOnly, c.IsSensitive = s.Name, !s.Dynamic, s.Sensitive
	c.ConfigType = kmsg.ConfigType(s.Type)
	c.Source = kmsg.ConfigSource(e.Origin)
	c.IsDefault = e.Origin == config.FromDefault
	if e.Set && !s.Sensitive {
		c.Value = kmsg.StringPtr(e.Value)
	}
	if req.IncludeDocumentation {
		c.Documentation = kmsg.StringPtr(s.Documentation())
	}
	if req.IncludeSynonyms {
		for _, y := range e.Synonyms {
			x := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			x.Name, x.Source = y.Name, kmsg.ConfigSource(y.Origin)
			if !s.Sensitive {
				x.Value = kmsg.StringPtr(y.Value)
			}
			c.ConfigSynonyms = append(c.ConfigSynonyms, x)
		}
	}
	return c
}
