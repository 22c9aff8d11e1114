package controller

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// TestScenarios runs testdata/*.txt; `go test -rewrite` writes what they print.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &scenario{h: newHarness(t, testOptions()), ids: map[string]core.TopicID{}}
			datadriven.RunTest(t, path, s.run)
		})
	}
}

type scenario struct {
	h   *harness
	ids map[string]core.TopicID // of topics that were there
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.h.t = t
	var cmd *core.Command
	switch d.Cmd {
	case "limits":
		o := testOptions()
		d.MaybeScanArgs(t, "topic", &o.TopicPartitionsMax)
		d.MaybeScanArgs(t, "cluster", &o.PartitionsMax)
		d.MaybeScanArgs(t, "configs", &o.ConfigsMax)
		d.MaybeScanArgs(t, "value", &o.ConfigValueBytesMax)
		d.MaybeScanArgs(t, "quotas", &o.QuotasMax)
		s.h = newHarness(t, o)
		s.h.register(1, "")
		return ""
	case "broker":
		var id int32
		var rack, host string
		d.ScanArgs(t, "id", &id)
		d.MaybeScanArgs(t, "rack", &rack)
		host = fmt.Sprintf("host%d", id)
		d.MaybeScanArgs(t, "host", &host)
		cmd = s.h.send(meta.RegisterBroker{Broker: meta.Broker{ID: core.NodeID(id), Host: host, Port: 9092, Rack: rack}})
	case "create":
		cmd = s.h.send(s.create(t, d))
	case "delete":
		cmd = s.h.send(s.delete(t, d))
	case "grow":
		cmd = s.h.send(s.grow(t, d))
	case "alter":
		cmd = s.h.send(s.alter(t, d))
	case "replace":
		cmd = s.h.send(s.replace(t, d))
	case "quota":
		cmd = s.h.send(s.quota(t, d))
	case "reassign":
		cmd = s.h.send(s.reassign(t, d))
	case "producer-ids":
		cmd = s.h.send(meta.AllocateProducerIDs{})
	case "fail-next":
		s.h.fail = true
		return ""
	case "restart":
		s.h.restart()
		return ""
	case "image":
		return describe(s.h.published)
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	for _, topic := range s.h.published.Topics() {
		s.ids[topic.Name] = topic.ID
	}
	return s.show(cmd)
}

// lines are the items of a request: one line each, fields separated by blanks.
func lines(d *datadriven.TestData) [][]string {
	var out [][]string
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		if line != "" {
			out = append(out, strings.Fields(line))
		}
	}
	return out
}

func unquote(s string) string { return strings.ReplaceAll(strings.Trim(s, `"`), "~", " ") }

func (s *scenario) create(t *testing.T, d *datadriven.TestData) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.ValidateOnly = 7, d.HasArg("validate")
	for _, f := range lines(d) {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = unquote(f[0]), -1, -1
		if rt.Topic == "LONG" {
			rt.Topic = strings.Repeat("x", 250)
		}
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			switch k {
			case "p":
				scan(t, v, &rt.NumPartitions)
			case "rf":
				scan(t, v, &rt.ReplicationFactor)
			case "on": // on=0:1,2
				num, list, _ := strings.Cut(v, ":")
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				scan(t, num, &a.Partition)
				a.Replicas = nodes(t, list)
				rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
			default:
				c := kmsg.NewCreateTopicsRequestTopicConfig()
				c.Name = k
				if v != "null" {
					c.Value = &v
				}
				rt.Configs = append(rt.Configs, c)
			}
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func scan(t *testing.T, s string, to any) {
	if _, err := fmt.Sscan(s, to); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
}

func nodes(t *testing.T, list string) []int32 {
	var out []int32
	for _, f := range strings.Split(list, ",") {
		if f != "" {
			var n int32
			scan(t, f, &n)
			out = append(out, n)
		}
	}
	return out
}

func (s *scenario) delete(t *testing.T, d *datadriven.TestData) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	if d.HasArg("v5") {
		req.Version = 5
	}
	for _, f := range lines(d) {
		if req.Version == 5 {
			req.TopicNames = append(req.TopicNames, f[0])
			continue
		}
		rt := kmsg.NewDeleteTopicsRequestTopic()
		for _, kv := range f {
			k, v, _ := strings.Cut(kv, "=")
			switch {
			case k == "name":
				rt.Topic = &v
			case k == "id" && v == "unknown":
				rt.TopicID[0] = 9
			case k == "id":
				rt.TopicID = s.ids[v]
			}
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func (s *scenario) grow(t *testing.T, d *datadriven.TestData) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = 3, d.HasArg("validate")
	for _, f := range lines(d) {
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic = f[0]
		scan(t, f[1], &rt.Count)
		for _, list := range f[2:] {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = nodes(t, strings.TrimPrefix(list, "on="))
			rt.Assignment = append(rt.Assignment, a)
		}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func resourceType(kind string) kmsg.ConfigResourceType {
	return map[string]kmsg.ConfigResourceType{"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32, "other": 77}[kind]
}

func (s *scenario) alter(_ *testing.T, d *datadriven.TestData) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, d.HasArg("validate")
	for _, f := range lines(d) {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = resourceType(f[0]), unquote(f[1])
		for i := 2; i < len(f); i++ {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			op := f[i][0]
			name, v, set := strings.Cut(f[i][1:], "=")
			c.Name, c.Op = name, kmsg.IncrementalAlterConfigOp(strings.IndexByte("=-+/?", op))
			if set && v != "null" {
				c.Value = &v
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	return req
}

func (s *scenario) replace(_ *testing.T, d *datadriven.TestData) *kmsg.AlterConfigsRequest {
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version, req.ValidateOnly = 2, d.HasArg("validate")
	for _, f := range lines(d) {
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = resourceType(f[0]), unquote(f[1])
		for _, kv := range f[2:] {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			name, v, _ := strings.Cut(kv, "=")
			c.Name = name
			if v != "null" {
				c.Value = &v
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
	}
	return req
}

func (s *scenario) show(cmd *core.Command) string {
	if cmd.Err != nil {
		return "error: " + cmd.Err.Error()
	}
	if block, ok := cmd.Reply.(meta.ProducerIDBlock); ok {
		return fmt.Sprintf("[%d, %d)", block.First, block.First+int64(block.Count))
	}
	a := cmd.Reply.(*meta.Applied)
	var b strings.Builder
	item := func(what string, code int16, text *string) {
		fmt.Fprintf(&b, "%.20s: ", what)
		if code == 0 {
			b.WriteString("ok")
		} else {
			b.WriteString(kerr.TypedErrorForCode(code).Message)
		}
		if text != nil {
			fmt.Fprintf(&b, " %.150s", *text)
		}
	}
	name := func(p *string) string {
		if p == nil {
			return "-"
		}
		return *p
	}
	switch r := a.Reply.(type) {
	case nil:
		b.WriteString("ok\n")
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			item(t.Topic, t.ErrorCode, t.ErrorMessage)
			fmt.Fprintf(&b, " partitions=%d rf=%d", t.NumPartitions, t.ReplicationFactor)
			for _, c := range t.Configs {
				fmt.Fprintf(&b, " %s=%s(%d)", c.Name, name(c.Value), c.Source)
			}
			b.WriteByte('\n')
		}
	case *kmsg.DeleteTopicsResponse:
		for _, t := range r.Topics {
			item(name(t.Topic), t.ErrorCode, t.ErrorMessage)
			fmt.Fprintf(&b, " has-id=%v\n", t.TopicID != [16]byte{})
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range r.Topics {
			item(t.Topic, t.ErrorCode, t.ErrorMessage)
			b.WriteByte('\n')
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, x := range r.Resources {
			item(x.ResourceName, x.ErrorCode, x.ErrorMessage)
			b.WriteByte('\n')
		}
	case *kmsg.AlterClientQuotasResponse:
		for _, x := range r.Entries {
			what := ""
			for _, p := range x.Entity {
				what += p.Type + "=" + name(p.Name) + " "
			}
			item(what, x.ErrorCode, x.ErrorMessage)
			b.WriteByte('\n')
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		for _, x := range r.Topics {
			for _, p := range x.Partitions {
				item(fmt.Sprintf("%s/%d", x.Topic, p.Partition), p.ErrorCode, p.ErrorMessage)
				b.WriteByte('\n')
			}
		}
	case *kmsg.AlterConfigsResponse:
		for _, x := range r.Resources {
			item(x.ResourceName, x.ErrorCode, x.ErrorMessage)
			b.WriteByte('\n')
		}
	}
	if len(a.NewPartitions) > 0 {
		fmt.Fprintf(&b, "new partitions %v\n", a.NewPartitions)
	}
	return b.String()
}
