package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// serveListGroups lists the groups that this node coordinates, over all
// partitions that it leads (KIP-518, KIP-848 filters). A partition that is still
// loading makes the list incomplete, and the answer says so.
func serveListGroups(r *Request) {
	req := r.Body.(*kmsg.ListGroupsRequest)
	resp := kmsg.NewPtrListGroupsResponse()
	parts := r.allCoordinators()
	one := Gather(len(parts), func() { r.Reply(resp) })
	for _, p := range parts {
		r.Coordinator(p, req, func(reply any, err error) {
			switch {
			case err == nil:
				got := reply.(*kmsg.ListGroupsResponse)
				resp.Groups = append(resp.Groups, got.Groups...)
				if resp.ErrorCode == codeNone {
					resp.ErrorCode = got.ErrorCode
				}
			case !elsewhere(err) && resp.ErrorCode == codeNone:
				resp.ErrorCode = CoordinatorErrorCode(err)
			}
			one()
		})
	}
}
