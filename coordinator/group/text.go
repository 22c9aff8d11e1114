package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// textBytesMax is the longest string that the formats of the log and the older
// versions of the protocol can hold.
const textBytesMax = 1<<15 - 1

// joinFits says whether all that a JoinGroup brings, and the member ID that is
// made of it, can be stored.
func joinFits(cmd *core.Command, req *kmsg.JoinGroupRequest) bool {
	ok := len(req.Group) <= textBytesMax && len(req.MemberID) <= textBytesMax && len(req.ProtocolType) <= textBytesMax &&
		len(cmd.Client.ClientID)+uuidBytes <= textBytesMax && len(cmd.Client.Host) <= textBytesMax
	if req.InstanceID != nil {
		ok = ok && len(*req.InstanceID)+uuidBytes <= textBytesMax
	}
	for i := range req.Protocols {
		ok = ok && len(req.Protocols[i].Name) <= textBytesMax
	}
	return ok
}
