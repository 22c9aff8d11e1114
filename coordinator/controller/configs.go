package controller

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// resource is what configs belong to: a topic, one broker, or all brokers.
type resource struct {
	kind   byte // resourceTopic, resourceBroker, resourceCluster
	id     []byte
	topic  string
	before map[string]string
	// missing is set for a topic that does not exist. That is told last, after
	// all that is wrong with the settings, as in Kafka.
	missing bool
	badName *refusal // of a topic that cannot exist; told before what is wrong with values
}

// findResource resolves a resource as a request names it.
func findResource(ch *change, kind kmsg.ConfigResourceType, name string) (resource, *refusal) {
	im := ch.image()
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if name == "" {
			no := refuse(kerr.InvalidRequest, "Default topic resources are not allowed.")
			return resource{kind: resourceTopic, missing: true, badName: no}, nil
		}
		t := im.Topic(name)
		if t == nil {
			r := resource{kind: resourceTopic, topic: name, missing: true}
			if text := core.CheckTopicName(name); text != "" {
				r.badName = refuse(kerr.InvalidTopicException, "%s", text)
			}
			return r, nil
		}
		return resource{kind: resourceTopic, id: t.ID[:], topic: name, before: t.Configs}, nil
	case kmsg.ConfigResourceTypeBroker:
		if name == "" {
			return resource{kind: resourceCluster, before: im.ClusterConfigs}, nil
		}
		n, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return resource{}, refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", name)
		}
		id := core.NodeID(n)
		if !hasBroker(im, id) {
			return resource{}, refuse(kerr.InvalidRequest, "No broker with node id %d is registered.", n)
		}
		return resource{kind: resourceBroker, id: nodeBytes(id), before: im.BrokerConfigs[id]}, nil
	case kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return resource{}, refuse(kerr.InvalidRequest, "Configs of resource type %s are not supported.", kind)
	}
	return resource{}, refuse(kerr.InvalidRequest, "Unknown resource type %d", int8(kind))
}

// validate checks one setting.
func (c *Controller) validate(r *resource, name, value string) *refusal {
	if len(value) > c.opts.ConfigValueBytesMax {
		return refuse(kerr.InvalidConfig, "The configuration %s cannot be set because its value has %d bytes, the maximum is %d", name, len(value), c.opts.ConfigValueBytesMax)
	}
	if r.kind == resourceTopic {
		if err := c.opts.ValidateTopic(r.topic, name, value); err != nil {
			return refuse(kerr.InvalidConfig, "%s", err)
		}
		return nil
	}
	// Kafka's brokers, not its controller, check these, with another code.
	if err := c.opts.ValidateBroker(name, value, r.kind == resourceCluster); err != nil {
		return refuse(kerr.InvalidRequest, "%s", err)
	}
	return nil
}

// topicConfigs validates the settings of a new topic. Of a name given twice the
// last value counts.
func (c *Controller) topicConfigs(topic string, in []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, *refusal) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(in))
	for _, e := range in {
		if e.Value == nil {
			return nil, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s", e.Name)
		}
		if no := c.validate(&resource{kind: resourceTopic, topic: topic}, e.Name, *e.Value); no != nil {
			return nil, no
		}
		out[e.Name] = *e.Value
	}
	return out, c.checkCount(out)
}

func (c *Controller) checkCount(configs map[string]string) *refusal {
	if len(configs) > c.opts.ConfigsMax {
		return refuse(kerr.InvalidConfig, "A resource may have at most %d configs; there would be %d.", c.opts.ConfigsMax, len(configs))
	}
	return nil
}

// store writes the new settings of a resource, unless they are the old ones.
func (c *Controller) store(ch *change, r *resource, configs map[string]string, validateOnly bool) *refusal {
	if no := c.checkCount(configs); no != nil {
		return no
	}
	if r.missing {
		return refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", r.topic)
	}
	if validateOnly || maps.Equal(r.before, configs) {
		return nil
	}
	rec := encodeConfigs(r.kind, r.id, configs)
	if !ch.fits([]core.Record{rec}) {
		return refuse(kerr.PolicyViolation, "The request is too large: alter fewer resources at a time.")
	}
	ch.put(rec)
	return nil
}

// resourceKey counts how often a request names a resource.
type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

var errResourceTwice = refusal{kerr.InvalidRequest.Code, "Each resource must appear at most once."}

// incrementalAlterConfigs answers IncrementalAlterConfigs (KIP-339).
func (c *Controller) incrementalAlterConfigs(ch *change, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	named := make(map[resourceKey]int)
	for _, r := range req.Resources {
		named[resourceKey{r.ResourceType, r.ResourceName}]++
	}
	for i := range req.Resources {
		r := &req.Resources[i]
		no := &errResourceTwice
		if named[resourceKey{r.ResourceType, r.ResourceName}] == 1 {
			no = c.alterIncrementally(ch, r, req.ValidateOnly)
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		if no != nil {
			out.ErrorCode, out.ErrorMessage = no.code, &no.text
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func (c *Controller) alterIncrementally(ch *change, req *kmsg.IncrementalAlterConfigsRequestResource, validateOnly bool) *refusal {
	names := make([]string, 0, len(req.Configs))
	for _, e := range req.Configs {
		names = append(names, e.Name)
		if e.Value == nil && e.Op != kmsg.IncrementalAlterConfigOpDelete {
			return refuse(kerr.InvalidRequest, "Null value not supported for : %s", e.Name)
		}
	}
	if no := namedTwice(names); no != nil {
		return no
	}
	r, no := findResource(ch, req.ResourceType, req.ResourceName)
	if no != nil {
		return no
	}
	next := maps.Clone(r.before)
	if next == nil {
		next = make(map[string]string, len(req.Configs))
	}
	for _, e := range req.Configs { // the operations first, then what they give
		switch e.Op {
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(next, e.Name)
		case kmsg.IncrementalAlterConfigOpSet:
			next[e.Name] = *e.Value
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if next[e.Name], no = c.editList(&r, next, e.Name, *e.Value, e.Op); no != nil {
				return no
			}
		default:
			return refuse(kerr.InvalidRequest, "Unknown operation %d for config %s", int8(e.Op), e.Name)
		}
	}
	if r.badName != nil {
		return r.badName
	}
	for _, e := range req.Configs {
		if e.Op == kmsg.IncrementalAlterConfigOpDelete {
			continue
		}
		if no := c.validate(&r, e.Name, next[e.Name]); no != nil {
			return no
		}
	}
	return c.store(ch, &r, next, validateOnly)
}

// editList appends to, or subtracts from, a setting that is a list; where it is
// not set, from its default.
func (c *Controller) editList(r *resource, now map[string]string, name, value string, op kmsg.IncrementalAlterConfigOp) (string, *refusal) {
	old, isList := c.opts.ListDefault(r.kind != resourceTopic, name)
	if !isList {
		return "", refuse(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", op, name)
	}
	if v, ok := now[name]; ok {
		old = v
	}
	list, count := slices.DeleteFunc(splitList(old), func(e string) bool { return e == "" }), make(map[string]int)
	if op == kmsg.IncrementalAlterConfigOpAppend {
		for _, item := range list {
			count[item]++
		}
		for _, item := range splitList(value) {
			if count[item]++; count[item] == 1 {
				list = append(list, item)
			}
		}
		return strings.Join(list, ","), nil
	}
	for _, item := range splitList(value) {
		count[item]++
	}
	list = slices.DeleteFunc(list, func(e string) bool { // one for each that is named
		count[e]--
		return count[e] >= 0
	})
	return strings.Join(list, ","), nil
}

// namedTwice refuses a setting that a resource names twice.
func namedTwice(names []string) *refusal {
	slices.Sort(names)
	if len(slices.Compact(names)) < len(names) {
		return refuse(kerr.InvalidRequest, "Error due to duplicate config keys")
	}
	return nil
}

// splitList cuts a list as Kafka's controller does: empty items at the end are
// dropped, but an empty text is one empty item.
func splitList(s string) []string {
	if s == "" {
		return []string{""}
	}
	parts := strings.Split(s, ",")
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// alterConfigs answers AlterConfigs, which replaces all settings of a resource.
func (c *Controller) alterConfigs(ch *change, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	named := make(map[resourceKey]int)
	for _, r := range req.Resources {
		named[resourceKey{r.ResourceType, r.ResourceName}]++
	}
	for i := range req.Resources {
		r := &req.Resources[i]
		no := &errResourceTwice
		if named[resourceKey{r.ResourceType, r.ResourceName}] == 1 {
			no = c.replaceConfigs(ch, r, req.ValidateOnly)
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		if no != nil {
			out.ErrorCode, out.ErrorMessage = no.code, &no.text
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func (c *Controller) replaceConfigs(ch *change, req *kmsg.AlterConfigsRequestResource, validateOnly bool) *refusal {
	names := make([]string, 0, len(req.Configs))
	for _, e := range req.Configs {
		names = append(names, e.Name)
		if e.Value == nil {
			return refuse(kerr.InvalidRequest, "Null value not supported for : %s", e.Name)
		}
	}
	if no := namedTwice(names); no != nil {
		return no
	}
	r, no := findResource(ch, req.ResourceType, req.ResourceName)
	if no != nil {
		return no
	}
	if r.badName != nil {
		return r.badName
	}
	next := make(map[string]string, len(req.Configs))
	for _, e := range req.Configs {
		if no := c.validate(&r, e.Name, *e.Value); no != nil {
			return no
		}
		next[e.Name] = *e.Value
	}
	return c.store(ch, &r, next, validateOnly)
}
