package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

// TestPartitionsThatAreNotServedAnswerAsKafkas holds what Kafka's ReplicaManager
// answers: NOT_LEADER_OR_FOLLOWER where it does not lead, for whatever reason, and
// KAFKA_STORAGE_ERROR where the log's directory is offline.
func TestPartitionsThatAreNotServedAnswerAsKafkas(t *testing.T) {
	listOffsets := kmsg.NewPtrListOffsetsRequest()
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic = "t"
	lp := kmsg.NewListOffsetsRequestTopicPartition()
	lp.Timestamp, lp.CurrentLeaderEpoch = -1, -1
	lt.Partitions = append(lt.Partitions, lp)
	listOffsets.Topics = append(listOffsets.Topics, lt)
	epochEnd := kmsg.NewPtrOffsetForLeaderEpochRequest()
	et := kmsg.NewOffsetForLeaderEpochRequestTopic()
	et.Topic = "t"
	et.Partitions = append(et.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
	epochEnd.Topics = append(epochEnd.Topics, et)

	code := func(resp kmsg.Response) int16 {
		switch r := resp.(type) {
		case *kmsg.ProduceResponse:
			return r.Topics[0].Partitions[0].ErrorCode
		case *kmsg.FetchResponse:
			return r.Topics[0].Partitions[0].ErrorCode
		case *kmsg.ListOffsetsResponse:
			return r.Topics[0].Partitions[0].ErrorCode
		case *kmsg.OffsetForLeaderEpochResponse:
			return r.Topics[0].Partitions[0].ErrorCode
		case *kmsg.DeleteRecordsResponse:
			return r.Topics[0].Partitions[0].ErrorCode
		}
		t.Fatalf("an answer of type %T", resp)
		return 0
	}
	for _, c := range []struct {
		err  error
		want int16
	}{{core.ErrNoLeader, codeNotLeaderOrFollower}, {core.ErrNotLeader, codeNotLeaderOrFollower}, {core.ErrStorageFailed, codeStorageError}} {
		for _, q := range []struct {
			req      kmsg.Request
			min, max int16
		}{
			{produceRequest("t", -1, producePartition{0, testBatch(1, "x")}), 3, 13},
			{fetchRequest("t", 0, -1, fetchPart{0, 0}), 4, 18},
			{listOffsets, 1, 11},
			{epochEnd, 2, 4},
			{deleteRecords(fetchPart{0, 1}), 0, 2},
		} {
			for v := q.min; v <= q.max; v++ {
				f := newFixture(t)
				f.loop.answer = func(_ core.ShardID, r shard.Request) bool {
					err := fmt.Errorf("%w: because of this test", c.err)
					if fetch, ok := r.(*shard.Fetch); ok {
						fetch.Parts[0].Err, fetch.AtOnce = err, true
					} else {
						r.Base().Err = err
					}
					return true
				}
				if got := code(f.ask(q.req, v)); got != c.want {
					t.Errorf("%s version %d: %v is answered with error %d, want %d", kmsg.NameForKey(q.req.Key()), v, c.err, got, c.want)
				}
			}
		}
	}
}

func TestAControllerThatResignsIsLookedForAgain(t *testing.T) {
	for _, err := range []error{core.ErrNoLeader, core.ErrNotLeader, core.ErrNotCoordinator, core.ErrShuttingDown} {
		if got := ControllerErrorCode(fmt.Errorf("%w: the journal failed", err)); got != codeNotController {
			t.Errorf("%v is answered with error %d, want %d", err, got, codeNotController)
		}
	}
}
