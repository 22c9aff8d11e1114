package controller

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// alterOne alters settings of one topic and returns the error code.
func (h *harness) alterOne(topic string, configs ...kmsg.IncrementalAlterConfigsRequestResourceConfig) int16 {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeTopic, topic, configs
	req.Resources = append(req.Resources, r)
	return h.send(req).Reply.(*meta.Applied).Reply.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

func setting(op kmsg.IncrementalAlterConfigOp, name, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op, Value: &value}
}

// Of several faults the first in Kafka's order is told: operations, the name of
// the topic, values, whether the topic exists.
func TestFaultsOfAlterationsComeInKafkasOrder(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	h.create("t", 1)
	const set, add = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpAppend
	null := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "retention.ms"}
	for _, c := range []struct {
		topic string
		of    kmsg.IncrementalAlterConfigsRequestResourceConfig
		want  *kerr.Error
	}{
		{"none", setting(set, "retention.ms", "5"), kerr.UnknownTopicOrPartition},
		{"none", setting(set, "no.such", "5"), kerr.InvalidConfig},
		{"none", null, kerr.InvalidRequest},
		{"no/ne", setting(set, "no.such", "5"), kerr.InvalidTopicException},
		{"no/ne", setting(add, "retention.ms", "5"), kerr.InvalidConfig},
		{"", setting(add, "retention.ms", "5"), kerr.InvalidConfig},
		{"", setting(set, "retention.ms", "5"), kerr.InvalidRequest},
	} {
		if got := h.alterOne(c.topic, c.of); got != c.want.Code {
			t.Errorf("%q %s: error %d, want %s", c.topic, c.of.Name, got, c.want.Message)
		}
	}
}

// TestListsAreEditedItemByItem: what is there is not added again, and what is taken
// away goes once for each time that it is named.
func TestListsAreEditedItemByItem(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	h.create("t", 1)
	for _, c := range []struct {
		op          kmsg.IncrementalAlterConfigOp
		value, want string
	}{
		{kmsg.IncrementalAlterConfigOpSet, "a,b,a,c", "a,b,a,c"},
		{kmsg.IncrementalAlterConfigOpSubtract, "a,x", "b,a,c"},
		{kmsg.IncrementalAlterConfigOpAppend, "c,d,d,b", "b,a,c,d"},
		{kmsg.IncrementalAlterConfigOpSubtract, "d,d,b", "a,c"},
	} {
		if code := h.alterOne("t", setting(c.op, "cleanup.policy", c.value)); code != 0 {
			t.Fatalf("%v %s: error %d", c.op, c.value, code)
		}
		if got := h.published.Topic("t").Configs["cleanup.policy"]; got != c.want {
			t.Errorf("%v %s: %s, want %s", c.op, c.value, got, c.want)
		}
	}
}

// TestReassignmentsOfALongNameHaveShortAnswers: each partition has a text.
func TestReassignmentsOfALongNameHaveShortAnswers(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	rt := kmsg.AlterPartitionAssignmentsRequestTopic{Topic: strings.Repeat("x", 30_000)}
	for i := range int32(300) {
		rt.Partitions = append(rt.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: i})
	}
	req.Topics = append(req.Topics, rt)
	if n := len(h.send(req).Reply.(*meta.Applied).Reply.AppendTo(nil)); n > 80_000 {
		t.Errorf("answered with %d bytes", n)
	}
}

func (h *harness) growAll(topics ...kmsg.CreatePartitionsRequestTopic) []int16 {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Topics = topics
	var codes []int16
	for _, r := range h.send(req).Reply.(*meta.Applied).Reply.(*kmsg.CreatePartitionsResponse).Topics {
		codes = append(codes, r.ErrorCode)
	}
	return codes
}

func TestCreatePartitionsRefusesAsKafkaDoes(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	h.create("t", 1)
	grow := func(topic string, count int32) kmsg.CreatePartitionsRequestTopic {
		return kmsg.CreatePartitionsRequestTopic{Topic: topic, Count: count}
	}
	empty := grow("t", 2)
	empty.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
	if got := h.growAll(empty); got[0] != kerr.InvalidReplicaAssignment.Code {
		t.Errorf("an empty assignment: error %d", got[0])
	}
	if got := h.growAll(grow("t", 1<<30), grow("none", 2)); got[0] != kerr.PolicyViolation.Code || got[1] != kerr.PolicyViolation.Code {
		t.Errorf("too many partitions: errors %d", got)
	}
	if got := h.growAll(grow("t", 2), grow("none", 2)); got[0] != 0 || got[1] != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("two topics: errors %d", got)
	}
}

func TestATopicNamedByNameAndIDIsNotDeleted(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	id := h.create("t", 1).ID
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	name := "t"
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}, {TopicID: id}}
	got := h.send(req).Reply.(*meta.Applied).Reply.(*kmsg.DeleteTopicsResponse).Topics
	if len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code || got[0].TopicID != id {
		t.Errorf("answered with %+v", got)
	}
	if h.published.Topic("t") == nil {
		t.Error("it is deleted")
	}
}

func TestCreateTopicsAnswers(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	ask := func(name string, parts int32, rf int16) kmsg.CreateTopicsResponseTopic {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.ValidateOnly = 7, true
		req.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: parts, ReplicationFactor: rf}}
		return h.send(req).Reply.(*meta.Applied).Reply.(*kmsg.CreateTopicsResponse).Topics[0]
	}
	if got := ask("t", 1, 1); got.ErrorCode != 0 || got.TopicID == (core.TopicID{}) {
		t.Errorf("validated: %+v", got)
	}
	if got := ask("t", 0, 0); got.ErrorCode != kerr.InvalidReplicationFactor.Code || got.Configs == nil {
		t.Errorf("no replicas and no partitions: %+v", got)
	}
	if got := ask(strings.Repeat("x", 300), 1, 1); got.Configs == nil || got.TopicID != (core.TopicID{}) {
		t.Errorf("a long name: %+v", got)
	}
}
