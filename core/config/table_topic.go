package config

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	longMax = "9223372036854775807"

	whyNoCompaction = "it steers log compaction, which is not served yet"
	whyNoRemote     = "it steers tiered storage, which is not served yet"
	whyNoCodec      = "batches are stored as the producer compressed them"
	whyAlwaysSynced = "every acknowledged record is already on stable storage"
)

func from(names ...string) []Source {
	out := make([]Source, len(names))
	for i, n := range names {
		out[i] = Source{Name: n, Scale: 1}
	}
	return out
}

// topicSettings are the topic configs of Kafka 4.4, all of them.
var topicSettings = []Setting{
	{Name: "cleanup.policy", Type: List, Default: "delete", Allowed: []string{"delete", "compact"}, Check: checkCleanup, From: from("log.cleanup.policy"),
		Text: "What happens to old segments: \"delete\" drops them by retention; empty keeps them for ever. \"compact\" is refused: log compaction is not served yet."},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", Min: -1, Max: 9, Check: checkGzipLevel, NoEffect: true, Why: whyNoCodec, Text: "Level of gzip when the broker compresses."},
	{Name: "compression.lz4.level", Type: Int, Default: "9", Min: 1, Max: 17, NoEffect: true, Why: whyNoCodec, Text: "Level of lz4 when the broker compresses."},
	{Name: "compression.type", Type: String, Default: "producer", Allowed: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, Only: "producer", Why: "the broker never recompresses; set compression on the producer", From: from("compression.type"),
		Text: "Codec of the stored batches: \"producer\" keeps what the producer chose."},
	{Name: "compression.zstd.level", Type: Int, Default: "3", Min: -131072, Max: 22, NoEffect: true, Why: whyNoCodec, Text: "Level of zstd when the broker compresses."},
	{Name: "delete.retention.ms", Type: Long, Unit: "ms", Default: "86400000", Min: 0, Max: anyMax, NoEffect: true, Why: whyNoCompaction, Text: "How long tombstones are kept in a compacted topic."},
	{Name: "errors.deadletterqueue.group.enable", Type: Bool, Default: "false", Only: "false", Why: "share groups and their dead-letter queues are not served yet", Text: "Whether the topic may be a share group's dead-letter queue."},
	{Name: "file.delete.delay.ms", Type: Long, Unit: "ms", Default: "60000", Min: 0, Max: anyMax, NoEffect: true, Why: "removed segments are deleted as soon as no read uses them", Text: "Delay before a removed segment's files are deleted."},
	{Name: "flush.messages", Type: Long, Default: longMax, Min: 1, Max: anyMax, NoEffect: true, Why: whyAlwaysSynced, Text: "Records after which the log is forced to disk."},
	{Name: "flush.ms", Type: Long, Unit: "ms", Default: longMax, Min: 0, Max: anyMax, NoEffect: true, Why: whyAlwaysSynced, Text: "Time after which the log is forced to disk."},
	{Name: "follower.replication.throttled.replicas", Type: List, Default: "", Check: checkThrottled, NoEffect: true, Why: "replication is not throttled by replica lists", Text: "Replicas whose follower traffic is throttled."},
	{Name: "index.interval.bytes", Type: Int, Unit: "bytes", Default: "4096", Min: 0, Max: anyMax, NoEffect: true, Why: "the index holds every batch", Text: "Bytes between two entries of the offset index."},
	{Name: "leader.replication.throttled.replicas", Type: List, Default: "", Check: checkThrottled, NoEffect: true, Why: "replication is not throttled by replica lists", Text: "Replicas whose leader traffic is throttled."},
	{Name: "local.retention.bytes", Type: Long, Unit: "bytes", Default: "-2", Min: -2, Max: anyMax, NoEffect: true, Why: whyNoRemote, Text: "Bytes kept locally when older segments are in tiered storage."},
	{Name: "local.retention.ms", Type: Long, Unit: "ms", Default: "-2", Min: -2, Max: anyMax, NoEffect: true, Why: whyNoRemote, Text: "Time kept locally when older segments are in tiered storage."},
	{Name: "max.compaction.lag.ms", Type: Long, Unit: "ms", Default: longMax, Min: 1, Max: anyMax, NoEffect: true, Why: whyNoCompaction, Text: "Longest time a record stays uncompacted."},
	{Name: "max.decompressed.message.bytes", Type: Int, Unit: "bytes", Default: "2147483639", Min: 0, Max: anyMax, NoEffect: true, Why: "the broker does not decompress batches", Text: "Largest size of a record after decompression."},
	{Name: "max.message.bytes", Type: Int, Unit: "bytes", Default: "1048588", Min: 0, Max: maxMessageBytes, From: from("message.max.bytes"),
		Text: "Largest record batch accepted, after compression."},
	{Name: "message.timestamp.after.max.ms", Type: Long, Unit: "ms", Default: "3600000", Min: 0, Max: anyMax, From: from("log.message.timestamp.after.max.ms"),
		Text: "How far a record's timestamp may be ahead of the broker's clock (CreateTime only)."},
	{Name: "message.timestamp.before.max.ms", Type: Long, Unit: "ms", Default: longMax, Min: 0, Max: anyMax, From: from("log.message.timestamp.before.max.ms"),
		Text: "How far a record's timestamp may be behind the broker's clock (CreateTime only)."},
	{Name: "message.timestamp.type", Type: String, Default: "CreateTime", Allowed: []string{"CreateTime", "LogAppendTime"}, From: from("log.message.timestamp.type"),
		Text: "Whether records keep the producer's timestamp or get the broker's."},
	{Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Min: 0, Max: 1, NoEffect: true, Why: whyNoCompaction, Text: "Uncompacted share of a log from which it is compacted."},
	{Name: "min.compaction.lag.ms", Type: Long, Unit: "ms", Default: "0", Min: 0, Max: anyMax, NoEffect: true, Why: whyNoCompaction, Text: "Shortest time a record stays uncompacted."},
	{Name: "min.insync.replicas", Type: Int, Default: "1", Min: 1, Max: anyMax, From: from("min.insync.replicas"),
		Text: "Replicas that must be in sync for acks=all, all where there are fewer; a majority of the replicas is always needed as well."},
	{Name: "preallocate", Type: Bool, Default: "false", NoEffect: true, Why: "journal files are always pre-written and segments never", Text: "Whether segment files are preallocated."},
	{Name: "remote.copy.lag.bytes", Type: Long, Unit: "bytes", Default: "-1", Min: -2, Max: anyMax, NoEffect: true, Why: whyNoRemote, Text: "Bytes that tiered storage may lag behind."},
	{Name: "remote.copy.lag.ms", Type: Long, Unit: "ms", Default: "0", Min: -2, Max: anyMax, NoEffect: true, Why: whyNoRemote, Text: "Time that tiered storage may lag behind."},
	{Name: "remote.log.copy.disable", Type: Bool, Default: "false", NoEffect: true, Why: whyNoRemote, Text: "Whether copying to tiered storage is stopped."},
	{Name: "remote.log.delete.on.disable", Type: Bool, Default: "false", NoEffect: true, Why: whyNoRemote, Text: "Whether tiered data is deleted when tiering is switched off."},
	{Name: "remote.storage.enable", Type: Bool, Default: "false", Only: "false", Why: "tiered storage is not served yet", Text: "Whether old segments move to tiered storage."},
	{Name: "retention.bytes", Type: Long, Unit: "bytes", Default: "-1", Min: anyMin, Max: anyMax, From: from("log.retention.bytes"),
		Text: "Bytes kept per partition; negative for no limit."},
	{Name: "retention.ms", Type: Long, Unit: "ms", Default: "604800000", Min: -1, Max: anyMax, From: from("log.retention.ms"),
		Text: "How long records are kept; -1 for ever."},
	{Name: "segment.bytes", Type: Int, Unit: "bytes", Default: "1073741824", Min: minSegmentBytes, Max: anyMax, From: from("log.segment.bytes"),
		Text: "Size at which a segment is closed; retention removes whole segments."},
	{Name: "segment.index.bytes", Type: Int, Unit: "bytes", Default: "10485760", Min: 4, Max: anyMax, NoEffect: true, Why: "the index grows as needed", Text: "Largest size of a segment's offset index."},
	{Name: "segment.jitter.ms", Type: Long, Unit: "ms", Default: "0", Min: 0, Max: anyMax, NoEffect: true, Why: "flushes of many partitions are paced in any case", Text: "Random part taken off segment.ms."},
	{Name: "segment.ms", Type: Long, Unit: "ms", Default: "604800000", Min: 1, Max: anyMax, From: from("log.roll.ms"),
		Text: "Age at which a segment is closed even if it is not full."},
	{Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Only: "false", Why: "a replica that lacks acknowledged records never leads", From: from("unclean.leader.election.enable"),
		Text: "Whether a replica that lacks acknowledged records may lead."},
}

// Limits shared by topic and broker settings.
const (
	// maxMessageBytes leaves room for a batch in one frame and one direct
	// write; producers of larger batches are refused.
	maxMessageBytes = 100 << 20
	minSegmentBytes = 1 << 20
)

func checkCleanup(value string) error {
	for _, e := range SplitList(value) {
		if e == "compact" {
			return errNoCompaction
		}
	}
	return nil
}

// checkGzipLevel refuses 0, which gzip has and Kafka does not.
func checkGzipLevel(value string) error {
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n == 0 {
		return fmt.Errorf("value %s is neither -1 nor in 1 to 9", value)
	}
	return nil
}

// checkThrottled wants "*" or PARTITION:BROKER elements.
func checkThrottled(value string) error {
	if strings.TrimSpace(value) == "*" {
		return nil
	}
	for _, e := range SplitList(value) {
		part, broker, ok := strings.Cut(e, ":")
		if !ok || !digits(part) || !digits(broker) {
			return fmt.Errorf("%q is neither \"*\" nor a list of PARTITION:BROKER", value)
		}
	}
	return nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

var errNoCompaction = refusal("\"compact\" is not served yet: use cleanup.policy=delete, with retention.ms=-1 to keep records for ever")

type refusal string

func (r refusal) Error() string { return string(r) }

func mib(n int) string { return strconv.Itoa(n << 20) }
