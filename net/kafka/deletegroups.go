package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// serveDeleteGroups removes empty groups with their offsets (KIP-229).
func serveDeleteGroups(r *Request) {
	req := r.Body.(*kmsg.DeleteGroupsRequest)
	req.Groups = distinct(req.Groups)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(req.Groups))
	for i, g := range req.Groups {
		resp.Groups[i] = kmsg.NewDeleteGroupsResponseGroup()
		resp.Groups[i].Group, resp.Groups[i].ErrorCode = g, codeNotCoordinator
	}
	ask := func(s share) kmsg.Request {
		part := kmsg.NewPtrDeleteGroupsRequest()
		for _, i := range s.items {
			part.Groups = append(part.Groups, req.Groups[i])
		}
		return part
	}
	answer := func(s share, reply any, err error) {
		for k, i := range s.items {
			if err != nil {
				resp.Groups[i].ErrorCode = CoordinatorErrorCode(err)
				continue
			}
			resp.Groups[i] = reply.(*kmsg.DeleteGroupsResponse).Groups[k]
		}
	}
	shares := r.sharesOf(len(req.Groups), func(i int) string { return req.Groups[i] })
	r.toCoordinators(shares, ask, answer, func() { r.Reply(resp) })
}

// distinct keeps the first of equal names.
func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(n string) bool {
		if seen[n] {
			return true
		}
		seen[n] = true
		return false
	})
}
