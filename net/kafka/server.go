package kafka

import (
	"sync"
	"sync/atomic"

	"millrace/core"
	"millrace/core/config"
)

// Options are the settings of the data plane's handlers, as values.
type Options struct {
	Node core.NodeID

	// Topics.
	AutoCreateTopics         bool  // auto.create.topics.enable
	NumPartitions            int32 // num.partitions
	DefaultReplicationFactor int16 // default.replication.factor

	// Internal topics.
	OffsetsTopicPartitions        int32 // offsets.topic.num.partitions
	OffsetsTopicReplicationFactor int16 // offsets.topic.replication.factor

	// Fetch.
	FetchMaxBytes    int32 // fetch.max.bytes
	FetchSessionsMax int   // max.incremental.fetch.session.cache.slots, per node
	// FetchSessionBytesMax is fetch.sessions.memory.bytes, per node.
	FetchSessionBytesMax int64
	// PartitionsPerDescribeMax is max.request.partition.size.limit.
	PartitionsPerDescribeMax int32

	// ParkedBytesMax bounds what the fetches that wait keep in memory, of the node.
	ParkedBytesMax int64

	// ProducerIDBlock is how many producer ids a loop asks the controller for.
	ProducerIDBlock int32

	// Config are the broker's settings with the dynamic ones as they are now.
	Config func() *config.Config
	// Advertised tells how clients of a listener reach this node. Where it does
	// not know the listener, the node's registration counts.
	Advertised func(listener string) (Endpoint, bool)
	// DataDir is the absolute path of the data directory, and DiskSpace what is
	// free for clients' data on its device and the size of it, without blocking.
	DataDir   string
	DiskSpace func() (free, total int64)

	Logf func(format string, args ...any)
}

// Endpoint is a host and a port.
type Endpoint struct {
	Host string
	Port int32
}

// Server is what the Workers of all loops share.
type Server struct {
	// Immutable.
	opts  Options
	table apiTable

	// Atomic; read by metrics.
	stats serverStats

	mu struct {
		sync.Mutex
		workers []*Worker // grows at the start only
	}
}

type serverStats struct {
	malformed   atomic.Uint64 // requests whose bytes could not be decoded
	unsupported atomic.Uint64 // unknown keys and versions
}

// NewServer makes the part that all loops share.
func NewServer(opts Options) *Server {
	return &Server{opts: opts, table: newTable(apis())}
}

// Worker serves the requests of one loop's connections. All of it is owned by
// that loop.
type Worker struct {
	server *Server
	loop   Loop
	stats  []apiStats // by row of the table; atomic, read by metrics
	// Atomic; read by metrics.
	parked   atomic.Int64  // bytes that waiting fetches keep
	unparked atomic.Uint64 // fetches that were answered at once since there were too many

	// Owned by the loop.
	sessions  *fetchSessionCache
	producers producerIDs
	scratch   []byte // for what is encoded and not kept
}

// NewWorker makes the Worker of a loop.
func (s *Server) NewWorker(l Loop) *Worker {
	w := &Worker{server: s, loop: l, stats: make([]apiStats, len(s.table.rows))}
	w.sessions = newFetchSessions(s.opts.FetchSessionsMax/max(l.Shards(), 1), s.opts.FetchSessionBytesMax/int64(max(l.Shards(), 1)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.workers = append(s.mu.workers, w)
	return w
}
