package kafka

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

// Topics without partitions are left out of these answers, as in Kafka.
func TestTopicsWithoutPartitionsAreNotAnswered(t *testing.T) {
	produce := produceRequest("t", 1)
	remove := kmsg.NewPtrDeleteRecordsRequest()
	remove.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t"}}
	list := kmsg.NewPtrListOffsetsRequest()
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t"}}
	for _, c := range []struct {
		req     kmsg.Request
		version int16
		topics  func(kmsg.Response) int
	}{
		{produce, 9, func(r kmsg.Response) int { return len(r.(*kmsg.ProduceResponse).Topics) }},
		{remove, 2, func(r kmsg.Response) int { return len(r.(*kmsg.DeleteRecordsResponse).Topics) }},
		{list, 4, func(r kmsg.Response) int { return len(r.(*kmsg.ListOffsetsResponse).Topics) }},
	} {
		f := newFixture(t)
		f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
			t.Errorf("%T reaches a shard with %T", c.req, q)
			return true
		}
		if n := c.topics(f.ask(c.req, c.version)); n != 0 {
			t.Errorf("%T: %d topics in the answer", c.req, n)
		}
	}
}

func TestDescribeTopicPartitionsCursorIsInATopicAskedFor(t *testing.T) {
	for _, c := range []struct {
		cursor string
		part   int32
		topics []string
		code   int16
	}{
		{"t", 0, []string{"t"}, codeNone},
		{"t", 0, nil, codeNone},
		{"s", 0, []string{"t"}, codeInvalidRequest},
		{"", 0, []string{"t"}, codeInvalidRequest},
		{"t", -1, []string{"t"}, codeInvalidRequest},
	} {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = 100
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: c.cursor, Partition: c.part}
		for _, name := range c.topics {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
		}
		resp := newFixture(t).ask(req, 0).(*kmsg.DescribeTopicPartitionsResponse)
		if len(resp.Topics) == 0 || resp.Topics[0].ErrorCode != c.code {
			t.Errorf("cursor %q/%d of %v: %+v", c.cursor, c.part, c.topics, resp.Topics)
		}
	}
}

func TestDescribeConfigsOfAnUnknownTypeRefusesAll(t *testing.T) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, 3} {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kind, "t"
		req.Resources = append(req.Resources, r)
	}
	resp := newFixture(t).ask(req, 1).(*kmsg.DescribeConfigsResponse)
	for _, r := range resp.Resources {
		if r.ErrorCode != codeInvalidRequest || len(r.Configs) > 0 {
			t.Errorf("type %d: error %d, %d settings", r.ResourceType, r.ErrorCode, len(r.Configs))
		}
	}
	if len(resp.Resources) != 2 {
		t.Errorf("%d resources", len(resp.Resources))
	}
}

// TestWhatIsNamedTooOftenIsRefused: a request of some bytes must not be answered with
// the same thing for each of them.
func TestWhatIsNamedTooOftenIsRefused(t *testing.T) {
	const times = mentionsMax + 3
	configs := kmsg.NewPtrDescribeConfigsRequest()
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t"}}
	groups := kmsg.NewPtrDescribeGroupsRequest()
	offsets := kmsg.NewPtrOffsetFetchRequest()
	for range times {
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"})
		producers.Topics[0].Partitions = append(producers.Topics[0].Partitions, 1)
		groups.Groups = append(groups.Groups, "g")
		offsets.Groups = append(offsets.Groups, kmsg.OffsetFetchRequestGroup{Group: "g"})
	}
	configs.Resources[times-1].ResourceName = "u" // another, and not there
	for _, c := range []struct {
		req     kmsg.Request
		version int16
		refused int
	}{{configs, 4, times - mentionsMax - 1}, {producers, 0, times - mentionsMax}, {groups, 6, times - mentionsMax}, {offsets, 8, times - mentionsMax}} {
		f := newFixture(t)
		f.loop.image = f.loop.image.WithTopic(testTopic(offsetsTopic, 2, 4))
		asked := 0
		f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
			asked++
			if q, ok := q.(*shard.Coordinate); ok {
				resp := q.Command.Body.(kmsg.Request).ResponseKind()
				switch body := q.Command.Body.(type) {
				case *kmsg.DescribeGroupsRequest:
					asked = len(body.Groups)
					resp.(*kmsg.DescribeGroupsResponse).Groups = make([]kmsg.DescribeGroupsResponseGroup, asked)
				case *kmsg.OffsetFetchRequest:
					asked = len(body.Groups)
					resp.(*kmsg.OffsetFetchResponse).Groups = make([]kmsg.OffsetFetchResponseGroup, asked)
				}
				q.Command.Reply = resp
			}
			return true
		}
		count := map[string]uint64{}
		errorCodesIn(reflect.ValueOf(f.ask(c.req, c.version)), count)
		if got := count["INVALID_REQUEST"]; got != uint64(c.refused) {
			t.Errorf("%T: %d are refused, want %d (%v)", c.req, got, c.refused, count)
		}
		if c.req != configs && asked != mentionsMax {
			t.Errorf("%T: %d are asked for", c.req, asked)
		}
	}
}

func TestDistinctKeepsTheFirstOfEqualNames(t *testing.T) {
	if got := fmt.Sprint(distinct([]string{"b", "a", "b", "c", "a"})); got != "[b a c]" {
		t.Errorf("distinct = %s", got)
	}
}
