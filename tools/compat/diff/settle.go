package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka answers changes of topics and settings when the controller has them; the
// broker follows a little later. What comes next in a sequence must not depend on
// how much later, so these functions wait for it.

// settleChange waits until what an answer says was changed shows everywhere.
func (s *side) settleChange(st *Step, resp kmsg.Response) error {
	var created []string
	exist := false
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 {
				created = append(created, t.Topic)
			}
		}
	case *kmsg.MetadataResponse:
		req := st.Req.(*kmsg.MetadataRequest)
		if !req.AllowAutoTopicCreation && req.Version >= 4 {
			return nil
		}
		exist = true
		for _, t := range r.Topics { // being created behind the answer
			if t.Topic != nil && (t.ErrorCode == 3 || t.ErrorCode == 5) {
				created = append(created, *t.Topic)
			}
		}
		if len(created) == 0 {
			return nil
		}
	case *kmsg.DeleteTopicsResponse, *kmsg.AlterConfigsResponse, *kmsg.IncrementalAlterConfigsResponse, *kmsg.AlterClientQuotasResponse:
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			if t.ErrorCode == 0 {
				created = append(created, t.Topic)
			}
		}
	default:
		return nil
	}
	if err := s.awaitMetadata(); err != nil {
		return err
	}
	if len(created) > 0 {
		return s.awaitLeaders(created, exist)
	}
	return nil
}

// awaitMetadata waits until Kafka's broker has what its controller has now: the
// epoch of the features is the offset in the metadata log that the broker is at.
func (s *side) awaitMetadata() error {
	if !s.lagging {
		return nil
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	resp, err := s.ask(quorum, askLimit)
	if err != nil {
		return err
	}
	want := int64(0)
	for _, t := range resp.(*kmsg.DescribeQuorumResponse).Topics {
		for _, p := range t.Partitions {
			want = p.HighWatermark - 1
		}
	}
	wait := newPatience(time.Minute)
	defer wait.end()
	for ; ; time.Sleep(time.Millisecond) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "diff", "1"
		resp, err := s.ask(req, askLimit)
		if err != nil {
			return err
		}
		if resp.(*kmsg.ApiVersionsResponse).FinalizedFeaturesEpoch >= want {
			break
		}
		if wait.isOver() {
			return fmt.Errorf("%s: metadata of a minute ago has not arrived", s.name)
		}
	}
	time.Sleep(publishTime)
	return nil
}

// publishTime is for what Kafka's broker does with new metadata after it shows
// them, which nothing tells the end of.
const publishTime = 3 * time.Millisecond

// awaitLeaders waits until the topics answer for all of their partitions; with
// exist, also until they are there.
func (s *side) awaitLeaders(names []string, exist bool) error {
	wait := newPatience(2 * time.Minute)
	defer wait.end()
	for ; ; time.Sleep(3 * time.Millisecond) {
		ready, err := s.leadersAnswer(names, exist)
		if ready || err != nil {
			return err
		}
		if wait.isOver() {
			return fmt.Errorf("%s: topics without leaders two minutes after their creation", s.name)
		}
	}
}

func (s *side) leadersAnswer(names []string, exist bool) (bool, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := s.ask(req, askLimit)
	if err != nil {
		return false, err
	}
	ready := true
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		if t.ErrorCode == 17 || t.ErrorCode == 3 && !exist {
			continue
		}
		ready = ready && t.ErrorCode == 0
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = *t.Topic
		for _, part := range t.Partitions {
			ready = ready && part.ErrorCode == 0 && part.Leader >= 0
			lp := kmsg.NewListOffsetsRequestTopicPartition()
			lp.Partition, lp.Timestamp = part.Partition, -1
			lt.Partitions = append(lt.Partitions, lp)
		}
		list.Topics = append(list.Topics, lt)
	}
	if !ready || len(list.Topics) == 0 {
		return ready, nil
	}
	if resp, err = s.ask(list, askLimit); err != nil {
		return false, err
	}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for _, part := range t.Partitions {
			ready = ready && part.ErrorCode == 0
		}
	}
	return ready, nil
}
