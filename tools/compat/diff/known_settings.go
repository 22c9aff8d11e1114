package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func knownOfSettings() []known {
	describe := []kmsg.Key{kmsg.DescribeConfigs}
	alter := []kmsg.Key{kmsg.CreateTopics, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs}
	return []known{
		{
			name: "ListConfigResources: loggers", keys: []kmsg.Key{kmsg.ListConfigResources}, field: "ConfigResources",
			when:    func(c *knownCase) bool { return c.Millrace == absent && strings.Contains(c.Kafka, "Type=8 ") },
			because: "Resource types BROKER_LOGGER, CLIENT_METRICS and GROUP have no settings",
		},
		{
			name: "DescribeConfigs: types without settings", keys: describe,
			when: func(c *knownCase) bool {
				return strings.HasPrefix(c.Path, "Resources[8,") || strings.HasPrefix(c.Path, "Resources[16,") || strings.HasPrefix(c.Path, "Resources[32,")
			},
			because: "Resource types BROKER_LOGGER, CLIENT_METRICS and GROUP have no settings",
		},
		{
			name: "min.insync.replicas is no dynamic default", keys: []kmsg.Key{kmsg.DescribeConfigs, kmsg.CreateTopics}, field: "*.Configs*",
			when:    func(c *knownCase) bool { return strings.Contains(c.Path, "[min.insync.replicas,") },
			because: "Kafka gives the cluster a dynamic `min.insync.replicas`",
		},
		{
			name: "DescribeConfigs: broker settings", keys: describe, field: "Resources.Configs*",
			when:    func(c *knownCase) bool { return strings.HasPrefix(c.Path, "Resources[4,") },
			because: "DescribeConfigs shows the broker settings that exist",
		},
		{
			name: "DescribeConfigs: synonyms that do not exist", keys: describe, field: "Resources.Configs.ConfigSynonyms",
			when:    func(c *knownCase) bool { return c.Millrace == absent && strings.Contains(c.Kafka, "Source=5") },
			because: "DescribeConfigs shows the broker settings that exist",
		},
		{
			name: "an operation on a setting that does not exist", keys: []kmsg.Key{kmsg.IncrementalAlterConfigs}, field: "Resources.ErrorCode",
			when:     func(c *knownCase) bool { return hasStrangeOp(c.step.Req.(*kmsg.IncrementalAlterConfigsRequest)) },
			diverges: true,
			because:  "An operation that does not exist",
		},
		{
			name: "quotas of one entity twice", keys: []kmsg.Key{kmsg.AlterClientQuotas}, diverges: true,
			when:    func(c *knownCase) bool { return entityTwice(c.step.Req.(*kmsg.AlterClientQuotasRequest)) },
			quiet:   func(st *Step, _ outcome) bool { return entityTwice(st.Req.(*kmsg.AlterClientQuotasRequest)) },
			because: "An entity that AlterClientQuotas names twice",
		},
		{
			name: "max.message.bytes beyond the largest", keys: alter, diverges: true,
			when:    func(c *knownCase) bool { return names(c.step.Req, "max.message.bytes", "2147483647") },
			because: "`max.message.bytes` is at most",
		},
		{
			name: "a number that is none", keys: alter, diverges: true,
			when:    func(c *knownCase) bool { return names(c.step.Req, "min.cleanable.dirty.ratio", "NaN") },
			because: "NaN",
		},
	}
}

// names says whether a request has a setting with one of these values.
func names(req kmsg.Request, setting string, values ...string) bool {
	is := func(name string, v *string) bool { return name == setting && v != nil && slices.Contains(values, *v) }
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		for _, t := range r.Topics {
			for _, c := range t.Configs {
				if is(c.Name, c.Value) {
					return true
				}
			}
		}
	case *kmsg.AlterConfigsRequest:
		for _, t := range r.Resources {
			for _, c := range t.Configs {
				if is(c.Name, c.Value) {
					return true
				}
			}
		}
	case *kmsg.IncrementalAlterConfigsRequest:
		for _, t := range r.Resources {
			for _, c := range t.Configs {
				if is(c.Name, c.Value) {
					return true
				}
			}
		}
	}
	return false
}

func hasStrangeOp(r *kmsg.IncrementalAlterConfigsRequest) bool {
	for _, res := range r.Resources {
		for _, c := range res.Configs {
			if c.Op < 0 || c.Op > 3 {
				return true
			}
		}
	}
	return false
}

// entityTwice says whether a request names one entity twice, where of two parts of
// one type the last counts.
func entityTwice(r *kmsg.AlterClientQuotasRequest) bool {
	seen := make(map[string]bool)
	return slices.ContainsFunc(r.Entries, func(e kmsg.AlterClientQuotasRequestEntry) bool {
		last := make(map[string]string)
		for _, part := range e.Entity {
			last[part.Type] = "default"
			if part.Name != nil {
				last[part.Type] = "name " + *part.Name
			}
		}
		entity := fmt.Sprint(last) // in order of the types
		again := seen[entity]
		seen[entity] = true
		return again
	})
}
