package controller

import (
	"millrace/core"
	"millrace/core/meta"
)

// Options make a Controller. Func fields may be nil where said so; they must be
// pure: the same arguments give the same answer.
type Options struct {
	// Node is this node; it becomes Image.Controller when it leads.
	Node core.NodeID
	// ClusterID is given to a cluster that has none yet. Empty: one is made
	// from Seed, as 22 characters of URL-safe base64.
	ClusterID string
	// Seed feeds topic IDs and the cluster ID, together with term and time. A
	// deployment draws it at random once per process.
	Seed uint64

	// DefaultPartitions and DefaultReplication stand in for -1 in CreateTopics
	// (num.partitions, default.replication.factor). Below 1 they count as 1.
	DefaultPartitions  int32
	DefaultReplication int16
	// TopicPartitionsMax bounds one topic, PartitionsMax the cluster. Below 1
	// they are 10,000 and 100,000.
	TopicPartitionsMax int
	PartitionsMax      int
	// ConfigValueBytesMax bounds one config value (below 1: 32767), and
	// ConfigsMax the explicit configs of one resource (below 1: 1000).
	ConfigValueBytesMax int
	ConfigsMax          int
	// QuotasMax bounds the entities with client quotas (below 1: 10,000).
	QuotasMax int

	// ValidateTopic refuses a topic config by name or value; the error text
	// goes to the client. topic is the name of the topic. nil accepts everything.
	ValidateTopic func(topic, name, value string) error
	// ValidateBroker does so for broker configs; clusterWide says that the
	// entity is "" (all brokers). nil accepts everything.
	ValidateBroker func(name, value string, clusterWide bool) error
	// ListDefault tells of a config of type list (isList), for APPEND and
	// SUBTRACT, and its default. broker says which table is meant. nil: there
	// are no list configs.
	ListDefault func(broker bool, name string) (value string, isList bool)
	// TopicConfigs lists a topic's effective settings for the CreateTopics
	// response, v5 and newer. nil lists the explicit ones.
	TopicConfigs func(im *meta.Image, t *meta.Topic) []ConfigEntry
}

// ConfigEntry is one effective setting of a topic.
type ConfigEntry struct {
	Name      string
	Value     *string // nil: null, or hidden because it is sensitive
	Source    int8    // Kafka's ConfigSource: 1 topic, 4 static broker, 5 default
	ReadOnly  bool
	Sensitive bool
}

func (o Options) withDefaults() Options {
	o.DefaultPartitions = max(o.DefaultPartitions, 1)
	o.DefaultReplication = max(o.DefaultReplication, 1)
	o.TopicPartitionsMax = orDefault(o.TopicPartitionsMax, 10_000)
	o.PartitionsMax = orDefault(o.PartitionsMax, 100_000)
	o.ConfigValueBytesMax = orDefault(o.ConfigValueBytesMax, 32767)
	o.ConfigsMax = orDefault(o.ConfigsMax, 1000)
	o.QuotasMax = orDefault(o.QuotasMax, 10_000)
	if o.ValidateTopic == nil {
		o.ValidateTopic = func(string, string, string) error { return nil }
	}
	if o.ValidateBroker == nil {
		o.ValidateBroker = func(string, string, bool) error { return nil }
	}
	if o.ListDefault == nil {
		o.ListDefault = func(bool, string) (string, bool) { return "", false }
	}
	if o.TopicConfigs == nil {
		o.TopicConfigs = explicitConfigs
	}
	return o
}

func orDefault(v, d int) int {
	if v < 1 {
		return d
	}
	return v
}

func explicitConfigs(_ *meta.Image, t *meta.Topic) []ConfigEntry {
	var out []ConfigEntry
	for _, name := range sortedKeys(t.Configs) {
		v := t.Configs[name]
		out = append(out, ConfigEntry{Name: name, Value: &v, Source: 1})
	}
	return out
}
