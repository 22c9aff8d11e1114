// Package sim plays one node with its clients from a seed: the real shard,
// raftlog and coordinator code over a virtual clock, a virtual disk and virtual
// clients.
//
// One goroutine runs everything; what production does on loops, on the journal's
// goroutine and on the I/O pool are steps here, taken in an order that the seed
// chooses within what production guarantees: first in first out from one source
// to one shard, and the effects of a turn in the order journal, shards, replies.
// Durable is what the virtual disk made so (chaos/sim/vdisk).
//
// Every history has kills, power cuts between and within the operations of the
// disk, also during recovery, and graceful stops. Its Kind adds a small arena
// with fast producers, a full device, failing operations, or damage: bits that
// flip while the process is down or runs, and writes that go to another place. In
// a quarter of the histories each process starts with a wall clock that is hours
// off and misses hours.
//
// What clients see is recorded and judged by chaos/check. A panic, a client that
// gets no answer once nothing fails any more, a storage error without damage, and
// a process that outlives the failure of its journal are faults too. Read Run
// first.
package sim
