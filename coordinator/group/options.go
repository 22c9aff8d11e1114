package group

import (
	"millrace/core/budget"
	"millrace/core/meta"
)

// OffsetsTopic is the internal topic whose partitions are coordinators.
const OffsetsTopic = "__consumer_offsets"

// Options make a Machine.
type Options struct {
	// Partition is the number of the partition of __consumer_offsets.
	Partition int32
	// Seed feeds the member IDs, together with term and time. A deployment
	// draws it at random once per process.
	Seed uint64
	// Image is the metadata that this node sees, for the names behind topic IDs
	// and for the existence of the partitions that offsets are committed for.
	// It may return nil before there is any.
	Image func() *meta.Image
	// Memory bounds what all machines of a node hold, about; new groups are refused
	// beyond it with COORDINATOR_NOT_AVAILABLE, members with GROUP_MAX_SIZE_REACHED,
	// offsets with INVALID_COMMIT_OFFSET_SIZE. nil: DefaultMemoryBytes for this one
	// alone.
	Memory *budget.Budget
	Config
}

// DefaultMemoryBytes is the bound of all machines of a node.
const DefaultMemoryBytes = 256 << 20

// Config holds the settings of a coordinator; times are milliseconds. A bound
// (...Max, RewriteBytesMin) or ExpiryIntervalMs below 1 is DefaultConfig's.
type Config struct {
	InitialRebalanceDelayMs int64 // group.initial.rebalance.delay.ms
	MinSessionTimeoutMs     int32 // group.min.session.timeout.ms
	MaxSessionTimeoutMs     int32 // group.max.session.timeout.ms
	GroupSizeMax            int   // group.max.size
	MetadataBytesMax        int   // offset.metadata.max.bytes
	OffsetsRetentionMs      int64 // offsets.retention.minutes
	ExpiryIntervalMs        int64 // offsets.retention.check.interval.ms
	// GroupsMax bounds the groups of this partition, those that exist only as
	// committed offsets included. More are refused with
	// COORDINATOR_NOT_AVAILABLE.
	GroupsMax int
	// MembersMax bounds the members of all groups of this partition, those that
	// were only given an ID included; more are refused with
	// GROUP_MAX_SIZE_REACHED.
	MembersMax int
	// GroupOffsetsMax bounds the committed offsets of one group, LiveBytesMax the
	// log records of all groups that are not superseded; more are refused with
	// INVALID_COMMIT_OFFSET_SIZE.
	GroupOffsetsMax int
	LiveBytesMax    int64
	// GroupBytesMax bounds the member metadata and assignments of one group,
	// MemberBytesMax those of all; a member beyond it is refused with
	// GROUP_MAX_SIZE_REACHED.
	GroupBytesMax  int
	MemberBytesMax int
	// RewriteBytesMin is the size of the log below which it is never rewritten.
	RewriteBytesMin int64
}

// DefaultConfig is Kafka's default for what Kafka has.
func DefaultConfig() Config {
	return Config{
		InitialRebalanceDelayMs: 3000,
		MinSessionTimeoutMs:     6000,
		MaxSessionTimeoutMs:     1800000,
		GroupSizeMax:            1<<31 - 1,
		MetadataBytesMax:        4096,
		OffsetsRetentionMs:      7 * 24 * 3600 * 1000,
		ExpiryIntervalMs:        600000,
		GroupsMax:               100_000,
		MembersMax:              100_000,
		GroupOffsetsMax:         100_000,
		LiveBytesMax:            512 << 20,
		GroupBytesMax:           8 << 20,
		MemberBytesMax:          256 << 20,
		RewriteBytesMin:         4 << 20,
	}
}

func (c *Config) fillBounds() {
	d := DefaultConfig()
	orDefault(&c.GroupSizeMax, d.GroupSizeMax)
	orDefault(&c.MetadataBytesMax, d.MetadataBytesMax)
	c.MetadataBytesMax = min(c.MetadataBytesMax, textBytesMax)
	orDefault(&c.ExpiryIntervalMs, d.ExpiryIntervalMs)
	orDefault(&c.GroupsMax, d.GroupsMax)
	orDefault(&c.MembersMax, d.MembersMax)
	orDefault(&c.GroupOffsetsMax, d.GroupOffsetsMax)
	orDefault(&c.LiveBytesMax, d.LiveBytesMax)
	orDefault(&c.GroupBytesMax, d.GroupBytesMax)
	orDefault(&c.MemberBytesMax, d.MemberBytesMax)
	orDefault(&c.RewriteBytesMin, d.RewriteBytesMin)
}

func orDefault[T int | int64](v *T, d T) {
	if *v < 1 {
		*v = d
	}
}
