package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

// serveDescribeProducers lists the idempotent producers that a partition
// remembers (KIP-664).
func serveDescribeProducers(r *Request) {
	req := r.Body.(*kmsg.DescribeProducersRequest)
	resp := kmsg.NewPtrDescribeProducersResponse()
	im := r.Image()
	type answer = kmsg.DescribeProducersResponseTopicPartition
	var asks []partitionAsk[*shard.Describe, answer]
	type partition struct {
		topic string
		num   int32
	}
	named := make(mentions[partition])
	for i := range req.Topics {
		t := &req.Topics[i]
		t.Partitions = slices.DeleteFunc(t.Partitions, func(num int32) bool { return named.tooMany(partition{t.Topic, num}) })
		badName := core.CheckTopicName(t.Topic) != ""
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]answer, len(t.Partitions))
		for k, num := range t.Partitions {
			out := &rt.Partitions[k]
			*out = kmsg.NewDescribeProducersResponseTopicPartition()
			out.Partition = num
			p := im.Partition(t.Topic, num)
			if p == nil {
				out.ErrorCode, out.ErrorMessage = codeUnknownTopicOrPartition, kmsg.StringPtr("this broker has no such partition")
				if badName {
					out.ErrorCode, out.ErrorMessage = codeInvalidTopic, kmsg.StringPtr("the topic's name is invalid")
				}
				continue
			}
			q := &shard.Describe{Partition: p.ID, Producers: true}
			asks = append(asks, partitionAsk[*shard.Describe, answer]{p.ID, q, out})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	askAll(r, asks, func(q *shard.Describe, out *answer) {
		if q.Err != nil {
			out.ErrorCode, out.ErrorMessage = ErrorCode(q.Err), kmsg.StringPtr(q.Err.Error())
			return
		}
		for _, a := range q.Active {
			p := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			p.ProducerID, p.ProducerEpoch = a.ID, int32(a.Epoch)
			p.LastSequence, p.LastTimestamp = a.LastSequence, a.LastTimestamp
			p.CoordinatorEpoch, p.CurrentTxnStartOffset = a.CoordinatorEp, int64(a.TxnStart)
			out.ActiveProducers = append(out.ActiveProducers, p)
		}
	}, func() { r.Reply(resp) })
}
