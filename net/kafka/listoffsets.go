package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

// lowestListOffsetsVersion gives the version from which a special timestamp may
// be asked for: -3 max timestamp (KIP-734), -4 earliest local (KIP-405), -5
// latest tiered (KIP-1005), -6 earliest pending upload (KIP-1023).
func lowestListOffsetsVersion(timestamp int64) int16 {
	switch timestamp {
	case -3:
		return 7
	case -4:
		return 8
	case -5:
		return 9
	case -6:
		return 11
	}
	return 0
}

// offsetAsk is what the answer for a partition depends on.
type offsetAsk struct {
	id        core.PartitionID
	timestamp int64
	epoch     int32
}

// serveListOffsets finds offsets by timestamp. What is asked again and again is looked
// up once.
func serveListOffsets(r *Request) {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	im := r.Image()
	var asks []partitionAsk[*shard.ListOffset, kmsg.ListOffsetsResponseTopicPartition]
	var again [][2]*kmsg.ListOffsetsResponseTopicPartition // which is answered like which
	asked := make(map[offsetAsk]*kmsg.ListOffsetsResponseTopicPartition)
	for i := range req.Topics {
		t := &req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		for k := range t.Partitions {
			in, out := &t.Partitions[k], &rt.Partitions[k]
			*out = kmsg.NewListOffsetsResponseTopicPartition()
			out.Partition = in.Partition
			p := im.Partition(t.Topic, in.Partition)
			ask := offsetAsk{timestamp: in.Timestamp, epoch: in.CurrentLeaderEpoch}
			if p != nil {
				ask.id = p.ID
			}
			switch {
			case r.Version < lowestListOffsetsVersion(in.Timestamp) || in.Timestamp < -6:
				out.ErrorCode = codeUnsupportedVersion
			case p == nil:
				out.ErrorCode = codeUnknownTopicOrPartition
			case asked[ask] != nil:
				again = append(again, [2]*kmsg.ListOffsetsResponseTopicPartition{out, asked[ask]})
			default:
				asked[ask] = out
				q := &shard.ListOffset{
					Partition: p.ID, Timestamp: in.Timestamp, CurrentEpoch: in.CurrentLeaderEpoch,
					ReadCommitted: req.IsolationLevel == 1,
				}
				asks = append(asks, partitionAsk[*shard.ListOffset, kmsg.ListOffsetsResponseTopicPartition]{p.ID, q, out})
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	askAll(r, asks, func(q *shard.ListOffset, out *kmsg.ListOffsetsResponseTopicPartition) {
		if out.ErrorCode = ErrorCode(q.Err); q.Err == nil {
			out.Offset, out.Timestamp, out.LeaderEpoch = int64(q.Offset), q.FoundTimeMs, q.LeaderEpoch
		}
	}, func() {
		for _, of := range again {
			*of[0] = *of[1]
		}
		r.Reply(resp)
	})
}
