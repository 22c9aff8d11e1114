package listener

import (
	"sync"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/raftlog"
	"millrace/shard"
)

type messageKind uint8

const (
	msgRequest   messageKind = iota // req from another loop, for this loop's shard
	msgCancel                       // req, submitted here before, is to be answered now
	msgDone                         // req, sent to another loop, comes back with its results
	msgPersisted                    // turn
	msgJobDone                      // job
	msgImage                        // image
	msgEvict                        // evict cached payload until arena has room for n bytes
	msgFunc                         // fn
	msgKick                         // nothing but the wake itself
)

// message is one thing handed to a loop from outside of it.
type message struct {
	kind  messageKind
	req   shard.Request
	turn  *raftlog.Turn
	job   *raftlog.Job
	image *meta.Image
	fn    func()
	arena *arena.Arena
	n     int
}

// inbox is a loop's queue from other goroutines. Requests and functions from
// outside are refused beyond the limit. Completions are not: each one answers
// something that this loop started, so their number is bounded by that.
type inbox struct {
	// Immutable.
	limit int

	mu struct {
		sync.Mutex
		queue   []message
		bounded int // messages in queue that count against the limit
		// refused holds the loops that were refused since the last take: they are
		// told when there is room.
		refused map[core.ShardID]struct{}
	}
	taken []message // the array handed out by the last take, for reuse
}

func newInbox(limit int) *inbox {
	b := &inbox{limit: limit}
	b.mu.refused = make(map[core.ShardID]struct{})
	return b
}

// offer queues a message that may be refused; from is the loop that wants to be
// told when there is room again, or -1.
func (b *inbox) offer(m message, from core.ShardID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.bounded >= b.limit {
		if from >= 0 {
			b.mu.refused[from] = struct{}{}
		}
		return false
	}
	b.mu.bounded++
	b.mu.queue = append(b.mu.queue, m)
	return true
}

// force queues a completion.
func (b *inbox) force(m message) {
	b.mu.Lock()
	b.mu.queue = append(b.mu.queue, m)
	b.mu.Unlock()
}

// take hands out what is queued, and the loops to be told that there is room.
// The slice is valid until the next take; only the owner calls it.
func (b *inbox) take() (queue []message, room []core.ShardID) {
	clear(b.taken)
	b.mu.Lock()
	defer b.mu.Unlock()
	queue, b.mu.queue = b.mu.queue, b.taken[:0]
	b.taken = queue
	b.mu.bounded = 0
	for id := range b.mu.refused {
		room = append(room, id)
	}
	clear(b.mu.refused)
	return queue, room
}
