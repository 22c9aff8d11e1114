package kafka

import (
	"millrace/core"
	"millrace/core/meta"
)

// Bounds of the time that a change of topics waits for its new partitions,
// whatever the request asks for.
const (
	changeWaitMin = 1 * core.Second
	changeWaitMax = 300 * core.Second
)

// change hands body to the controller and, once the change is committed, waits
// until this node has applied it and its new partitions take appends. done gets
// nil where nothing was changed, with the reason; a change that was made and
// whose partitions are not ready in time comes with both.
func (r *Request) change(body any, timeoutMs int32, done func(applied *meta.Applied, err error)) {
	deadline := r.Now() + min(max(core.Tick(timeoutMs)*core.Millisecond, changeWaitMin), changeWaitMax)
	r.Controller(body, func(reply any, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		applied := reply.(*meta.Applied)
		r.AwaitPartitions(applied.Version, applied.NewPartitions, deadline, func(err error) { done(applied, err) })
	})
}

// notReady explains the answer to a change that was made and whose partitions
// had no leader in time.
const notReady = "The change is made; its partitions had no leader before the request timed out."
