package group

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/budget"
)

func joinOf(group string, protocols int, metadata []byte) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 10_000, 10_000
	for i := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = fmt.Sprintf("protocol-%d", i), metadata
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

func commitTo(group string, partition int32, metadata string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Metadata = partition, &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func joinCode(cmd *core.Command) int16 {
	if r, ok := cmd.Reply.(*kmsg.JoinGroupResponse); ok {
		return r.ErrorCode
	}
	return -2 // it waits
}

func commitCode(cmd *core.Command) int16 {
	return cmd.Reply.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// TestJoinDoesNotLookAtEveryMember: what a join costs does not grow with the group.
func TestJoinDoesNotLookAtEveryMember(t *testing.T) {
	h := newHarness(t, DefaultConfig())
	for range 500 {
		h.send("join", joinOf("g", 20, nil), core.ClientInfo{ClientID: "c"})
	}
	g, req := h.m.groups["g"], joinOf("g", 20, nil)
	if len(g.members) != 500 || g.have["protocol-7"] != 500 {
		t.Fatalf("%d members, %d of them with a protocol that all have", len(g.members), g.have["protocol-7"])
	}
	if n := testing.AllocsPerRun(10, func() {
		if !g.supports(req) || g.allJoined() != true {
			t.Error("the group does not take a member")
		}
	}); n > 0 {
		t.Errorf("%v allocations: something is made for the members", n)
	}
}

// TestMemoryOfTheNodeIsShared fills the budget with one machine and sees what the
// other refuses, and that all of it comes back.
func TestMemoryOfTheNodeIsShared(t *testing.T) {
	memory := budget.New(1<<20, nil)
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelayMs = 0
	machines := func() *harness {
		h := newHarness(t, cfg)
		h.topic("t", 100)
		h.opts.Memory = memory
		h.m.Reset()
		h.failover()
		return h
	}
	first, other := machines(), machines()
	member := other.send("join", joinOf("before", 1, make([]byte, 1000)), core.ClientInfo{ClientID: "c"})
	other.advance(core.Second)
	if commitCode(other.send("commit", commitTo("offsets", 0, "text"), core.ClientInfo{})) != 0 {
		t.Fatal("a commit is refused while there is memory")
	}
	text, i := strings.Repeat("m", 3000), 0
	for ; commitCode(first.send("commit", commitTo(fmt.Sprint("g", i/50), int32(i%50), text), core.ClientInfo{})) == 0; i++ {
		if i > 1000 {
			t.Fatal("nothing is refused")
		}
	}
	if i < 100 {
		t.Fatalf("refused after %d offsets", i)
	}
	if got := joinCode(other.send("join", joinOf("after", 1, nil), core.ClientInfo{ClientID: "c"})); got != kerr.CoordinatorNotAvailable.Code && got != kerr.GroupMaxSizeReached.Code {
		t.Errorf("a new group: code %d", got)
	}
	if got := joinCode(other.send("join", joinOf("before", 1, make([]byte, 8000)), core.ClientInfo{ClientID: "c"})); got != kerr.GroupMaxSizeReached.Code {
		t.Errorf("a new member: code %d", got)
	}
	if got := commitCode(other.send("commit", commitTo("offsets", 1, text), core.ClientInfo{})); got != kerr.InvalidCommitOffsetSize.Code {
		t.Errorf("a new offset: code %d", got)
	}
	if got := commitCode(other.send("commit", commitTo("offsets", 0, "less"), core.ClientInfo{})); got != 0 {
		t.Errorf("an offset committed again: code %d", got)
	}
	again := joinOf("before", 1, make([]byte, 1000))
	again.MemberID = member.Reply.(*kmsg.JoinGroupResponse).MemberID
	if got := joinCode(other.send("join", again, core.ClientInfo{ClientID: "c"})); got != 0 && got != -2 {
		t.Errorf("a member that comes again: code %d", got)
	}
	var s Stats
	other.m.AddStats(&s)
	if s.Refused < 3 {
		t.Errorf("%d refusals are counted", s.Refused)
	}
	first.m.Reset()
	if got := commitCode(other.send("commit", commitTo("offsets", 1, text), core.ClientInfo{})); got != 0 {
		t.Errorf("with memory given back: code %d", got)
	}
	other.m.Reset()
	if n := memory.UsedBytes(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}

// TestMemoryIsEstimatedWell compares what a machine thinks that it holds with what
// the collector says.
func TestMemoryIsEstimatedWell(t *testing.T) {
	const n = 3000
	fill := map[string]func(h *harness){
		"offsets": func(h *harness) {
			for i := range n {
				h.send("commit", commitTo("g", int32(i), ""), core.ClientInfo{})
			}
		},
		"groups with an offset": func(h *harness) {
			for i := range n {
				h.send("commit", commitTo(fmt.Sprint("group-", i), 0, "text"), core.ClientInfo{})
			}
		},
		"groups with a member": func(h *harness) {
			for i := range n {
				h.send("join", joinOf(fmt.Sprint("group-", i), 1, nil), core.ClientInfo{ClientID: "client", Host: "/127.0.0.1"})
			}
		},
		"members": func(h *harness) {
			for range n {
				h.send("join", joinOf("g", 3, make([]byte, 50)), core.ClientInfo{ClientID: "client", Host: "/127.0.0.1"})
			}
		},
		"subscriptions": func(h *harness) {
			var topics []string
			for i := range 1000 {
				topics = append(topics, fmt.Sprint("t", i))
			}
			for i := range 30 {
				h.send("join", joinOf(fmt.Sprint("group-", i), 1, subscription(topics)), core.ClientInfo{ClientID: "c"})
			}
			h.advance(core.Second)
		},
	}
	for name, fill := range fill {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.InitialRebalanceDelayMs = 0
			h := newHarness(t, cfg)
			h.topic("t", n)
			heap := func() int64 {
				runtime.GC()
				runtime.GC()
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				return int64(s.HeapAlloc)
			}
			before := heap()
			fill(h)
			h.log, h.waiting = nil, nil // the test's own
			held := heap() - before
			if thinks := h.m.heapBytes(); thinks*2 < held || thinks > held*3 {
				t.Errorf("it thinks that it holds %d bytes, and holds %d", thinks, held)
			} else {
				t.Logf("it thinks that it holds %d bytes, and holds %d", thinks, held)
			}
			runtime.KeepAlive(h)
		})
	}
}

// TestAnswersAreBounded asks for the same again and again.
func TestAnswersAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MetadataBytesMax, cfg.InitialRebalanceDelayMs = 30_000, 0
	h := newHarness(t, cfg)
	h.topic("t", 1)
	h.send("commit", commitTo("g", 0, strings.Repeat("m", 30_000)), core.ClientInfo{})
	fetch := func(version int16, times int) *kmsg.OffsetFetchResponse {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = version, "g"
		parts := make([]int32, times)
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: parts}}
		req.Groups = []kmsg.OffsetFetchRequestGroup{
			{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: parts}}},
			{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}},
		}
		return h.send("fetch", req, core.ClientInfo{}).Reply.(*kmsg.OffsetFetchResponse)
	}
	const fits = answerBytesMax / 30_100
	for _, version := range []int16{7, 8} {
		few, many := fetch(version, fits-1), fetch(version, 2*fits)
		if version < 8 {
			few.Groups = append(few.Groups, kmsg.OffsetFetchResponseGroup{ErrorCode: few.ErrorCode})
			many.Groups = append(many.Groups, kmsg.OffsetFetchResponseGroup{ErrorCode: many.ErrorCode})
			if len(few.Topics) != 1 || len(few.Topics[0].Partitions) != fits-1 || len(many.Topics) != 0 {
				t.Errorf("version %d: the offsets are not told, or too many are", version)
			}
		}
		for _, g := range few.Groups {
			if g.ErrorCode != 0 {
				t.Errorf("version %d: what has room gets code %d", version, g.ErrorCode)
			}
		}
		for _, g := range many.Groups {
			if g.ErrorCode != kerr.UnknownServerError.Code || len(g.Topics) > 0 {
				t.Errorf("version %d: too much gets code %d", version, g.ErrorCode)
			}
		}
	}
	for range 7 {
		h.send("join", joinOf("big", 1, make([]byte, 1<<20)), core.ClientInfo{ClientID: "c"})
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version = 5
	for range 10 {
		describe.Groups = append(describe.Groups, "big")
	}
	bytes, refused := 0, 0
	for _, g := range h.send("describe", describe, core.ClientInfo{}).Reply.(*kmsg.DescribeGroupsResponse).Groups {
		if g.ErrorCode == kerr.UnknownServerError.Code {
			refused++
		}
		bytes += len(g.Members) << 20
	}
	if refused != 6 || bytes != 28<<20 {
		t.Errorf("%d groups are refused, %d bytes told", refused, bytes)
	}
}

func TestTooManyTopicsOfAGroupAreNotKept(t *testing.T) {
	total := 0
	g := newLiveGroup("g", &total)
	g.protocolType, g.protocol = consumerProtocol, "range"
	member := func(id string, from, n int) *member {
		var topics []string
		for i := range n {
			topics = append(topics, fmt.Sprint("topic-", from+i))
		}
		return &member{id: id, session: newTimer(), protocols: []protocol{{"range", subscription(topics)}}}
	}
	a := member("a", 0, subscribedMax)
	g.add(a)
	g.learnSubscriptions()
	if !g.subscribedKnown || len(g.subscribed) != subscribedMax || g.usesTopic("other") {
		t.Fatal("as many topics as can be known are not known")
	}
	if g.bytes < subscribedMax*subscribedOverhead || g.bytes != total {
		t.Errorf("%d bytes are counted, %d in all", g.bytes, total)
	}
	g.add(member("b", 7, subscribedMax))
	g.learnSubscriptions()
	if g.subscribedKnown || g.subscribed != nil || g.subscribedBytes != 0 || !g.usesTopic("other") {
		t.Error("more topics than can be known are kept, or are none of the group's")
	}
}

// TestMembersComeBackWithoutMemory: where the node has no memory left, a member that
// joins again as it was is taken, by its ID or as a static one that has lost it; one
// that brings more is not.
func TestMembersComeBackWithoutMemory(t *testing.T) {
	instance := "instance"
	for _, tc := range []struct {
		name string
		join func(id string) *kmsg.JoinGroupRequest
		full bool // refused
	}{
		{"by its ID", func(id string) *kmsg.JoinGroupRequest {
			req := joinOf("g", 1, make([]byte, 100))
			req.Version, req.MemberID, req.InstanceID = 5, id, &instance
			return req
		}, false},
		{"without it", func(string) *kmsg.JoinGroupRequest {
			req := joinOf("g", 1, make([]byte, 100))
			req.Version, req.InstanceID = 5, &instance
			return req
		}, false},
		{"with more", func(id string) *kmsg.JoinGroupRequest {
			req := joinOf("g", 1, make([]byte, 101))
			req.Version, req.MemberID, req.InstanceID = 5, id, &instance
			return req
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.InitialRebalanceDelayMs = 0
			h := newHarness(t, cfg)
			memory := budget.New(1<<20, nil)
			h.opts.Memory = memory
			h.m.Reset()
			h.failover()
			client := core.ClientInfo{ClientID: "c"}
			first := joinOf("g", 1, make([]byte, 100))
			first.Version, first.InstanceID = 5, &instance
			cmd := h.send("join", first, client)
			h.advance(core.Second)
			joined := cmd.Reply.(*kmsg.JoinGroupResponse)
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Version, sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = 3, "g", joined.MemberID, &instance, joined.Generation
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = joined.MemberID, make([]byte, 200)
			sync.GroupAssignment = append(sync.GroupAssignment, a)
			if code := h.send("sync", sync, client).Reply.(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
				t.Fatalf("sync: code %d", code)
			}
			memory.Take(memory.LimitBytes() - memory.UsedBytes())
			if refused := joinCode(h.send("join", tc.join(joined.MemberID), client)) == kerr.GroupMaxSizeReached.Code; refused != tc.full {
				t.Errorf("refused: %v, want %v", refused, tc.full)
			}
		})
	}
}
