package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// serveOffsetFetch reads committed offsets: of one group up to version 7, of
// several since (KIP-709), by topic ID since version 10.
func serveOffsetFetch(r *Request) {
	req := r.Body.(*kmsg.OffsetFetchRequest)
	leaveOutOffsets(req)
	if r.Version < 8 {
		r.toGroup(req.Group, func(code int16) kmsg.Response { return refuseOffsetFetch(req, code) })
		return
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(req.Groups))
	for i, g := range req.Groups {
		resp.Groups[i] = kmsg.NewOffsetFetchResponseGroup()
		resp.Groups[i].Group, resp.Groups[i].ErrorCode = g.Group, codeNotCoordinator
	}
	ask := func(s share) kmsg.Request {
		part := kmsg.NewPtrOffsetFetchRequest()
		part.RequireStable = req.RequireStable
		for _, i := range s.items {
			part.Groups = append(part.Groups, req.Groups[i])
		}
		return part
	}
	answer := func(s share, reply any, err error) {
		for k, i := range s.items {
			if err != nil {
				resp.Groups[i].ErrorCode = CoordinatorErrorCode(err)
				continue
			}
			resp.Groups[i] = reply.(*kmsg.OffsetFetchResponse).Groups[k]
		}
	}
	shares := r.sharesOf(len(req.Groups), func(i int) string { return req.Groups[i].Group })
	r.toCoordinators(shares, ask, answer, func() { r.Reply(resp) })
}

// leaveOutOffsets takes out what is named too often: groups, and partitions, whose
// offsets have metadata.
func leaveOutOffsets(req *kmsg.OffsetFetchRequest) {
	type partition struct {
		topic string
		id    [16]byte
		num   int32
	}
	named := make(mentions[partition])
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(num int32) bool { return named.tooMany(partition{topic: t.Topic, num: num}) })
	}
	groups := make(mentions[string])
	req.Groups = slices.DeleteFunc(req.Groups, func(g kmsg.OffsetFetchRequestGroup) bool { return groups.tooMany(g.Group) })
	for i := range req.Groups {
		clear(named)
		for k := range req.Groups[i].Topics {
			t := &req.Groups[i].Topics[k]
			t.Partitions = slices.DeleteFunc(t.Partitions, func(num int32) bool { return named.tooMany(partition{t.Topic, t.TopicID, num}) })
		}
	}
}

// refuseOffsetFetch is the answer of versions 1 to 7: the error stands at every
// partition, and since version 2 also at the top.
func refuseOffsetFetch(req *kmsg.OffsetFetchRequest, code int16) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.ErrorCode = code
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.ErrorCode = p, -1, -1, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
