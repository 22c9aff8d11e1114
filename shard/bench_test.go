package shard

import (
	"testing"

	"millrace/core"
)

// BenchmarkProduce is the cost of a small Produce from request to reply, the
// shard's, raft's and the log's part of it together, with the given number of
// requests in a turn. The disk is simulated.
func BenchmarkProduce(b *testing.B) {
	for _, tc := range []struct {
		name    string
		perTurn int
	}{{"1", 1}, {"16", 16}} {
		b.Run(tc.name, func(b *testing.B) {
			c := newCluster(b, 1).start()
			id := c.topic("t", 1)[0]
			c.run()
			n := c.leader(id)
			batch := batchOf(1, 100, 0)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += tc.perTurn {
				for range tc.perTurn {
					n.send(Event{Kind: EventRequest, Request: n.produceTo(id, batch)})
				}
				c.run()
				n.done = n.done[:0]
				if done%1024 == 0 {
					c.advance(core.Millisecond)
				}
			}
		})
	}
}
