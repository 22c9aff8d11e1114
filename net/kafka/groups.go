package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// offsetsTopic is the internal topic whose partitions coordinate groups.
const offsetsTopic = "__consumer_offsets"

// groupPartition finds the partition that coordinates a group; ok is false while
// the internal topic does not exist (FindCoordinator makes it).
func (r *Request) groupPartition(group string) (p core.PartitionID, ok bool) {
	t := r.Image().Topic(offsetsTopic)
	if t == nil || len(t.Partitions) == 0 {
		return 0, false
	}
	return t.Partitions[core.GroupPartition(group, len(t.Partitions))].ID, true
}

// toGroup hands the request to the coordinator of the one group that it
// concerns and replies with the coordinator's answer. refuse makes the response
// that carries an error code where there is none.
func (r *Request) toGroup(group string, refuse func(code int16) kmsg.Response) {
	p, ok := r.groupPartition(group)
	if !ok {
		r.Reply(refuse(codeNotCoordinator))
		return
	}
	r.Coordinator(p, r.Body, func(reply any, err error) {
		if err != nil {
			r.Reply(refuse(CoordinatorErrorCode(err)))
			return
		}
		r.Reply(reply.(kmsg.Response))
	})
}

// share is the part of a request that one coordinator answers: the positions in
// the request of the groups that it coordinates.
type share struct {
	partition core.PartitionID
	items     []int
}

// sharesOf splits n groups by coordinator, in order of first appearance. It is
// empty while the internal topic does not exist.
func (r *Request) sharesOf(n int, group func(i int) string) []share {
	var out []share
	at := make(map[core.PartitionID]int)
	for i := range n {
		p, ok := r.groupPartition(group(i))
		if !ok {
			return nil
		}
		k, seen := at[p]
		if !seen {
			k = len(out)
			at[p] = k
			out = append(out, share{partition: p})
		}
		out[k].items = append(out[k].items, i)
	}
	return out
}

// toCoordinators asks the coordinator of each share with the body that ask makes
// of it; answer takes each outcome, and done runs after the last.
func (r *Request) toCoordinators(shares []share, ask func(share) kmsg.Request, answer func(s share, reply any, err error), done func()) {
	one := Gather(len(shares), done)
	for _, s := range shares {
		body := ask(s)
		body.SetVersion(r.Version)
		r.Coordinator(s.partition, body, func(reply any, err error) {
			answer(s, reply, err)
			one()
		})
	}
}

// allCoordinators are all partitions of the internal topic.
func (r *Request) allCoordinators() []core.PartitionID {
	t := r.Image().Topic(offsetsTopic)
	if t == nil {
		return nil
	}
	out := make([]core.PartitionID, len(t.Partitions))
	for i, p := range t.Partitions {
		out[i] = p.ID
	}
	return out
}

// elsewhere says that an error only means that another node coordinates.
func elsewhere(err error) bool {
	return errors.Is(err, core.ErrNotLeader) || errors.Is(err, core.ErrNotCoordinator)
}
