package config

const (
	grpNode    = "Node and storage"
	grpNet     = "Network"
	grpTLS     = "TLS"
	grpTopics  = "Topics and their defaults"
	grpGroups  = "Consumer groups and offsets"
	grpLimits  = "Memory and limits"
	grpPrivate = "Process"
)

// brokerSettings are the settings of `millrace serve`. Kafka's names wherever
// Kafka has the setting.
var brokerSettings = []Setting{
	// Node and storage.
	{Group: grpNode, Name: "node.id", Type: Int, Default: "1", Min: 1, Max: maxInt, Text: "Number of this broker; written into the data directory at its first start."},
	{Group: grpNode, Name: "broker.rack", Type: String, Unset: true, Text: "Rack of this broker, as clients see it."},
	{Group: grpNode, Name: "data.dir", Type: String, Default: "data", Check: notEmpty, Text: "Directory of journal and segments."},
	{Group: grpNode, Name: "disk.reserve.bytes", Type: Long, Unit: "bytes", Default: mib(256), Min: 1, Max: anyMax, Text: "Free space below which produce requests are refused, or a little above it where the next journal file would not fit beside it; deletes, retention and the broker's own topics go on."},
	{Group: grpNode, Name: "journal.file.bytes", Type: Long, Unit: "bytes", Default: mib(64), Min: 1 << 20, Max: 1 << 30, Check: multipleOf4096, Text: "Size of one journal file, a multiple of 4096."},
	{Group: grpNode, Name: "journal.spare.files", Type: Int, Default: "1", Min: 1, Max: 64, Text: "Pre-written journal files kept ready."},
	{Group: grpNode, Name: "journal.files.max", Type: Int, Default: "16", Min: 2, Max: 1024, Text: "Journal files in use above which data is written to segments to free the oldest."},
	{Group: grpNode, Name: "journal.direct.bytes", Type: Int, Unit: "bytes", Default: "524288", Min: 4096, Max: maxInt, Text: "A partition's bytes in one turn from which they are written straight to its segment, with a reference in the journal."},
	{Group: grpNode, Name: "journal.flush.bytes", Type: Long, Unit: "bytes", Default: mib(16), Min: 1 << 16, Max: anyMax, Text: "A partition's bytes held by the journal alone after which they are written to its segment."},

	// Network.
	{Group: grpNet, Name: "listeners", Type: List, Default: "PLAINTEXT://127.0.0.1:9092", Check: checkListeners, Text: "Where the broker listens: NAME://HOST:PORT, more than one separated by commas. Port 0 takes a free one; an empty host means all addresses."},
	{Group: grpNet, Name: "advertised.listeners", Type: List, Unset: true, Check: checkListeners, Text: "What clients are told to connect to, by listener name; the listeners themselves where unset."},
	{Group: grpNet, Name: "listener.security.protocol.map", Type: List, Default: "PLAINTEXT:PLAINTEXT,SSL:SSL", Check: checkProtocolMap, Text: "Security protocol of each listener name: PLAINTEXT or SSL."},
	{Group: grpNet, Name: "max.connections", Type: Int, Default: "100000", Min: 1, Max: maxInt, Text: "Most client connections at a time; more are closed at once."},
	{Group: grpNet, Name: "max.connections.per.ip", Type: Int, Default: "2147483647", Min: 1, Max: maxInt, Text: "Most client connections of one address at a time."},
	{Group: grpNet, Name: "connections.max.idle.ms", Type: Long, Unit: "ms", Default: "600000", Min: 1000, Max: anyMax, Text: "Connections without a request for this long are closed."},
	{Group: grpNet, Name: "socket.request.max.bytes", Type: Int, Unit: "bytes", Default: "104857600", Min: 1 << 16, Max: 1 << 30, Text: "Largest request; a larger one closes its connection."},
	{Group: grpNet, Name: "admin.listen", Type: String, Default: "127.0.0.1:9644", Check: checkHostPort, Text: "HOST:PORT of /metrics, /healthz, /readyz and /debug/pprof; \"off\" for none."},
	{Group: grpNet, Name: "shard.count", Type: Int, Default: "0", Min: 0, Max: 1024, Text: "Number of event loops; 0 takes one less than there are cores, and at least one."},
	{Group: grpNet, Name: "shard.pin", Type: String, Default: "auto", Allowed: []string{"auto", "on", "off"}, Text: "Whether each event loop is bound to a core; auto binds when the machine has more cores than shards plus two."},

	// TLS.
	{Group: grpTLS, Name: "ssl.certificate.file", Type: String, Unset: true, Text: "PEM file with the broker's certificate and its chain; read again when it changes."},
	{Group: grpTLS, Name: "ssl.key.file", Type: String, Unset: true, Text: "PEM file with the certificate's private key; read again when it changes."},
	{Group: grpTLS, Name: "ssl.truststore.file", Type: String, Unset: true, Text: "PEM file with the certificate authorities that client certificates are checked against."},
	{Group: grpTLS, Name: "ssl.client.auth", Type: String, Default: "none", Allowed: []string{"none", "requested", "required"}, Text: "Whether clients must present a certificate."},

	// Topics.
	{Group: grpTopics, Name: "auto.create.topics.enable", Type: Bool, Default: "true", Text: "Whether a Metadata request that allows it creates topics that do not exist."},
	{Group: grpTopics, Name: "delete.topic.enable", Type: Bool, Default: "true", Text: "Whether topics can be deleted."},
	{Group: grpTopics, Name: "num.partitions", Type: Int, Default: "1", Min: 1, Max: 10000, Text: "Partitions of a new topic where the request leaves it open."},
	{Group: grpTopics, Name: "default.replication.factor", Type: Int, Default: "1", Min: 1, Max: 32767, Text: "Replicas of a new topic where the request leaves it open."},
	{Group: grpTopics, Name: "log.cleanup.policy", Type: List, Default: "delete", Allowed: []string{"delete", "compact"}, Check: checkCleanup, Dynamic: true, Text: "Default of cleanup.policy."},
	{Group: grpTopics, Name: "compression.type", Type: String, Default: "producer", Allowed: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, Only: "producer", Why: "the broker never recompresses; set compression on the producer", Dynamic: true, Text: "Default of the topic setting of this name."},
	{Group: grpTopics, Name: "log.retention.ms", Type: Long, Unit: "ms", Unset: true, Min: -1, Max: anyMax, Dynamic: true, From: []Source{{"log.retention.minutes", 60_000}, {"log.retention.hours", 3_600_000}}, Text: "Default of retention.ms; log.retention.minutes and then log.retention.hours apply where unset."},
	{Group: grpTopics, Name: "log.retention.minutes", Type: Int, Unit: "min", Unset: true, Min: -1, Max: maxInt, Text: "Default of retention.ms in minutes."},
	{Group: grpTopics, Name: "log.retention.hours", Type: Int, Unit: "h", Default: "168", Min: -1, Max: maxInt, Text: "Default of retention.ms in hours."},
	{Group: grpTopics, Name: "log.retention.bytes", Type: Long, Unit: "bytes", Default: "-1", Min: anyMin, Max: anyMax, Dynamic: true, Text: "Default of retention.bytes."},
	{Group: grpTopics, Name: "log.segment.bytes", Type: Int, Unit: "bytes", Default: "1073741824", Min: minSegmentBytes, Max: anyMax, Dynamic: true, Text: "Default of segment.bytes."},
	{Group: grpTopics, Name: "log.roll.ms", Type: Long, Unit: "ms", Unset: true, Min: 1, Max: anyMax, Dynamic: true, From: []Source{{"log.roll.hours", 3_600_000}}, Text: "Default of segment.ms; log.roll.hours applies where unset."},
	{Group: grpTopics, Name: "log.roll.hours", Type: Int, Unit: "h", Default: "168", Min: 1, Max: maxInt, Text: "Default of segment.ms in hours."},
	{Group: grpTopics, Name: "log.message.timestamp.type", Type: String, Default: "CreateTime", Allowed: []string{"CreateTime", "LogAppendTime"}, Dynamic: true, Text: "Default of message.timestamp.type."},
	{Group: grpTopics, Name: "log.message.timestamp.before.max.ms", Type: Long, Unit: "ms", Default: longMax, Min: 0, Max: anyMax, Dynamic: true, Text: "Default of message.timestamp.before.max.ms."},
	{Group: grpTopics, Name: "log.message.timestamp.after.max.ms", Type: Long, Unit: "ms", Default: "3600000", Min: 0, Max: anyMax, Dynamic: true, Text: "Default of message.timestamp.after.max.ms."},
	{Group: grpTopics, Name: "message.max.bytes", Type: Int, Unit: "bytes", Default: "1048588", Min: 0, Max: maxMessageBytes, Dynamic: true, Text: "Default of max.message.bytes."},
	{Group: grpTopics, Name: "min.insync.replicas", Type: Int, Default: "1", Min: 1, Max: anyMax, Dynamic: true, Text: "Default of the topic setting of this name."},
	{Group: grpTopics, Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Only: "false", Why: "a replica that lacks acknowledged records never leads", Dynamic: true, Text: "Default of the topic setting of this name."},
	{Group: grpTopics, Name: "partitions.max", Type: Int, Default: "200000", Min: 1, Max: maxInt, Text: "Most partitions of the cluster."},

	// Groups.
	{Group: grpGroups, Name: "offsets.topic.num.partitions", Type: Int, Default: "50", Min: 1, Max: 1000, Text: "Partitions of __consumer_offsets when it is made; groups are spread over them."},
	{Group: grpGroups, Name: "offsets.retention.minutes", Type: Int, Unit: "min", Default: "10080", Min: 1, Max: maxInt, Text: "How long committed offsets are kept after their group is empty."},
	{Group: grpGroups, Name: "offsets.retention.check.interval.ms", Type: Long, Unit: "ms", Default: "600000", Min: 1, Max: anyMax, Text: "How often expired offsets are looked for."},
	{Group: grpGroups, Name: "offset.metadata.max.bytes", Type: Int, Unit: "bytes", Default: "4096", Min: 0, Max: 1<<15 - 1, Text: "Largest metadata text of a committed offset."},
	{Group: grpGroups, Name: "group.min.session.timeout.ms", Type: Int, Unit: "ms", Default: "6000", Min: 1, Max: maxInt, Text: "Shortest session timeout that a group member may ask for."},
	{Group: grpGroups, Name: "group.max.session.timeout.ms", Type: Int, Unit: "ms", Default: "1800000", Min: 1, Max: maxInt, Text: "Longest session timeout that a group member may ask for."},
	{Group: grpGroups, Name: "group.initial.rebalance.delay.ms", Type: Int, Unit: "ms", Default: "3000", Min: 0, Max: maxInt, Text: "How long the first rebalance of an empty group waits for more members."},
	{Group: grpGroups, Name: "group.max.size", Type: Int, Default: "10000", Min: 1, Max: maxInt, Text: "Most members of one group."},
	{Group: grpGroups, Name: "groups.memory.bytes", Type: Long, Unit: "bytes", Default: mib(256), Min: 1 << 20, Max: anyMax, Text: "Memory, about, of all groups that the broker coordinates: members with their metadata and assignments, committed offsets with theirs. Beyond it new groups are refused with COORDINATOR_NOT_AVAILABLE, members with GROUP_MAX_SIZE_REACHED, offsets with INVALID_COMMIT_OFFSET_SIZE."},
	{Group: grpGroups, Name: "groups.max", Type: Int, Default: "100000", Min: 1, Max: maxInt, Text: "Most groups of one partition of __consumer_offsets."},

	// Memory and limits.
	{Group: grpLimits, Name: "memory.payload.bytes", Type: Long, Unit: "bytes", Default: mib(512), Min: 32 << 20, Max: anyMax, Text: "Payload memory of all shards outside the Go heap: requests in flight and the newest records of each partition."},
	{Group: grpLimits, Name: "memory.cache.bytes", Type: Long, Unit: "bytes", Default: mib(128), Min: 1 << 20, Max: anyMax, Text: "The part of memory.payload.bytes that records keep which are in segments already, for consumers at the end of the log; an eighth of it when little is written. What is not in a segment yet stays in memory beyond it."},
	{Group: grpLimits, Name: "memory.heap.bytes", Type: Long, Unit: "bytes", Default: mib(1024), Min: 64 << 20, Max: anyMax, Text: "Soft limit of the Go heap; the environment variable GOMEMLIMIT has precedence."},
	{Group: grpLimits, Name: "memory.inflight.bytes", Type: Long, Unit: "bytes", Default: mib(128), Min: 4 << 20, Max: anyMax, Text: "Produced bytes of all shards that are not on stable storage yet; beyond it produce requests are answered with a retriable error."},
	{Group: grpLimits, Name: "queued.max.request.bytes", Type: Long, Unit: "bytes", Default: mib(128), Min: 1 << 20, Max: anyMax, Text: "Bytes of requests being worked on; beyond it sockets are not read, and a request that came at less than 16 KiB/s for two seconds loses its connection."},
	{Group: grpLimits, Name: "queued.max.reply.bytes", Type: Long, Unit: "bytes", Default: mib(64), Min: 1 << 20, Max: anyMax, Text: "Bytes of answers in the heap that clients have not read, records of fetches apart; beyond it a client that has such answers is not served, and its connection is closed when it reads nothing for two seconds."},
	{Group: grpLimits, Name: "fetch.max.bytes", Type: Int, Unit: "bytes", Default: "57671680", Min: 1024, Max: maxInt, Text: "Largest answer to one fetch."},
	{Group: grpLimits, Name: "fetch.waiters.max", Type: Int, Default: "100000", Min: 1, Max: maxInt, Text: "Fetches that may wait for records, per shard; more are answered at once."},
	{Group: grpLimits, Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", Min: 0, Max: maxInt, Text: "Fetch sessions kept."},
	{Group: grpLimits, Name: "fetch.sessions.memory.bytes", Type: Long, Unit: "bytes", Default: mib(64), Min: 1 << 20, Max: anyMax, Text: "Memory of all fetch sessions, about; beyond it idle ones are dropped, and where none is idle clients fetch without a session."},
	{Group: grpLimits, Name: "producer.id.expiration.ms", Type: Int, Unit: "ms", Default: "86400000", Min: 1, Max: maxInt, Text: "How long the state of an idle idempotent producer is kept."},
	{Group: grpLimits, Name: "producers.max", Type: Int, Default: "10000", Min: 1, Max: maxInt, Text: "Idempotent producers remembered per partition; the longest idle one is dropped for a new one."},
	{Group: grpLimits, Name: "producers.node.max", Type: Int, Default: "500000", Min: 1, Max: maxInt, Text: "Idempotent producers remembered on all partitions of the node, about 350 bytes each, and ten for each partition in any case; for more, the partition that has the most forgets some of those that have been idle longest."},
	{Group: grpLimits, Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Min: 1, Max: maxInt, Text: "Most partitions in one answer to DescribeTopicPartitions."},
	{Group: grpLimits, Name: "io.threads", Type: Int, Default: "4", Min: 2, Max: 256, Text: "Threads that read history and write segments."},
	{Group: grpLimits, Name: "io.jobs.max", Type: Int, Default: "64", Min: 1, Max: 4096, Text: "Disk reads and flushes in flight, per shard."},

	// Process.
	{Group: grpPrivate, Name: "log.level", Type: String, Default: "info", Allowed: []string{"debug", "info", "warn", "error"}, Text: "Least severe messages that are logged."},
	{Group: grpPrivate, Name: "shutdown.timeout.ms", Type: Long, Unit: "ms", Default: "10000", Min: 100, Max: 600_000, Text: "How long a stop waits for requests that are under way."},
}
