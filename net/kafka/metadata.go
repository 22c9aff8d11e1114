package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

const (
	metadataByID     = 12 // asking by topic ID
	autoCreateWaitMs = 5_000
)

// topicOperations are all operations on a topic, as a bit set by number: read,
// write, create, delete, alter, describe, describe and alter configs.
const topicOperations = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11

// serveMetadata tells brokers, topics and leaders. Topics that do not exist are
// made when both the request and auto.create.topics.enable say so. The answer
// then waits until the new partitions take appends, and yet says that the topic
// is unknown, as Kafka's does: clients ask again, and who looks whether a topic
// that was deleted is gone sees that it is.
func serveMetadata(r *Request) {
	req := r.Body.(*kmsg.MetadataRequest)
	if code := r.selectTopics(req); code != codeNone {
		r.Reply(refusedMetadata(req, code))
		return
	}
	missing := r.topicsToCreate(req)
	if len(missing) == 0 {
		r.replyMetadata(req, nil)
		return
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.SetVersion(7)
	create.TimeoutMillis = autoCreateWaitMs
	for _, name := range missing {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
		if name == offsetsTopic {
			t = offsetsTopicSpec(r.Options())
		}
		create.Topics = append(create.Topics, t)
	}
	r.change(create, autoCreateWaitMs, func(applied *meta.Applied, err error) {
		made := make(map[string]int16, len(missing))
		if applied == nil {
			for _, name := range missing {
				made[name] = codeLeaderNotAvailable
			}
		} else if resp, ok := applied.Reply.(*kmsg.CreateTopicsResponse); ok {
			for i := range resp.Topics {
				t := &resp.Topics[i]
				if made[t.Topic] = t.ErrorCode; t.ErrorCode == codeNone {
					made[t.Topic] = codeUnknownTopicOrPartition
				}
			}
		}
		r.replyMetadata(req, made)
	})
}

// selectTopics checks how the topics of a request are named. Where one is named
// by ID, as in Kafka only those that are count, and their names do not.
func (r *Request) selectTopics(req *kmsg.MetadataRequest) int16 {
	var byID []kmsg.MetadataRequestTopic
	unnamed := false
	for _, t := range req.Topics {
		unnamed = unnamed || t.Topic == nil
		if t.TopicID != ([16]byte{}) {
			t.Topic = nil
			byID = append(byID, t)
		}
	}
	switch {
	case r.Version < metadataByID && (unnamed || byID != nil):
		return codeInvalidRequest
	case byID != nil:
		req.Topics = byID
	case unnamed:
		return codeUnknownServerError
	}
	return codeNone
}

// refusedMetadata answers for all topics of a request, as they were named, with
// one error.
func refusedMetadata(req *kmsg.MetadataRequest, code int16) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	for i := range req.Topics {
		rt := kmsg.NewMetadataResponseTopic()
		rt.ErrorCode, rt.Topic, rt.TopicID = code, req.Topics[i].Topic, req.Topics[i].TopicID
		if rt.Topic == nil {
			rt.Topic = kmsg.StringPtr("")
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// autoCreateMax bounds the topics that one request makes.
const autoCreateMax = 100

// topicsToCreate lists the topics of a request that are to be made for it.
func (r *Request) topicsToCreate(req *kmsg.MetadataRequest) []string {
	allowed := r.Version < 4 || req.AllowAutoTopicCreation
	if !allowed || !r.Options().AutoCreateTopics {
		return nil
	}
	var names []string
	for i := range req.Topics {
		name := req.Topics[i].Topic
		if name != nil && len(names) < autoCreateMax && r.Image().Topic(*name) == nil &&
			core.CheckTopicName(*name) == "" && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	return names
}

// replyMetadata answers; made holds a code for each topic that was to be made.
func (r *Request) replyMetadata(req *kmsg.MetadataRequest, made map[string]int16) {
	im := r.Image()
	resp := kmsg.NewPtrMetadataResponse()
	for _, b := range im.Brokers {
		rb := kmsg.NewMetadataResponseBroker()
		rb.NodeID = int32(b.ID)
		rb.Host, rb.Port = r.BrokerAddr(b)
		if b.Rack != "" {
			rb.Rack = kmsg.StringPtr(b.Rack)
		}
		resp.Brokers = append(resp.Brokers, rb)
	}
	if im.ClusterID != "" {
		resp.ClusterID = kmsg.StringPtr(im.ClusterID)
	}
	resp.ControllerID = int32(im.Controller)
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	if all := req.Topics == nil || r.Version == 0 && len(req.Topics) == 0; all {
		topics := im.Topics()
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, len(topics))
		for _, t := range topics {
			resp.Topics = append(resp.Topics, describeTopic(im, t, req))
		}
		r.Reply(resp)
		return
	}
	seen := make(map[string]bool, len(req.Topics)) // names, or IDs
	for i := range req.Topics {
		in := &req.Topics[i]
		key := string(in.TopicID[:])
		if in.Topic != nil {
			key = *in.Topic
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		resp.Topics = append(resp.Topics, r.findTopic(im, in, req, made))
	}
	r.Reply(resp)
}

// findTopic answers for one topic of a request.
func (r *Request) findTopic(im *meta.Image, in *kmsg.MetadataRequestTopic, req *kmsg.MetadataRequest, made map[string]int16) kmsg.MetadataResponseTopic {
	var t *meta.Topic
	code := codeUnknownTopicOrPartition
	switch {
	case in.Topic == nil:
		t, code = im.TopicByID(in.TopicID), codeUnknownTopicID
	default:
		if t = im.Topic(*in.Topic); core.CheckTopicName(*in.Topic) != "" {
			code = codeInvalidTopic
		} else if c, ok := made[*in.Topic]; ok && c != codeTopicAlreadyExists {
			t, code = nil, c
		} else if ok {
			code = codeLeaderNotAvailable // made by another, and not applied here yet
		}
	}
	if t != nil {
		return describeTopic(im, t, req)
	}
	rt := kmsg.NewMetadataResponseTopic()
	rt.ErrorCode, rt.Topic, rt.TopicID = code, in.Topic, in.TopicID
	if in.Topic != nil {
		rt.TopicID = [16]byte{}
		if req.IncludeTopicAuthorizedOperations {
			rt.AuthorizedOperations = topicOperations
		}
	}
	return rt
}

func describeTopic(im *meta.Image, t *meta.Topic, req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	rt := kmsg.NewMetadataResponseTopic()
	rt.Topic, rt.TopicID, rt.IsInternal = kmsg.StringPtr(t.Name), t.ID, t.Internal
	if req.IncludeTopicAuthorizedOperations {
		rt.AuthorizedOperations = topicOperations
	}
	rt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		out := &rt.Partitions[i]
		*out = kmsg.NewMetadataResponseTopicPartition()
		leader, epoch := leaderOf(im, p)
		out.Partition, out.Leader, out.LeaderEpoch = p.Num, int32(leader), int32(epoch)
		if leader == core.NoNode {
			out.ErrorCode = codeLeaderNotAvailable
		}
		out.Replicas, out.ISR, out.OfflineReplicas = replicasOf(im, p)
	}
	return rt
}

// replicasOf splits a partition's replicas by whether their node is listed.
func replicasOf(im *meta.Image, p *meta.Partition) (all, live, offline []int32) {
	all = make([]int32, len(p.Replicas))
	for i, n := range p.Replicas {
		all[i] = int32(n)
		if brokerOf(im, n) != nil {
			live = append(live, int32(n))
		} else {
			offline = append(offline, int32(n))
		}
	}
	return all, live, offline
}
