package kafka

import (
	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/shard"
)

// Loop is the event loop that owns a shard and its connections, as handlers see
// it. Every method is called on the loop and returns at once.
type Loop interface {
	// Shard is the loop's own shard, and Shards the number of shards.
	Shard() core.ShardID
	Shards() int
	// Now is the time of the current turn.
	Now() core.Tick
	// After calls fn on this loop at or after at.
	After(at core.Tick, fn func()) Timer
	// Submit routes q to shard to. Its Base().Owner must be a Continuation: it
	// is called on this loop, exactly once.
	Submit(to core.ShardID, q shard.Request)
	// Cancel asks the shard to answer a Fetch or Await now with what there is;
	// the continuation is still called exactly once.
	Cancel(to core.ShardID, q shard.Request)
	// Arena is this loop's payload memory.
	Arena() *arena.Arena
	// Image is the newest metadata; nil until the first one is published.
	Image() *meta.Image
}

// Timer is a pending Loop.After call.
type Timer interface {
	// Stop drops the call; it does nothing once the call was made.
	Stop()
}

// Continuation is what a shard.Request's Owner must be: Resume is called on the
// loop that submitted the request when its results are set.
type Continuation interface{ Resume(q shard.Request) }

// ConnInfo is what is known of a connection from its start.
type ConnInfo struct {
	ID         uint64 // unique in the process
	Listener   string // name of the listener
	Host       string // as Kafka prints it: "/127.0.0.1"
	RemotePort int32
	TLS        bool
	// Client is what requests have told since; owned by the loop.
	Client ClientState
}

// ClientState is what a connection's requests told about their sender.
type ClientState struct {
	SoftwareName, SoftwareVersion string // from ApiVersions (KIP-511)
	Principal                     string // "User:ANONYMOUS" until authenticated
}

// Conn is one client connection, owned by its loop.
type Conn interface {
	Info() *ConnInfo
	// Reply fills the place of one request in the connection's order of replies.
	// Every place is filled exactly once; the bytes leave when all earlier
	// places are filled. A reply to a closed connection is released unsent.
	Reply(place uint64, r Reply)
	// Expect announces a reply of up to n bytes for a place that is not filled
	// yet. It counts against what may wait for this client, so that requests
	// behind a large answer are not read before it has left.
	Expect(place uint64, n int)
	// Parked says that the request of a place waits for something other than work,
	// and that what is kept of it is bounded elsewhere: its bytes are given back, so
	// that requests that wait do not keep others from being read. by, if not nil,
	// is told when the connection ends before the place is filled.
	Parked(place uint64, by Waiter)
	// Close ends the connection; replies not yet sent are dropped. reason is for
	// the log and must say what was refused.
	Close(reason string)
}

// Waiter is a request that waits for what may never come.
type Waiter interface {
	// Gone says that nobody waits for the answer any more. The place is filled all the
	// same, soon.
	Gone()
}

// Reply is one response frame, its length prefix included, in pieces to be
// written one after the other. The zero Reply fills a place with nothing
// (acks=0).
type Reply struct {
	Head []byte // the first piece, often the only one
	Tail [][]byte
	// Bufs are released when the bytes have been written or dropped.
	Bufs []arena.Buf
}

// Len is the number of bytes of all pieces.
func (r *Reply) Len() int {
	n := len(r.Head)
	for _, t := range r.Tail {
		n += len(t)
	}
	return n
}

// Frame is one request frame without its length prefix.
type Frame struct {
	Bytes []byte
	// Buf holds Bytes when they lie in arena memory (Produce); the Worker takes
	// its reference over. Otherwise Bytes is ordinary memory and may be aliased.
	Buf arena.Buf
	// Place is the request's place in the connection's order of replies.
	Place uint64
}
