package group

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// TestScenarios runs testdata/*.txt; `go test -rewrite` writes what they print.
//
// A request has a tag, its first argument: the member ID that its answer holds
// is called by the tag from then on, in requests and in what is printed.
func TestScenarios(t *testing.T) {
	if flag.Lookup("rewrite") == nil {
		t.Fatal("datadriven has lost its -rewrite flag")
	}
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { runScenario(t, path) })
	}
}

func runScenario(t *testing.T, path string) {
	s := &scenario{names: map[string]string{}, ids: map[string]string{}}
	s.new(t, nil)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		s.h.t = t
		return s.run(t, d)
	})
	if len(s.h.waiting) > 0 {
		s.run(t, &datadriven.TestData{Cmd: "resign"})
	}
	if len(s.h.waiting) > 0 {
		t.Fatalf("commands without an answer: %v", s.h.waiting)
	}
}

type scenario struct {
	h     *harness
	names map[string]string // member ID to tag
	ids   map[string]string // tag to member ID
	lines []string
}

func (s *scenario) new(t *testing.T, d *datadriven.TestData) {
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelayMs = 0
	if d != nil {
		d.MaybeScanArgs(t, "delay", &cfg.InitialRebalanceDelayMs)
		d.MaybeScanArgs(t, "size", &cfg.GroupSizeMax)
		d.MaybeScanArgs(t, "groups", &cfg.GroupsMax)
		d.MaybeScanArgs(t, "members", &cfg.MembersMax)
		d.MaybeScanArgs(t, "bytes", &cfg.GroupBytesMax)
		d.MaybeScanArgs(t, "offsets", &cfg.GroupOffsetsMax)
		d.MaybeScanArgs(t, "rewrite", &cfg.RewriteBytesMin)
	}
	s.h = newHarness(t, cfg)
	s.h.topic("t1", 4)
	s.h.onReply = func(tag string, cmd *core.Command) { s.lines = append(s.lines, tag+": "+s.show(tag, cmd)) }
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.lines = nil
	str := func(key string) string {
		var v string
		d.MaybeScanArgs(t, key, &v)
		return strings.Trim(v, `"`)
	}
	num := func(key string, v int32) int32 {
		d.MaybeScanArgs(t, key, &v)
		return v
	}
	member := func() string {
		if id, ok := s.ids[str("member")]; ok {
			return id
		}
		return str("member")
	}
	list := func(key string) []string {
		if a, ok := d.Arg(key); ok {
			return a.Vals
		}
		return nil
	}
	var instance *string
	if d.HasArg("instance") {
		v := str("instance")
		instance = &v
	}
	tag := d.Cmd
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		tag = d.CmdArgs[0].Key
	}
	group := "g"
	if d.HasArg("group") {
		group = str("group")
	}
	send := func(req kmsg.Request, version int32) {
		req.SetVersion(int16(version))
		s.h.send(tag, req, core.ClientInfo{ClientID: "client", Host: "/127.0.0.1"})
	}
	switch d.Cmd {
	case "new":
		s.new(t, d)
	case "topic":
		s.h.topic(str("name"), int(num("partitions", 1)))
	case "join":
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.ProtocolType = group, member(), instance, "consumer"
		if d.HasArg("type") {
			req.ProtocolType = str("type")
		}
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = num("session", 10000), num("rebalance", 60000)
		protos := list("protos")
		if protos == nil && !d.HasArg("noprotos") {
			protos = []string{"range"}
		}
		for _, name := range protos {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, subscription(list("topics"))
			req.Protocols = append(req.Protocols, p)
		}
		send(req, num("v", 9))
	case "sync":
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, member(), instance, num("gen", 1)
		ptype, proto := "consumer", "range"
		d.MaybeScanArgs(t, "proto", &proto)
		req.ProtocolType, req.Protocol = &ptype, &proto
		for _, tag := range list("assign") {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = s.ids[tag], []byte("for-"+tag)
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
		send(req, num("v", 5))
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, member(), instance, num("gen", 1)
		send(req, 4)
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = group, member()
		for _, tag := range list("members") {
			lm := kmsg.NewLeaveGroupRequestMember()
			lm.MemberID = tag
			if id, ok := s.ids[tag]; ok {
				lm.MemberID = id
			}
			req.Members = append(req.Members, lm)
		}
		if instance != nil {
			lm := kmsg.NewLeaveGroupRequestMember()
			lm.InstanceID = instance
			req.Members = append(req.Members, lm)
		}
		send(req, num("v", 5))
	case "commit":
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, member(), instance, num("gen", -1)
		if d.HasArg("retention") {
			req.RetentionTimeMillis = int64(num("retention", 0))
		}
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t1"
		d.MaybeScanArgs(t, "topic", &rt.Topic)
		if topic := s.h.im.Topic(rt.Topic); topic != nil {
			rt.TopicID = topic.ID
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		md := strings.Repeat("m", int(num("metadata", 1)))
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = num("partition", 0), int64(num("offset", 0)), 2, &md
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		send(req, num("v", 8))
	case "fetch":
		s.fetch(t, d, group, send)
	case "offset-delete":
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = "t1"
		d.MaybeScanArgs(t, "topic", &rt.Topic)
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = num("partition", 0)
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		send(req, 0)
	case "describe":
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		send(req, num("v", 6))
	case "list":
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = list("states"), list("types")
		send(req, 5)
	case "delete-groups":
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = list("groups")
		send(req, 2)
	case "topics-deleted":
		s.h.send(tag, meta.TopicsDeleted{Names: list("names")}, core.ClientInfo{})
	case "drop-topic":
		s.h.im = s.h.im.WithoutTopic(str("name"))
	case "advance":
		d, err := time.ParseDuration(str("by"))
		if err != nil {
			t.Fatal(err)
		}
		s.h.advance(core.Tick(d))
	case "fail-next":
		s.h.fail = true
	case "failover":
		clear(s.h.waiting)
		s.h.failover()
	case "resign":
		var out core.Output
		s.h.m.Resign(s.h.now, &out)
		s.h.carryOut(&out)
	case "saved":
		if text := dump(s.h.m); text == "" {
			s.lines = append(s.lines, "nothing")
		} else {
			s.lines = append(s.lines, strings.TrimSuffix(s.alias(text), "\n"))
		}
	case "log":
		s.lines = append(s.lines, fmt.Sprintf("start=%d records=%d", s.h.start, len(s.h.log)))
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	if len(s.lines) == 0 {
		return "ok\n"
	}
	return strings.Join(s.lines, "\n") + "\n"
}

func (s *scenario) fetch(t *testing.T, d *datadriven.TestData, group string, send func(kmsg.Request, int32)) {
	v := int32(9)
	d.MaybeScanArgs(t, "v", &v)
	req := kmsg.NewPtrOffsetFetchRequest()
	var partitions []int32
	if a, ok := d.Arg("partitions"); ok {
		for i := range a.Vals {
			var n int32
			a.Scan(t, i, &n)
			partitions = append(partitions, n)
		}
	}
	topic := "t1"
	d.MaybeScanArgs(t, "topic", &topic)
	if v < 8 {
		req.Group = group
		if partitions != nil {
			rt := kmsg.NewOffsetFetchRequestTopic()
			rt.Topic, rt.Partitions = topic, partitions
			req.Topics = append(req.Topics, rt)
		}
	} else {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = group
		if partitions != nil {
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.Topic, rt.Partitions = topic, partitions
			if known := s.h.im.Topic(topic); known != nil {
				rt.TopicID = known.ID
			}
			rg.Topics = append(rg.Topics, rt)
		}
		req.Groups = append(req.Groups, rg)
	}
	send(req, v)
}

// alias puts tags in place of member IDs.
func (s *scenario) alias(text string) string {
	for _, id := range slices.Sorted(maps.Keys(s.names)) {
		text = strings.ReplaceAll(text, id, s.names[id])
	}
	return text
}

func (s *scenario) show(tag string, cmd *core.Command) string {
	if cmd.Err != nil {
		return "error: " + cmd.Err.Error()
	}
	switch r := cmd.Reply.(type) {
	case *kmsg.JoinGroupResponse:
		if _, known := s.names[r.MemberID]; !known && r.MemberID != "" && strings.Count(r.MemberID, "-") >= 5 {
			s.names[r.MemberID], s.ids[tag] = tag, r.MemberID
		}
		var members []string
		for _, m := range r.Members {
			members = append(members, m.MemberID)
		}
		return s.alias(fmt.Sprintf("%s gen=%d type=%s proto=%s leader=%s member=%s members=%v skip=%v", errName(r.ErrorCode), r.Generation, text(r.ProtocolType), text(r.Protocol), r.LeaderID, r.MemberID, members, r.SkipAssignment))
	case *kmsg.SyncGroupResponse:
		return fmt.Sprintf("%s type=%s proto=%s assignment=%q", errName(r.ErrorCode), text(r.ProtocolType), text(r.Protocol), r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return errName(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		out := errName(r.ErrorCode)
		for _, m := range r.Members {
			out += s.alias(fmt.Sprintf(" [%s/%s %s]", m.MemberID, text(m.InstanceID), errName(m.ErrorCode)))
		}
		return out
	case *kmsg.OffsetCommitResponse:
		p := r.Topics[0].Partitions[0]
		return fmt.Sprintf("%s/%d %s", r.Topics[0].Topic, p.Partition, errName(p.ErrorCode))
	case *kmsg.OffsetFetchResponse:
		return showFetch(r)
	case *kmsg.OffsetDeleteResponse:
		out := errName(r.ErrorCode)
		for _, t := range r.Topics {
			out += fmt.Sprintf(" %s/%d %s", t.Topic, t.Partitions[0].Partition, errName(t.Partitions[0].ErrorCode))
		}
		return out
	case *kmsg.DescribeGroupsResponse:
		g := r.Groups[0]
		out := fmt.Sprintf("%s %s type=%q proto=%q %s", errName(g.ErrorCode), g.State, g.ProtocolType, g.Protocol, text(g.ErrorMessage))
		for _, m := range g.Members {
			out += fmt.Sprintf("\n  %s instance=%s client=%s%s metadata=%d bytes assignment=%q", m.MemberID, text(m.InstanceID), m.ClientID, m.ClientHost, len(m.ProtocolMetadata), m.MemberAssignment)
		}
		return s.alias(out)
	case *kmsg.ListGroupsResponse:
		var out []string
		for _, g := range r.Groups {
			out = append(out, fmt.Sprintf("%s(%s %s %s)", g.Group, g.ProtocolType, g.GroupState, g.GroupType))
		}
		return strings.Join(out, " ")
	case *kmsg.DeleteGroupsResponse:
		var out []string
		for _, g := range r.Groups {
			out = append(out, g.Group+" "+errName(g.ErrorCode))
		}
		return strings.Join(out, ", ")
	default:
		return fmt.Sprintf("%+v", r)
	}
}

func showFetch(r *kmsg.OffsetFetchResponse) string {
	var out []string
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			out = append(out, fmt.Sprintf("%s/%d %d epoch=%d %q %s", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, short(*p.Metadata), errName(p.ErrorCode)))
		}
	}
	for _, g := range r.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				out = append(out, fmt.Sprintf("%s/%d %d epoch=%d %q %s", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, short(*p.Metadata), errName(p.ErrorCode)))
			}
		}
	}
	return fmt.Sprintf("%s %v", errName(r.ErrorCode), out)
}

// subscription encodes a consumer's subscription, version 0.
func subscription(topics []string) []byte {
	b := []byte{0, 0, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return append(b, 255, 255, 255, 255)
}
