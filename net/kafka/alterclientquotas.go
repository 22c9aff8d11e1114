package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveAlterClientQuotas sets and removes quotas (KIP-546). They are kept and
// shown; nothing is throttled by them yet.
func serveAlterClientQuotas(r *Request) {
	req := r.Body.(*kmsg.AlterClientQuotasRequest)
	r.change(req, 0, func(applied *meta.Applied, err error) {
		if applied != nil {
			r.Reply(applied.Reply)
			return
		}
		resp := kmsg.NewPtrAlterClientQuotasResponse()
		for i := range req.Entries {
			out := kmsg.NewAlterClientQuotasResponseEntry()
			out.ErrorCode, out.ErrorMessage = ControllerErrorCode(err), kmsg.StringPtr(err.Error())
			for _, part := range req.Entries[i].Entity {
				p := kmsg.NewAlterClientQuotasResponseEntryEntity()
				p.Type, p.Name = part.Type, part.Name
				out.Entity = append(out.Entity, p)
			}
			resp.Entries = append(resp.Entries, out)
		}
		r.Reply(resp)
	})
}
