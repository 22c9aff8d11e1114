package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

func topicsOf(b []byte) (topics []string, ok bool) {
	ok = subscribedTopics(b, func(t []byte) bool { topics = append(topics, string(t)); return true })
	return topics, ok
}

func TestSubscribedTopicsOfAllVersions(t *testing.T) {
	for v := int16(0); v <= 3; v++ {
		m := kmsg.NewConsumerMemberMetadata()
		m.Version, m.Topics = v, []string{"t1", "t2"}
		got, ok := topicsOf(m.AppendTo(nil))
		if !ok || !slices.Equal(got, m.Topics) {
			t.Errorf("version %d: %q, %v", v, got, ok)
		}
	}
	if _, ok := topicsOf([]byte("nonsense")); ok {
		t.Error("nonsense was taken for a subscription")
	}
}

func TestTimersFireInOrder(t *testing.T) {
	var q timers
	var got []int
	add := func(at core.Tick, n int) *timer {
		tm := newTimer()
		q.set(tm, at, func() { got = append(got, n) })
		return tm
	}
	add(30, 4)
	moved := add(5, 0)
	add(10, 1)
	cancelled := add(10, 9)
	add(10, 2)
	q.set(moved, 20, func() { got = append(got, 3) })
	q.cancel(cancelled)
	q.cancel(cancelled)
	for tm := q.due(30); tm != nil; tm = q.due(30) {
		tm.fire()
	}
	if want := []int{1, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v", got, want)
	}
	if q.next() != 0 {
		t.Error("timers are left")
	}
}

// TestRewriteKeepsWhatIsLive rewrites a log of several batches, with commits and
// deletions between the batches, and stops it at every point.
func TestRewriteKeepsWhatIsLive(t *testing.T) {
	for stop := range 8 {
		cfg := DefaultConfig()
		cfg.RewriteBytesMin = 1 << 20
		h := newHarness(t, cfg)
		h.topic("t", 64)
		commit := func(group string, offset int64) {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group, req.Generation = 8, group, -1
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = "t"
			for p := range int32(64) {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset = p, offset
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
			cmd := &core.Command{Body: req}
			h.waiting[cmd] = group
			var out core.Output
			h.m.Handle(h.now, cmd, &out)
			h.carryOut(&out) // without its timers
		}
		name := func(i int) string { return fmt.Sprintf("group-%03d", i) }
		for round := int64(0); !h.m.rewrite.wants(h.m.liveBytes); round++ {
			for i := range 100 {
				commit(name(i), round)
			}
		}
		timer := func() {
			var out core.Output
			h.m.Timer(h.now, &out)
			h.carryOut(&out)
		}
		before := h.bytes
		timer()
		if !h.m.rewrite.running {
			t.Fatal("no rewrite was begun")
		}
		commit(name(0), 1000)  // written already
		commit(name(99), 1001) // to come
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{name(1), name(98)}
		cmd := &core.Command{Body: req}
		h.waiting[cmd] = "delete"
		var out core.Output
		h.m.Handle(h.now, cmd, &out)
		h.carryOut(&out)
		for range stop {
			timer()
		}
		want := dump(h.m)
		if stop == 7 {
			if h.start == 0 || h.bytes > before/2 {
				t.Fatalf("the log was not cut: start %d, %d bytes of %d", h.start, h.bytes, before)
			}
			if h.m.rewrite.running || h.m.rewrite.wants(h.m.liveBytes) {
				t.Fatal("the rewrite does not end")
			}
		}
		h.failover()
		if got := dump(h.m); got != want {
			t.Fatalf("stopped after %d batches: a fresh Machine differs", stop)
		}
	}
}

// TestRewriteDoesNotUndoExpiry: a tombstone and a rewrite that fall due together
// must not put the offset back.
func TestRewriteDoesNotUndoExpiry(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RewriteBytesMin = 1
	cfg.OffsetsRetentionMs = cfg.ExpiryIntervalMs
	h := newHarness(t, cfg)
	h.topic("t", 1)
	for range 20 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, "g", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
		cmd := &core.Command{Body: req}
		h.waiting[cmd] = "commit"
		var out core.Output
		h.m.Handle(h.now, cmd, &out)
		h.carryOut(&out) // no timer: the rewrite is due and has not begun
	}
	if !h.m.rewrite.wants(h.m.liveBytes) {
		t.Fatal("no rewrite is due")
	}
	h.now += core.Tick(cfg.ExpiryIntervalMs) * core.Millisecond
	h.advance(0)
	if got := dump(h.m); got != "" {
		t.Errorf("left after expiry: %s", got)
	}
	if h.start == 0 {
		t.Error("the log was not cut")
	}
}

// TestFailedRewriteIsTriedAgain: a batch of a rewrite that cannot be appended ends
// it without a loss, and it begins again.
func TestFailedRewriteIsTriedAgain(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RewriteBytesMin = 2000
	h := newHarness(t, cfg)
	h.topic("t", 1)
	h.onReply = func(_ string, cmd *core.Command) {
		if cmd.Err != nil {
			t.Error("the commit failed, not the rewrite")
		}
	}
	for i := range 200 {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, "g", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = int64(i)
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		cmd := &core.Command{Body: req}
		h.waiting[cmd] = "commit"
		var out core.Output
		h.m.Handle(h.now, cmd, &out)
		h.carryOut(&out)
		if h.m.rewrite.wants(h.m.liveBytes) {
			break
		}
	}
	want := dump(h.m)
	h.fail = true
	var out core.Output
	h.m.Timer(h.now, &out)
	h.carryOut(&out)
	if h.fail || h.start != 0 || !h.m.rewrite.wants(h.m.liveBytes) {
		t.Fatal("the rewrite did not fail, or is forgotten")
	}
	if d := h.m.Deadline(); d <= h.now {
		t.Errorf("it is tried again at %d, at once: it is %d", d, h.now)
	}
	h.advance(rewriteRetry)
	if got := dump(h.m); got != want || h.start == 0 {
		t.Errorf("start %d, state:\n%s\nwant:\n%s", h.start, got, want)
	}
}

// TestTextsThatTheLogCannotHoldAreRefused sends what no string of the log's format
// has room for.
func TestTextsThatTheLogCannotHoldAreRefused(t *testing.T) {
	long := strings.Repeat("x", textBytesMax+1)
	most := strings.Repeat("x", textBytesMax-uuidBytes)
	join := func(edit func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, "g", "consumer", 10_000, 10_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "range"
		req.Protocols = append(req.Protocols, p)
		if edit != nil {
			edit(req)
		}
		return req
	}
	for _, c := range []struct {
		name   string
		client string
		req    *kmsg.JoinGroupRequest
		code   int16
	}{
		{"group", "c", join(func(r *kmsg.JoinGroupRequest) { r.Group = long }), -1},
		{"instance", "c", join(func(r *kmsg.JoinGroupRequest) { r.InstanceID = &long }), -1},
		{"type", "c", join(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = long }), -1},
		{"protocol", "c", join(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = long }), -1},
		{"client", most + "x", join(nil), -1},
		{"all as long as can be", most, join(func(r *kmsg.JoinGroupRequest) {
			r.Group, r.InstanceID, r.ProtocolType, r.Protocols[0].Name = long[1:], &most, long[1:], long[1:]
		}), 0},
	} {
		cfg := DefaultConfig()
		cfg.InitialRebalanceDelayMs = 0
		h := newHarness(t, cfg)
		h.topic("t", 1)
		cmd := h.send("join", c.req, core.ClientInfo{ClientID: c.client, Host: "/h"})
		h.advance(core.Second)
		resp, ok := cmd.Reply.(*kmsg.JoinGroupResponse)
		if !ok || resp.ErrorCode != c.code {
			t.Errorf("%s: %+v", c.name, cmd.Reply)
			continue
		}
		if c.code != 0 {
			if len(h.m.groups) > 0 {
				t.Errorf("%s: a group is left of it", c.name)
			}
			continue
		}
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = 3, c.req.Group, resp.MemberID, c.req.InstanceID, resp.Generation
		h.send("sync", sync, core.ClientInfo{})
		h.failover() // the log can be read
		if len(h.m.groups) != 1 {
			t.Errorf("%s: %d groups after a failover", c.name, len(h.m.groups))
		}
	}
	for _, size := range []int{textBytesMax, textBytesMax + 1} {
		cfg := DefaultConfig()
		cfg.MetadataBytesMax = 1 << 20
		h := newHarness(t, cfg)
		h.topic("t", 1)
		text := strings.Repeat("m", size)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, strings.Repeat("g", size), -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Metadata = &text
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		code := h.send("commit", req, core.ClientInfo{}).Reply.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
		if (code == 0) != (size == textBytesMax) {
			t.Errorf("group and metadata of %d bytes: error %d", size, code)
		}
		h.failover()
	}
}

// TestAPartitionNamedTwiceMakesNoRoom: what a commit replaces counts once, however
// often the commit names it.
func TestAPartitionNamedTwiceMakesNoRoom(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LiveBytesMax = 2500
	h := newHarness(t, cfg)
	h.topic("t1", 20)
	commit := func(metadata string, partitions ...int32) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, "g", -1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t1"
		for _, num := range partitions {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Metadata = num, &metadata
			rt.Partitions = append(rt.Partitions, p)
		}
		req.Topics = append(req.Topics, rt)
		h.send("commit", req, core.ClientInfo{})
	}
	commit(strings.Repeat("m", 1000), 0)
	commit(strings.Repeat("m", 100), 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)
	if h.m.liveBytes > cfg.LiveBytesMax {
		t.Errorf("%d bytes are live, at most %d may be", h.m.liveBytes, cfg.LiveBytesMax)
	}
}

// TestTopicsOfACommitThatAreNamedTwice: what does not exist comes first, once, with
// what exists merged into it, as in Kafka; what exists is answered as it was named.
func TestTopicsOfACommitThatAreNamedTwice(t *testing.T) {
	type topic struct {
		name       string
		partitions []int32
	}
	for _, tc := range []struct {
		asked []topic
		want  string
	}{
		{[]topic{{"t", []int32{0}}, {"t", []int32{1}}}, "t:0=0 t:1=0"},
		{[]topic{{"t", nil}, {"t", []int32{0}}}, "t:0=0"},
		{[]topic{{"no", nil}, {"no", nil}}, "no:"},
		{[]topic{{"no", []int32{7}}, {"t", []int32{0}}, {"no", []int32{8}}}, "no:7=3,8=3 t:0=0"},
		{[]topic{{"t", []int32{0, 9}}, {"t", []int32{1}}, {"u", []int32{0}}, {"u", []int32{1}}}, "t:9=3,0=0,1=0 u:0=0,1=0"},
	} {
		h := newHarness(t, DefaultConfig())
		h.topic("t", 2)
		h.topic("u", 2)
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, "g", -1
		for _, a := range tc.asked {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic = a.name
			for _, p := range a.partitions {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset = p, int64(p)
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		var got []string
		for _, a := range h.send("commit", req, core.ClientInfo{}).Reply.(*kmsg.OffsetCommitResponse).Topics {
			var ps []string
			for _, p := range a.Partitions {
				ps = append(ps, fmt.Sprintf("%d=%d", p.Partition, p.ErrorCode))
			}
			got = append(got, a.Topic+":"+strings.Join(ps, ","))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%v: answered %s, want %s", tc.asked, s, tc.want)
		}
	}
}

// TestJoinOfAGroupThatHasOffsetsAlone: its protocols are looked at before the member
// id, as in a group that is empty.
func TestJoinOfAGroupThatHasOffsetsAlone(t *testing.T) {
	h := newHarness(t, DefaultConfig())
	h.topic("t", 1)
	join := func(group string, protocols ...string) int16 {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis = 4, group, "m", "consumer", 10_000
		for _, name := range protocols {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name = name
			req.Protocols = append(req.Protocols, p)
		}
		return h.send("join "+group, req, core.ClientInfo{}).Reply.(*kmsg.JoinGroupResponse).ErrorCode
	}
	if code := commitCode(h.send("commit", commitTo("g", 0, ""), core.ClientInfo{})); code != 0 {
		t.Fatalf("the commit answers %d", code)
	}
	for _, tc := range []struct {
		group     string
		protocols []string
		want      *kerr.Error
	}{
		{"g", nil, kerr.InconsistentGroupProtocol},
		{"g", []string{"range"}, kerr.UnknownMemberID},
		{"none", nil, kerr.UnknownMemberID},
	} {
		if code := join(tc.group, tc.protocols...); code != tc.want.Code {
			t.Errorf("%s with %v: code %d, want %v", tc.group, tc.protocols, code, tc.want)
		}
	}
}
