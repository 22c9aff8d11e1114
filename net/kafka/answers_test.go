package kafka

import (
	"fmt"
	"slices"
	"strings"
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

// TestWhatIsNamedTooOftenIsLeftOut: a request of some bytes must not be answered with
// the same thing for each of them.
func TestWhatIsNamedTooOftenIsLeftOut(t *testing.T) {
	const times = 3 * mentionsMax
	configs := kmsg.NewPtrDescribeConfigsRequest()
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t"}, {Topic: "t", Partitions: []int32{1, 1}}}
	groups, offsets, find := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType = coordinatorTxn
	for i := range times {
		name := []string{"t", "t", "u"}[i%3]
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name})
		producers.Topics[0].Partitions = append(producers.Topics[0].Partitions, []int32{1, 1, 2}[i%3])
		groups.Groups = append(groups.Groups, name)
		offsets.Groups = append(offsets.Groups, kmsg.OffsetFetchRequestGroup{Group: name})
		find.CoordinatorKeys = append(find.CoordinatorKeys, name)
	}
	for _, c := range []struct {
		req     kmsg.Request
		version int16
		told    func(kmsg.Response) int
	}{
		{configs, 4, func(r kmsg.Response) int { return len(r.(*kmsg.DescribeConfigsResponse).Resources) }},
		{producers, 0, func(r kmsg.Response) int {
			ts := r.(*kmsg.DescribeProducersResponse).Topics
			return len(ts[0].Partitions) + len(ts[1].Partitions)
		}},
		{groups, 6, func(r kmsg.Response) int { return len(r.(*kmsg.DescribeGroupsResponse).Groups) }},
		{offsets, 8, func(r kmsg.Response) int { return len(r.(*kmsg.OffsetFetchResponse).Groups) }},
		{find, 4, func(r kmsg.Response) int { return len(r.(*kmsg.FindCoordinatorResponse).Coordinators) }},
	} {
		if got := c.told(newFixture(t).ask(c.req, c.version)); got != 2*mentionsMax {
			t.Errorf("%T: %d are told of, want %d", c.req, got, 2*mentionsMax)
		}
	}
}

func TestOffsetsNamedTooOftenAreLeftOut(t *testing.T) {
	nums := slices.Repeat([]int32{3, 3, 4}, mentionsMax) // as often as may be: 4
	for _, v := range []int16{1, 7, 8, 9} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: slices.Clone(nums)}, {Topic: "u", Partitions: slices.Clone(nums)}}
		for _, g := range []string{"g", "h"} {
			rg := kmsg.OffsetFetchRequestGroup{Group: g}
			for range 2 {
				rg.Topics = append(rg.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: "t", Partitions: slices.Clone(nums)})
			}
			req.Groups = append(req.Groups, rg)
		}
		f := newFixture(t)
		f.loop.image = f.loop.image.WithTopic(testTopic(offsetsTopic, 2, 1))
		got := ""
		f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
			body := q.(*shard.Coordinate).Command.Body.(*kmsg.OffsetFetchRequest)
			resp := body.ResponseKind().(*kmsg.OffsetFetchResponse)
			for _, t := range body.Topics {
				got += fmt.Sprint(" ", len(t.Partitions))
			}
			for _, g := range body.Groups {
				resp.Groups = append(resp.Groups, kmsg.OffsetFetchResponseGroup{Group: g.Group})
				for _, t := range g.Topics {
					got += fmt.Sprint(" ", len(t.Partitions))
				}
			}
			q.(*shard.Coordinate).Command.Reply = resp
			return true
		}
		f.ask(req, v)
		want := " 20 20" // each of two topics
		if v >= 8 {
			want = " 20 0 20 0" // the same topic twice, in each of two groups
		}
		if got != want {
			t.Errorf("version %d: asked for%s, want%s", v, got, want)
		}
	}
}

// TestPartitionsOfALongNameHaveShortAnswers: each has an error of its own, which must
// not quote the name again.
func TestPartitionsOfALongNameHaveShortAnswers(t *testing.T) {
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: strings.Repeat("x", textBytesMax)}}
	for i := range int32(300) {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, i)
	}
	resp := newFixture(t).ask(req, 0).(*kmsg.DescribeProducersResponse)
	if n := len(resp.AppendTo(nil)); n > 2*textBytesMax {
		t.Errorf("answered with %d bytes", n)
	}
	if got := resp.Topics[0].Partitions[299].ErrorCode; got != codeInvalidTopic {
		t.Errorf("error %d", got)
	}
}

func TestDistinctKeepsTheFirstOfEqualNames(t *testing.T) {
	if got := fmt.Sprint(distinct([]string{"b", "a", "b", "c", "a"})); got != "[b a c]" {
		t.Errorf("distinct = %s", got)
	}
}
