package main

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// knownDifferences are those that are meant. Keep them narrow: an entry that
// takes too much hides faults.
func knownDifferences() []known {
	return []known{
		{
			name: "ApiVersions: keys that are not served", keys: []kmsg.Key{kmsg.ApiVersions}, field: "ApiKeys",
			when:    func(c *knownCase) bool { return c.Millrace == absent },
			because: "ApiVersions names the API keys that are served",
		},
		{
			name: "ApiVersions: features", keys: []kmsg.Key{kmsg.ApiVersions}, field: "*Features*",
			when: func(c *knownCase) bool {
				return strings.HasPrefix(c.Path, "SupportedFeatures") || strings.HasPrefix(c.Path, "FinalizedFeatures")
			},
			because: "It names no supported or finalized features yet",
		},
		{
			name: "what a request names twice",
			keys: []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.DeleteRecords},
			when: func(c *knownCase) bool { return hasTwice(c.step.Req) }, diverges: true,
			because: "What a request names twice",
		},
	}
}
