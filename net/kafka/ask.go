package kafka

import (
	"millrace/core"
	"millrace/shard"
)

// partitionAsk is one partition of a request with its place in the answer.
type partitionAsk[Q shard.Request, P any] struct {
	id  core.PartitionID
	q   Q
	out *P
}

// askAll sends every ask to its shard; answered takes each outcome, and done
// runs after the last.
func askAll[Q shard.Request, P any](r *Request, asks []partitionAsk[Q, P], answered func(q Q, out *P), done func()) {
	one := Gather(len(asks), done)
	for _, a := range asks {
		r.Submit(a.id, a.q, func() {
			answered(a.q, a.out)
			one()
		})
	}
}
