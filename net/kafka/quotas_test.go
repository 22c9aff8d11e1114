package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// quotaComponents reads "user=u client-id=<default> ip=*".
func quotaComponents(t *testing.T, text string) []kmsg.DescribeClientQuotasRequestComponent {
	t.Helper()
	var out []kmsg.DescribeClientQuotasRequestComponent
	for part := range strings.FieldsSeq(text) {
		kind, name, ok := strings.Cut(part, "=")
		if !ok {
			t.Fatalf("%q is no component", part)
		}
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType = kind
		switch name {
		case "<default>":
			c.MatchType = kmsg.QuotasMatchTypeDefault
		case "*":
			c.MatchType = kmsg.QuotasMatchTypeAny
		default:
			c.Match = &name
		}
		out = append(out, c)
	}
	return out
}

// What is answered was compared with Apache Kafka 4.4, but for the order.
func TestDescribeClientQuotasFilters(t *testing.T) {
	f := newFixture(t)
	named := func(n string) meta.QuotaMatch { return meta.QuotaMatch{Used: true, Name: n} }
	all := meta.QuotaMatch{Used: true, Default: true}
	f.loop.image.Quotas = meta.Quotas{
		{meta.QuotaUser: named("u"), meta.QuotaClientID: named("c")}: {"producer_byte_rate": 5e5, "consumer_byte_rate": 1},
		{meta.QuotaUser: named("u")}:                                 {"controller_mutation_rate": 1.5},
		{meta.QuotaUser: all}:                                        {"request_percentage": 1.5},
		{meta.QuotaClientID: named("c")}:                             {"producer_byte_rate": 2},
		{meta.QuotaIP: named("::1")}:                                 {"connection_creation_rate": 5},
		{meta.QuotaIP: all}:                                          {"connection_creation_rate": 6},
	}
	const both, user, users, client = "[user=u client-id=c consumer_byte_rate=1 producer_byte_rate=500000]",
		"[user=u controller_mutation_rate=1.5]", "[user=<default> request_percentage=1.5]", "[client-id=c producer_byte_rate=2]"
	const ip, ips = "[ip=::1 connection_creation_rate=5]", "[ip=<default> connection_creation_rate=6]"
	for _, c := range []struct {
		filter string
		strict bool
		want   string
	}{
		{"", false, ips + ip + client + users + user + both},
		{"", true, ""},
		{"user=u", false, user + both},
		{"user=u", true, user},
		{"user=<default>", false, users},
		{"user=*", false, users + user + both},
		{"user=*", true, users + user},
		{"user=* client-id=*", true, both},
		{"client-id=*", false, client + both},
		{"client-id=<default>", false, ""},
		{"client-id=nope", false, ""},
		{"ip=*", false, ips + ip},
		{"ip=::1", false, ip},
	} {
		for v := range int16(2) {
			req := kmsg.NewPtrDescribeClientQuotasRequest()
			req.Components, req.Strict = quotaComponents(t, c.filter), c.strict
			resp := f.ask(req, v).(*kmsg.DescribeClientQuotasResponse)
			if got := quotasText(resp); got != c.want || resp.ErrorCode != 0 || resp.Entries == nil {
				t.Errorf("%q strict=%v version %d: error %d, %s, want %s", c.filter, c.strict, v, resp.ErrorCode, got, c.want)
			}
		}
	}
}

func quotasText(resp *kmsg.DescribeClientQuotasResponse) string {
	var b strings.Builder
	for _, e := range resp.Entries {
		var words []string
		for _, p := range e.Entity {
			name := "<default>"
			if p.Name != nil {
				name = *p.Name
			}
			words = append(words, p.Type+"="+name)
		}
		for _, v := range e.Values {
			words = append(words, fmt.Sprintf("%s=%g", v.Key, v.Value))
		}
		fmt.Fprint(&b, words)
	}
	return b.String()
}

func TestDescribeClientQuotasRefusals(t *testing.T) {
	for _, c := range []struct {
		filter string
		edit   func(*kmsg.DescribeClientQuotasRequest)
		code   int16
		text   string
	}{
		{"ip=* user=*", nil, codeInvalidRequest, "IP filter component should not be used with"},
		{"user=u user=*", nil, codeInvalidRequest, "cannot appear more than once"},
		{"what=*", nil, codeUnsupportedVersion, "Unsupported entity type what"},
		{"=*", nil, codeInvalidRequest, "Invalid empty entity type"},
		{"user=u", func(r *kmsg.DescribeClientQuotasRequest) { r.Components[0].Match = nil }, codeInvalidRequest, "set match string to null"},
		{"user=u", func(r *kmsg.DescribeClientQuotasRequest) { r.Components[0].MatchType = 1 }, codeInvalidRequest, "MATCH_TYPE_DEFAULT"},
		{"user=u", func(r *kmsg.DescribeClientQuotasRequest) { r.Components[0].MatchType = 2 }, codeInvalidRequest, "MATCH_TYPE_SPECIFIED"},
		{"user=u", func(r *kmsg.DescribeClientQuotasRequest) { r.Components[0].MatchType = 5 }, codeInvalidRequest, "Unknown match type 5"},
	} {
		f := newFixture(t)
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Components = quotaComponents(t, c.filter)
		if c.edit != nil {
			c.edit(req)
		}
		resp := f.ask(req, 1).(*kmsg.DescribeClientQuotasResponse)
		if resp.ErrorCode != c.code || !strings.Contains(*resp.ErrorMessage, c.text) || resp.Entries != nil {
			t.Errorf("%q: %d %q, %v", c.filter, resp.ErrorCode, *resp.ErrorMessage, resp.Entries)
		}
	}
}

func TestWhatTheControllerSaysOfQuotasAndReassignmentsIsAnswered(t *testing.T) {
	b := newTestbed(t)
	quotas := kmsg.NewPtrAlterClientQuotasRequest()
	quotas.Entries = append(quotas.Entries, kmsg.NewAlterClientQuotasRequestEntry())
	answered := b.do(quotas, 1, coordinate(t, func(_ core.PartitionID, cmd *core.Command) error {
		resp := kmsg.NewPtrAlterClientQuotasResponse()
		e := kmsg.NewAlterClientQuotasResponseEntry()
		e.ErrorCode = codePolicyViolation
		resp.Entries = append(resp.Entries, e)
		cmd.Reply = &meta.Applied{Reply: resp, Version: 1}
		return nil
	})).(*kmsg.AlterClientQuotasResponse)
	if len(answered.Entries) != 1 || answered.Entries[0].ErrorCode != codePolicyViolation {
		t.Errorf("%+v", answered)
	}
	moves := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	moved := b.do(moves, 1, coordinate(t, func(_ core.PartitionID, cmd *core.Command) error {
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		rt := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		rt.Topic = "t"
		resp.Topics = append(resp.Topics, rt)
		cmd.Reply = &meta.Applied{Reply: resp, Version: 1}
		return nil
	})).(*kmsg.AlterPartitionAssignmentsResponse)
	if len(moved.Topics) != 1 || moved.Topics[0].Topic != "t" {
		t.Errorf("%+v", moved)
	}
}
