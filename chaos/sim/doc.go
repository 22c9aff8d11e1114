// Package sim plays one node with its clients from a seed: the real shard,
// raftlog and coordinator code over a virtual clock, a virtual disk and virtual
// clients.
//
// One goroutine runs everything; what production does on loops, on the journal's
// goroutine and on the I/O pool are steps here, taken in an order that the seed
// chooses within what production guarantees: first in first out from one source
// to one shard, and the effects of a turn in the order journal, shards, replies.
// Durable is what the virtual disk made so (chaos/sim/vdisk). What clients see is
// recorded and judged by chaos/check. Read Run first.
package sim
