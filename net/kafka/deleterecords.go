package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

// serveDeleteRecords moves the log start of partitions (KIP-107). Each is
// answered when its move is committed, or with REQUEST_TIMED_OUT at the
// request's timeout, when it may still happen.
func serveDeleteRecords(r *Request) {
	req := r.Body.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	im := r.Image()
	type answer = kmsg.DeleteRecordsResponseTopicPartition
	var asks []partitionAsk[*shard.DeleteRecords, answer]
	for i := range req.Topics {
		t := &req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		rt.Partitions = make([]answer, len(t.Partitions))
		for k := range t.Partitions {
			in, out := &t.Partitions[k], &rt.Partitions[k]
			*out = kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition, out.LowWatermark = in.Partition, -1
			topic := im.Topic(t.Topic)
			p := im.Partition(t.Topic, in.Partition)
			switch {
			case p == nil:
				out.ErrorCode = codeUnknownTopicOrPartition
			case topic.Internal:
				out.ErrorCode = codeInvalidTopic // the log of a state machine is its own to trim
			case in.Offset < -1:
				out.ErrorCode = codeOffsetOutOfRange
			default:
				q := &shard.DeleteRecords{Partition: p.ID, Offset: core.Offset(in.Offset)}
				asks = append(asks, partitionAsk[*shard.DeleteRecords, answer]{p.ID, q, out})
				out.ErrorCode = codeRequestTimedOut // until it is answered
			}
		}
		resp.Topics = append(resp.Topics, rt)
	}
	done := false
	reply := func() {
		if !done {
			done = true
			r.Reply(resp)
		}
	}
	var timer Timer
	if len(asks) > 0 && req.TimeoutMillis > 0 {
		timer = r.After(r.Now()+core.Tick(req.TimeoutMillis)*core.Millisecond, reply)
	}
	askAll(r, asks, func(q *shard.DeleteRecords, out *answer) {
		if done {
			return
		}
		if out.ErrorCode = ErrorCode(q.Err); q.Err == nil {
			out.LowWatermark = int64(q.LogStart)
		}
	}, func() {
		if timer != nil {
			timer.Stop()
		}
		reply()
	})
}
