package listener

import (
	"context"

	"millrace/core"
	"millrace/shard"
)

// LoopStats is a copy of one loop's counters since the start, and of what it
// holds now with the bounds.
type LoopStats struct {
	Shard                                 core.ShardID
	Turns, JournalTurns, Requests         uint64
	BytesIn, BytesOut                     uint64
	BytesCopied                           uint64 // of BytesIn, those that were copied on their way from the kernel to a frame
	Opened, Closed                        uint64
	ArenaFull                             uint64 // times that payload memory was used up
	BlockedSends                          uint64 // replies that the kernel did not take at once
	Paused                                map[string]uint64
	Connections                           int64
	RequestBytes, RequestBytesMax         int64
	ReplyBytes, ReplyBytesMax             int64  // in the heap, not taken by clients yet
	Unread                                uint64 // connections closed because their client read nothing
	ArenaMapped, ArenaLive, ArenaBytesMax int64
	InflightBytesMax                      int64
	FetchWaitersMax, ShardProducersMax    int
	// State is the shard's own; nil when the loop did not answer in time.
	State *shard.Stats
}

// RefusedConnections counts the connections that were closed on arrival.
type RefusedConnections struct{ Max, PerIP, Handshake uint64 }

// Refused counts connections closed on arrival since the start. Any goroutine.
func (srv *Server) Refused() RefusedConnections {
	return RefusedConnections{srv.refuse.max.Load(), srv.refuse.perIP.Load(), srv.refuse.handshake.Load()}
}

// Stats copies the counters of all loops. What belongs to the shards is asked of
// the loops, for as long as ctx lasts. Any goroutine, between Start and Stop.
func (srv *Server) Stats(ctx context.Context) []LoopStats {
	out := make([]LoopStats, len(srv.loops))
	for i, l := range srv.loops {
		out[i] = l.counters()
		out[i].InflightBytesMax = srv.opts.Shard.Limits.InflightBytesMax
		out[i].FetchWaitersMax = srv.opts.Shard.Limits.FetchWaitersMax
		out[i].ShardProducersMax = srv.opts.Shard.Limits.ShardProducersMax
	}
	type answer struct {
		id    core.ShardID
		state shard.Stats
	}
	answers := make(chan answer, len(srv.loops))
	asked := 0
	for _, l := range srv.loops {
		if l.shardStats != nil && l.Post(func() { answers <- answer{l.id, l.shardStats()} }) {
			asked++
		}
	}
	for ; asked > 0; asked-- {
		select {
		case a := <-answers:
			out[a.id].State = &a.state
		case <-ctx.Done():
			return out
		}
	}
	return out
}

// MemoryAside is the bytes of payload memory that lie ready for all loops, and of those
// on their way back to the system. Any goroutine.
func (srv *Server) MemoryAside() (ready, returning int64) { return srv.pages.Stats() }

func (l *Loop) counters() LoopStats {
	s := &l.stats
	out := LoopStats{
		Shard: l.id,
		Turns: s.turns.Load(), JournalTurns: s.journalTurns.Load(), Requests: s.requests.Load(),
		BytesIn: s.bytesIn.Load(), BytesOut: s.bytesOut.Load(), BytesCopied: s.bytesCopied.Load(),
		Opened: s.opened.Load(), Closed: s.closed.Load(),
		ArenaFull: s.arenaFull.Load(), BlockedSends: s.blockedSends.Load(),
		Connections:  s.connections.Load(),
		RequestBytes: l.budget.UsedBytes() + l.overtaking.UsedBytes(), RequestBytesMax: l.budget.LimitBytes() + l.overtaking.LimitBytes(),
		ReplyBytes: s.replyBytes.Load(), ReplyBytesMax: l.replies.max, Unread: s.unread.Load(),
		ArenaBytesMax: l.arena.LimitBytes(),
		Paused:        make(map[string]uint64, pauseReasons-1),
	}
	out.ArenaMapped, out.ArenaLive = l.arena.Stats()
	for r := notPaused + 1; r < pauseReasons; r++ {
		out.Paused[pauseNames[r]] = s.paused[r].Load()
	}
	return out
}
