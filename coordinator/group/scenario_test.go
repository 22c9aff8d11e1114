package group

import (
	"encoding/binary"
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
	s := &scenario{names: map[string]string{}, ids: map[string]string{}, images: map[string]*meta.Image{}}
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
	// images are states of the metadata, by name.
	images map[string]*meta.Image
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
		d.MaybeScanArgs(t, "all-bytes", &cfg.MemberBytesMax)
		d.MaybeScanArgs(t, "live-bytes", &cfg.LiveBytesMax)
		d.MaybeScanArgs(t, "offsets", &cfg.GroupOffsetsMax)
		d.MaybeScanArgs(t, "rewrite", &cfg.RewriteBytesMin)
	}
	s.h = newHarness(t, cfg)
	s.h.topic("t1", 4)
	s.h.onReply = func(tag string, cmd *core.Command) { s.lines = append(s.lines, tag+": "+s.show(tag, cmd)) }
}

// args reads the arguments of one directive.
type args struct {
	*datadriven.TestData
	t *testing.T
	s *scenario
}

func (a args) str(key string) string {
	var v string
	a.MaybeScanArgs(a.t, key, &v)
	return strings.Trim(v, `"`)
}

// or is an argument, or v where it is not given.
func (a args) or(key, v string) string {
	if a.HasArg(key) {
		return a.str(key)
	}
	return v
}

func (a args) num(key string, v int32) int32 {
	a.MaybeScanArgs(a.t, key, &v)
	return v
}

func (a args) list(key string) []string {
	if arg, ok := a.Arg(key); ok {
		return arg.Vals
	}
	return nil
}

func (a args) group() string { return a.or("group", "g") }

// id is a member ID, given by its tag or literally.
func (a args) id(tag string) string {
	if id, ok := a.s.ids[tag]; ok {
		return id
	}
	return tag
}

func (a args) instance() *string {
	if !a.HasArg("instance") {
		return nil
	}
	v := a.str("instance")
	return &v
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.lines = nil
	a := args{d, t, s}
	tag := d.Cmd
	if len(d.CmdArgs) > 0 && len(d.CmdArgs[0].Vals) == 0 {
		tag = d.CmdArgs[0].Key
	}
	if req, version := s.request(a); req != nil {
		req.SetVersion(int16(a.num("v", version)))
		s.h.send(tag, req, core.ClientInfo{ClientID: "client", Host: "/127.0.0.1"})
	} else {
		s.control(a, tag)
	}
	if len(s.lines) == 0 {
		return "ok\n"
	}
	return strings.Join(s.lines, "\n") + "\n"
}

// request makes a client's request and the version in which it is sent by
// default; nil if the directive is none.
func (s *scenario) request(a args) (kmsg.Request, int32) {
	switch a.Cmd {
	case "join":
		return joinRequest(a), 9
	case "sync":
		return syncRequest(a), 5
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = a.group(), a.id(a.str("member")), a.instance(), a.num("gen", 1)
		return req, 4
	case "leave":
		return leaveRequest(a), 5
	case "commit":
		return commitRequest(a), 8
	case "fetch":
		return fetchRequest(a), 9
	case "offset-delete":
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = a.group()
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = a.or("topic", "t1")
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = a.num("partition", 0)
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		return req, 0
	case "describe":
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{a.group()}
		return req, 6
	case "list":
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = a.list("states"), a.list("types")
		return req, 5
	case "delete-groups":
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = a.list("groups")
		return req, 2
	}
	return nil, 0
}

// control does what is no client's request.
func (s *scenario) control(a args, tag string) {
	switch a.Cmd {
	case "new":
		s.new(a.t, a.TestData)
	case "topic":
		s.h.topic(a.str("name"), int(a.num("partitions", 1)))
	case "drop-topic":
		s.h.im = s.h.im.WithoutTopic(a.str("name"))
		s.h.im.Version++
	case "image": // keep the metadata of now under a name, or go back to it
		switch name := a.str("name"); {
		case a.HasArg("keep"):
			s.images[name] = s.h.im
		default:
			s.h.im = s.images[name]
		}
	case "topics-deleted":
		s.h.send(tag, meta.TopicsDeleted{Names: a.list("names")}, core.ClientInfo{})
	case "advance":
		d, err := time.ParseDuration(a.str("by"))
		if err != nil {
			a.t.Fatal(err)
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
		text := strings.TrimSuffix(s.alias(dump(s.h.m)), "\n")
		if text == "" {
			text = "nothing"
		}
		s.lines = append(s.lines, text)
	case "log":
		s.lines = append(s.lines, fmt.Sprintf("start=%d records=%d", s.h.start, len(s.h.log)))
	default:
		a.t.Fatalf("unknown command %q", a.Cmd)
	}
}

func joinRequest(a args) kmsg.Request {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = a.group(), a.id(a.str("member")), a.instance(), a.or("type", "consumer")
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = a.num("session", 10000), a.num("rebalance", 60000)
	protos := a.list("protos")
	if protos == nil && !a.HasArg("noprotos") {
		protos = []string{"range"}
	}
	for _, name := range protos {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, subscription(a.list("topics"))
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

func syncRequest(a args) kmsg.Request {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = a.group(), a.id(a.str("member")), a.instance(), a.num("gen", 1)
	ptype, proto := a.or("type", "consumer"), a.or("proto", "range")
	req.ProtocolType, req.Protocol = &ptype, &proto
	for _, tag := range a.list("assign") {
		as := kmsg.NewSyncGroupRequestGroupAssignment()
		as.MemberID, as.MemberAssignment = a.id(tag), []byte("for-"+tag)
		req.GroupAssignment = append(req.GroupAssignment, as)
	}
	return req
}

func leaveRequest(a args) kmsg.Request {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = a.group(), a.id(a.str("member"))
	for _, tag := range a.list("members") {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID = a.id(tag)
		req.Members = append(req.Members, lm)
	}
	if a.HasArg("instance") {
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.InstanceID = a.instance()
		req.Members = append(req.Members, lm)
	}
	return req
}

func commitRequest(a args) kmsg.Request {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = a.group(), a.id(a.str("member")), a.instance(), a.num("gen", -1)
	req.RetentionTimeMillis = int64(a.num("retention", -1))
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = a.or("topic", "t1")
	if topic := a.s.h.im.Topic(rt.Topic); topic != nil {
		rt.TopicID = topic.ID
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	md := strings.Repeat("m", int(a.num("metadata", 1)))
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = a.num("partition", 0), int64(a.num("offset", 0)), 2, &md
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	return req
}

func fetchRequest(a args) kmsg.Request {
	req := kmsg.NewPtrOffsetFetchRequest()
	var partitions []int32
	if arg, ok := a.Arg("partitions"); ok {
		partitions = make([]int32, len(arg.Vals))
		for i := range arg.Vals {
			arg.Scan(a.t, i, &partitions[i])
		}
	}
	rg := kmsg.NewOffsetFetchRequestGroup()
	req.Group, rg.Group = a.group(), a.group()
	if partitions != nil {
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = a.or("topic", "t1"), partitions
		req.Topics = append(req.Topics, rt)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = rt.Topic, partitions
		if known := a.s.h.im.Topic(rt.Topic); known != nil {
			gt.TopicID = known.ID
		}
		rg.Topics = append(rg.Topics, gt)
	}
	req.Groups = append(req.Groups, rg)
	return req
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
	b := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(len(topics)))
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return append(b, 255, 255, 255, 255)
}
