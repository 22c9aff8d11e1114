package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// deleteTopics answers DeleteTopics, by name (up to v5 a list of names) or by ID.
func (c *Controller) deleteTopics(ch *change, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	topics := req.Topics
	if req.Version <= 5 {
		topics = nil
		for _, name := range req.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &name
			topics = append(topics, t)
		}
	}
	named, answered := make(map[string]int), make(map[string]bool)
	ways := make(map[core.TopicID]map[bool]bool) // by what a topic is named: its name or its ID
	for _, t := range topics {
		named[topicKey(t)]++
		if found := topicNamed(ch.image(), t); found != nil {
			if ways[found.ID] == nil {
				ways[found.ID] = make(map[bool]bool)
			}
			ways[found.ID][t.Topic != nil] = true
		}
	}
	for _, t := range topics {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		var found *meta.Topic
		var no *refusal
		switch byName, byID := t.Topic != nil, t.TopicID != (core.TopicID{}); {
		case byName && byID:
			no = refuse(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
		case !byName && !byID:
			no = refuse(kerr.InvalidRequest, "Neither topic name nor id were specified.")
		case named[topicKey(t)] > 1:
			if answered[topicKey(t)] {
				continue
			}
			answered[topicKey(t)] = true
			no = refuse(kerr.InvalidRequest, "Duplicate topic name.")
			if byID {
				no.text = "Duplicate topic id."
			}
		case byName:
			if found = ch.image().Topic(*t.Topic); found == nil {
				no = refuse(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
			}
		default:
			if found = ch.image().TopicByID(t.TopicID); found == nil {
				no = refuse(kerr.UnknownTopicID, "This server does not host this topic ID.")
			}
		}
		if found != nil {
			out.Topic, out.TopicID = &found.Name, found.ID
			if len(ways[found.ID]) > 1 {
				if answered[found.Name] {
					continue
				}
				answered[found.Name] = true
				no = refuse(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
			} else {
				no = c.deleteTopic(ch, found)
			}
		}
		if no != nil {
			out.ErrorCode, out.ErrorMessage = no.code, &no.text
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// topicNamed finds the topic that a request names in one way, not in both.
func topicNamed(im *meta.Image, t kmsg.DeleteTopicsRequestTopic) *meta.Topic {
	switch byID := t.TopicID != (core.TopicID{}); {
	case t.Topic != nil && !byID:
		return im.Topic(*t.Topic)
	case t.Topic == nil && byID:
		return im.TopicByID(t.TopicID)
	}
	return nil
}

// topicKey tells the topics of a request apart: no name has a zero byte.
func topicKey(t kmsg.DeleteTopicsRequestTopic) string {
	if t.Topic != nil {
		return *t.Topic
	}
	return "\x00" + string(t.TopicID[:])
}

func (c *Controller) deleteTopic(ch *change, t *meta.Topic) *refusal {
	r := encodeTopicDeleted(t.ID)
	if !ch.fits([]core.Record{r}) {
		return refuse(kerr.PolicyViolation, "The request is too large: delete topic '%s' in a request of its own.", t.Name)
	}
	ch.put(r)
	return nil
}

// createPartitions answers CreatePartitions.
func (c *Controller) createPartitions(ch *change, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	named := make(map[string]int)
	for _, t := range req.Topics {
		named[t.Topic]++
	}
	tooMany := c.growsBeyond(ch, req, named)
	seen := make(map[string]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		if seen[t.Topic] {
			continue
		}
		seen[t.Topic] = true
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		var no *refusal
		switch {
		case tooMany:
			no = refuse(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
		case named[t.Topic] > 1:
			no = refuse(kerr.InvalidRequest, "Duplicate topic name.")
		default:
			no = c.growTopic(ch, t, req.ValidateOnly)
		}
		if no != nil {
			out.ErrorCode = no.code
			if no.text != "" {
				out.ErrorMessage = &no.text
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// growsBeyond says whether a request would make more partitions than one request
// may, which refuses all of it.
func (c *Controller) growsBeyond(ch *change, req *kmsg.CreatePartitionsRequest, named map[string]int) bool {
	total := int64(len(ch.newPartitions))
	for _, t := range req.Topics {
		if topic := ch.image().Topic(t.Topic); topic != nil && named[t.Topic] == 1 {
			total += max(0, int64(t.Count)-int64(len(topic.Partitions)))
		}
	}
	return total > requestPartitionsMax
}

func (c *Controller) growTopic(ch *change, req *kmsg.CreatePartitionsRequestTopic, validateOnly bool) *refusal {
	t := ch.image().Topic(req.Topic)
	if t == nil {
		return &refusal{code: kerr.UnknownTopicOrPartition.Code}
	}
	have := len(t.Partitions)
	switch n := int(req.Count); {
	case n == have:
		return refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case n < have:
		return refuse(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, have, n)
	}
	replicas, no := placeMore(ch, req, t)
	if no != nil {
		return no
	}
	grown := *t
	added, no := c.newPartitions(ch, have, replicas)
	if no != nil {
		return no
	}
	grown.Partitions = append(slices.Clip(t.Partitions), added...)
	r := encodeTopic(&grown)
	if !ch.fits([]core.Record{r}) {
		return refuse(kerr.PolicyViolation, "The request is too large: change topic '%s' in a request of its own.", t.Name)
	}
	if !validateOnly {
		ch.claimPartitions(added)
		ch.put(r)
	}
	return nil
}

// placeMore finds replicas for the partitions that are to be added to t.
func placeMore(ch *change, req *kmsg.CreatePartitionsRequestTopic, t *meta.Topic) ([][]core.NodeID, *refusal) {
	more, rf := int(req.Count)-len(t.Partitions), len(t.Partitions[0].Replicas)
	if req.Assignment == nil {
		return spread(ch, more, rf)
	}
	if len(req.Assignment) != more {
		return nil, refuse(kerr.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(req.Assignment))
	}
	out := make([][]core.NodeID, more)
	for i, a := range req.Assignment {
		var no *refusal
		if out[i], no = checkReplicas(ch.image(), a.Replicas, rf); no != nil {
			return nil, no
		}
	}
	return out, nil
}
