package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Operations that clients may be told they are allowed, as bits of Kafka's
// AclOperation codes.
const (
	groupOperations   = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11                // read, delete, describe, describe and alter configs
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 // create, alter, describe, cluster action, configs, idempotent write
)

// serveDescribeGroups tells state and members of groups.
func serveDescribeGroups(r *Request) {
	req := r.Body.(*kmsg.DescribeGroupsRequest)
	req.Groups = slices.DeleteFunc(req.Groups, make(mentions[string]).tooMany)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	for i, g := range req.Groups {
		resp.Groups[i] = kmsg.NewDescribeGroupsResponseGroup()
		resp.Groups[i].Group, resp.Groups[i].ErrorCode = g, codeNotCoordinator
	}
	ask := func(s share) kmsg.Request {
		part := kmsg.NewPtrDescribeGroupsRequest()
		part.IncludeAuthorizedOperations = req.IncludeAuthorizedOperations
		for _, i := range s.items {
			part.Groups = append(part.Groups, req.Groups[i])
		}
		return part
	}
	answer := func(s share, reply any, err error) {
		for k, i := range s.items {
			g := &resp.Groups[i]
			if err != nil {
				g.ErrorCode = CoordinatorErrorCode(err)
				continue
			}
			*g = reply.(*kmsg.DescribeGroupsResponse).Groups[k]
			if req.IncludeAuthorizedOperations && g.ErrorCode == codeNone {
				g.AuthorizedOperations = groupOperations
			}
		}
	}
	shares := r.sharesOf(len(req.Groups), func(i int) string { return req.Groups[i] })
	r.toCoordinators(shares, ask, answer, func() { r.Reply(resp) })
}
