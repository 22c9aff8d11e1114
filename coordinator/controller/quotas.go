package controller

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// quotaKey is one kind of quota.
type quotaKey struct {
	name string
	ip   bool    // for IP addresses; else for users and client IDs
	max  float64 // of whole numbers; 0: fractions are allowed
}

var quotaKeys = []quotaKey{
	{name: "producer_byte_rate", max: math.MaxInt64},
	{name: "consumer_byte_rate", max: math.MaxInt64},
	{name: "request_percentage"},
	{name: "controller_mutation_rate"},
	{name: "connection_creation_rate", ip: true, max: math.MaxInt32},
}

// alterClientQuotas answers AlterClientQuotas (KIP-546). An entity that is named
// twice is answered once, and not changed.
func (c *Controller) alterClientQuotas(ch *change, req *kmsg.AlterClientQuotasRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterClientQuotasResponse)
	named := make(map[string]int)
	for i := range req.Entries {
		named[quotaText(req.Entries[i].Entity)]++
	}
	answered := make(map[string]bool)
	for i := range req.Entries {
		in := &req.Entries[i]
		text := quotaText(in.Entity)
		if answered[text] {
			continue
		}
		answered[text] = true
		no := refuse(kerr.InvalidRequest, "Ignoring duplicate entity %s", text)
		if named[text] == 1 {
			no = c.alterQuota(ch, in, req.ValidateOnly)
		}
		out := kmsg.NewAlterClientQuotasResponseEntry()
		out.Entity = lastParts(in.Entity)
		if no != nil {
			out.ErrorCode, out.ErrorMessage = no.code, &no.text
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp
}

// lastParts is an entity as it is answered. Two parts of one kind do not add up: as
// in Kafka the last counts.
func lastParts(parts []kmsg.AlterClientQuotasRequestEntryEntity) (out []kmsg.AlterClientQuotasResponseEntryEntity) {
	at := make(map[string]int, len(parts))
	for _, part := range parts {
		p := kmsg.NewAlterClientQuotasResponseEntryEntity()
		p.Type, p.Name = part.Type, part.Name
		if i, ok := at[p.Type]; ok {
			out[i] = p
			continue
		}
		at[p.Type] = len(out)
		out = append(out, p)
	}
	return out
}

// quotaText is an entity in words.
func quotaText(parts []kmsg.AlterClientQuotasRequestEntryEntity) string {
	last := make(map[string]string, len(parts))
	for _, p := range parts {
		last[p.Type] = "<default>"
		if p.Name != nil {
			last[p.Type] = fmt.Sprintf("%q", *p.Name)
		}
	}
	var b []string
	for _, kind := range sortedKeys(last) {
		b = append(b, kind+"="+last[kind])
	}
	return "{" + strings.Join(b, ", ") + "}"
}

func (c *Controller) alterQuota(ch *change, in *kmsg.AlterClientQuotasRequestEntry, validateOnly bool) *refusal {
	e, no := quotaEntity(in.Entity)
	if no != nil {
		return no
	}
	before := ch.image().Quotas[e]
	values := maps.Clone(before)
	if values == nil {
		values = make(map[string]float64, len(in.Ops))
	}
	seen := make(map[string]bool, len(in.Ops))
	for _, op := range in.Ops {
		if seen[op.Key] {
			return refuse(kerr.InvalidRequest, "Duplicate quota key %.100s not allowed in quota request", op.Key)
		}
		seen[op.Key] = true
		if op.Remove {
			delete(values, op.Key)
			continue
		}
		if no := checkQuota(e[meta.QuotaIP].Used, op.Key, op.Value); no != nil {
			return no
		}
		values[op.Key] = op.Value
	}
	switch {
	case validateOnly || maps.Equal(before, values):
		return nil
	case before == nil && len(ch.image().Quotas) >= c.opts.QuotasMax:
		return refuse(kerr.PolicyViolation, "There are quotas for %d entities, which is the maximum.", c.opts.QuotasMax)
	}
	rec := encodeQuotas(e, values)
	if !ch.fits([]core.Record{rec}) {
		return refuse(kerr.PolicyViolation, "The request is too large: alter fewer quotas at a time.")
	}
	ch.put(rec)
	return nil
}

// quotaEntity checks what a quota is for.
func quotaEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) (e meta.QuotaEntity, no *refusal) {
	if len(parts) == 0 {
		return e, refuse(kerr.InvalidRequest, "Invalid empty client quota entity")
	}
	for _, p := range lastParts(parts) {
		kind := -1
		for k, name := range meta.QuotaKindNames {
			if name == p.Type {
				kind = k
			}
		}
		switch {
		case kind < 0:
			return e, refuse(kerr.InvalidRequest, "Unhandled client quota entity type: %.100s", p.Type)
		case p.Name == nil:
			e[kind] = meta.QuotaMatch{Used: true, Default: true}
		case *p.Name == "":
			return e, refuse(kerr.InvalidRequest, "Empty %s not supported", p.Type)
		default:
			e[kind] = meta.QuotaMatch{Used: true, Name: *p.Name}
		}
	}
	ip := e[meta.QuotaIP]
	if ip.Used && (e[meta.QuotaUser].Used || e[meta.QuotaClientID].Used) {
		return e, refuse(kerr.InvalidRequest, "Invalid quota entity combination, IP entity should not be combined with User or ClientId")
	}
	if ip.Used && !ip.Default {
		if _, err := netip.ParseAddr(ip.Name); err != nil {
			return e, refuse(kerr.InvalidRequest, "%.100s is not a valid IP address.", ip.Name)
		}
	}
	return e, nil
}

func checkQuota(ip bool, key string, value float64) *refusal {
	for _, k := range quotaKeys {
		switch {
		case k.name != key || k.ip != ip:
		case !(value > 0): // NaN too
			return refuse(kerr.InvalidRequest, "Quota %s must be greater than 0", key)
		case k.max > 0 && value > k.max, math.IsInf(value, 1):
			return refuse(kerr.InvalidRequest, "Proposed value for %s is too large.", key)
		case k.max > 0 && value != math.Trunc(value):
			return refuse(kerr.InvalidRequest, "%s cannot be a fractional value.", key)
		default:
			return nil
		}
	}
	return refuse(kerr.InvalidRequest, "Invalid configuration key %.100s", key)
}
