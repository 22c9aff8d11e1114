package kafka

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveDescribeClientQuotas lists the quotas of the entities that match a filter
// (KIP-546).
func serveDescribeClientQuotas(r *Request) {
	req := r.Body.(*kmsg.DescribeClientQuotasRequest)
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	wanted, code, msg := quotaFilter(req.Components)
	resp.ErrorCode, resp.ErrorMessage = code, &msg
	if code != codeNone {
		r.Reply(resp) // with no list at all
		return
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	quotas := r.Image().Quotas
	for _, e := range quotas.Entities() {
		if quotaMatches(e, wanted, req.Strict) {
			resp.Entries = append(resp.Entries, describeQuota(e, quotas[e]))
		}
	}
	r.Reply(resp)
}

// quotaFilter checks the components of a filter; the result is by kind.
func quotaFilter(in []kmsg.DescribeClientQuotasRequestComponent) (out [len(meta.QuotaKindNames)]*kmsg.DescribeClientQuotasRequestComponent, code int16, msg string) {
	for i := range in {
		c := &in[i]
		kind := slices.Index(meta.QuotaKindNames[:], c.EntityType)
		switch {
		case c.EntityType == "":
			return out, codeInvalidRequest, "Invalid empty entity type."
		case kind < 0:
			return out, codeUnsupportedVersion, fmt.Sprintf("Unsupported entity type %.100s", c.EntityType)
		case out[kind] != nil:
			return out, codeInvalidRequest, fmt.Sprintf("Entity type %s cannot appear more than once in the filter.", c.EntityType)
		case c.MatchType == kmsg.QuotasMatchTypeExact && c.Match == nil:
			return out, codeInvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null."
		case c.MatchType == kmsg.QuotasMatchTypeDefault && c.Match != nil:
			return out, codeInvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
		case c.MatchType == kmsg.QuotasMatchTypeAny && c.Match != nil:
			return out, codeInvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
		case c.MatchType < kmsg.QuotasMatchTypeExact || c.MatchType > kmsg.QuotasMatchTypeAny:
			return out, codeInvalidRequest, fmt.Sprintf("Unknown match type %d", int8(c.MatchType))
		}
		out[kind] = c
	}
	if out[meta.QuotaIP] != nil && (out[meta.QuotaUser] != nil || out[meta.QuotaClientID] != nil) {
		return out, codeInvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
	}
	return out, codeNone, ""
}

// quotaMatches: strict asks for an entity of no other kinds than the filter's.
func quotaMatches(e meta.QuotaEntity, wanted [len(meta.QuotaKindNames)]*kmsg.DescribeClientQuotasRequestComponent, strict bool) bool {
	for kind, w := range wanted {
		have := e[kind]
		switch {
		case w == nil && (!strict || !have.Used):
		case w == nil || !have.Used,
			w.MatchType == kmsg.QuotasMatchTypeDefault && !have.Default,
			w.MatchType == kmsg.QuotasMatchTypeExact && (have.Default || have.Name != *w.Match):
			return false
		}
	}
	return true
}

func describeQuota(e meta.QuotaEntity, values map[string]float64) kmsg.DescribeClientQuotasResponseEntry {
	out := kmsg.NewDescribeClientQuotasResponseEntry()
	for kind, m := range e {
		if !m.Used {
			continue
		}
		part := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		if part.Type = meta.QuotaKindNames[kind]; !m.Default {
			part.Name = &m.Name
		}
		out.Entity = append(out.Entity, part)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := kmsg.NewDescribeClientQuotasResponseEntryValue()
		v.Key, v.Value = key, values[key]
		out.Values = append(out.Values, v)
	}
	return out
}
