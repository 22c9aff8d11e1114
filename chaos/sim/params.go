package sim

import (
	"fmt"
	"strconv"

	"millrace/core"
	"millrace/core/meta"
	"millrace/raftlog"
	"millrace/shard"
)

// Kind is what goes wrong in a history besides crashes.
type Kind uint8

const (
	// KindCrash: crashes of the process and power cuts alone.
	KindCrash Kind = iota
	// KindMemory: payload memory is so small, and producers are so fast, that
	// payloads are evicted all the time and often refused.
	KindMemory
	// KindFull: the device is full for some of the time.
	KindFull
	// KindEIO: reads, writes and syncs fail.
	KindEIO
	// KindFlip: stored bytes are damaged while the process is down.
	KindFlip
	kinds
)

func (k Kind) String() string { return [...]string{"crash", "memory", "full", "eio", "flip"}[k] }

// KindOf is the kind of a seed's history: crashes are in all of them.
func KindOf(seed uint64) Kind {
	return [...]Kind{KindCrash, KindFull, KindMemory, KindFlip, KindCrash, KindEIO, KindCrash, KindFull}[seed%8]
}

// params is what a seed decides at the beginning.
type params struct {
	kind         Kind
	duration     core.Tick // of the busy phase
	crashEvery   core.Tick // mean time between crashes
	shards       int
	sectorBytes  int
	direct       bool
	arenaBytes   int64
	cacheBytes   int64
	journalFile  int64
	frameBytes   int // 0: the default
	journalSpare int
	journalMax   int
	directBytes  int
	segmentBytes int64
	segmentMs    int64
	flushBytes   int64
	stall        float64
	slowCommit   float64 // of the journal's commits, which then begin late
	connLoss     float64 // of produce requests, whose connection breaks
	clockJumps   bool    // the wall clock is hours off at each start, and processes miss time
	misdirect    float64 // of writes, in flip histories
	topics       int
	lanes        int
	batches      int // of all lanes, about
	consumers    int
	groups       int
}

func (s *Sim) drawParams() params {
	r := s.rng
	pick := func(v ...int64) int64 { return v[r.IntN(len(v))] }
	p := params{
		kind:         KindOf(s.seed),
		duration:     core.Tick(pick(6, 10, 16, 25)) * core.Second,
		crashEvery:   core.Tick(pick(1500, 3000, 6000)) * core.Millisecond,
		shards:       1 + r.IntN(3),
		sectorBytes:  int(pick(512, 4096)),
		direct:       r.IntN(2) == 0,
		arenaBytes:   pick(2, 4, 8) << 20,
		cacheBytes:   []int64{1, 50_000, 1 << 30}[s.seed/2%3],
		journalFile:  pick(64, 128, 256) << 10,
		frameBytes:   []int{0, 2000, 12_000, 0}[s.seed/5%4],
		journalSpare: 1 + r.IntN(2),
		journalMax:   int(pick(3, 4, 8, 16)),
		directBytes:  int(pick(6, 16, 30, 64)) << 10,
		segmentBytes: pick(24, 64, 200) << 10,
		segmentMs:    pick(2000, 8000, 3600_000),
		flushBytes:   pick(8, 32, 100) << 10,
		topics:       1 + r.IntN(3),
		lanes:        2 + r.IntN(5),
		batches:      int(pick(150, 300, 600, 1200)),
		consumers:    1 + r.IntN(3),
		groups:       r.IntN(3),
	}
	if r.IntN(3) == 0 {
		p.stall = 0.01
	}
	if r.IntN(3) == 0 {
		p.slowCommit = []float64{0.01, 0.05}[r.IntN(2)]
	}
	if r.IntN(2) == 0 {
		p.connLoss = 0.03
	}
	p.clockJumps = r.IntN(4) == 0
	if p.kind == KindFlip && r.IntN(3) == 0 {
		p.misdirect = []float64{0.002, 0.01}[r.IntN(2)]
	}
	if p.kind == KindMemory {
		p.arenaBytes = pick(1, 1, 2, 3) << 20
		p.lanes += 3
		p.batches = int(pick(1500, 3000))
	}
	return p
}

func (p params) String() string {
	return fmt.Sprintf("%v %ds shards=%d sector=%d direct=%v arena=%dM cache=%d journal=%dKx%d/%d frame=%d directAt=%d segment=%dK/%dms flush=%dK topics=%d lanes=%d batches=%d consumers=%d groups=%d stall=%v slowCommit=%v connLoss=%v clockJumps=%v misdirect=%v",
		p.kind, p.duration/core.Second, p.shards, p.sectorBytes, p.direct, p.arenaBytes>>20, p.cacheBytes, p.journalFile>>10, p.journalSpare, p.journalMax, p.frameBytes,
		p.directBytes, p.segmentBytes>>10, p.segmentMs, p.flushBytes>>10, p.topics, p.lanes, p.batches, p.consumers, p.groups, p.stall, p.slowCommit, p.connLoss, p.clockJumps, p.misdirect)
}

// topicConfig makes a topic's settings small enough for everything to happen
// within a short history. segment.bytes and the like are read as given.
func (s *Sim) topicConfig(_ *meta.Image, t *meta.Topic) shard.TopicConfig {
	num := func(name string, unset int64) int64 {
		if v, err := strconv.ParseInt(t.Configs[name], 10, 64); err == nil {
			return v
		}
		return unset
	}
	retentionBytes := num("retention.bytes", -1)
	return shard.TopicConfig{
		Log: raftlog.LogConfig{
			SegmentBytes:   num("segment.bytes", s.p.segmentBytes),
			SegmentMs:      s.p.segmentMs,
			RetentionBytes: retentionBytes,
			RetentionMs:    num("retention.ms", -1),
			FlushBytesMax:  s.p.flushBytes,
			Delete:         !t.Internal,
		},
		MaxMessageBytes:      1 << 20,
		MinInsyncReplicas:    1,
		TimestampBeforeMaxMs: 1 << 50,
		TimestampAfterMaxMs:  1 << 50,
	}
}

var limits = shard.Limits{
	InflightBytesMax:     512 << 10,
	FetchWaitersMax:      64,
	ProducersMax:         64,
	ShardProducersMax:    256,
	ProducerExpirationMs: 24 * 3600 * 1000,
	JobsMax:              8,
}
