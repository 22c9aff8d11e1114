package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"millrace/coordinator/controller"
	"millrace/coordinator/group"
	"millrace/core"
	"millrace/core/config"
	"millrace/core/meta"
	"millrace/net/kafka"
	"millrace/net/listener"
	"millrace/raftlog"
	"millrace/shard"
)

// offsetsTopic is the internal topic of group coordinators.
const offsetsTopic = group.OffsetsTopic

// internalSegmentBytes is the segment size of the broker's own topics, which
// their coordinators keep short by rewriting.
const (
	internalSegmentBytes = 16 << 20
	internalSegmentMs    = 7 * 24 * 3600 * 1000
)

// limitMemory tells the collector what the settings and the environment ask:
// the variables GOGC and GOMEMLIMIT have precedence.
func limitMemory(cfg *config.Config) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.Int("memory.heap.bytes"))
	}
}

// live are the settings with the dynamic ones of the newest metadata.
type live struct {
	base *config.Config
	node core.NodeID
	// Atomic; a cache of the newest combination.
	last atomic.Pointer[combined]
}

type combined struct {
	image *meta.Image
	cfg   *config.Config
}

// at combines the static settings with the dynamic ones of im, which may be nil.
func (l *live) at(im *meta.Image) *config.Config {
	if im == nil {
		return l.base
	}
	if c := l.last.Load(); c != nil && c.image == im {
		return c.cfg
	}
	c := &combined{im, l.base.With(im.ClusterConfigs, im.BrokerConfigs[l.node])}
	l.last.Store(c)
	return c.cfg
}

// topicConfig is what shards need of a topic's settings; t is nil for the
// metadata partition.
func (l *live) topicConfig(im *meta.Image, t *meta.Topic) shard.TopicConfig {
	cfg := l.at(im)
	flush := cfg.Int("journal.flush.bytes")
	if t == nil || t.Internal {
		return shard.TopicConfig{
			Log: raftlog.LogConfig{
				SegmentBytes: internalSegmentBytes, SegmentMs: internalSegmentMs,
				RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: flush,
			},
			MaxMessageBytes: math.MaxInt32, MinInsyncReplicas: 1,
			TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64,
		}
	}
	num := func(name string) int64 { return cfg.TopicInt(t.Configs, name) }
	return shard.TopicConfig{
		Log: raftlog.LogConfig{
			SegmentBytes:   num("segment.bytes"),
			SegmentMs:      num("segment.ms"),
			RetentionBytes: num("retention.bytes"),
			RetentionMs:    num("retention.ms"),
			FlushBytesMax:  flush,
			Delete:         slices.Contains(cfg.TopicList(t.Configs, "cleanup.policy"), "delete"),
		},
		MaxMessageBytes:      int32(num("max.message.bytes")),
		MinInsyncReplicas:    int32(num("min.insync.replicas")),
		LogAppendTime:        cfg.TopicText(t.Configs, "message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs: num("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:  num("message.timestamp.after.max.ms"),
	}
}

// topicEntries are a topic's effective settings for the CreateTopics response.
func (l *live) topicEntries(im *meta.Image, t *meta.Topic) []controller.ConfigEntry {
	all := l.at(im).DescribeTopic(t.Configs)
	out := make([]controller.ConfigEntry, 0, len(all))
	for _, e := range all {
		c := controller.ConfigEntry{Name: e.Setting.Name, Source: int8(e.Origin), Sensitive: e.Setting.Sensitive}
		if e.Set && !e.Setting.Sensitive {
			c.Value = &e.Value
			if e.Origin == config.FromTopic {
				c.Value = &e.Given // as it was sent, in Kafka too
			}
		}
		out = append(out, c)
	}
	return out
}

func shardCount(cfg *config.Config) int {
	if n := int(cfg.Int("shard.count")); n > 0 {
		return n
	}
	return max(1, runtime.NumCPU()-1)
}

func storeOptions(cfg *config.Config, instance uint64, logf func(string, ...any)) raftlog.Options {
	return raftlog.Options{
		NodeID:           core.NodeID(cfg.Int("node.id")),
		ShardCount:       shardCount(cfg),
		JournalFileBytes: cfg.Int("journal.file.bytes"),
		JournalFilesMax:  int(cfg.Int("journal.files.max")),
		JournalSpare:     int(cfg.Int("journal.spare.files")),
		DirectBytes:      int(cfg.Int("journal.direct.bytes")),
		CacheBytes:       cfg.Int("memory.cache.bytes") / int64(shardCount(cfg)),
		ReserveBytes:     cfg.Int("disk.reserve.bytes"),
		InstanceID:       instance,
		Logf:             logf,
	}
}

func shardLimits(cfg *config.Config) shard.Limits {
	return shard.Limits{
		InflightBytesMax:     cfg.Int("memory.inflight.bytes") / int64(shardCount(cfg)),
		FetchWaitersMax:      int(cfg.Int("fetch.waiters.max")),
		ProducersMax:         int(cfg.Int("producers.max")),
		ShardProducersMax:    max(int(cfg.Int("producers.node.max"))/shardCount(cfg), 1),
		ProducerExpirationMs: cfg.Int("producer.id.expiration.ms"),
		JobsMax:              int(cfg.Int("io.jobs.max")),
	}
}

func controllerOptions(cfg *config.Config, l *live, seed uint64) controller.Options {
	return controller.Options{
		Node:               l.node,
		Seed:               seed,
		DefaultPartitions:  int32(cfg.Int("num.partitions")),
		DefaultReplication: int16(cfg.Int("default.replication.factor")),
		PartitionsMax:      int(cfg.Int("partitions.max")),
		ValidateTopic: func(topic, name, value string) error {
			if controller.IsInternal(topic) {
				return config.ValidateInternalTopic(name, value)
			}
			return config.ValidateTopic(name, value)
		},
		ValidateBroker: func(name, value string, _ bool) error { return config.ValidateBroker(name, value) },
		ListDefault: func(broker bool, name string) (string, bool) {
			if broker {
				return config.ListDefault(config.Broker, name)
			}
			return config.ListDefault(config.Topic, name)
		},
		TopicConfigs: l.topicEntries,
	}
}

func groupConfig(cfg *config.Config) group.Config {
	c := group.DefaultConfig()
	c.InitialRebalanceDelayMs = cfg.Int("group.initial.rebalance.delay.ms")
	c.MinSessionTimeoutMs = int32(cfg.Int("group.min.session.timeout.ms"))
	c.MaxSessionTimeoutMs = int32(cfg.Int("group.max.session.timeout.ms"))
	c.GroupSizeMax = int(cfg.Int("group.max.size"))
	c.MetadataBytesMax = int(cfg.Int("offset.metadata.max.bytes"))
	c.OffsetsRetentionMs = cfg.Int("offsets.retention.minutes") * 60_000
	c.ExpiryIntervalMs = cfg.Int("offsets.retention.check.interval.ms")
	c.GroupsMax = int(cfg.Int("groups.max"))
	return c
}

func kafkaOptions(cfg *config.Config, logf func(string, ...any)) kafka.Options {
	return kafka.Options{
		Node:                          core.NodeID(cfg.Int("node.id")),
		AutoCreateTopics:              cfg.Bool("auto.create.topics.enable"),
		NumPartitions:                 int32(cfg.Int("num.partitions")),
		DefaultReplicationFactor:      int16(cfg.Int("default.replication.factor")),
		OffsetsTopicPartitions:        int32(cfg.Int("offsets.topic.num.partitions")),
		OffsetsTopicReplicationFactor: 1,
		FetchMaxBytes:                 int32(cfg.Int("fetch.max.bytes")),
		FetchSessionBytesMax:          cfg.Int("fetch.sessions.memory.bytes"),
		FetchSessionsMax:              int(cfg.Int("max.incremental.fetch.session.cache.slots")),
		PartitionsPerDescribeMax:      int32(cfg.Int("max.request.partition.size.limit")),
		ParkedBytesMax:                cfg.Int("queued.max.request.bytes"),
		ProducerIDBlock:               meta.ProducerIDBlockSize,
		Logf:                          logf,
	}
}

func listenerOptions(cfg *config.Config, logf func(string, ...any)) listener.Options {
	o := listener.DefaultOptions()
	o.Shards = shardCount(cfg)
	o.Pin = listener.Pin(cfg.Text("shard.pin"))
	o.ConnectionsMax = int(cfg.Int("max.connections"))
	o.ConnectionsPerIPMax = int(cfg.Int("max.connections.per.ip"))
	o.RequestBytesMax = int32(cfg.Int("socket.request.max.bytes"))
	o.NodeBytesMax = cfg.Int("queued.max.request.bytes")
	o.ShardBytesMax = cfg.Int("queued.max.request.bytes")
	o.ReplyBytesMax = cfg.Int("queued.max.reply.bytes")
	o.ArenaBytes = cfg.Int("memory.payload.bytes") / int64(o.Shards)
	o.IdleMax = time.Duration(cfg.Int("connections.max.idle.ms")) * time.Millisecond
	o.IOWorkers = int(cfg.Int("io.threads"))
	o.Logf = logf
	for _, l := range cfg.Listeners() {
		x := listener.Listen{Name: l.Name, Host: l.Host, Port: l.Port}
		if l.TLS {
			x.Protocol = listener.SSL
			x.TLS = &listener.TLSFiles{
				Certificate: cfg.Text("ssl.certificate.file"), Key: cfg.Text("ssl.key.file"),
				ClientCAs: cfg.Text("ssl.truststore.file"), ClientAuth: cfg.Text("ssl.client.auth"),
				CheckEvery: certificateCheckEvery,
			}
		}
		o.Listens = append(o.Listens, x)
	}
	return o
}

// certificateCheckEvery is how often certificate files are looked at.
const certificateCheckEvery = 5 * time.Second
