package main

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"millrace/core"
	"millrace/net/admin"
	"millrace/net/kafka"
	"millrace/raftlog"
)

// statsWait bounds how long a scrape waits for the event loops.
const statsWait = time.Second

// collect fills in the metrics. Called from admin's goroutines.
func (b *broker) collect(e *admin.Emitter) {
	e.Set("millrace_build_info", 1, buildVersion(), runtime.Version())
	e.Set("millrace_uptime_seconds", time.Since(b.started).Seconds())
	e.Set("millrace_ready", truth(len(b.notReady()) == 0))
	b.collectRequests(e)
	b.collectStorage(e)
	if !b.ready.Load() {
		return // the loops do not run yet, or not any more
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsWait)
	defer cancel()
	b.collectLoops(ctx, e)
	b.collectGroups(ctx, e)
	if im := b.srv.Image(); im != nil {
		e.Set("millrace_topics", float64(im.TopicCount()))
		e.Set("millrace_partitions", float64(im.PartitionCount()))
		e.Set("millrace_brokers", float64(len(im.Brokers)))
		e.Set("millrace_metadata_version", float64(im.Version))
	}
}

func secondsOf(us []int64) []float64 {
	out := make([]float64, len(us))
	for i, v := range us {
		out[i] = float64(v) / 1e6
	}
	return out
}

func (b *broker) collectRequests(e *admin.Emitter) {
	bounds := secondsOf(kafka.LatencyBoundsUs[:])
	for _, a := range b.kafka.Stats() {
		e.SetHistogram("millrace_request_duration_seconds", bounds, a.Latency, float64(a.SumUs)/1e6, a.API)
		for name, n := range a.Errors {
			e.Set("millrace_request_errors_total", float64(n), a.API, name)
		}
	}
	parked, most, unparked := b.kafka.Parked()
	e.Set("millrace_fetch_parked_bytes", float64(parked))
	e.Set("millrace_fetch_parked_bytes_limit", float64(most))
	e.Set("millrace_fetch_unparked_total", float64(unparked))
	sessions := b.kafka.FetchSessions()
	e.Set("millrace_fetch_sessions", float64(sessions.Sessions))
	e.Set("millrace_fetch_session_bytes", float64(sessions.Bytes))
	e.Set("millrace_fetch_session_bytes_limit", float64(sessions.BytesMax))
	e.Set("millrace_fetch_sessions_lost_total", float64(sessions.Lost))
	malformed, unsupported := b.kafka.Refused()
	e.Set("millrace_requests_malformed_total", float64(malformed))
	e.Set("millrace_requests_unsupported_total", float64(unsupported))
}

func (b *broker) collectLoops(ctx context.Context, e *admin.Emitter) {
	ready, back := b.srv.MemoryAside()
	e.Set("millrace_payload_memory_aside_bytes", float64(ready), "ready")
	e.Set("millrace_payload_memory_aside_bytes", float64(back), "returning")
	for _, l := range b.srv.Stats(ctx) {
		id := strconv.Itoa(int(l.Shard))
		set := func(name string, v float64) { e.Set(name, v, id) }
		set("millrace_connections", float64(l.Connections))
		set("millrace_connections_opened_total", float64(l.Opened))
		set("millrace_received_bytes_total", float64(l.BytesIn))
		set("millrace_received_bytes_copied_total", float64(l.BytesCopied))
		set("millrace_sent_bytes_total", float64(l.BytesOut))
		set("millrace_sends_blocked_total", float64(l.BlockedSends))
		for reason, n := range l.Paused {
			e.Set("millrace_reads_paused_total", float64(n), id, reason)
		}
		set("millrace_request_bytes", float64(l.RequestBytes))
		set("millrace_request_bytes_limit", float64(l.RequestBytesMax))
		set("millrace_reply_bytes", float64(l.ReplyBytes))
		set("millrace_reply_bytes_limit", float64(l.ReplyBytesMax))
		set("millrace_connections_unread_total", float64(l.Unread))
		set("millrace_shard_turns_total", float64(l.Turns))
		set("millrace_shard_journal_turns_total", float64(l.JournalTurns))
		e.Set("millrace_payload_memory_bytes", float64(l.ArenaMapped), id, "mapped")
		e.Set("millrace_payload_memory_bytes", float64(l.ArenaLive), id, "live")
		set("millrace_payload_memory_bytes_limit", float64(l.ArenaBytesMax))
		set("millrace_payload_memory_full_total", float64(l.ArenaFull))
		set("millrace_shard_inflight_bytes_limit", float64(l.InflightBytesMax))
		set("millrace_shard_fetch_waiters_limit", float64(l.FetchWaitersMax))
		set("millrace_shard_producers_limit", float64(l.ShardProducersMax))
		if s := l.State; s != nil {
			set("millrace_shard_partitions", float64(s.Partitions))
			set("millrace_shard_leaders", float64(s.Leaders))
			set("millrace_shard_appends_total", float64(s.Appends))
			set("millrace_shard_appended_bytes_total", float64(s.AppendedBytes))
			set("millrace_shard_refused_total", float64(s.Refused))
			set("millrace_shard_elections_won_total", float64(s.Elections))
			set("millrace_shard_raft_warnings_total", float64(s.RaftWarnings))
			set("millrace_shard_peer_dropped_total", float64(s.PeerDropped))
			set("millrace_shard_inflight_bytes", float64(s.InflightBytes))
			set("millrace_shard_fetch_waiters", float64(s.FetchWaiters))
			set("millrace_shard_lookups_waiting", float64(s.Lookups))
			set("millrace_shard_producers", float64(s.Producers))
			set("millrace_shard_producers_dropped_total", float64(s.ProducersDropped))
			set("millrace_shard_reads_starved_total", float64(s.ReadsStarved))
			set("millrace_shard_reads_ahead_total", float64(s.ReadsAhead))
		}
	}
	r := b.srv.Refused()
	e.Set("millrace_connections_refused_total", float64(r.Max), "max.connections")
	e.Set("millrace_connections_refused_total", float64(r.PerIP), "max.connections.per.ip")
	e.Set("millrace_connections_refused_total", float64(r.Handshake), "handshake")
}

func (b *broker) collectStorage(e *admin.Emitter) {
	e.Set("millrace_disk_free_bytes", float64(b.diskFree.Load()))
	e.Set("millrace_disk_total_bytes", float64(b.diskTotal.Load()))
	e.Set("millrace_disk_reserve_bytes", float64(b.cfg.Int("disk.reserve.bytes")))
	e.Set("millrace_disk_low", truth(b.store.SpaceState() == raftlog.SpaceLow))
	e.Set("millrace_disk_direct_io", truth(b.dir.Direct()))

	d := &b.disk
	syncs := make([]uint64, len(d.syncs))
	for i := range d.syncs {
		syncs[i] = d.syncs[i].Load()
	}
	e.SetHistogram("millrace_disk_sync_duration_seconds", secondsOf(syncBoundsUs[:]), syncs, float64(d.syncUs.Load())/1e6)
	e.Set("millrace_disk_written_bytes_total", float64(d.writtenBytes.Load()))
	e.Set("millrace_disk_read_bytes_total", float64(d.readBytes.Load()))
	e.Set("millrace_disk_errors_total", float64(d.errors.Load()))

	j := b.store.Journal().Stats()
	e.Set("millrace_journal_files", float64(j.Files), "used")
	e.Set("millrace_journal_files", float64(j.Spares), "spare")
	e.Set("millrace_journal_files_limit", float64(b.cfg.Int("journal.files.max")))
	e.Set("millrace_journal_frames_total", float64(j.Commits))
	e.Set("millrace_journal_bytes_total", float64(j.Bytes))
	e.Set("millrace_direct_bytes_total", float64(j.Direct))
	e.Set("millrace_direct_unstaged_bytes_total", float64(j.Unstaged))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// notReady lists why clients cannot be served. Called from admin's goroutines.
func (b *broker) notReady() (why []string) {
	if !b.ready.Load() {
		return []string{"the broker is starting or stopping"}
	}
	im := b.srv.Image()
	switch {
	case im == nil || im.Controller == core.NoNode:
		why = append(why, "the cluster controller has no leader: topics cannot be changed")
	case !b.registered():
		why = append(why, "the metadata does not name this broker")
	}
	if b.broken.Load() {
		why = append(why, "the journal cannot be written: the process is about to stop, a restart recovers")
	}
	if b.store.SpaceState() == raftlog.SpaceLow {
		why = append(why, "the disk is nearly full: produce requests are refused until there is space (disk.reserve.bytes)")
	}
	return why
}
