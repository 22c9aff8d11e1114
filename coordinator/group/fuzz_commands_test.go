package group

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/budget"
	"millrace/core/draw"
	"millrace/core/meta"
)

// fuzzRequests are the requests that a coordinator is given, and from which version
// on the broker serves them. Those at the front come twice as often.
var fuzzRequests = []struct {
	key kmsg.Key
	min int16
}{
	{kmsg.JoinGroup, 0}, {kmsg.SyncGroup, 0}, {kmsg.OffsetCommit, 2}, {kmsg.Heartbeat, 0}, {kmsg.LeaveGroup, 0}, {kmsg.OffsetFetch, 1}, {kmsg.OffsetDelete, 0},
	{kmsg.DescribeGroups, 0}, {kmsg.ListGroups, 0}, {kmsg.DeleteGroups, 0},
}

// FuzzCommands gives a Machine what clients may send it, with time passing, topics
// made and deleted, failing appends, rewrites of the log and changes of leader in
// between. After each step a Machine that sees nothing but the log must know the
// same groups and offsets, the groups must be consistent and within their bounds,
// and an acknowledged offset must be there; every command is answered once, with
// what decodes in the version asked.
//
//fuzz:parses join.go sync.go session.go offsets.go admin.go expire.go rewrite.go timers.go machine.go group.go
func FuzzCommands(f *testing.F) {
	for i, seed := range fuzzSeeds {
		f.Add(fuzzSeed(seed))
		if i < 8 {
			f.Add(append(fuzzSeed(seed), 0, 0, 0))
		}
	}
	f.Fuzz(runCommands)
}

// fuzzSeeds are those of the first 3000 that each reach something that those before
// them do not.
var fuzzSeeds = []uint64{
	0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 18, 19, 21, 22, 25, 28,
	32, 36, 39, 43, 49, 57, 62, 66, 80, 83, 84, 86, 95, 108, 118, 119, 121, 128, 137, 138,
	157, 186, 212, 218, 231, 242, 270, 326, 456, 511, 799, 1116, 1410, 1424, 2419, 2777, 2875,
}

func fuzzSeed(seed uint64) []byte {
	r, b := rand.New(rand.NewPCG(seed, 4)), make([]byte, 300+80*(seed%20))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func runCommands(t *testing.T, b []byte) {
	cfg := DefaultConfig()
	cfg.RewriteBytesMin, cfg.GroupSizeMax, cfg.GroupsMax, cfg.MembersMax = 600, 3, 3, 6
	cfg.GroupOffsetsMax, cfg.LiveBytesMax, cfg.GroupBytesMax, cfg.MemberBytesMax = 4, 2000, 1500, 2500
	s := draw.New(b)
	cfg.InitialRebalanceDelayMs = int64(s.N(2)) * 3000
	c := &commands{harness: newHarness(t, cfg), s: s, generations: []int64{-1, 0, 1}}
	if len(b)%4 == 3 { // the node has room for two or three members
		c.resign()
		c.opts.Memory = budget.New(9000, nil)
		c.failover()
	}
	c.topic("t1", 3)
	c.topic("t2", 1)
	c.onReply = c.learn
	s.Texts, s.Numbers, s.Bytes = c.texts, c.numbers, subscriptions
	s.Rare = func(field string) bool { return field == "InstanceID" || field == "Reason" }
	for step := range 60 {
		if s.Done() {
			break
		}
		c.step()
		c.check(fmt.Sprint("step ", step))
		c.checkBounds()
	}
	c.resign()
	if len(c.waiting) > 0 {
		t.Fatalf("%d commands were never answered", len(c.waiting))
	}
}

// commands is one history.
type commands struct {
	*harness
	s           *draw.Source
	ids         []string // member IDs that were given, the newest last
	generations []int64
}

// recent bounds the member IDs and generations that requests name.
const recent = 6

func (c *commands) texts(field string) []string {
	switch field {
	case "Group", "Groups":
		return []string{"g1", "g1", "g1", "g2", "g1", "g1", "g2", "g3", "g4", ""}
	case "MemberID":
		return append([]string{"", ""}, c.ids...)
	case "InstanceID":
		return []string{"i1", "i2"}
	case "ProtocolType":
		return []string{"consumer", "consumer", "consumer", "connect", ""}
	case "Protocol", "Name":
		return []string{"range", "range", "rr"}
	case "Topic":
		return []string{"t1", "t2", "t1", "none"}
	case "Metadata":
		return []string{"", "m", strings.Repeat("m", 400)}
	case "StatesFilter", "TypesFilter":
		return []string{"Stable", "empty", "Classic", "PreparingRebalance"}
	}
	return nil
}

func (c *commands) numbers(field string) []int64 {
	switch field {
	case "Generation":
		return c.generations
	case "SessionTimeoutMillis":
		return []int64{6000, 10_000, 6000, 1_800_000, 5999}
	case "RebalanceTimeoutMillis":
		return []int64{6000, 20_000, 0}
	case "Partition", "Partitions":
		return []int64{0, 1, 0, 2, 3}
	case "RetentionTimeMillis":
		return []int64{-1, 0, 1000, 1 << 40}
	}
	return nil
}

func subscriptions(field string) [][]byte {
	if field == "MemberAssignment" {
		return [][]byte{{1}, {}, []byte(strings.Repeat("a", 700))}
	}
	return [][]byte{subscription([]string{"t1"}), subscription([]string{"t1", "t2"}), subscription(nil), {}, []byte(strings.Repeat("m", 700))}
}

func (c *commands) step() {
	switch n := c.s.N(32); n {
	case 26:
		c.fail = true
	case 27:
		name := []string{"t1", "t2"}[c.s.N(2)]
		c.topic(name, 1+c.s.N(3))
		c.send("gone", meta.TopicsDeleted{Names: []string{name}}, core.ClientInfo{})
	case 28:
		c.resign()
		c.failover()
	case 29:
		c.resign()
		c.m.Reset()
		c.m.Replay(c.start, c.log)
		c.size()
		c.term++
		var out core.Output
		c.m.Lead(c.now, c.term, &out)
		c.carryOut(&out)
	case 30:
		c.advance(core.Tick(c.s.N(256)) * 100 * core.Millisecond)
	case 31:
		c.advance(core.Tick(c.s.N(256)) * 3600 * core.Second)
	default:
		c.request(n % len(fuzzRequests))
	}
}

func (c *commands) resign() {
	var out core.Output
	c.m.Resign(c.now, &out)
	c.carryOut(&out)
}

// request draws a request and brings it into the form that a client's has.
func (c *commands) request(kind int) {
	api := fuzzRequests[kind]
	drawn, req := kmsg.RequestForKey(int16(api.key)), kmsg.RequestForKey(int16(api.key))
	version := api.min + int16(c.s.N(int(drawn.MaxVersion()-api.min)+1))
	c.s.IDs = nil
	for _, t := range c.im.Topics() {
		c.s.IDs = append(c.s.IDs, t.ID)
	}
	c.s.Fill(drawn)
	if c.s.N(4) > 0 {
		c.identify(drawn)
	}
	drawn.SetVersion(version)
	req.SetVersion(version)
	if err := req.ReadFrom(drawn.AppendTo(nil)); err != nil {
		c.t.Fatalf("%T version %d: %v", req, version, err)
	}
	client := core.ClientInfo{ClientID: []string{"c", "", "client"}[c.s.N(3)], Host: "/127.0.0.1"}
	c.send(fmt.Sprintf("%T version %d", req, version), req, client)
}

// identify lets a request come from a member that there is.
func (c *commands) identify(req kmsg.Request) {
	ids := slices.Sorted(maps.Keys(c.m.groups))
	if len(ids) == 0 {
		return
	}
	g := c.m.groups[ids[c.s.N(len(ids))]]
	if len(g.members) == 0 {
		return
	}
	mb := g.members[c.s.N(len(g.members))]
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		r.Group, r.InstanceID, r.ProtocolType = g.id, mb.instanceID(), g.protocolType
		if r.MemberID != "" { // else a static member comes back
			r.MemberID = mb.id
		}
	case *kmsg.SyncGroupRequest:
		r.Group, r.MemberID, r.InstanceID, r.Generation = g.id, mb.id, mb.instanceID(), g.generation
		r.ProtocolType, r.Protocol = &g.protocolType, &g.protocol
		for i := range r.GroupAssignment {
			r.GroupAssignment[i].MemberID = g.members[i%len(g.members)].id
		}
	case *kmsg.HeartbeatRequest:
		r.Group, r.MemberID, r.InstanceID, r.Generation = g.id, mb.id, mb.instanceID(), g.generation
	case *kmsg.LeaveGroupRequest:
		r.Group, r.MemberID = g.id, mb.id
		if len(r.Members) > 0 {
			r.Members[0].MemberID, r.Members[0].InstanceID = mb.id, mb.instanceID()
		}
	case *kmsg.OffsetCommitRequest:
		r.Group, r.MemberID, r.InstanceID, r.Generation = g.id, mb.id, mb.instanceID(), g.generation
	}
}

// learn looks at an answer, whichever request it is to.
func (c *commands) learn(tag string, cmd *core.Command) {
	resp, ok := cmd.Reply.(kmsg.Response)
	if !ok {
		return // the append failed, or the command is not a request
	}
	req := cmd.Body.(kmsg.Request)
	if resp.Key() != req.Key() || resp.GetVersion() != req.GetVersion() {
		c.t.Fatalf("%s is answered with a %T version %d", tag, resp, resp.GetVersion())
	}
	again := req.ResponseKind()
	wire := resp.AppendTo(nil)
	if err := again.ReadFrom(wire); err != nil || !bytes.Equal(again.AppendTo(nil), wire) {
		c.t.Fatalf("%s: the answer does not decode (%v): %x", tag, err, wire)
	}
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if r.MemberID != "" && !slices.Contains(c.ids, r.MemberID) {
			c.ids = append(c.ids, r.MemberID)
		}
		if r.ErrorCode == 0 && !slices.Contains(c.generations, int64(r.Generation)) {
			c.generations = append(c.generations, int64(r.Generation))
		}
		c.ids, c.generations = c.ids[max(0, len(c.ids)-recent):], c.generations[max(0, len(c.generations)-recent):]
	case *kmsg.OffsetCommitResponse:
		c.checkCommitted(req.(*kmsg.OffsetCommitRequest), r)
	}
}

// checkCommitted looks for the offsets that an answer acknowledges. It names each
// partition as often as the request, those of one topic in order; of a partition that is
// named twice the last counts.
func (c *commands) checkCommitted(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	type named struct {
		topic     committedTopic
		partition int32
	}
	answered, n := make(map[named][]int16), 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			at := named{committedTopic{t.Topic, t.TopicID}, p.Partition}
			answered[at] = append(answered[at], p.ErrorCode)
			n++
		}
	}
	want := make(map[topicPartition]int64)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			at := named{committedTopic{t.Topic, t.TopicID}, p.Partition}
			if len(answered[at]) == 0 {
				c.t.Fatalf("partition %d of %q, %x is committed and not answered", p.Partition, t.Topic, t.TopicID)
			}
			if answered[at][0] == 0 {
				want[topicPartition{findTopic(c.im, req.Version, t.Topic, t.TopicID).Name, p.Partition}] = p.Offset
			}
			answered[at] = answered[at][1:]
			n--
		}
	}
	if n != 0 {
		c.t.Fatalf("%d partitions are answered and were not committed", n)
	}
	for at, offset := range want {
		if s := c.m.saved[req.Group]; s == nil || s.offsets[at] == nil || s.offsets[at].offset != offset {
			c.t.Fatalf("group %s: offset %d of %v is acknowledged and not there", req.Group, offset, at)
		}
	}
}

// checkBounds holds the Machine to its Config. While a group prepares for its next
// generation, group.max.size bounds those that have joined, as in Kafka: members of the
// one before may not be back, and static ones are kept. The topics that groups read are
// counted when a generation begins, and bound who joins after that.
func (c *commands) checkBounds() {
	m, read := c.m, 0
	for id, g := range m.groups {
		read += g.subscribedBytes
		size := g.joining
		if g.state != statePreparing {
			size = len(slices.DeleteFunc(slices.Clone(g.members), func(mb *member) bool { return mb.static }))
		}
		if size > m.opts.GroupSizeMax || g.bytes-g.subscribedBytes > m.opts.GroupBytesMax {
			c.t.Fatalf("group %s has %d members, %d bytes", id, len(g.members), g.bytes)
		}
	}
	if len(m.groups) > m.opts.GroupsMax || m.members > m.opts.MembersMax || m.bytes-read > m.opts.MemberBytesMax {
		c.t.Fatalf("%d groups, %d members, %d bytes", len(m.groups), m.members, m.bytes)
	}
	offsets := int64(0)
	for id, s := range m.saved {
		if len(s.offsets) > m.opts.GroupOffsetsMax {
			c.t.Fatalf("group %s has %d offsets", id, len(s.offsets))
		}
		for _, o := range s.offsets {
			offsets += o.bytes
		}
	}
	if offsets > m.opts.LiveBytesMax {
		c.t.Fatalf("the offsets take %d bytes", offsets)
	}
}
