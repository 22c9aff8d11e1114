package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/shard"
)

// serveOffsetForLeaderEpoch tells where a leader epoch ended, so that a client
// finds where its log position was cut off (KIP-101, KIP-320).
func serveOffsetForLeaderEpoch(r *Request) {
	req := r.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	im := r.Image()
	type answer = kmsg.OffsetForLeaderEpochResponseTopicPartition
	var asks []partitionAsk[*shard.EpochEnd, answer]
	for i := range req.Topics {
		t := &req.Topics[i]
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]answer, len(t.Partitions))
		for k := range t.Partitions {
			in, out := &t.Partitions[k], &rt.Partitions[k]
			*out = kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			out.Partition, out.LeaderEpoch, out.EndOffset = in.Partition, -1, -1
			p := im.Partition(t.Topic, in.Partition)
			if p == nil {
				out.ErrorCode = codeUnknownTopicOrPartition
				continue
			}
			q := &shard.EpochEnd{Partition: p.ID, Epoch: in.LeaderEpoch, CurrentEpoch: in.CurrentLeaderEpoch}
			asks = append(asks, partitionAsk[*shard.EpochEnd, answer]{p.ID, q, out})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	askAll(r, asks, func(q *shard.EpochEnd, out *answer) {
		if out.ErrorCode = ErrorCode(q.Err); q.Err == nil && q.End.End >= 0 {
			out.LeaderEpoch, out.EndOffset = int32(q.End.Epoch), int64(q.End.End)
		}
	}, func() { r.Reply(resp) })
}
