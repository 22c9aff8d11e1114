package group

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run TestRandomHistories with this seed alone")
	seedCount = flag.Int("seeds", 60, "how many seeds TestRandomHistories runs")
)

// TestRandomHistories lets clients that behave, misbehave and vanish use a few
// groups, with failing appends, rewrites of the log and changes of leader, and
// checks after every step that a fresh Machine makes the same of the log, that
// the live groups are consistent, and at the end that every command has been
// answered once.
func TestRandomHistories(t *testing.T) {
	if *seedFlag != 0 {
		randomHistory(t, *seedFlag)
		return
	}
	for seed := uint64(1); seed <= uint64(*seedCount); seed++ {
		randomHistory(t, seed)
		if t.Failed() {
			return
		}
	}
}

// client is what a member knows of itself.
type client struct {
	name, group, instance string
	member                string
	leader                bool
	generation            int32
	waiting               bool
}

type world struct {
	*harness
	r       *rand.Rand
	clients []*client
	byTag   map[string]*client
	acked   map[string]int64 // offsets committed and acknowledged, by group/partition
}

func randomHistory(t *testing.T, seed uint64) {
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("seed %d: %v", seed, p)
		}
		if t.Failed() {
			t.Logf("replay with -run TestRandomHistories -seed %d", seed)
		}
	}()
	cfg := DefaultConfig()
	cfg.RewriteBytesMin = 4000
	cfg.GroupSizeMax = 4
	r := rand.New(rand.NewPCG(seed, 1))
	cfg.InitialRebalanceDelayMs = int64(r.IntN(2)) * 3000
	w := &world{harness: newHarness(t, cfg), r: r, byTag: map[string]*client{}, acked: map[string]int64{}}
	w.topic("t1", 4)
	w.topic("t2", 2)
	for i := range 9 {
		c := &client{name: fmt.Sprintf("c%d", i), group: fmt.Sprintf("g%d", i%3), generation: -1}
		if i%4 == 0 {
			c.instance = "i" + c.name
		}
		w.clients = append(w.clients, c)
		w.byTag[c.name] = c
	}
	w.onReply = w.learn
	for step := range 400 {
		w.step()
		w.check(fmt.Sprintf("seed %d step %d", seed, step))
		if t.Failed() {
			return
		}
	}
	var out core.Output
	w.m.Resign(w.now, &out)
	w.carryOut(&out)
	if len(w.waiting) > 0 {
		t.Fatalf("seed %d: %d commands were never answered", seed, len(w.waiting))
	}
}

func (w *world) step() {
	c := w.clients[w.r.IntN(len(w.clients))]
	switch n := w.r.IntN(100); {
	case n < 28:
		w.join(c)
	case n < 50:
		w.sync(c)
	case n < 58:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = c.group, c.member, c.generation, c.instanceID()
		w.request(c.name, req, 4)
	case n < 76:
		w.commit(c)
	case n < 80:
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = c.group
		lm := kmsg.NewLeaveGroupRequestMember()
		lm.MemberID, lm.InstanceID = c.member, c.instanceID()
		req.Members = append(req.Members, lm)
		w.request("leave", req, 4)
	case n < 83:
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{c.group}
		w.request("delete", req, 2)
	case n < 84:
		name := []string{"t1", "t2"}[w.r.IntN(2)]
		w.topic(name, 2)
		w.send("gone", meta.TopicsDeleted{Names: []string{name}}, core.ClientInfo{})
		for key := range w.acked {
			if strings.Contains(key, name) {
				delete(w.acked, key)
			}
		}
	case n < 88:
		w.fail = true
	case n < 90:
		for _, c := range w.clients {
			c.waiting = false
		}
		var out core.Output
		w.m.Resign(w.now, &out)
		w.carryOut(&out)
		w.failover()
	case n < 98:
		w.advance(core.Tick(w.r.IntN(8000)) * core.Millisecond)
	default:
		w.advance(core.Tick(w.r.IntN(30)) * 3600 * core.Second)
	}
}

func (c *client) instanceID() *string {
	if c.instance == "" {
		return nil
	}
	return &c.instance
}

func (w *world) request(tag string, req kmsg.Request, version int16) {
	req.SetVersion(version)
	w.send(tag, req, core.ClientInfo{ClientID: "client", Host: "/127.0.0.1"})
}

func (w *world) join(c *client) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = c.group, c.member, c.instanceID(), "consumer"
	if w.r.IntN(12) == 0 {
		req.MemberID = ""
	}
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 6000+int32(w.r.IntN(6000)), int32(w.r.IntN(20000))
	names := []string{"range", "sticky", "rr"}
	w.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+w.r.IntN(3)] {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, subscription([]string{"t1"})
		req.Protocols = append(req.Protocols, p)
	}
	w.request(c.name, req, int16([]int{3, 5, 9}[w.r.IntN(3)]))
}

func (w *world) sync(c *client) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = c.group, c.member, c.generation, c.instanceID()
	if c.leader {
		for _, o := range w.clients {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = o.member, []byte(o.name)
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	w.request(c.name, req, 4)
}

func (w *world) commit(c *client) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = c.group, c.member, c.generation, c.instanceID()
	if w.r.IntN(5) == 0 {
		req.Group, req.MemberID, req.Generation, req.InstanceID = "simple", "", -1, nil
	}
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = []string{"t1", "t2"}[w.r.IntN(2)]
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = int32(w.r.IntN(2)), int64(w.r.IntN(1000))
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	w.request(c.name, req, 8)
}

// learn lets a client take from an answer what real ones do.
func (w *world) learn(tag string, cmd *core.Command) {
	c := w.byTag[tag]
	switch r := cmd.Reply.(type) {
	case *kmsg.JoinGroupResponse:
		switch r.ErrorCode {
		case 0, 79: // MEMBER_ID_REQUIRED
			c.member, c.generation, c.leader = r.MemberID, r.Generation, r.LeaderID == r.MemberID
		case 25: // UNKNOWN_MEMBER_ID
			c.member = ""
		}
	case *kmsg.OffsetCommitResponse:
		req := cmd.Body.(*kmsg.OffsetCommitRequest)
		if t := req.Topics[0]; r.Topics[0].Partitions[0].ErrorCode == 0 {
			w.acked[fmt.Sprintf("%s %s/%d", req.Group, t.Topic, t.Partitions[0].Partition)] = t.Partitions[0].Offset
		}
	case *kmsg.DeleteGroupsResponse:
		if r.Groups[0].ErrorCode == 0 {
			for key := range w.acked {
				if strings.HasPrefix(key, r.Groups[0].Group+" ") {
					delete(w.acked, key)
				}
			}
		}
	}
}

// check compares the Machine with one that has seen nothing but the log, and holds
// the groups to what always is so.
func (h *harness) check(where string) {
	h.t.Helper()
	opts := h.opts
	opts.Memory = nil
	fresh := New(opts)
	if len(h.log) > 0 {
		fresh.Replay(h.start, h.log)
	}
	if got, want := dump(fresh), dump(h.m); got != want {
		h.t.Fatalf("%s: replayed:\n%s\nlive:\n%s", where, got, want)
	}
	if fresh.liveBytes != h.m.liveBytes {
		h.t.Fatalf("%s: live bytes: %d replayed, %d live", where, fresh.liveBytes, h.m.liveBytes)
	}
	members, bytes := 0, 0
	for id, g := range h.m.groups {
		bytes += g.bytes
		members += len(g.members) + len(g.pending)
		if err := g.consistent(); err != "" {
			h.t.Fatalf("%s: group %s in %s: %s", where, id, g.state, err)
		}
	}
	if bytes != h.m.bytes {
		h.t.Fatalf("%s: %d bytes, counted %d", where, bytes, h.m.bytes)
	}
	if got := h.m.opts.Memory.UsedBytes(); got != h.m.heapBytes() {
		h.t.Fatalf("%s: %d bytes of memory are charged, it holds %d", where, got, h.m.heapBytes())
	}
	offsets := 0
	for _, s := range h.m.saved {
		offsets += len(s.offsets)
	}
	if offsets != h.m.offsets {
		h.t.Fatalf("%s: %d offsets, counted %d", where, offsets, h.m.offsets)
	}
	if members != h.m.members {
		h.t.Fatalf("%s: %d members, counted %d", where, members, h.m.members)
	}
}

// check also looks for the offsets that were acknowledged.
func (w *world) check(where string) {
	w.t.Helper()
	w.harness.check(where)
	// An acknowledged offset is there, or has expired: after at least the
	// retention. The clients commit anew all the time, so what is there of a
	// topic and partition is the newest acknowledged.
	for key, want := range w.acked {
		var group, topic string
		var partition int32
		if _, err := fmt.Sscanf(strings.ReplaceAll(key, "/", " "), "%s %s %d", &group, &topic, &partition); err != nil {
			w.t.Fatal(err)
		}
		if s := w.m.saved[group]; s != nil {
			if c := s.offsets[topicPartition{topic, partition}]; c != nil && c.offset != want {
				w.t.Fatalf("%s: %s: offset %d, acknowledged %d", where, key, c.offset, want)
			} else if c == nil && w.now < harnessStart+core.Tick(w.opts.OffsetsRetentionMs)*core.Millisecond {
				w.t.Fatalf("%s: %s: the acknowledged offset %d is lost", where, key, want)
			}
		} else if w.now < harnessStart+core.Tick(w.opts.OffsetsRetentionMs)*core.Millisecond {
			w.t.Fatalf("%s: %s: the group with the acknowledged offset %d is lost", where, key, want)
		}
	}
}

// consistent says what is wrong with a group, or "".
func (g *liveGroup) consistent() string {
	bytes := len(g.id) + g.subscribedBytes
	have, joining := map[string]int{}, 0
	for id := range g.pending {
		bytes += len(id)
	}
	for _, mb := range g.members {
		bytes += mb.bytes()
		if mb.join != nil {
			joining++
		}
		names := map[string]bool{}
		for _, p := range mb.protocols {
			names[p.name] = true
		}
		for name := range names {
			have[name]++
		}
		switch {
		case g.byID[mb.id] != mb:
			return "member " + mb.id + " is not found by its ID"
		case mb.static && g.static[mb.instance] != mb.id:
			return "static member " + mb.id + " is not found by its instance ID"
		case mb.join != nil && g.state != statePreparing:
			return "member " + mb.id + " waits in JoinGroup"
		case mb.sync != nil && g.state != stateCompleting:
			return "member " + mb.id + " waits in SyncGroup"
		case mb.session.pos < 0 && mb.join == nil && mb.sync == nil:
			return "member " + mb.id + " has no session"
		}
	}
	switch {
	case len(g.byID) != len(g.members) || len(g.static) > len(g.members):
		return "indexes and members differ"
	case bytes != g.bytes:
		return fmt.Sprintf("%d bytes, counted %d", bytes, g.bytes)
	case !maps.Equal(have, g.have):
		return fmt.Sprintf("protocols %v, counted %v", have, g.have)
	case joining != g.joining:
		return fmt.Sprintf("%d wait in JoinGroup, counted %d", joining, g.joining)
	case (g.leader == "") != (len(g.members) == 0) || g.leader != "" && g.byID[g.leader] == nil:
		return "leader " + g.leader + " is not a member"
	case g.state == stateEmpty && len(g.members) > 0:
		return "empty with members"
	case g.state >= stateCompleting && len(g.members) == 0:
		return "no members"
	case g.state == statePreparing && g.joinTimer.pos < 0:
		return "the join phase has no end"
	case len(g.unsynced) > 0 && g.state >= stateCompleting && g.syncTimer.pos < 0:
		return "the sync phase has no end"
	}
	for id := range g.unsynced {
		if g.byID[id] == nil {
			return "unsynced " + id + " is not a member"
		}
	}
	return ""
}
