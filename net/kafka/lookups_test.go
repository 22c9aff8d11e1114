package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

func TestListOffsetsSpecialTimestampsHaveAVersion(t *testing.T) {
	for timestamp, lowest := range map[int64]int16{-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99, 0: 1, 12345: 1} {
		for v := int16(1); v <= 11; v++ {
			f := newFixture(t)
			f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
				lo := q.(*shard.ListOffset)
				if lo.Timestamp != timestamp {
					t.Errorf("the shard was asked for %d", lo.Timestamp)
				}
				lo.Offset, lo.FoundTimeMs, lo.LeaderEpoch = 11, 22, 3
				return true
			}
			req := kmsg.NewPtrListOffsetsRequest()
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = "t"
			for _, num := range []int32{0, 9} {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp, p.CurrentLeaderEpoch = num, timestamp, -1
				rt.Partitions = append(rt.Partitions, p)
			}
			req.Topics = append(req.Topics, rt)
			ps := f.ask(req, v).(*kmsg.ListOffsetsResponse).Topics[0].Partitions
			want, wantOther := int16(0), codeUnknownTopicOrPartition
			if v < lowest {
				want, wantOther = codeUnsupportedVersion, codeUnsupportedVersion
			}
			if ps[0].ErrorCode != want || ps[1].ErrorCode != wantOther {
				t.Errorf("timestamp %d version %d: errors %d and %d", timestamp, v, ps[0].ErrorCode, ps[1].ErrorCode)
			}
			if want == 0 && (ps[0].Offset != 11 || ps[0].Timestamp != 22 || v >= 4 && ps[0].LeaderEpoch != 3) {
				t.Errorf("timestamp %d version %d: %+v", timestamp, v, ps[0])
			}
			if ps[1].Offset != -1 || ps[1].Timestamp != -1 {
				t.Errorf("timestamp %d version %d: an error with %+v", timestamp, v, ps[1])
			}
		}
	}
}

// TestListOffsetsLooksUpOnceWhatIsAskedAgain answers everything, each like the first.
func TestListOffsetsLooksUpOnceWhatIsAskedAgain(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		lo := q.(*shard.ListOffset)
		place, _ := f.loop.image.Locate(lo.Partition)
		lo.Offset, lo.FoundTimeMs = core.Offset(lo.Timestamp*10+int64(place.Num)), lo.Timestamp
		return true
	}
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "t"
	for i := range 60 {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = int32(i%2), int64(i%3), -1
		rt.Partitions = append(rt.Partitions, p)
	}
	req.Topics = append(req.Topics, rt, rt)
	for _, at := range f.ask(req, 7).(*kmsg.ListOffsetsResponse).Topics {
		for i, p := range at.Partitions {
			if p.Partition != int32(i%2) || p.Timestamp != int64(i%3) || p.Offset != int64(i%3*10+i%2) || p.ErrorCode != 0 {
				t.Fatalf("number %d: %+v", i, p)
			}
		}
	}
	if n := len(f.loop.submitted); n != 6 {
		t.Errorf("%d lookups, want 6", n)
	}
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	for v := int16(2); v <= 4; v++ {
		f := newFixture(t)
		f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
			e := q.(*shard.EpochEnd)
			switch place, _ := f.loop.image.Locate(e.Partition); place.Num {
			case 0:
				e.End = shard.EpochEndOffset{Epoch: 2, End: 50}
			case 1:
				e.Err = core.ErrFencedEpoch
			case 2:
				e.End = shard.EpochEndOffset{End: -1}
			}
			return true
		}
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
		rt.Topic = "t"
		for _, num := range []int32{0, 1, 2, 8} {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch = num, 2, -1
			rt.Partitions = append(rt.Partitions, p)
		}
		req.Topics = append(req.Topics, rt)
		got := ""
		for _, p := range f.ask(req, v).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions {
			got += fmt.Sprintf("[%d e%d epoch %d end %d]", p.Partition, p.ErrorCode, p.LeaderEpoch, p.EndOffset)
		}
		if want := "[0 e0 epoch 2 end 50][1 e74 epoch -1 end -1][2 e0 epoch -1 end -1][8 e3 epoch -1 end -1]"; got != want {
			t.Errorf("version %d: %s, want %s", v, got, want)
		}
	}
}

func deleteRecords(parts ...fetchPart) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 1000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = "t"
	for _, p := range parts {
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = p.num, p.offset
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func TestDeleteRecordsAnswersWhenAllAreMoved(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		d := q.(*shard.DeleteRecords)
		if d.LogStart = d.Offset; d.Offset < 0 {
			d.LogStart = 99
		}
		if d.Offset > 100 {
			d.Err = core.ErrOffsetOutOfRange
		}
		return true
	}
	got := ""
	for _, p := range f.ask(deleteRecords(fetchPart{0, 5}, fetchPart{1, -1}, fetchPart{2, 500}, fetchPart{3, -2}, fetchPart{8, 1}), 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions {
		got += fmt.Sprintf("[%d e%d low %d]", p.Partition, p.ErrorCode, p.LowWatermark)
	}
	if want := "[0 e0 low 5][1 e0 low 99][2 e1 low -1][3 e1 low -1][8 e3 low -1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDeleteRecordsAnswersAtItsTimeout(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(core.ShardID, shard.Request) bool { return false }
	req := deleteRecords(fetchPart{0, 5})
	place := f.serve(frameBytes(req, 2))
	f.loop.run()
	f.loop.advance(1100 * core.Millisecond)
	p := f.response(place, req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	if p.ErrorCode != codeRequestTimedOut || p.LowWatermark != -1 {
		t.Errorf("answered %+v", p)
	}
	late := f.loop.held[0]
	late.Base().Owner.(Continuation).Resume(late)
}

func TestDescribeProducers(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		d := q.(*shard.Describe)
		if !d.Producers {
			t.Error("producers are not asked for")
		}
		d.Active = []shard.ActiveProducer{{ID: 7, Epoch: 2, LastSequence: 30, LastTimestamp: 40, TxnStart: -1, CoordinatorEp: -1}}
		return true
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0, 9}
	req.Topics = append(req.Topics, rt)
	ps := f.ask(req, 0).(*kmsg.DescribeProducersResponse).Topics[0].Partitions
	if len(ps[0].ActiveProducers) != 1 || ps[0].ActiveProducers[0].ProducerID != 7 || ps[0].ActiveProducers[0].LastSequence != 30 || ps[1].ErrorCode != codeUnknownTopicOrPartition {
		t.Errorf("answered %+v", ps)
	}
}
