package main

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Error codes that the list names.
const (
	invalidRequest = "42"
	unknownServer  = "-1"
)

// knownDifferences are those that are meant. Keep them narrow: an entry that
// takes too much hides faults.
func knownDifferences() []known {
	return slices.Concat(knownOfProtocol(), knownOfRecords(), knownOfSettings(), knownOfGroups())
}

// failed says whether Kafka failed on a request as a whole: with
// UNKNOWN_SERVER_ERROR, or with UNSUPPORTED_VERSION where it could not write its
// own answer.
func failed(d Difference) bool {
	return d.Path == "ErrorCode" && (d.Kafka == unknownServer || d.Kafka == "35")
}

// notAnswered says whether a step is a request that Kafka does not answer.
func notAnswered(st *Step) bool {
	switch st.Req.(type) {
	case *kmsg.JoinGroupRequest:
		return namesProtocolTwice(*st)
	case *kmsg.AlterConfigsRequest, *kmsg.IncrementalAlterConfigsRequest:
		return hasTwice(st.Req)
	case *kmsg.ProduceRequest:
		return producesNull(st)
	}
	return false
}

func knownOfProtocol() []known {
	return []known{
		{
			name: "ApiVersions: keys that are not served", keys: []kmsg.Key{kmsg.ApiVersions}, field: "ApiKeys",
			when:    func(c *knownCase) bool { return c.Millrace == absent },
			because: "ApiVersions names the API keys that are served",
		},
		{
			name: "ApiVersions: features", keys: []kmsg.Key{kmsg.ApiVersions}, field: "*Features*",
			because: "It names no supported or finalized features yet",
		},
		{
			name: "texts where Kafka has none", field: "*ErrorMessage",
			when: func(c *knownCase) bool {
				return (c.Kafka == "null" || c.Kafka == "empty text") && c.Millrace == "text"
			},
			because: "Answers that refuse something carry a text",
		},
		{
			name: "requests on which Kafka fails", keys: []kmsg.Key{kmsg.JoinGroup, kmsg.Metadata, kmsg.Fetch}, field: "ErrorCode",
			when:     func(c *knownCase) bool { return failed(c.Difference) },
			diverges: true,
			because:  "Requests on which Kafka fails",
		},
		{
			name: "what follows where Kafka fails", keys: []kmsg.Key{kmsg.JoinGroup, kmsg.Metadata, kmsg.Fetch},
			when: func(c *knownCase) bool {
				return slices.ContainsFunc(c.all, func(d Difference) bool { return failed(d) })
			},
			because: "Requests on which Kafka fails",
		},
		{
			name: "DescribeTopicPartitions from a partition that cannot be", keys: []kmsg.Key{kmsg.DescribeTopicPartitions},
			when: func(c *knownCase) bool {
				r := c.step.Req.(*kmsg.DescribeTopicPartitionsRequest)
				return r.Cursor != nil && r.Cursor.Partition > 1<<30
			},
			because: "Requests on which Kafka fails",
		},
		{
			name: "DescribeTopicPartitions of a topic without a name", keys: []kmsg.Key{kmsg.DescribeTopicPartitions}, field: "Topics*",
			when: func(c *knownCase) bool {
				return slices.ContainsFunc(c.step.Req.(*kmsg.DescribeTopicPartitionsRequest).Topics,
					func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == "" })
			},
			because: "Requests on which Kafka fails",
		},
		{
			name: "requests that Kafka does not answer", keys: []kmsg.Key{kmsg.JoinGroup, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs}, field: "outcome",
			when: func(c *knownCase) bool { return c.Kafka == "none" && notAnswered(c.step) }, diverges: true,
			because: "that Kafka does not answer at all",
		},
		{
			name:     "what a request names twice",
			keys:     []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.DeleteRecords},
			when:     func(c *knownCase) bool { return hasTwice(c.step.Req) },
			quiet:    func(st *Step, _ outcome) bool { return st.noAnswer() && hasTwice(st.Req) },
			diverges: true,
			because:  "What a request names twice",
		},
		{
			name: "InitProducerId with a transactional id", keys: []kmsg.Key{kmsg.InitProducerID},
			when: func(c *knownCase) bool {
				r := c.step.Req.(*kmsg.InitProducerIDRequest)
				return r.TransactionalID != nil
			},
			diverges: true,
			because:  "InitProducerId with a transactional id",
		},
		{
			name: "FindCoordinator for transactions and share groups", keys: []kmsg.Key{kmsg.FindCoordinator},
			when: func(c *knownCase) bool {
				r := c.step.Req.(*kmsg.FindCoordinatorRequest)
				return r.GetVersion() >= 1 && (r.CoordinatorType == 1 || r.CoordinatorType == 2)
			},
			because: "FindCoordinator for one answer INVALID_REQUEST",
		},
	}
}
