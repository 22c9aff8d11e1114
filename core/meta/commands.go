package meta

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// ProducerIDBlockSize is how many producer IDs AllocateProducerIDs gives out
// at a time, as Kafka does.
const ProducerIDBlockSize = 1000

// AllocateProducerIDs is the Body of a command to the controller: it asks for
// a block of producer IDs that nobody has had. Command.Reply is then a
// ProducerIDBlock.
type AllocateProducerIDs struct{}

// ProducerIDBlock is the range [First, First+Count) of producer IDs.
type ProducerIDBlock struct {
	First int64
	Count int32
}

// RegisterBroker is the Body of a command to the controller: a node says, at
// every start, how clients reach it. Host, port and rack may have changed since
// the last time. Command.Reply is then an *Applied without a kmsg response.
type RegisterBroker struct{ Broker Broker }

// TopicsDeleted is the Body of a command to a group coordinator: these topics
// are gone, and so are the offsets committed for them. Command.Reply is then a
// TopicsDeletedReply.
type TopicsDeleted struct{ Names []string }

// TopicsDeletedReply says how many committed offsets were removed.
type TopicsDeletedReply struct{ Offsets int }

// Applied is the Reply of the controller to every command but
// AllocateProducerIDs.
type Applied struct {
	// Reply is the kmsg response of the request's version; nil for commands
	// that are not Kafka requests.
	Reply kmsg.Response
	// Version is the Image.Version in which the change is visible, to be waited
	// for with shard.Await. It is the current one where nothing was changed.
	Version uint64
	// NewPartitions are the partitions that the command made, to be waited for
	// until they have leaders.
	NewPartitions []core.PartitionID
}
