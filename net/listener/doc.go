// Package listener holds the event loops and the sockets: one gnet event loop
// per shard, which owns the shard and the plaintext connections that live on
// it; TLS connections with a goroutine each, which hand complete frames to the
// same loops; the journal goroutine and the I/O pool.
//
// A Loop's methods are called on that loop, but for those documented
// otherwise. A loop blocks on nothing but its poller. Nothing here is durable:
// it carries out the shard's effects in the order journal, peers, shards,
// replies. Read Loop first.
package listener
