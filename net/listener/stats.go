package listener

import "sync/atomic"

// loopStats are a loop's counters: written by the loop, read by metrics.
type loopStats struct {
	turns        atomic.Uint64
	journalTurns atomic.Uint64
	arenaFull    atomic.Uint64
	requests     atomic.Uint64
	bytesIn      atomic.Uint64
	bytesOut     atomic.Uint64
	bytesCopied  atomic.Uint64 // of requests, from gnet's buffer or the spill
	opened       atomic.Uint64
	closed       atomic.Uint64
	paused       [pauseReasons]atomic.Uint64
	blockedSends atomic.Uint64
	connections  atomic.Int64
	replyBytes   atomic.Int64  // in the heap, not taken by clients yet
	unread       atomic.Uint64 // connections closed because their client read nothing
}
