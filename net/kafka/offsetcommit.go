package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveOffsetCommit stores offsets of a group; by topic ID since version 10
// (KIP-848).
func serveOffsetCommit(r *Request) {
	req := r.Body.(*kmsg.OffsetCommitRequest)
	r.toGroup(req.Group, func(code int16) kmsg.Response { return refuseOffsetCommit(req, code) })
}

func refuseOffsetCommit(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range req.Topics {
		if len(t.Partitions) == 0 {
			continue
		}
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
