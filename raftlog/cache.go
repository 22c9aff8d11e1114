package raftlog

import (
	"millrace/core"
	"millrace/core/arena"
)

// payloadCache is the payloads in memory of all logs of a shard. They have to be
// there until they are durable, are worth keeping until they are in segments, which
// saves flushes the reading, and serve readers at the tail after that.
type payloadCache struct {
	refs     fifo[cacheRef] // oldest first; some may be gone already
	count    int            // of payloads that logs refer to
	bytes    int64          // of these
	appended int64          // bytes since windowAt
	windowAt core.Tick
}

// cacheRef names a payload in memory.
type cacheRef struct {
	id    core.PartitionID
	index core.Index
}

// A shard that has appended little for cacheWindow keeps idleCacheShare of what it
// may keep: nobody asks for memory back from a broker that does nothing.
const (
	cacheWindow    = 10 * core.Second
	idleCacheShare = 8
	// cacheWindows is how many windows' appends a shard keeps at least.
	cacheWindows = 4
)

// staleRefsMax is how many refs may name payloads that are gone before these are
// looked for, beside as many as there are payloads.
const staleRefsMax = 1024

// cached notes a payload in memory.
func (s *LogSet) cached(id core.PartitionID, i core.Index, n int) {
	c := &s.cache
	if c.refs.len() > 2*c.count+staleRefsMax {
		live := fifo[cacheRef]{}
		for k := range c.refs.len() {
			if ref := *c.refs.at(k); s.refersTo(ref) != nil {
				live.push(ref)
			}
		}
		c.refs = live
	}
	c.refs.push(cacheRef{id, i})
	c.count++
	c.bytes += int64(n)
	c.appended += int64(n)
}

// refersTo is the log that has the payload in memory; nil if it is gone.
func (s *LogSet) refersTo(ref cacheRef) *Log {
	if l := s.logs[ref.id]; l != nil && ref.index >= l.bufBase && ref.index <= l.last {
		return l
	}
	return nil
}

// oldestCached finds the log and index of the oldest payload; nil if there is none.
func (s *LogSet) oldestCached() (*Log, core.Index) {
	for s.cache.refs.len() > 0 {
		ref := *s.cache.refs.at(0)
		if l := s.refersTo(ref); l != nil {
			return l, ref.index
		}
		s.cache.refs.popFront(1)
	}
	return nil, 0
}

// Evict drops payloads from memory, oldest first and one at least, until a has room for
// n more bytes; their entries stay readable from journal or segment. Some lie in other
// arenas, those of the loops that they came in by: to look for a's would cost a walk
// through all. It returns false when everything left is still being written.
func (s *LogSet) Evict(a *arena.Arena, n int) bool {
	need := (int64(n) + arena.ChunkBytes - 1) &^ (arena.ChunkBytes - 1)
	for {
		l, i := s.oldestCached()
		if l == nil || i > min(l.durable, l.collected) {
			return false
		}
		if l.dropBufs(i + 1); a.Room() >= need {
			return true
		}
	}
}

// keepCached drops payloads, oldest first, that are more than n bytes. It stops at
// the first one that is not in a segment yet, or with unflushed at the first one
// that is not durable.
func (s *LogSet) keepCached(n int64, unflushed bool) {
	for s.cache.bytes > n {
		l, i := s.oldestCached()
		if l == nil || i > min(l.durable, l.collected) || !unflushed && i > l.flushed {
			return
		}
		l.dropBufs(i + 1)
	}
}

// releaseIdle gives memory back after a window in which little was appended.
func (s *LogSet) releaseIdle() {
	if s.now-s.cache.windowAt < cacheWindow {
		return
	}
	s.keepCached(max(s.store.opts.CacheBytes/idleCacheShare, cacheWindows*s.cache.appended), true)
	s.cache.windowAt, s.cache.appended = s.now, 0
}
